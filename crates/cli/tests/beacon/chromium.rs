//! A real browser reports its pages.

use std::fs;
use std::time::{Duration, Instant};

use hikyaku_testkit::browser::{Browser, has_chromium};
use hikyaku_testkit::client::block_on;
use hikyaku_testkit::{PATIENCE, Server, Site, eventually};
use serde_json::{Value, json};

use super::POINT;

const IMAGES: usize = 4;

/// A page of some images.
fn site() -> Site {
    let images: String = (0..IMAGES)
        .map(|number| format!("<img src=\"/image.svg?{number}\">"))
        .collect();
    let page = format!("<!doctype html><title>page</title><body><h1>page</h1>{images}</body>");
    let image = b"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\" height=\"9\"/>";
    Site::new(&[
        ("index.html", page.as_bytes()),
        ("image.svg", image),
        ("favicon.ico", image),
    ])
}

/// Serves the page below paths whose policies differ.
fn server(site: &Site, version: &str) -> Server {
    let config = tempfile::NamedTempFile::new().unwrap();
    let policies = [
        (
            "nonce",
            "script-src 'nonce-abc'; img-src 'self'; connect-src 'self'",
        ),
        ("self", "default-src 'self'"),
        ("none", "default-src 'none'; img-src 'self'"),
        ("mute", "connect-src 'none'"),
    ];
    let routes = policies.map(|(path, policy)| {
        format!(
            "[[route]]\npath = \"/{path}\"\nroot = {:?}\nstrip_prefix = true\n\
             response_headers = {{ set = {{ Content-Security-Policy = \"{policy}\" }} }}\n",
            site.path()
        )
    });
    let text = format!(
        "root = {:?}\npolicy.version = {version:?}\nbeacon = {{ pages = true, learn = true, server_timing = true }}\n{}",
        site.path(),
        routes.concat()
    );
    fs::write(config.path(), text).unwrap();
    Server::start(&["--config", config.path().to_str().unwrap()])
}

/// Loads a page past the browser's cache, until it is loaded.
async fn visit(browser: &mut Browser, path: &str) {
    leave(browser).await;
    browser.open(path).await;
    let loaded = format!(
        "location.pathname === {path:?} && document.readyState === 'complete' && \
         performance.getEntriesByType('navigation')[0].loadEventEnd > 0"
    );
    until(browser, &loaded).await;
}

async fn leave(browser: &mut Browser) {
    let blank = json!({ "url": "about:blank" });
    browser.command("Page.navigate", blank).await;
    until(browser, "location.href === 'about:blank'").await;
}

/// Waits until a condition of the page holds.
async fn until(browser: &mut Browser, condition: &str) {
    let begun = Instant::now();
    while browser.evaluate(condition).await != json!(true) {
        assert!(begun.elapsed() < PATIENCE, "never: {condition}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The reports of pages so far.
fn reports(server: &Server) -> Vec<Value> {
    let lines = server.access_lines();
    let lines = lines
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["path"] == POINT).collect()
}

fn wait_reports(server: &Server, count: usize) -> Vec<Value> {
    eventually(&format!("{count} reports"), || {
        let reports = reports(server);
        (reports.len() >= count).then_some(reports)
    })
}

/// The only protocol of a page.
fn hop(report: &Value) -> &str {
    let transfers = report["page"]["transfers"].as_array().unwrap();
    assert_eq!(transfers.len(), 1, "{report}");
    transfers[0]["hop"].as_str().unwrap()
}

#[test]
fn a_browser_reports_each_page_once() {
    if !has_chromium("a_browser_reports_each_page_once") {
        return;
    }
    let site = site();
    let server = server(&site, "h2");
    block_on(async {
        let mut browser = Browser::start(&server).await;
        browser.watch_console().await;
        browser.command("Network.enable", json!({})).await;
        let off = json!({ "cacheDisabled": true });
        browser.command("Network.setCacheDisabled", off).await;
        let mut count = 0;
        // A path, and whether its page reports.
        for (path, is_told) in [
            ("/", true),
            ("/nonce/", true),
            ("/self/", true),
            ("/none/", false),
            ("/mute/", false),
            ("/", true),
        ] {
            visit(&mut browser, path).await;
            let images =
                "document.images.length === 4 && [...document.images].every(i => i.naturalWidth)";
            assert_eq!(browser.evaluate(images).await, json!(true), "{path}");
            // The page's own scripts find no trace of it.
            let scripts = "document.scripts.length";
            if path != "/self/" {
                assert_eq!(browser.evaluate(scripts).await, json!(0), "{path}");
            } else {
                until(&mut browser, "document.scripts.length === 0").await;
            }
            // Hidden twice, and left: it sends once.
            let hide = "dispatchEvent(new PageTransitionEvent('pagehide')); \
                        dispatchEvent(new PageTransitionEvent('pagehide')); true";
            browser.evaluate(hide).await;
            leave(&mut browser).await;
            count += usize::from(is_told);
            let reports = wait_reports(&server, count);
            assert_eq!(reports.len(), count, "{path}: {reports:?}");
            if !is_told {
                continue;
            }
            let report = &reports[count - 1];
            assert_eq!(
                (&report["status"], hop(report)),
                (&json!(204), "h2"),
                "{report}"
            );
            let page = &report["page"];
            assert!(
                page["transfers"][0]["responses"].as_u64() >= Some(5),
                "{report}"
            );
            assert!(
                page["load_us"].as_u64() > page["requested_us"].as_u64(),
                "{report}"
            );
            assert_eq!(page["version"], "h2", "{report}");
        }
        let timing = "performance.getEntriesByType('navigation')[0]?.serverTiming[0]?.description";
        visit(&mut browser, "/").await;
        let timing = browser.evaluate(timing).await;
        assert!(timing.as_str().unwrap().starts_with("h2 "), "{timing}");
        assert_eq!(browser.complaints, Vec::<String>::new());
    });
    let scripts = |how| server.metric(&format!("hikyaku_beacon_pages_total{{script={how:?}}}"));
    assert_eq!((scripts("file"), scripts("none")), (1.0, 2.0));
    let refused = ["malformed", "too_large", "unknown", "too_many"].map(|reason| {
        server.metric(&format!(
            "hikyaku_beacon_refused_total{{reason={reason:?}}}"
        ))
    });
    assert_eq!(refused, [0.0; 4]);
}

#[test]
fn a_browser_on_http3_reports_it() {
    if !has_chromium("a_browser_on_http3_reports_it") {
        return;
    }
    let site = site();
    let server = server(&site, "h3");
    block_on(async {
        let mut browser = Browser::start(&server).await;
        browser.watch_console().await;
        browser.command("Network.enable", json!({})).await;
        let off = json!({ "cacheDisabled": true });
        browser.command("Network.setCacheDisabled", off).await;
        let mut count = 0;
        let begun = Instant::now();
        loop {
            visit(&mut browser, "/nonce/").await;
            leave(&mut browser).await;
            count += 1;
            let reports = wait_reports(&server, count);
            assert_eq!(reports.len(), count, "{reports:?}");
            // QUIC is connected in the background of the first page.
            let report = &reports[count - 1];
            if report["page"]["version"] == "h3" {
                assert_eq!(hop(report), "h3", "{report}");
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "never over HTTP/3: {report}");
        }
        assert_eq!(browser.complaints, Vec::<String>::new());
    });
    let loaded = "hikyaku_beacon_page_load_seconds_count{version=\"h3\"}";
    assert_eq!(server.metric(loaded), 1.0);
}
