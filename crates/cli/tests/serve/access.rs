//! Access, which every version asks for alike.

use hikyaku_testkit::fetch::{Http, fetch};
use hikyaku_testkit::{Server, Site, has};
use serde_json::Value;

const ACCESS: &str = r#"
root = "ROOT/www"
error_pages = { 401 = "ROOT/pages/401.html" }

[access]
basic_auth = { users = "ROOT/users" }

[[route]]
path = "/open"
access = {}

[[route]]
path = "/few"
access = { rate_limit = { requests = 2, per = "1h" } }

[[route]]
path = "/nobody"
access = { deny = ["0.0.0.0/0", "::/0"] }
"#;

#[test]
fn every_version_asks_for_the_same() {
    if !has("every_version_asks_for_the_same", "curl") {
        return;
    }
    let site = Site::new(&[
        ("www/a.txt", b"content"),
        ("www/open/a.txt", b"open"),
        ("www/few/a.txt", b"few"),
        ("www/nobody/a.txt", b"nobody"),
        ("pages/401.html", b"<h1>log in</h1>"),
        // The password is `secret`.
        (
            "users",
            b"ada:$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n",
        ),
    ]);
    site.write("edge.toml", ACCESS.replace("ROOT", site.path()).as_bytes());
    let config = format!("{}/edge.toml", site.path());
    for http in Http::ALL {
        let server = Server::start(&["--config", &config]);
        let right = "Authorization: Basic YWRhOnNlY3JldA=="; // ada:secret
        let wrong = "Authorization: Basic YWRhOndyb25n"; // ada:wrong
        let cases = [
            ("/a.txt", None, 401, "<h1>log in</h1>"),
            ("/a.txt", Some(right), 200, "content"),
            ("/a.txt", Some(right), 200, "content"),
            ("/a.txt", Some(wrong), 401, "<h1>log in</h1>"),
            ("/open/a.txt", None, 200, "open"),
            ("/nobody/a.txt", Some(right), 403, "403 Forbidden\n"),
            ("/few/a.txt", None, 200, "few"),
            ("/few/a.txt", None, 200, "few"),
            ("/few/a.txt", None, 429, "429 Too Many Requests\n"),
        ];
        for (path, field, status, body) in cases {
            let fields: Vec<_> = field.into_iter().collect();
            let got = fetch(http, &server, path, &fields);
            let what = format!("{path} {field:?} over {http:?}");
            assert_eq!((got.status, got.text()), (status, body), "{what}");
        }
        let known = server.wait_access("a user", |line| line["user"] == "ada");
        assert_eq!(
            (&known["path"], &known["status"]),
            (&"/a.txt".into(), &200.into())
        );
        let refused = server.wait_access("a wrong password", |line| {
            line["error"] == "wrong name or password"
        });
        assert_eq!(refused["user"], Value::Null);
    }
}
