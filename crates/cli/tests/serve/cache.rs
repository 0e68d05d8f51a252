//! The cache of upstreams' responses, which every version uses alike.

use std::path::Path;

use hikyaku_testkit::fetch::{Http, fetch};
use hikyaku_testkit::upstream::{self, Speaks};
use hikyaku_testkit::{Server, Site, has, hikyaku};
use rustix::process::Signal;

const CONFIG: &str = r#"
upstream = "UPSTREAM"

[cache]
enabled = true
default_ttl = "1h"
"#;

#[test]
fn every_version_gets_what_is_stored_until_it_is_purged() {
    if !has(
        "every_version_gets_what_is_stored_until_it_is_purged",
        "curl",
    ) {
        return;
    }
    let upstream = format!("http://{}", upstream::start(Speaks::Http1));
    let site = Site::new(&[(
        "edge.toml",
        CONFIG.replace("UPSTREAM", &upstream).as_bytes(),
    )]);
    let config = Path::new(site.path()).join("edge.toml");
    let server = Server::start(&["--config", config.to_str().unwrap()]);
    let asked = format!("hikyaku_upstream_requests_total{{upstream=\"{upstream}\"}}");
    let is = |count: f64| (server.metric(&asked) - count).abs() < 0.5;
    let accept = ["accept: text/x"];

    let first = fetch(Http::H2, &server, "/head", &accept);
    assert_eq!(
        first.header("cache-status"),
        Some("hikyaku; fwd=uri-miss; ttl=3600; stored")
    );
    let line = server.wait_access("the miss", |line| line["cache"] == "miss");
    assert_eq!(line["path"], "/head", "{line}");
    for http in Http::ALL {
        // The clients of some versions name another host.
        let first = fetch(http, &server, "/head", &accept);
        // At once, and by the general way.
        for fields in [
            &accept[..],
            &["accept: text/x", "cache-control: max-age=3600"],
        ] {
            let got = fetch(http, &server, "/head", fields);
            let what = format!("{http:?} {fields:?}");
            assert_eq!((got.status, &got.body), (200, &first.body), "{what}");
            assert_eq!(got.headers.get_all("date").iter().count(), 1, "{what}");
            assert_eq!(got.header("date"), first.header("date"), "{what}");
            let length = got.body.len().to_string();
            assert_eq!(got.header("content-length"), Some(&*length), "{what}");
            let status = got.header("cache-status").unwrap();
            assert!(status.starts_with("hikyaku; hit; ttl="), "{what}: {status}");
            assert!(got.header("age").is_some(), "{what}");
        }
        let line = server.wait_access("the hit", |line| {
            line["cache"] == "hit" && line["version"] == http.name()
        });
        assert_eq!(line["complete"], true, "{line}");
    }
    assert!(is(2.0));
    let hits = "hikyaku_cache_requests_total{site=\"\",outcome=\"hit\"}";
    server.wait_metric(hits, 6.0);
    assert!(server.metric("hikyaku_cache_entries{site=\"\"}") > 0.5);

    server.signal(Signal::HUP);
    server.wait_metric("hikyaku_reloads_total{}", 1.0);
    fetch(Http::H2, &server, "/head", &accept);
    assert!(is(2.0), "a reload keeps what is stored");

    let admin = server.admin.to_string();
    let purge = |args: &[&str]| {
        let output = hikyaku(&[&["purge", "--admin", &admin], args].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        (String::from_utf8(output.stdout).unwrap(), error)
    };
    let url = server.url("/head");
    assert_eq!(purge(&["--tag", "other"]).0, "0 responses purged\n");
    assert_eq!(purge(&[&url]).0, "1 responses purged\n");
    fetch(Http::H2, &server, "/head", &accept);
    assert!(is(3.0));
    assert_eq!(
        purge(&["--prefix", &server.url("/")]).0,
        "1 responses purged\n"
    );
    let (_, error) = purge(&["/head"]);
    assert!(
        error.contains("purging /head") && error.contains("is no URL"),
        "{error}"
    );
}
