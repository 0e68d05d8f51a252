//! Requests and upstreams' errors are counted by their cause.

use std::fs;
use std::net::TcpListener;

use hikyaku_testkit::fetch::curl;
use hikyaku_testkit::upstream::{self, Speaks};
use hikyaku_testkit::{Server, Site};

/// The status of a request.
fn status(server: &Server, path: &str, arguments: &[&str]) -> String {
    let output = ["-o", "/dev/null", "-w", "%{http_code}"];
    let url = server.url(path);
    let output = curl(&[&output, arguments, &[&url]].concat());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn refused_requests_are_counted_by_the_reason() {
    let site = Site::new(&[("index.html", b"start")]);
    let config = format!(
        "root = \"{}\"\n\
         [limits]\nbody_size = \"10B\"\nheader_size = \"4KiB\"\n\
         [[route]]\npath = \"/inside/*\"\naccess = {{ allow = [\"192.0.2.0/24\"] }}\n\
         [[route]]\npath = \"/slow/*\"\n\
         access = {{ rate_limit = {{ requests = 1, per = \"1h\", burst = 1 }} }}\n",
        site.path()
    );
    site.write("hikyaku.toml", config.as_bytes());
    let file = format!("{}/hikyaku.toml", site.path());
    let server = Server::start(&["--config", &file]);
    let long = format!("x: {}", "x".repeat(5000));
    // name, path, arguments, status, reason
    type Case<'a> = (&'a str, &'a str, &'a [&'a str], &'a str, &'a str);
    let cases: &[Case<'_>] = &[
        ("an address", "/inside/a", &[], "403", "address"),
        ("the first one", "/slow/a", &[], "404", ""),
        ("too many", "/slow/a", &[], "429", "rate"),
        (
            "a large body",
            "/",
            &["-d", "01234567890"],
            "413",
            "body_size",
        ),
        (
            "a large head of HTTP/1.1",
            "/",
            &["--http1.1", "-H", &long],
            "431",
            "header_size",
        ),
        (
            "a large head of HTTP/2",
            "/",
            &["-H", &long],
            "431",
            "header_size",
        ),
        (
            "a host with a blank",
            "/",
            &["--http1.1", "-H", "Host: a b"],
            "400",
            "malformed",
        ),
        ("nothing there", "/nothing", &[], "404", ""),
        ("all well", "/", &[], "200", ""),
    ];
    let reasons = ["address", "rate", "body_size", "header_size", "malformed"];
    let metric = |reason: &str| {
        let name = format!("hikyaku_requests_refused_total{{reason=\"{reason}\"}}");
        server.metric(&name)
    };
    for (name, path, arguments, want, reason) in cases {
        let before = reasons.map(metric);
        assert_eq!(status(&server, path, arguments), *want, "{name}");
        // hyper reports a refusal when its connection ends.
        let index = reasons.iter().position(|other| other == reason);
        if let Some(index) = index {
            let name = format!("hikyaku_requests_refused_total{{reason=\"{reason}\"}}");
            server.wait_metric(&name, before[index] + 1.0);
        }
        for (other, before) in reasons.into_iter().zip(before) {
            let more = metric(other) - before;
            let expected = if other == *reason { 1.0 } else { 0.0 };
            assert_eq!(more, expected, "{name}: {other}");
        }
    }
}

#[test]
fn upstreams_errors_are_counted_by_kind_and_answers_by_time() {
    let directory = tempfile::tempdir().unwrap();
    // Nobody listens there any more.
    let closed = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let gone = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let there = format!("http://{}", upstream::start(Speaks::Http1));
    let config = format!(
        "upstream = \"{there}\"\n[proxy]\nresponse_timeout = \"200ms\"\n\
         [[route]]\npath = \"/gone/*\"\nupstream = \"{gone}\"\n"
    );
    let file = directory.path().join("hikyaku.toml");
    fs::write(&file, config).unwrap();
    let server = Server::start(&["--config", file.to_str().unwrap()]);
    assert_eq!(status(&server, "/gone/a", &[]), "502");
    assert_eq!(status(&server, "/hang", &[]), "504");
    assert_eq!(status(&server, "/half", &[]), "200");
    assert_eq!(status(&server, "/head", &[]), "200");
    let errors = |url: &str, kind: &str| {
        let labels = format!("{{upstream=\"{url}\",kind=\"{kind}\"}}");
        server.metric(&format!("hikyaku_upstream_errors_total{labels}"))
    };
    server.wait_metric(
        &format!("hikyaku_upstream_errors_total{{upstream=\"{there}\",kind=\"body\"}}"),
        1.0,
    );
    assert_eq!(errors(&gone, "connect"), 1.0);
    assert_eq!(errors(&there, "response_timeout"), 1.0);
    assert_eq!(errors(&there, "connect"), 0.0);
    let count = format!("hikyaku_upstream_response_time_seconds_count{{upstream=\"{there}\"}}");
    assert_eq!(
        server.metric(&count),
        2.0,
        "the heads of two responses came"
    );
}

#[test]
fn the_build_and_what_was_carried_are_shown() {
    let site = Site::new(&[("index.html", b"start")]);
    let server = Server::start(&[site.path()]);
    assert_eq!(status(&server, "/", &["--http2"]), "200");
    server.wait_metric("hikyaku_requests_total{version=\"h2\",status=\"2xx\"}", 1.0);
    let metrics = server.admin("/metrics");
    let build = metrics
        .lines()
        .find(|line| line.starts_with("hikyaku_build_info{"));
    let build = build.unwrap();
    assert!(
        build.contains(concat!("version=\"", env!("CARGO_PKG_VERSION"), "\"")),
        "{build}"
    );
    assert!(
        !build.contains("commit=\"unknown\"") && build.ends_with(" 1"),
        "{build}"
    );
    let carried: f64 = ["cubic", "floor", "bbr"]
        .map(|congestion| {
            let labels = format!("{{version=\"h2\",congestion=\"{congestion}\"}}");
            server.metric(&format!("hikyaku_congestion_body_bytes_total{labels}"))
        })
        .iter()
        .sum();
    assert_eq!(carried, 5.0, "bytes of the page");
}
