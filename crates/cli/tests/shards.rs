//! Pages whose resources are spread over several addresses of the server.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::time::Duration;

use hikyaku_testkit::browser::{Browser, has_chromium};
use hikyaku_testkit::client::block_on;
use hikyaku_testkit::fetch::{Http, Response, curl, fetch, send};
use hikyaku_testkit::{PATIENCE, Server, Site, get, hikyaku};
use serde_json::{Value, json};

/// All loopback addresses on one port, so that the shards are reachable.
const EVERYWHERE: [&str; 2] = ["--listen", "0.0.0.0:0"];
const SHARDS: [&str; 4] = [
    "--set",
    "shards.hosts=['127.0.0.2', '127.0.0.3', '127.0.0.4']",
    "--set",
    "policy.version=h2",
];
const SPREAD: [&str; 2] = ["--set", "policy.connections=4"];
const IMAGES: usize = 16;

/// A page of images, one of which must not move.
fn page() -> String {
    let images: String = (0..IMAGES)
        .map(|n| format!("<img src=\"{n}.svg\">"))
        .collect();
    format!("<!doctype html><title>page</title>{images}<img src=\"1.svg\" crossorigin>")
}

fn site() -> Site {
    let page = page();
    let site = Site::new(&[
        ("index.html", page.as_bytes()),
        ("page.txt", page.as_bytes()),
    ]);
    for n in 0..IMAGES {
        site.write(&format!("{n}.svg"), picture(n).as_bytes());
    }
    site
}

/// A picture with its own colour.
fn picture(n: usize) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"20\" height=\"20\">\
         <rect width=\"20\" height=\"20\" fill=\"hsl({}, 80%, 50%)\"/></svg>",
        n * 20
    )
}

fn start(site: &Site, more: &[&str]) -> Server {
    Server::start(&[&[site.path()][..], &SHARDS, more].concat())
}

/// The hosts of the shards in a page, and the number of its images on them.
fn named(response: &Response) -> (BTreeSet<String>, usize) {
    let urls: Vec<String> = response
        .text()
        .split("src=\"https://")
        .skip(1)
        .map(|rest| rest.split(':').next().unwrap().to_owned())
        .collect();
    (urls.iter().cloned().collect(), urls.len())
}

#[track_caller]
fn assert_spread(response: &Response) {
    let (hosts, images) = named(response);
    assert_eq!(response.status, 200);
    assert_eq!(
        hosts.into_iter().collect::<Vec<_>>(),
        ["127.0.0.2", "127.0.0.3", "127.0.0.4"]
    );
    // About three of four move; the one with `crossorigin` stays.
    assert!(
        (IMAGES / 2..IMAGES).contains(&images),
        "{}",
        response.text()
    );
    assert!(response.text().ends_with("<img src=\"1.svg\" crossorigin>"));
    for name in [
        "content-length",
        "accept-ranges",
        "last-modified",
        "content-encoding",
    ] {
        let length_on_h1 = name == "content-length";
        assert!(
            length_on_h1 || response.header(name).is_none(),
            "{name}: {response:?}"
        );
    }
}

#[test]
fn pages_are_spread_over_all_versions() {
    let site = site();
    let server = start(&site, &SPREAD);
    for http in Http::ALL {
        let spread = fetch(http, &server, "/", &[]);
        assert_spread(&spread);
        assert!(
            spread.header("etag").unwrap().starts_with("W/\""),
            "{spread:?}"
        );
        // The page is the same each time.
        assert_eq!(fetch(http, &server, "/", &[]).body, spread.body);

        let head = send(http, &server, "HEAD", "/", &[], b"");
        assert_eq!(
            (head.status, head.header("etag")),
            (200, spread.header("etag"))
        );
        assert_eq!(head.header("content-length"), None, "{head:?}");

        // These are no pages, or must not change.
        let text = fetch(http, &server, "/page.txt", &[]);
        assert_eq!(text.text(), page());
        let image = fetch(http, &server, "/1.svg", &[]);
        assert_eq!(image.text(), picture(1));
        assert_eq!(
            fetch(http, &server, "/", &["authorization: Basic eA=="]).text(),
            page()
        );
        let part = fetch(http, &server, "/", &["range: bytes=0-9"]);
        assert_eq!((part.status, part.text()), (206, &page()[..10]));
    }
    assert!(server.metric("hikyaku_pages_spread_total{}") >= 9.0);
}

#[test]
fn resources_of_a_page_are_there() {
    let site = site();
    let server = start(&site, &[SPREAD, EVERYWHERE].concat());
    let page = fetch(Http::H2, &server, "/", &[]);
    for url in page.text().split("src=\"").skip(1) {
        let url = url.split('"').next().unwrap();
        if !url.starts_with("https://") {
            continue;
        }
        let output = curl(&[url]);
        let n = url.rsplit('/').next().unwrap().trim_end_matches(".svg");
        assert_eq!(
            output.stdout,
            picture(n.parse().unwrap()).as_bytes(),
            "{url}"
        );
        // A page that is requested at a shard stays unchanged.
        let shard = url.rsplit_once('/').unwrap().0;
        assert_eq!(
            curl(&[&format!("{shard}/")]).stdout,
            self::page().as_bytes()
        );
    }
}

#[test]
fn one_connection_leaves_pages_alone() {
    let site = site();
    // The client has no estimate.
    let server = start(&site, &[]);
    let whole = fetch(Http::H2, &server, "/", &[]);
    assert_eq!(whole.text(), page());
    assert!(whole.header("content-length").is_some() && whole.header("last-modified").is_some());
    let client = server.admin_json("/v1/clients/127.0.0.1");
    assert_eq!(client["connections"]["n"], 1);
    assert_eq!(client["connections"]["reason_code"], "too_few_samples");
    let explained = hikyaku(&["explain", "127.0.0.1", "--admin", &server.admin.to_string()]);
    let text = String::from_utf8(explained.stdout).unwrap();
    assert!(text.contains("connections   1: "), "{text}");

    let pinned = start(&site, &["--set", "policy.connections=2"]);
    let (hosts, _) = named(&fetch(Http::H2, &pinned, "/", &[]));
    assert_eq!(hosts.into_iter().collect::<Vec<_>>(), ["127.0.0.2"]);
    assert_eq!(
        pinned.admin_json("/v1/clients/127.0.0.1")["connections"]["n"],
        2
    );
    let without = Server::start(&[site.path()]);
    assert!(without.admin_json("/v1/clients/127.0.0.1")["connections"].is_null());
}

#[test]
fn a_page_is_not_sent_again_while_it_is_the_same() {
    let site = site();
    let server = start(&site, &SPREAD);
    let url = server.url("/");
    let page = fetch(Http::H2, &server, "/", &[]);
    let tag = page.header("etag").unwrap().to_owned();
    let again = fetch(Http::H2, &server, "/", &[&format!("if-none-match: {tag}")]);
    assert_eq!(
        (again.status, again.header("etag")),
        (304, Some(tag.as_str())),
        "{url}"
    );

    // A client that has the unchanged page may keep it.
    let plain = fetch(Http::H2, &server, "/", &["authorization: x"]);
    let plain_tag = format!("if-none-match: {}", plain.header("etag").unwrap());
    assert_eq!(fetch(Http::H2, &server, "/", &[&plain_tag]).status, 304);

    // A client whose page names other shards may not.
    let other = start(
        &site,
        &[
            "--set",
            "shards.hosts=['127.0.0.5']",
            "--set",
            "policy.connections=2",
        ],
    );
    let fields = [
        format!("if-none-match: {tag}"),
        "if-modified-since: Fri, 31 Dec 9999 23:59:59 GMT".to_owned(),
    ];
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    assert_eq!(fetch(Http::H2, &other, "/", &fields).status, 200);

    // Nor may one whose file has changed.
    site.write("index.html", b"<!doctype html><title>new</title>");
    std::thread::sleep(Duration::from_millis(1100));
    let changed = fetch(Http::H2, &server, "/", &[&format!("if-none-match: {tag}")]);
    assert_eq!(changed.status, 200);
    assert!(changed.text().contains("new"));
}

#[test]
fn compressed_pages_are_asked_for_in_plain() {
    let site = site();
    // Not really compressed, since only the choice matters.
    site.write("index.html.gz", b"gzip");
    site.write("0.svg.gz", b"gzip");
    let server = start(&site, &SPREAD);
    let gzip = "accept-encoding: gzip";
    for document in ["accept: text/html,*/*;q=0.8", "sec-fetch-dest: document"] {
        assert_spread(&fetch(Http::H2, &server, "/", &[gzip, document]));
    }
    // A request that does not show its purpose gets the coding that it asks for.
    let encoded = fetch(Http::H2, &server, "/", &[gzip, "accept: */*"]);
    assert_eq!(
        (encoded.text(), encoded.header("content-encoding")),
        ("gzip", Some("gzip"))
    );
    let image = fetch(
        Http::H2,
        &server,
        "/0.svg",
        &[gzip, "sec-fetch-dest: image"],
    );
    assert_eq!(image.text(), "gzip");
    let plain = start(&site, &["--set", "policy.connections=1"]);
    let whole = fetch(Http::H2, &plain, "/", &[gzip, "sec-fetch-dest: document"]);
    assert_eq!(whole.text(), "gzip");
}

#[test]
fn pages_of_an_upstream_are_spread() {
    let site = site();
    site.write("index.html.gz", b"gzip");
    let upstream = Server::start(&[site.path()]);
    let url = upstream.url("");
    let proxy = ["--upstream", &url, "--set", "proxy.insecure=true"];
    let server = Server::start(&[&proxy[..], &SHARDS, &SPREAD].concat());
    for http in Http::ALL {
        let fields = ["accept-encoding: gzip", "accept: text/html"];
        let spread = fetch(http, &server, "/", &fields);
        assert_spread(&spread);
        let tag = format!("if-none-match: {}", spread.header("etag").unwrap());
        let fields = [&fields[..], &[&tag]].concat();
        assert_eq!(fetch(http, &server, "/", &fields).status, 304);
        let encoded = fetch(http, &server, "/", &["accept-encoding: gzip"]);
        assert_eq!(encoded.text(), "gzip");
        assert_eq!(fetch(http, &server, "/3.svg", &[]).text(), picture(3));
    }
}

#[test]
fn an_upstream_gets_the_host_of_the_site() {
    let upstream = hikyaku_testkit::upstream::start(hikyaku_testkit::upstream::Speaks::Http1);
    let url = format!("http://{upstream}");
    let proxy = ["--upstream", &url, "--set", "shards.site=www.test:8443"];
    let server = Server::start(&[&proxy[..], &SHARDS, &SPREAD, &EVERYWHERE].concat());
    for version in ["--http1.1", "--http2"] {
        for (host, site) in [("127.0.0.2", "www.test:8443"), ("127.0.0.1", "")] {
            let here = format!("{host}:{}", server.port());
            let output = curl(&[version, &format!("https://{here}/head")]);
            let text = String::from_utf8(output.stdout).unwrap();
            let site = if site.is_empty() { &here } else { site };
            assert!(text.contains(&format!("\nhost: {site}\n")), "{text}");
            assert!(
                text.contains(&format!("\nx-forwarded-host: {site}\n")),
                "{text}"
            );
        }
    }
}

#[test]
fn the_certificate_must_cover_the_shards() {
    let site = site();
    let (cert, key) = hikyaku_testkit::certificate();
    site.write("cert.pem", cert.as_bytes());
    site.write("key.pem", key.as_bytes());
    let file = |name: &str| format!("{}/{name}", site.path());
    let (cert, key) = (file("cert.pem"), file("key.pem"));
    let args = [
        site.path(),
        "--cert",
        &cert,
        "--key",
        &key,
        "--set",
        "shards.hosts=['s1.test']",
    ];
    let log = Server::try_start(&args).err().unwrap();
    let want = "`shards.hosts` names s1.test, which the certificate does not cover (it has \
                localhost): get a certificate that does, or leave the host out";
    assert!(log.contains(want), "{log}");
}

#[test]
fn our_own_client_loads_pages_that_are_spread() {
    let site = site();
    let server = start(&site, &[SPREAD, EVERYWHERE].concat());
    let url = format!("https://127.0.0.1:{}/", server.port());
    let records = get(&["--page", "--http", "2", &url]);
    let requests: Vec<&Value> = records.iter().filter(|r| r["type"] == "request").collect();
    assert_eq!(requests.len(), IMAGES + 1 + 1, "{requests:?}");
    assert!(requests.iter().all(|r| r["status"] == 200), "{requests:?}");
    let used = requests.iter().map(|r| r["connection"].as_u64().unwrap());
    assert_eq!(used.collect::<BTreeSet<u64>>().len(), 4);
}

/// A page with all kinds of resources, for `a.test`.
fn rich_site() -> Site {
    let images: String = (0..IMAGES)
        .map(|n| format!("<img src=\"/{n}.svg\" srcset=\"/{n}.svg 1x\">"))
        .collect();
    let page = format!(
        "<!doctype html><title>page</title><link rel=stylesheet href=/main.css>\
         <style>h1{{background:url(/4.svg)}}</style>\
         <h1>heading</h1><p id=script></p><p class=masked></p><p style='background:url(/5.svg)'>text</p>\
         {images}<script src=/main.js></script>"
    );
    let sheet = "body{margin:0;font:16px monospace}h1{color:#fff}\
                 .masked{width:40px;height:40px;background:#06c;mask-image:url(6.svg);\
                 -webkit-mask-image:url(6.svg)}";
    let script = "document.getElementById('script').textContent = 'a script ran'";
    let site = site();
    site.write("index.html", page.as_bytes());
    site.write("main.css", sheet.as_bytes());
    site.write("main.js", script.as_bytes());
    site
}

/// Loads the page in a browser of its own. Returns a picture of it, and how many of its resources
/// came from elsewhere.
fn look(server: &Server) -> (String, u64) {
    block_on(async {
        let mut browser = Browser::start(server).await;
        let size = json!({ "width": 800, "height": 600, "deviceScaleFactor": 1, "mobile": false });
        browser
            .command("Emulation.setDeviceMetricsOverride", size)
            .await;
        browser.open("/").await;
        let begun = std::time::Instant::now();
        let loaded = "document.readyState === 'complete' && location.protocol === 'https:'";
        while browser.evaluate(loaded).await != json!(true) {
            assert!(begun.elapsed() < PATIENCE, "the page never loads");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let broken = "[...document.images].filter(image => !image.naturalWidth).length";
        assert_eq!(browser.evaluate(broken).await, json!(0));
        let text = browser.evaluate("document.body.innerText").await;
        assert!(text.as_str().unwrap().contains("a script ran"), "{text}");
        let elsewhere = "performance.getEntriesByType('resource')\
                         .filter(entry => new URL(entry.name).origin !== location.origin).length";
        let elsewhere = browser.evaluate(elsewhere).await.as_u64().unwrap();
        (settled(&mut browser).await, elsewhere)
    })
}

/// Returns a picture of the page once it has stopped changing. The last painting may come a moment
/// after the page has loaded.
async fn settled(browser: &mut Browser) -> String {
    let begun = std::time::Instant::now();
    let (mut last, mut same) = (String::new(), 0);
    while same < 5 {
        assert!(begun.elapsed() < PATIENCE, "the page never stops to change");
        tokio::time::sleep(Duration::from_millis(100)).await;
        let taken = browser
            .command("Page.captureScreenshot", json!({ "format": "png" }))
            .await;
        let taken = taken["data"].as_str().unwrap();
        same = if taken == last { same + 1 } else { 0 };
        last = taken.to_owned();
    }
    last
}

/// Connections with requests: a client's port and a host.
fn connections(server: &Server) -> BTreeSet<(String, u64)> {
    let lines = server.access_lines();
    let lines = lines
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .map(|line| {
            (
                line["host"].as_str().unwrap().to_owned(),
                line["port"].as_u64().unwrap(),
            )
        })
        .collect()
}

#[test]
fn a_browser_opens_a_connection_to_each_shard_and_shows_the_same_page() {
    if !has_chromium("a_browser_opens_a_connection_to_each_shard_and_shows_the_same_page") {
        return;
    }
    let site = rich_site();
    let hosts = [
        "--set",
        "shards.hosts=['s1.test', 's2.test', 's3.test']",
        "--set",
        "tls.names=['a.test']",
        "--set",
        "policy.version=h2",
    ];
    let mut pictures = Vec::new();
    for count in [1, 4] {
        let pinned = format!("policy.connections={count}");
        let server =
            Server::start(&[&[site.path()][..], &hosts, &EVERYWHERE, &["--set", &pinned]].concat());
        let (picture, elsewhere) = look(&server);
        assert_eq!(
            elsewhere > 0,
            count > 1,
            "{elsewhere} resources from elsewhere"
        );
        let icon = |line: &Value| line["path"] == "/main.js";
        server.wait_access("the script", icon);
        let connections = connections(&server);
        let opened: BTreeSet<u64> = connections.iter().map(|(_, port)| *port).collect();
        // Resources that are fetched with CORS, such as the mask, have their own connection.
        let at = |host: &str| connections.iter().any(|(name, _)| name.starts_with(host));
        assert!(
            opened.len() >= count && opened.len() <= 2 * count,
            "{connections:?}"
        );
        assert!(at("a.test"));
        for shard in ["s1.test", "s2.test", "s3.test"] {
            assert_eq!(at(shard), count > 1, "{connections:?}");
        }
        pictures.push(picture);
    }
    assert_eq!(pictures[0], pictures[1], "the page looks different");
}
