//! Reports of browsers on pages and failures, and the decision in their devtools.
#![allow(clippy::unwrap_used)]

mod chromium;

use hikyaku_testkit::fetch::{Http, Response, curl, fetch, send};
use hikyaku_testkit::{Server, Site, has};
use serde_json::{Value, json};

const PAGES: [&str; 2] = ["--set", "beacon.pages=true"];
const POINT: &str = "/.well-known/hikyaku/page";
const PAGE: &str = "<!doctype html><title>page</title><body><p>text</p></body>";
/// The fields by which browsers ask for a page to show.
const VISIT: &str = "sec-fetch-dest: document";

fn site() -> Site {
    let site = Site::new(&[("index.html", PAGE.as_bytes())]);
    for (name, content) in [
        ("page.txt", PAGE),
        ("fragment.html", "<p>text</p>"),
        ("amp.html", "<!doctype html><html amp><body></body></html>"),
    ] {
        site.write(name, content.as_bytes());
    }
    site
}

/// The page without its script, and the script's id.
fn taken_out(response: &Response) -> (String, String) {
    let text = response.text();
    let (before, rest) = text.split_once("<script id=").expect("a script");
    let (id, rest) = rest.split_at("hk0123456789abcdef".len());
    let (_, after) = rest.split_once("</script>").unwrap();
    (format!("{before}{after}"), id.to_owned())
}

/// A report of a page with this id, which came over HTTP/2 in 80 ms.
fn report(id: &str) -> String {
    json!({
        "i": id, "h": 0, "l": 60.5, "t": "navigate", "n": [10, 10.5, 30, 31, 50, 80.25],
        "m": { "h2": [3, 10_900, 40, 75] },
    })
    .to_string()
}

fn post(http: Http, server: &Server, body: &str) -> u16 {
    send(
        http,
        server,
        "POST",
        POINT,
        &["content-type: text/plain"],
        body.as_bytes(),
    )
    .status
}

#[test]
fn a_page_reports_once_over_any_version() {
    if !has("a_page_reports_once_over_any_version", "curl") {
        return;
    }
    let site = site();
    let server = Server::start(&[&[site.path()], &PAGES[..]].concat());
    let mut tags = Vec::new();
    for http in Http::ALL {
        let page = fetch(http, &server, "/", &[VISIT]);
        let (original, id) = taken_out(&page);
        assert_eq!((page.status, original.as_str()), (200, PAGE));
        let (_, other) = taken_out(&fetch(http, &server, "/", &["accept: text/html"]));
        assert_ne!(id, other, "an id is that of one response");
        tags.push(page.header("etag").unwrap().to_owned());
        assert_eq!(page.header("accept-ranges"), None, "{page:?}");
        assert!(page.header("last-modified").is_some(), "{page:?}");

        assert_eq!(post(http, &server, &report(&id)), 204);
        assert_eq!(post(http, &server, &report(&id)), 404, "a second time");
        assert_eq!(post(http, &server, &report("hk0123456789abcdef")), 404);
        let wrong = report(&other).replace("[10,", "[20,");
        assert_eq!(post(http, &server, &wrong), 400, "out of order");
        let wrong = report(&other).replace("80.25", "70000");
        assert_eq!(post(http, &server, &wrong), 400, "older than the page");
        assert_eq!(post(http, &server, &" ".repeat(4097)), 413);
        assert_eq!(fetch(http, &server, POINT, &[]).status, 405);
    }
    assert!(
        tags[0].starts_with("W/\"") && tags.iter().all(|tag| *tag == tags[0]),
        "{tags:?}"
    );

    let line = server.wait_access("a report", |line| {
        line["path"] == POINT && line["status"] == 204
    });
    let page = &line["page"];
    assert_eq!(
        (&page["load_us"], &page["lcp_us"]),
        (&json!(80_250), &json!(60_500)),
        "{line}"
    );
    assert!(
        page["reason"].is_string() && page["group"].is_string(),
        "{line}"
    );
    let transfers = json!([{ "hop": "h2", "responses": 3, "bytes": 10_000, "busy_us": 40_000 }]);
    assert_eq!(page["transfers"], transfers, "{line}");
    assert_eq!(page["counted"], false);
    for version in ["h1", "h2", "h3"] {
        let count = format!("hikyaku_beacon_page_load_seconds_count{{version=\"{version}\"}}");
        assert_eq!(server.metric(&count), 1.0, "{version}");
    }
    for (metric, want) in [
        ("hikyaku_beacon_received_total{page=\"loaded\"}", 3.0),
        ("hikyaku_beacon_refused_total{reason=\"malformed\"}", 6.0),
        ("hikyaku_beacon_refused_total{reason=\"too_large\"}", 3.0),
        ("hikyaku_beacon_refused_total{reason=\"unknown\"}", 6.0),
        ("hikyaku_beacon_pages_total{script=\"inline\"}", 6.0),
        ("hikyaku_beacon_lcp_seconds_count{version=\"h2\"}", 1.0),
    ] {
        assert_eq!(server.metric(metric), want, "{metric}");
    }
}

#[test]
fn times_count_for_the_choice_where_they_may() {
    if !has("times_count_for_the_choice_where_they_may", "curl") {
        return;
    }
    let site = site();
    let learn = ["--set", "beacon.learn=true"];
    let server = Server::start(&[&[site.path()], &PAGES[..], &learn].concat());
    let outcomes = || server.metric("hikyaku_beacon_outcomes_total{}");
    // The report is of HTTP/2.
    for (http, want) in [(Http::H1, 0.0), (Http::H3, 0.0), (Http::H2, 1.0)] {
        let (_, id) = taken_out(&fetch(http, &server, "/", &[VISIT]));
        assert_eq!(post(http, &server, &report(&id)), 204);
        assert_eq!(outcomes(), want, "{http:?}");
    }
    server.wait_access("a report that counts", |line| {
        line["page"]["counted"] == true
    });
    let (_, id) = taken_out(&fetch(Http::H2, &server, "/", &[VISIT]));
    let hidden = report(&id).replace("\"h\":0", "\"h\":1");
    assert_eq!(post(Http::H2, &server, &hidden), 204);
    assert_eq!(outcomes(), 1.0, "nobody saw that page");
}

#[test]
fn what_is_no_page_to_show_stays_as_it_is() {
    if !has("what_is_no_page_to_show_stays_as_it_is", "curl") {
        return;
    }
    let site = site();
    let server = Server::start(&[&[site.path()], &PAGES[..]].concat());
    // path, fields, status
    let cases: &[(&str, &[&str], u16)] = &[
        ("/", &[], 200),
        ("/", &["sec-fetch-dest: empty", "accept: text/html"], 200),
        ("/", &["sec-fetch-dest: iframe"], 200),
        ("/", &[VISIT, "sec-purpose: prefetch"], 200),
        ("/", &[VISIT, "range: bytes=0-14"], 206),
        ("/page.txt", &[VISIT], 200),
        ("/fragment.html", &[VISIT], 200),
        ("/amp.html", &[VISIT], 200),
        ("/none.html", &[VISIT], 404),
    ];
    for http in Http::ALL {
        for (path, fields, status) in cases {
            let got = fetch(http, &server, path, fields);
            assert_eq!(got.status, *status, "{path} {fields:?}");
            let text = got.text();
            assert!(
                !text.contains("<script"),
                "{http:?} {path} {fields:?}: {text}"
            );
        }
        let page = fetch(http, &server, "/", &[VISIT]);
        let head = send(http, &server, "HEAD", "/", &[VISIT], b"");
        assert_eq!(head.header("etag"), page.header("etag"));
        assert_eq!(head.header("content-length"), None, "{head:?}");

        let tag = page.header("etag").unwrap();
        let again = fetch(
            http,
            &server,
            "/",
            &[VISIT, &format!("if-none-match: {tag}")],
        );
        assert_eq!((again.status, again.header("etag")), (304, Some(tag)));
        // No range of the page as it was is a part of this one.
        let date = format!("if-range: {}", page.header("last-modified").unwrap());
        for condition in [date, format!("if-range: {tag}")] {
            let part = fetch(
                http,
                &server,
                "/",
                &[VISIT, "range: bytes=0-14", &condition],
            );
            assert_eq!(part.status, 200, "{condition}");
        }
    }
}

#[test]
fn pages_from_the_cache_have_ids_of_their_own() {
    if !has("pages_from_the_cache_have_ids_of_their_own", "curl") {
        return;
    }
    let site = site();
    let fresh = "response_headers={ set = { Cache-Control = \"max-age=600\" } }";
    let upstream = Server::start(&[site.path(), "--set", fresh]);
    let server = Server::start(&[
        "--upstream",
        &upstream.url(""),
        "--set",
        "proxy.insecure=true",
        "--set",
        "cache.enabled=true",
        "--set",
        "compression.encodings=['gzip']",
        "--set",
        "compression.min_size=0",
        "--set",
        "beacon.pages=true",
    ]);
    let (original, first) = taken_out(&fetch(Http::H2, &server, "/", &[VISIT]));
    assert_eq!(original, PAGE);
    let (_, second) = taken_out(&fetch(Http::H2, &server, "/", &[VISIT]));
    assert_ne!(first, second);
    server.wait_access("a hit", |line| line["cache"] == "hit");
    assert_eq!(post(Http::H2, &server, &report(&second)), 204);
    assert_eq!(post(Http::H2, &server, &report(&first)), 204);

    // Compressed after the script is in it.
    let gzip = [VISIT, "accept-encoding: gzip"];
    let coded = fetch(Http::H2, &server, "/", &gzip);
    assert_eq!(coded.header("content-encoding"), Some("gzip"), "{coded:?}");
    assert_eq!(coded.header("vary"), Some("accept-encoding"), "{coded:?}");
    let tag = coded.header("etag").unwrap();
    let again = format!("if-none-match: {tag}");
    let again = fetch(Http::H2, &server, "/", &[&gzip[..], &[&again]].concat());
    assert_eq!((again.status, again.header("etag")), (304, Some(tag)));
    let url = server.url("/");
    let decoded = curl(&["--http2", "--compressed", "-H", VISIT, &url]);
    let decoded = String::from_utf8(decoded.stdout).unwrap();
    assert!(decoded.contains("<script id=hk"), "{decoded}");
}

#[test]
fn pages_that_others_compress_pass() {
    if !has("pages_that_others_compress_pass", "curl") {
        return;
    }
    let site = site();
    site.write("index.html.gz", b"not really coded");
    let server = Server::start(&[&[site.path()], &PAGES[..]].concat());
    let coded = fetch(Http::H2, &server, "/", &[VISIT, "accept-encoding: gzip"]);
    assert_eq!(coded.header("content-encoding"), Some("gzip"), "{coded:?}");
    assert_eq!(coded.text(), "not really coded");
    let length = coded.body.len().to_string();
    assert_eq!(coded.header("content-length"), Some(&*length), "{coded:?}");
}

#[test]
fn policies_and_sites_decide() {
    if !has("policies_and_sites_decide", "curl") {
        return;
    }
    let site = site();
    let file = tempfile::NamedTempFile::new().unwrap();
    let route = |path: &str, policy: &str| {
        format!(
            "[[route]]\npath = \"/{path}\"\nroot = {root:?}\nstrip_prefix = true\n\
             response_headers = {{ set = {{ Content-Security-Policy = \"{policy}\" }} }}\n",
            root = site.path()
        )
    };
    let config = format!(
        "root = {root:?}\n[beacon]\npages = true\n{}{}{}[[site]]\nnames = [\"localhost\"]\n\
         root = {root:?}\nbeacon = {{ path = \"/own\" }}\n",
        route("nonce", "script-src 'nonce-abc'"),
        route("self", "default-src 'self'"),
        route("none", "default-src 'none'; style-src 'self'"),
        root = site.path()
    );
    std::fs::write(file.path(), config).unwrap();
    let server = Server::start(&["--config", file.path().to_str().unwrap()]);
    let text = |path: &str| fetch(Http::H2, &server, path, &[VISIT]).text().to_owned();
    assert!(text("/").contains("<script id=hk"));
    assert!(text("/nonce/").contains("<script nonce=\"abc\" id=hk"));
    let by_file = text("/self/");
    assert!(
        by_file.contains(&format!(" src={POINT}.js async></script></body>")),
        "{by_file}"
    );
    assert_eq!(text("/none/"), PAGE);
    let none = "hikyaku_beacon_pages_total{script=\"none\"}";
    assert_eq!(server.metric(none), 1.0);

    let file = fetch(Http::H2, &server, &format!("{POINT}.js"), &[]);
    assert_eq!(
        file.header("content-type"),
        Some("text/javascript; charset=utf-8")
    );
    assert!(file.text().contains(&format!("u=\"{POINT}\"")), "{file:?}");
    // By its name it is another site.
    let port = server.port();
    let url = format!("https://localhost:{port}/");
    let own = curl(&[
        "--resolve",
        &format!("localhost:{port}:127.0.0.1"),
        "-H",
        VISIT,
        &url,
    ]);
    let own = String::from_utf8(own.stdout).unwrap();
    assert!(own.contains("u=\"/own\""), "{own}");
}

#[test]
fn decisions_and_failures_have_fields() {
    if !has("decisions_and_failures_have_fields", "curl") {
        return;
    }
    let site = site();
    let set = [
        "--set",
        "beacon.server_timing=true",
        "--set",
        "beacon.nel=true",
    ];
    let server = Server::start(&[&[site.path()], &set[..]].concat());
    for http in Http::ALL {
        let page = fetch(http, &server, "/", &[VISIT]);
        let text = fetch(http, &server, "/page.txt", &[]);
        for response in [&page, &text] {
            let timing = response.header("server-timing").unwrap();
            let want = format!("hikyaku;desc=\"{} ", http.name());
            assert!(timing.starts_with(&want), "{timing}");
            assert!(timing.contains(" by ") && timing.ends_with('"'), "{timing}");
        }
        assert_eq!(page.text(), PAGE, "no script was asked for");
        let report_to: Value = serde_json::from_str(page.header("report-to").unwrap()).unwrap();
        let collector = report_to["endpoints"][0]["url"].as_str().unwrap();
        assert!(page.header("nel").is_some() && text.header("nel").is_none());

        let failure = json!({
            "age": 3, "type": "network-error", "url": "https://a.test/", "user_agent": "x",
            "body": { "phase": "connection", "type": "tcp.reset", "elapsed_time": 8 },
        });
        let reports = json!([failure, failure]).to_string();
        let kind = ["content-type: application/reports+json"];
        let send = |kind: &[&str], body: &str| {
            send(http, &server, "POST", collector, kind, body.as_bytes()).status
        };
        assert_eq!(send(&kind, &reports), 204);
        assert_eq!(send(&kind, "[1]"), 400);
        assert_eq!(send(&["content-type: text/plain"], &reports), 400);
        assert_eq!(send(&kind, &" ".repeat(65_537)), 413);
    }
    let metric = "hikyaku_nel_reports_total{phase=\"connection\",type=\"tcp.reset\"}";
    assert_eq!(server.metric(metric), 6.0);
}
