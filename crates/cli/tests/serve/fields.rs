//! Fields of responses that the operator changes: `Server`, variables, and requests that are not logged.

use std::path::Path;

use hikyaku_testkit::fetch::{Http, Response, curl, fetch, send};
use hikyaku_testkit::upstream::{self, Speaks};
use hikyaku_testkit::{Server, Site, has};

const SITE: &str = r#"
root = "ROOT/www"
http = { listen = "127.0.0.1:0" }
limits = { body_size = "1KiB" }
response_headers = RULE

[[route]]
path = "/api/"
upstream = "UPSTREAM"
strip_prefix = true

[[route]]
path = "/kept/"
upstream = "UPSTREAM"
strip_prefix = true
cache = { enabled = true, default_ttl = "1h" }

[[route]]
path = "/down"
upstream = "http://127.0.0.1:1"

[[route]]
path = "/office"
access = { allow = ["192.0.2.0/24"] }

[[route]]
path = "/gone"
answer = { status = 410 }

[[route]]
path = "/moved"
redirect = { to = "/" }

[[route]]
path = "/quiet/"
access_log = false

[[site]]
names = ["named.example"]
root = "ROOT/www"
"#;

fn start(site: &Site, rule: &str) -> Server {
    let upstream = format!("http://{}", upstream::start(Speaks::Http1));
    let text = SITE
        .replace("ROOT", site.path())
        .replace("UPSTREAM", &upstream)
        .replace("RULE", rule);
    site.write("edge.toml", text.as_bytes());
    let config = Path::new(site.path()).join("edge.toml");
    Server::start(&["--config", config.to_str().unwrap()])
}

fn files() -> Site {
    Site::new(&[
        ("www/small.txt", b"small"),
        ("www/large.bin", &[b'x'; 100_000]),
        ("www/quiet/a.txt", b"quiet"),
        ("www/quiet/large.bin", &[b'x'; 100_000]),
    ])
}

/// Answers of all kinds, with what each is.
fn answers(http: Http, server: &Server) -> Vec<(&'static str, Response)> {
    let get = |path| fetch(http, server, path, &[]);
    let with = |path, field| fetch(http, server, path, &[field]);
    let mut all = Vec::new();
    let cases: [(&str, u16, &dyn Fn() -> Response); 14] = [
        ("a file", 200, &|| get("/small.txt")),
        ("the file in memory", 200, &|| get("/small.txt")),
        ("a large file", 200, &|| get("/large.bin")),
        ("a head", 200, &|| {
            send(http, server, "HEAD", "/small.txt", &[], b"")
        }),
        ("nothing new", 304, &|| {
            with("/small.txt", "if-none-match: *")
        }),
        ("nothing", 404, &|| get("/none")),
        ("a bad path", 400, &|| get("/a/%2e%2e/b")),
        ("an upstream's", 200, &|| get("/api/head")),
        ("one to be stored", 200, &|| get("/kept/head")),
        ("a stored one", 200, &|| get("/kept/head")),
        ("no upstream's", 502, &|| get("/down")),
        ("a refusal", 403, &|| get("/office")),
        ("a fixed answer", 410, &|| get("/gone")),
        ("a redirect", 302, &|| get("/moved")),
    ];
    for (what, status, answer) in cases {
        let answer = answer();
        assert_eq!(answer.status, status, "{what} over {http:?}: {answer:?}");
        all.push((what, answer));
    }
    let large = send(http, server, "POST", "/small.txt", &[], &[b'x'; 2000]);
    assert_eq!(large.status, 413, "{large:?}");
    all.push(("too large a body", large));
    all
}

#[test]
fn the_server_is_named_as_the_operator_wants_in_every_answer() {
    if !has(
        "the_server_is_named_as_the_operator_wants_in_every_answer",
        "curl",
    ) {
        return;
    }
    for (rule, want) in [
        ("{}", Some("hikyaku")),
        ("{ remove = [\"Server\"] }", None),
        ("{ set = { Server = \"me\" } }", Some("me")),
    ] {
        let site = files();
        let server = start(&site, rule);
        for http in Http::ALL {
            for (what, answer) in answers(http, &server) {
                let got = answer.header("server");
                assert_eq!(got, want, "{rule} {what} over {http:?}");
            }
        }
        let url = format!("http://{}/", server.cleartext[0]);
        let head = String::from_utf8(curl(&["-I", &url]).stdout).unwrap();
        let lines = head.lines().map(str::to_ascii_lowercase);
        let named = lines.filter_map(|line| Some(line.strip_prefix("server: ")?.to_owned()));
        assert_eq!(
            named.collect::<Vec<_>>(),
            Vec::from_iter(want),
            "{rule}: {head}"
        );
    }
}

#[test]
fn hosts_without_a_site_get_the_server_of_the_whole() {
    if !has("hosts_without_a_site_get_the_server_of_the_whole", "curl") {
        return;
    }
    let site = files();
    for (rule, want) in [
        ("remove = [\"Server\"]", None),
        ("set = {}", Some("hikyaku")),
    ] {
        let text = format!(
            "[response_headers]\n{rule}\n[[site]]\nnames = [\"named.example\"]\nroot = \"{}/www\"\n",
            site.path()
        );
        site.write("edge.toml", text.as_bytes());
        let config = Path::new(site.path()).join("edge.toml");
        let server = Server::start(&["--config", config.to_str().unwrap()]);
        for http in Http::ALL {
            let answer = fetch(http, &server, "/small.txt", &[]);
            assert_eq!(answer.status, 421, "{http:?}");
            assert_eq!(answer.header("server"), want, "{http:?}");
        }
    }
}

#[test]
fn variables_stand_for_parts_of_a_request_over_every_version() {
    if !has(
        "variables_stand_for_parts_of_a_request_over_every_version",
        "curl",
    ) {
        return;
    }
    let site = files();
    let server = start(
        &site,
        r#"{ set = { X-By = "$method $scheme $path$query by $client over $protocol, $tls_version", X-Id = "$request_id" } }"#,
    );
    for (http, protocol) in [
        (Http::H1, "HTTP/1.1"),
        (Http::H2, "HTTP/2.0"),
        (Http::H3, "HTTP/3.0"),
    ] {
        let mut ids = Vec::new();
        for path in [
            "/small.txt",
            "/small.txt?a=b",
            "/none",
            "/kept/head",
            "/kept/head",
        ] {
            let answer = fetch(http, &server, path, &[]);
            let client = server.address().ip();
            let want = format!("GET https {path} by {client} over {protocol}, TLSv1.3");
            assert_eq!(answer.header("x-by"), Some(&*want), "{http:?}");
            let id = answer.header("x-id").unwrap().to_owned();
            let is_logged = |line: &serde_json::Value| line["request_id"] == *id;
            let line = server.wait_access("the request's number", is_logged);
            assert_eq!(line["path"], path, "{line}");
            ids.push(id);
        }
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 5, "{ids:?}");
    }
}

#[test]
fn the_access_log_lacks_what_it_is_to_lack() {
    if !has("the_access_log_lacks_what_it_is_to_lack", "curl") {
        return;
    }
    let site = files();
    let server = start(&site, "{}");
    for http in Http::ALL {
        for path in [
            "/quiet/a.txt",
            "/quiet/a.txt",
            "/quiet/large.bin",
            "/quiet/none",
        ] {
            fetch(http, &server, path, &[]);
        }
        let last = format!("/small.txt?{}", http.name());
        fetch(http, &server, &last, &[]);
        server.wait_access("the last request", |line| line["path"] == *last);
        let lines = server.access_lines();
        assert!(
            !lines.iter().any(|line| line.contains("/quiet/")),
            "{lines:?}"
        );
        let counted = format!(
            "hikyaku_requests_total{{version=\"{}\",status=\"2xx\"}}",
            http.name()
        );
        server.wait_metric(&counted, 4.0);
    }
}
