//! A real browser follows the server from HTTP/2 to HTTP/3 and back.
//!
//! Headless Chromium is driven by its DevTools protocol. The page's own `nextHopProtocol` shows the
//! version of a request.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::time::{Duration, Instant};

use hikyaku_testkit::browser::{Browser, has_chromium};
use hikyaku_testkit::client::block_on;
use hikyaku_testkit::{PATIENCE, Server, Site, eventually, get};
use rustix::process::Signal;
use serde_json::json;

const IMAGES: usize = 4;

/// A page with some images that are loaded one after the other.
fn site() -> Site {
    let images: String = (0..IMAGES)
        .map(|number| format!("<img src=\"/image.svg?{number}\" loading=\"eager\">"))
        .collect();
    let page = format!("<!doctype html><title>page</title>{images}");
    let image = b"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1\" height=\"1\"/>";
    Site::new(&[("index.html", page.as_bytes()), ("image.svg", image)])
}

/// Loads the page past the browser's cache. Returns the versions of the page and its images.
async fn visit(browser: &mut Browser) -> Vec<String> {
    browser.command("Network.enable", json!({})).await;
    let off = json!({ "cacheDisabled": true });
    browser.command("Network.setCacheDisabled", off).await;
    browser
        .command("Page.navigate", json!({ "url": "about:blank" }))
        .await;
    browser.open("/").await;
    let begun = Instant::now();
    let loaded = format!(
        "location.origin === {:?} && document.readyState === 'complete' && \
         performance.getEntriesByType('resource').length >= {IMAGES}",
        browser.origin
    );
    while browser.evaluate(&loaded).await != json!(true) {
        assert!(begun.elapsed() < PATIENCE, "the page never loads");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let versions = browser
        .evaluate(
            "['navigation', 'resource'].flatMap(type => performance.getEntriesByType(type))\
             .map(entry => entry.nextHopProtocol)",
        )
        .await;
    let versions: Vec<String> = serde_json::from_value(versions).unwrap();
    assert!(versions.len() > IMAGES, "{versions:?}");
    versions
}

/// Makes one more request of the open page, and returns its version.
async fn request(browser: &mut Browser) -> String {
    browser.messages += 1;
    let path = format!("/image.svg?request={}", browser.messages);
    let fetched = format!(
        "fetch({path:?}, {{ cache: 'no-store' }}).then(answer => answer.text()).then(() => \
         performance.getEntriesByName(new URL({path:?}, location).href)[0].nextHopProtocol)"
    );
    let version = browser.evaluate(&fetched).await;
    version.as_str().unwrap().to_owned()
}

/// A configuration file that pins the version.
struct Pin(tempfile::NamedTempFile);

impl Pin {
    fn new(version: &str) -> Self {
        let pin = Self(tempfile::NamedTempFile::new().unwrap());
        pin.set(version);
        pin
    }

    fn set(&self, version: &str) {
        let text = format!("policy.version = {version:?}\n");
        fs::write(self.0.path(), text).unwrap();
    }

    fn path(&self) -> &str {
        self.0.path().to_str().unwrap()
    }
}

#[test]
fn a_browser_follows_alt_svc_and_comes_back_after_clear() {
    if !has_chromium("a_browser_follows_alt_svc_and_comes_back_after_clear") {
        return;
    }
    let site = site();
    let pin = Pin::new("h3");
    let server = Server::start(&[site.path(), "--config", pin.path()]);
    block_on(async {
        let mut browser = Browser::start(&server).await;
        let first = visit(&mut browser).await;
        assert_eq!(first[0], "h2", "the first document: {first:?}");
        until(&mut browser, "h3").await;
        let second = visit(&mut browser).await;
        assert!(second.iter().all(|version| version == "h3"), "{second:?}");
        let hybrid = ["h2", "h3"].map(|version| [version, "X25519MLKEM768"].map(str::to_owned));
        assert_eq!(browser.key_exchanges, hybrid.into());

        pin.set("h2");
        server.signal(Signal::HUP);
        server.wait_log("configuration reloaded");
        until(&mut browser, "h2").await;
        for _ in 0..2 {
            let later = visit(&mut browser).await;
            assert!(later.iter().all(|version| version == "h2"), "{later:?}");
        }
    });
    let clear = server.metric("hikyaku_responses_by_alt_svc_total{action=\"clear\"}");
    assert!(clear >= 1.0, "{clear}");
}

#[test]
fn a_browser_uses_http3_by_a_mapped_port() {
    if !has_chromium("a_browser_uses_http3_by_a_mapped_port") {
        return;
    }
    let site = site();
    let server = Server::start(&[site.path(), "--set", "policy.version=h3"]);
    let port = hikyaku_testkit::mapping::map(server.address());
    block_on(async {
        let rules = "MAP *.test 127.0.0.1,MAP * ~NOTFOUND,EXCLUDE 127.0.0.1";
        let mut browser = Browser::start_with(&server, port, rules).await;
        let first = visit(&mut browser).await;
        assert_eq!(first[0], "h2", "the first document: {first:?}");
        until(&mut browser, "h3").await;
    });
    let line = format!(
        "a request names port {port}, and this server has port {}",
        server.port()
    );
    let log = server.wait_log(&line);
    assert_eq!(log.matches("a request names port").count(), 1, "{log}");
}

#[test]
fn a_browser_gets_early_answers() {
    if !has_chromium("a_browser_gets_early_answers") {
        return;
    }
    const UPLOADS: &str = "(async () => {
        const answers = [];
        for (let i = 0; i < 20; i++) {
            const upload = fetch('/upload', { method: 'POST', body: new Uint8Array(5_000_000) });
            answers.push(await upload.then(answer => answer.status, error => `${error}`));
        }
        return answers;
    })()";
    let site = site();
    for (policy, version) in [("h1", "http/1.1"), ("h2", "h2"), ("h3", "h3")] {
        let policy = format!("policy.version={policy}");
        let limit = ["--set", "limits.body_size=100kB"];
        let server = Server::start(&[&[site.path(), "--set", &policy], &limit[..]].concat());
        block_on(async {
            let mut browser = Browser::start(&server).await;
            visit(&mut browser).await;
            until(&mut browser, version).await;
            // It would report the content, too.
            browser.command("Network.disable", json!({})).await;
            let answers = browser.evaluate(UPLOADS).await;
            assert_eq!(answers, json!(vec![413; 20]), "{version}");
        });
    }
}

/// Makes requests until one comes over `version`: QUIC is connected in the background.
async fn until(browser: &mut Browser, version: &str) {
    let begun = Instant::now();
    loop {
        let got = request(browser).await;
        if got == version {
            return;
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "never over {version}, but {got}"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[test]
fn an_unknown_browser_is_brought_to_http3() {
    if !has_chromium("an_unknown_browser_is_brought_to_http3") {
        return;
    }
    let site = site();
    // No chance, and no experiments.
    let plain = [
        "policy.exploration=0",
        "policy.holdback=0",
        "policy.min_samples=100000",
    ];
    let plain = plain.map(|set| ["--set", set]).concat();
    let server = Server::start(&[&[site.path()], &plain[..]].concat());
    block_on(async {
        let mut browser = Browser::start(&server).await;
        let first = visit(&mut browser).await;
        assert_eq!(first[0], "h2", "{first:?}");
        until(&mut browser, "h3").await;
    });
    server.wait_metric("hikyaku_udp_events_total{event=\"arrived\"}", 1.0);
}

#[test]
fn a_browser_stays_where_http2_is_pinned() {
    if !has_chromium("a_browser_stays_where_http2_is_pinned") {
        return;
    }
    let site = site();
    let server = Server::start(&[site.path(), "--set", "policy.version=h2"]);
    block_on(async {
        let mut browser = Browser::start(&server).await;
        for _ in 0..3 {
            let versions = visit(&mut browser).await;
            assert!(
                versions.iter().all(|version| version == "h2"),
                "{versions:?}"
            );
            assert_eq!(request(&mut browser).await, "h2");
        }
    });
    assert_eq!(
        server.metric("hikyaku_connections_opened_total{version=\"h3\"}"),
        0.0
    );
}

#[test]
fn the_admin_page_shows_upstreams_and_their_state() {
    if !has_chromium("the_admin_page_shows_upstreams_and_their_state") {
        return;
    }
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let upstream = Server::start(&[site().path()]);
    let up = format!("https://{}", upstream.address());
    let set =
        "proxy={ insecure = true, balance = \"hash:path\", avoid_after = 1, avoid_min = \"2m\" }";
    let args = ["--upstream", &up, "--upstream", &closed, "--set", set];
    let server = Server::start(&args);
    let mut paths = 0;
    eventually("one of them is avoided", || {
        paths += 1;
        get(&[&server.url(&format!("/{paths}"))]);
        let status = server.admin_json("/v1/status");
        let states = status["upstreams"].as_array().unwrap().clone();
        states
            .iter()
            .any(|state| state["up"] == false)
            .then_some(())
    });
    block_on(async {
        let mut browser = Browser::start(&server).await;
        let url = format!("http://{}/", server.admin);
        browser
            .command("Page.navigate", json!({ "url": url }))
            .await;
        let rows = "[...document.querySelectorAll('#upstream-rows tr')]\
                    .map(row => [...row.cells].slice(0, 2).map(cell => cell.innerText).join(' '))";
        let begun = Instant::now();
        let shown = loop {
            let shown = browser.evaluate(rows).await;
            if shown.as_array().is_some_and(|rows| rows.len() == 2) {
                break shown;
            }
            assert!(begun.elapsed() < PATIENCE, "the page shows {shown}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        let shown: Vec<String> = serde_json::from_value(shown).unwrap();
        assert!(shown.contains(&format!("{up} up")), "{shown:?}");
        assert!(shown.contains(&format!("{closed} avoided")), "{shown:?}");
    });
}
