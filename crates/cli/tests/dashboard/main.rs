//! The admin page in a real browser: by keyboard, on a phone, in light and dark, with a hundred thousand clients.
#![allow(clippy::unwrap_used)]

mod fake;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hikyaku_testkit::browser::{Browser, has_chromium};
use hikyaku_testkit::client::block_on;
use hikyaku_testkit::{PATIENCE, Server, Site, get};
use serde_json::{Value, json};

use fake::{CLIENTS, DOTS, Fake};

/// A browser on the page at this address, which is as wide as `width`.
async fn open(server: &Server, at: SocketAddr, width: u32) -> Browser {
    let mut browser = Browser::start(server).await;
    browser.watch_problems().await;
    resize(&mut browser, width, 900).await;
    let url = format!("http://{at}/");
    browser
        .command("Page.navigate", json!({ "url": url }))
        .await;
    until(
        &mut browser,
        "the page is there",
        "document.querySelectorAll('#facts dt').length > 3",
    )
    .await;
    browser
}

async fn resize(browser: &mut Browser, width: u32, height: u32) {
    let size =
        json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
    browser
        .command("Emulation.setDeviceMetricsOverride", size)
        .await;
}

/// Waits until an expression is true.
async fn until(browser: &mut Browser, what: &str, expression: &str) {
    let begun = Instant::now();
    while browser.evaluate(expression).await != json!(true) {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn press(browser: &mut Browser, key: &str) {
    let (code, text) = match key {
        "Tab" => (9, ""),
        "Enter" => (13, "\r"),
        "Escape" => (27, ""),
        "ArrowRight" => (39, ""),
        "ArrowDown" => (40, ""),
        "End" => (35, ""),
        other => panic!("{other}"),
    };
    for kind in ["keyDown", "keyUp"] {
        let mut event =
            json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
        if kind == "keyDown" && !text.is_empty() {
            event["text"] = json!(text);
        }
        browser.command("Input.dispatchKeyEvent", event).await;
    }
}

async fn scroll_to(browser: &mut Browser, id: &str) {
    let scroll =
        format!("document.getElementById({id:?}).scrollIntoView({{ behavior: 'instant' }})");
    browser.evaluate(&scroll).await;
}

/// Has every section asked for and drawn once.
async fn see_all(browser: &mut Browser) {
    for id in [
        "traffic",
        "map",
        "client",
        "clients",
        "model",
        "server",
        "events-part",
        "gain",
    ] {
        scroll_to(browser, id).await;
        tokio::time::sleep(Duration::from_millis(600)).await;
    }
    let all = format!(
        "document.querySelectorAll('#client-rows tr').length === 100 && \
         document.querySelectorAll('#map-dots path').length === {DOTS} && \
         document.querySelectorAll('#model-chart circle').length === 4 && \
         document.querySelectorAll('#charts path.series').length > 6 && \
         document.querySelectorAll('#certificate-rows tr').length === 1 && \
         document.querySelectorAll('#gain-times tr').length === 3"
    );
    until(browser, "all sections are drawn", &all).await;
}

#[test]
fn a_hundred_thousand_clients_are_a_bounded_page() {
    if !has_chromium("a_hundred_thousand_clients_are_a_bounded_page") {
        return;
    }
    let server = Server::start(&[Site::new(&[("index.html", b"x")]).path()]);
    let fake = Fake::start(server.admin);
    block_on(async {
        let mut browser = open(&server, fake.address, 1400).await;
        let asked = "performance.getEntriesByType('resource').length";
        let first = browser.evaluate(asked).await.as_u64().unwrap();
        assert!(first <= 40, "{first} requests until the page is there");
        see_all(&mut browser).await;
        let nodes = browser
            .evaluate("document.querySelectorAll('*').length")
            .await;
        let nodes = nodes.as_u64().unwrap();
        assert!(nodes < 6000, "{nodes} elements for {CLIENTS} clients");
        let sentence = browser
            .evaluate("document.getElementById('gain-sentence').textContent")
            .await;
        assert!(
            sentence.as_str().unwrap().contains("8 % sooner"),
            "{sentence}"
        );
        let events = browser
            .evaluate("document.querySelectorAll('#event-rows tr').length")
            .await;
        assert!(events.as_u64().unwrap() <= 200, "{events}");
        let small = "performance.getEntriesByType('resource').every(entry => entry.decodedBodySize < 200000)";
        assert_eq!(
            browser.evaluate(small).await,
            json!(true),
            "no answer is large"
        );
        assert_eq!(browser.problems, Vec::<String>::new());
    });
}

#[test]
fn a_refresh_keeps_focus_scroll_and_selection() {
    if !has_chromium("a_refresh_keeps_focus_scroll_and_selection") {
        return;
    }
    let server = Server::start(&[Site::new(&[("index.html", b"x")]).path()]);
    let fake = Fake::start(server.admin);
    block_on(async {
        let mut browser = open(&server, fake.address, 1400).await;
        scroll_to(&mut browser, "clients").await;
        let rows = "document.querySelectorAll('#client-rows button').length === 100";
        until(&mut browser, "the clients are listed", rows).await;
        let focus = "(() => {
            const button = document.querySelectorAll('#client-rows button')[40];
            button.focus();
            const cell = document.querySelectorAll('#client-rows tr')[41].lastChild;
            getSelection().selectAllChildren(cell);
            return [button.textContent, cell.closest('.scroll').scrollTop, getSelection().toString()];
        })()";
        let before = browser.evaluate(focus).await;
        assert!(before[1].as_f64().unwrap() > 0.0, "{before}");
        let lists = fake.lists();
        let begun = Instant::now();
        while fake.lists() < lists + 2 {
            assert!(
                begun.elapsed() < PATIENCE,
                "the list is not asked for again"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        let now = "[document.activeElement.textContent,
            document.activeElement.closest('.scroll')?.scrollTop, getSelection().toString()]";
        assert_eq!(browser.evaluate(now).await, before);
        assert_eq!(browser.problems, Vec::<String>::new());
    });
}

#[test]
fn a_keyboard_reaches_everything() {
    if !has_chromium("a_keyboard_reaches_everything") {
        return;
    }
    let server = Server::start(&[Site::new(&[("index.html", b"x")]).path()]);
    let fake = Fake::start(server.admin);
    block_on(async {
        let mut browser = open(&server, fake.address, 1400).await;
        see_all(&mut browser).await;
        browser.evaluate("scrollTo(0, 0)").await;
        let mut walked = Vec::new();
        for _ in 0..40 {
            press(&mut browser, "Tab").await;
            let at = "(() => {
                const one = document.activeElement;
                const style = getComputedStyle(one);
                return [one.id || one.textContent.trim().slice(0, 30), style.outlineStyle !== 'none'];
            })()";
            let at = browser.evaluate(at).await;
            assert_eq!(at[1], json!(true), "the focus shows at {at}");
            walked.push(at[0].as_str().unwrap().to_owned());
        }
        assert_eq!(walked[0], "Skip to the gain");
        for id in [
            "theme",
            "gain-since",
            "gain-by",
            "map-size",
            "map-dots",
            "address",
            "clients-sort",
        ] {
            assert!(
                walked.iter().any(|walked| walked == id),
                "{id} in {walked:?}"
            );
        }
        let dots = walked.iter().filter(|walked| *walked == "map-dots").count();
        assert_eq!(dots, 1, "the map is one stop");

        browser
            .evaluate("document.getElementById('map-dots').focus()")
            .await;
        press(&mut browser, "ArrowRight").await;
        press(&mut browser, "ArrowDown").await;
        let active = "document.getElementById(document.getElementById('map-dots')\
                      .getAttribute('aria-activedescendant')).getAttribute('aria-label')";
        let label = browser.evaluate(active).await;
        assert!(label.as_str().unwrap().contains("RTT"), "{label}");
        press(&mut browser, "Enter").await;
        let shown =
            "document.getElementById('client-sentence').textContent.includes('27 % sooner')";
        until(&mut browser, "the client is shown", shown).await;
        assert_eq!(
            browser.evaluate("document.activeElement.id").await,
            json!("map-dots")
        );

        browser
            .evaluate("document.getElementById('pin').focus()")
            .await;
        press(&mut browser, "Enter").await;
        let is_open = "document.getElementById('pin-dialog').open";
        until(&mut browser, "the question is asked", is_open).await;
        press(&mut browser, "Escape").await;
        until(
            &mut browser,
            "it is closed",
            "!document.getElementById('pin-dialog').open",
        )
        .await;
        assert_eq!(
            browser.evaluate("document.activeElement.id").await,
            json!("pin")
        );
        assert_eq!(browser.problems, Vec::<String>::new());
    });
}

#[test]
fn a_phone_needs_no_sideways_scroll_and_colours_follow_the_system() {
    if !has_chromium("a_phone_needs_no_sideways_scroll_and_colours_follow_the_system") {
        return;
    }
    let server = Server::start(&[Site::new(&[("index.html", b"x")]).path()]);
    let fake = Fake::start(server.admin);
    block_on(async {
        let mut browser = open(&server, fake.address, 390).await;
        see_all(&mut browser).await;
        choose_first(&mut browser).await;
        let wide = "[...document.querySelectorAll('body *')]
            .filter(one => !one.closest('.scroll') && one.getBoundingClientRect().right > innerWidth + 1
                && getComputedStyle(one).position !== 'absolute')
            .map(one => `${one.tagName} ${one.id} ${one.className}`)";
        assert_eq!(browser.evaluate(wide).await, json!([]));
        let width = browser
            .evaluate("document.documentElement.scrollWidth")
            .await;
        assert_eq!(width, json!(390));

        let paper = "getComputedStyle(document.body).backgroundColor";
        let mut seen = Vec::new();
        for scheme in ["light", "dark"] {
            let media =
                json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
            browser.command("Emulation.setEmulatedMedia", media).await;
            seen.push(browser.evaluate(paper).await);
        }
        assert_ne!(seen[0], seen[1], "the system's scheme");
        let choose = "(() => {
            const theme = document.getElementById('theme');
            theme.value = 'light';
            theme.dispatchEvent(new Event('change'));
        })()";
        browser.evaluate(choose).await;
        assert_eq!(
            browser.evaluate(paper).await,
            seen[0],
            "the page's own switch"
        );
        assert_eq!(browser.problems, Vec::<String>::new());
    });
}

async fn choose_first(browser: &mut Browser) {
    browser
        .evaluate("document.querySelector('#client-rows button').click()")
        .await;
    let shown = "document.querySelectorAll('#client-arms tbody tr').length === 6";
    scroll_to(browser, "client").await;
    until(browser, "the client is shown", shown).await;
}

#[test]
fn a_screen_reader_finds_its_way() {
    if !has_chromium("a_screen_reader_finds_its_way") {
        return;
    }
    let server = Server::start(&[Site::new(&[("index.html", b"x")]).path()]);
    let fake = Fake::start(server.admin);
    block_on(async {
        let mut browser = open(&server, fake.address, 1400).await;
        see_all(&mut browser).await;
        let faults = "(() => {
            const faults = [];
            const all = (selector) => [...document.querySelectorAll(selector)];
            for (const name of ['h1', 'main', 'nav', 'header']) if (all(name).length !== 1) faults.push(`not one ${name}`);
            for (const th of all('th')) if (!th.scope) faults.push(`no scope: ${th.textContent}`);
            for (const one of all('input, select')) if (!one.labels.length) faults.push(`no label: ${one.id}`);
            for (const one of all('svg')) {
                const isNamed = one.getAttribute('aria-label') || one.getAttribute('aria-labelledby') || one.getAttribute('aria-hidden');
                if (!isNamed) faults.push(`no text: ${one.parentNode.id} ${one.parentNode.className}`);
            }
            for (const one of all('section')) if (!document.getElementById(one.getAttribute('aria-labelledby'))) faults.push(`no name: ${one.id}`);
            let level = 1;
            for (const head of all('h1, h2, h3')) {
                const own = Number(head.tagName[1]);
                if (own > level + 1) faults.push(`skips a level: ${head.textContent}`);
                level = own;
            }
            const ids = all('[id]').map(one => one.id);
            for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) faults.push(`twice: ${id}`);
            return faults;
        })()";
        assert_eq!(browser.evaluate(faults).await, json!([]));
        let live: Value = browser
            .evaluate(
                "[...document.querySelectorAll('[role=status], [aria-live]')].map(one => one.id)",
            )
            .await;
        assert_eq!(live, json!(["headline", "client-said"]));
    });
}

#[test]
fn the_page_works_with_a_real_server() {
    if !has_chromium("the_page_works_with_a_real_server") {
        return;
    }
    let server = Server::start(&[
        Site::with_big_file(200_000).path(),
        "--set",
        "policy.holdback=0",
    ]);
    for _ in 0..3 {
        get(&["--http", "2", "--repeat", "3", &server.url("/big.bin")]);
    }
    block_on(async {
        let mut browser = open(&server, server.admin, 1400).await;
        scroll_to(&mut browser, "clients").await;
        let listed = "document.querySelector('#client-rows button')?.textContent === '127.0.0.1'";
        until(&mut browser, "the client is listed", listed).await;
        browser
            .evaluate("document.querySelector('#client-rows button').click()")
            .await;
        scroll_to(&mut browser, "client").await;
        let said = "document.getElementById('client-sentence').textContent.startsWith('127.0.0.1 Gets HTTP/')";
        until(&mut browser, "the sentence is there", said).await;
        scroll_to(&mut browser, "map").await;
        let plane = "document.querySelector('#map-plane .zero')?.getAttribute('d').length > 50 && \
                     document.querySelectorAll('#map-dots path').length > 0";
        until(&mut browser, "the map is drawn", plane).await;
        let told = "document.getElementById('gain-sentence').textContent.length > 20";
        until(
            &mut browser,
            "the gain is told, or that it is not measured",
            told,
        )
        .await;

        browser.evaluate("document.getElementById('pin').click(); document.getElementById('pin-yes').click()").await;
        let pinned =
            "document.getElementById('client-pinned').textContent.includes('pinned to HTTP/2')";
        until(&mut browser, "it is pinned", pinned).await;
        assert_eq!(
            server.admin_json("/v1/clients/127.0.0.1")["decision"]["reason_code"],
            "pinned"
        );
        let unpin =
            "document.getElementById('pin').click(); document.getElementById('unpin').click()";
        until(
            &mut browser,
            "it can be unpinned",
            "!document.getElementById('unpin').hidden",
        )
        .await;
        browser.evaluate(unpin).await;
        let free = "document.getElementById('client-pinned').textContent === ''";
        scroll_to(&mut browser, "client").await;
        until(&mut browser, "it is free again", free).await;
        let forget = "document.getElementById('forget').click(); document.getElementById('forget-yes').click()";
        browser.evaluate(forget).await;
        let begun = Instant::now();
        while server.admin_json("/v1/clients/127.0.0.1")["levels"] != json!([]) {
            assert!(begun.elapsed() < PATIENCE, "it is not forgotten");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // A server without a report of its gain is no fault of the page.
        let faults = browser
            .problems
            .iter()
            .filter(|problem| !problem.contains("/v1/gain"));
        assert_eq!(faults.collect::<Vec<_>>(), Vec::<&String>::new());
    });
}

/// `HIKYAKU_PICTURES=DIR cargo test --test dashboard pictures` makes those of `docs/dashboard.md`.
#[test]
fn pictures() {
    let Some(directory) = std::env::var_os("HIKYAKU_PICTURES") else {
        return;
    };
    let directory = std::path::PathBuf::from(directory);
    let server = Server::start(&[Site::new(&[("index.html", b"x")]).path()]);
    let fake = Fake::start(server.admin);
    block_on(async {
        for (name, width, scheme) in [
            ("light", 1280, "light"),
            ("dark", 1280, "dark"),
            ("phone", 390, "light"),
        ] {
            let mut browser = open(&server, fake.address, width).await;
            let media =
                json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
            browser.command("Emulation.setEmulatedMedia", media).await;
            see_all(&mut browser).await;
            choose_first(&mut browser).await;
            browser
                .evaluate("document.activeElement.blur(); scrollTo(0, 0)")
                .await;
            tokio::time::sleep(Duration::from_millis(500)).await;
            let height = browser
                .evaluate("document.documentElement.scrollHeight")
                .await;
            let params = json!({
                "format": "png", "captureBeyondViewport": true,
                "clip": { "x": 0, "y": 0, "width": width, "height": height, "scale": 1 },
            });
            let picture = browser.command("Page.captureScreenshot", params).await;
            let picture = decode(picture["data"].as_str().unwrap());
            std::fs::write(directory.join(format!("dashboard-{name}.png")), picture).unwrap();
        }
    });
}

/// Reads Base64 (RFC 4648 §4).
fn decode(text: &str) -> Vec<u8> {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for digit in text.chars().filter_map(|digit| DIGITS.find(digit)) {
        bits = bits << 6 | digit as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}
