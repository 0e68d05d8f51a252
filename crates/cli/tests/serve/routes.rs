//! Routes, which every version takes alike, and which a reload changes.

use std::fs;

use hikyaku_testkit::fetch::{Http, fetch};
use hikyaku_testkit::{Server, Site, has};
use rustix::process::Signal;

const ROUTES: &str = r#"
root = "ROOT/www"

[response_headers]
set = { Strict-Transport-Security = "max-age=63072000" }

[[route]]
path = "/docs"
root = "ROOT/docs"
strip_prefix = true
response_headers = { set = { Server = "docs" } }

[[route]]
path = "/app"
files = { fallback = "app/index.html" }

[[route]]
path = "/old"
redirect = { to = "https://new.example/x$rest$query", status = 308 }

[[route]]
path = "/health"
answer = { status = 200, body = "ok" }
"#;

#[test]
fn every_version_takes_the_same_route() {
    if !has("every_version_takes_the_same_route", "curl") {
        return;
    }
    let site = Site::new(&[
        ("www/a.txt", b"www"),
        ("www/app/index.html", b"app"),
        ("docs/a.txt", b"docs"),
    ]);
    site.write("edge.toml", ROUTES.replace("ROOT", site.path()).as_bytes());
    let server = Server::start(&["--config", &format!("{}/edge.toml", site.path())]);
    let cases = [
        ("/a.txt", 200, "www", ("server", "hikyaku")),
        ("/docs/a.txt", 200, "docs", ("server", "docs")),
        ("/app/users/7", 200, "app", ("content-type", "text/html")),
        (
            "/old/x?y",
            308,
            "308 Permanent Redirect\n",
            ("location", "https://new.example/x/x?y"),
        ),
        ("/health", 200, "ok", ("content-length", "2")),
        ("/nowhere", 404, "404 Not Found\n", ("server", "hikyaku")),
        (
            "/docs/%2e%2e/a",
            400,
            "400 Bad Request\n",
            ("server", "hikyaku"),
        ),
    ];
    for (path, status, body, (name, value)) in cases {
        for http in Http::ALL {
            // A file is in memory from the second request on.
            for _ in 0..2 {
                let got = fetch(http, &server, path, &[]);
                let what = format!("{path} over {http:?}: {got:?}");
                assert_eq!((got.status, got.text()), (status, body), "{what}");
                assert_eq!(got.header(name), Some(value), "{what}");
                let sts = got.header("strict-transport-security");
                assert_eq!(sts, Some("max-age=63072000"), "{what}");
            }
        }
    }
}

#[test]
fn a_reload_changes_routes_or_refuses_them_whole() {
    if !has("a_reload_changes_routes_or_refuses_them_whole", "curl") {
        return;
    }
    let site = Site::new(&[("a.txt", b"a")]);
    let path = format!("{}/edge.toml", site.path());
    let route = |answer: &str| {
        let root = site.path();
        let text = format!("root = \"{root}\"\n[[route]]\npath = \"/r\"\nanswer = {answer}");
        fs::write(&path, text).unwrap();
    };
    route("{ status = 200, body = \"first\" }");
    let server = Server::start(&["--config", &path]);
    assert_eq!(fetch(Http::H2, &server, "/r", &[]).text(), "first");
    route("{ status = 200, body = \"second\" }");
    server.signal(Signal::HUP);
    server.wait_log("configuration reloaded");
    assert_eq!(fetch(Http::H2, &server, "/r", &[]).text(), "second");
    route("{ status = 1 }");
    server.signal(Signal::HUP);
    let log = server.wait_log("in the route for `/r`");
    assert!(log.contains("choose 200 to 599"), "{log}");
    assert_eq!(fetch(Http::H2, &server, "/r", &[]).text(), "second");
}
