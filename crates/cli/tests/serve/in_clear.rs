//! The content of sites over HTTP in the clear.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use hikyaku_testkit::fetch::{Http, curl, fetch};
use hikyaku_testkit::upstream::{self, Speaks};
use hikyaku_testkit::{PATIENCE, Server, Site, eventually, has, hikyaku, plain_http, this_test};

use crate::PAGE;

const CLEARTEXT: &str = "http.listen=[\"127.0.0.1:0\"]";
const CONTENT: &str = "http.serve=content";

/// Starts a server of a configuration that follows `[http]`.
fn start(site: &Site, http: &str, rest: &str) -> Server {
    let text = format!("{rest}\n[http]\nlisten = [\"127.0.0.1:0\"]\n{http}\n");
    // Tables of `rest` may be open, and `[http]` closes them.
    site.write("edge.toml", text.replace("DIR", site.path()).as_bytes());
    Server::start(&["--config", &format!("{}/edge.toml", site.path())])
}

/// Reads a response with a `Content-Length`: its head, in lower case, and its content.
fn response(stream: &mut impl BufRead) -> (String, String) {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(stream.read_line(&mut head).unwrap(), 0, "{head}");
    }
    let head = head.to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1).unwrap();
    let length: usize = length.lines().next().unwrap().parse().unwrap();
    let mut content = vec![0; length];
    stream.read_exact(&mut content).unwrap();
    (head, String::from_utf8(content).unwrap())
}

fn get(address: SocketAddr, host: &str, path: &str, fields: &str) -> (u16, String) {
    let fields = format!("Host: {host}\r\n{fields}");
    plain_http(address, "GET", path, &fields, "")
}

#[test]
fn requests_share_a_connection() {
    let site = Site::new(&[("index.html", PAGE), ("a.txt", b"small")]);
    let server = Server::start(&[site.path(), "--set", CLEARTEXT, "--set", CONTENT]);
    let mut stream = TcpStream::connect(server.cleartext[0]).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let page = String::from_utf8(PAGE.to_vec()).unwrap();
    // In one packet, the second of a kind that only the general way answers.
    let first = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
    let second = "GET /a.txt HTTP/1.1\r\nHost: a.example\r\nRange: bytes=1-2\r\n\r\n";
    stream
        .write_all(format!("{first}{second}{first}").as_bytes())
        .unwrap();
    let (head, content) = response(&mut reader);
    assert!(head.starts_with("http/1.1 200 "), "{head}");
    assert_eq!(content, page);
    let (head, content) = response(&mut reader);
    assert!(head.starts_with("http/1.1 206 "), "{head}");
    assert_eq!(content, "ma");
    assert_eq!(response(&mut reader).1, page);
    // After a pause.
    let last = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
    stream.write_all(last.as_bytes()).unwrap();
    assert_eq!(response(&mut reader).1, page);
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);

    assert_eq!(server.metric("hikyaku_cleartext_connections_total{}"), 1.0);
    let line = server.wait_access("a part", |line| line["status"] == 206);
    assert_eq!(line["version"], "h1", "{line}");
    assert_eq!(line["host"], "a.example", "{line}");
}

#[test]
fn http2_begins_with_prior_knowledge() {
    if !has(&this_test(), "curl") {
        return;
    }
    let site = Site::new(&[("index.html", PAGE)]);
    let get = |server: &Server| {
        let url = format!("http://{}/", server.cleartext[0]);
        let version = ["--http2-prior-knowledge", "-w", "%{http_version}"];
        curl(&[&version[..], &[&url]].concat())
    };
    let server = Server::start(&[site.path(), "--set", CLEARTEXT, "--set", CONTENT]);
    assert_eq!(get(&server).stdout, [PAGE, b"2"].concat());
    let line = server.wait_access("HTTP/2", |line| line["version"] == "h2");
    assert_eq!(line["complete"], true, "{line}");
    let pinned = [site.path(), "--set", CLEARTEXT, "--set", CONTENT];
    let server = Server::start(&[&pinned[..], &["--set", "policy.version=h1"]].concat());
    assert!(!get(&server).status.success());
}

#[test]
fn a_large_file_comes_whole_and_its_client_is_learnt() {
    if !has(&this_test(), "curl") {
        return;
    }
    let site = Site::with_big_file(3_000_000);
    let server = Server::start(&[site.path(), "--set", CLEARTEXT, "--set", CONTENT]);
    let url = format!("http://{}/big.bin", server.cleartext[0]);
    let want = std::fs::read(format!("{}/big.bin", site.path())).unwrap();
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        assert!(curl(&[version, &url]).stdout == want, "{version}");
    }
    eventually("an estimate of the client", || {
        let explained = server.admin_json("/v1/clients/127.0.0.1");
        (explained["levels"] != serde_json::json!([])).then_some(())
    });
}

#[test]
fn each_site_says_what_it_does_in_the_clear() {
    let site = Site::new(&[("www/index.html", PAGE)]);
    let sites = r#"
[[site]]
names = ["content.example", "*.apps.example"]
root = "DIR/www"
http = "content"
[[site]]
names = ["redirect.example"]
root = "DIR/www"
http = "redirect"
[[site]]
names = ["usual.example"]
root = "DIR/www"
"#;
    // http.serve, and the statuses of the hosts below
    let cases = [
        ("redirect", [200, 200, 308, 308, 308]),
        ("content", [200, 200, 308, 200, 421]),
    ];
    for (serve, want) in cases {
        let server = start(&site, &format!("serve = \"{serve}\""), sites);
        let hosts = [
            "content.example",
            "a.apps.example:80",
            "redirect.example",
            "usual.example",
            "unknown.example",
        ];
        let got = hosts.map(|host| get(server.cleartext[0], host, "/", "").0);
        assert_eq!(got, want, "{serve}");
    }
}

#[test]
fn challenges_go_before_content_and_redirects() {
    let site = Site::new(&[
        ("www/index.html", PAGE),
        ("acme/.well-known/acme-challenge/token", b"token.key"),
    ]);
    let sites = r#"
[[site]]
names = ["content.example"]
root = "DIR/www"
[[site]]
names = ["redirect.example"]
root = "DIR/www"
http = "redirect"
"#;
    let http = format!("serve = \"content\"\nchallenges = \"{}/acme\"", site.path());
    let server = start(&site, &http, sites);
    for host in ["content.example", "redirect.example", "unknown.example"] {
        let path = "/.well-known/acme-challenge/token";
        let got = get(server.cleartext[0], host, path, "");
        assert_eq!(got, (200, "token.key".to_owned()), "{host}");
    }
}

#[test]
fn what_is_for_https_alone_is_not_sent_in_the_clear() {
    if !has(&this_test(), "curl") {
        return;
    }
    let site = Site::new(&[("index.html", PAGE)]);
    let hsts = "response_headers.set.Strict-Transport-Security=max-age=1000";
    let args = [site.path(), "--set", CLEARTEXT, "--set", CONTENT];
    let server = Server::start(&[&args[..], &["--set", hsts]].concat());
    let secured = fetch(Http::H1, &server, "/", &[]);
    let names = ["strict-transport-security", "alt-svc"];
    assert!(names.iter().all(|name| secured.header(name).is_some()));
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let url = format!("http://{}/", server.cleartext[0]);
        let head = String::from_utf8(curl(&[version, "-i", &url]).stdout).unwrap();
        let head = head.to_ascii_lowercase();
        assert!(head.contains(" 200"), "{head}");
        assert!(!names.iter().any(|name| head.contains(name)), "{head}");
    }
    let address = server.cleartext[0];
    let (status, reason) = plain_http(
        address,
        "GET",
        "https://a.example/",
        "Host: a.example\r\n",
        "",
    );
    assert_eq!(status, 421, "{reason}");
}

#[test]
fn an_upstream_sees_the_scheme() {
    let upstream = format!("http://{}", upstream::start(Speaks::Http1));
    let args = [
        "--upstream",
        &upstream,
        "--set",
        CLEARTEXT,
        "--set",
        CONTENT,
    ];
    let server = Server::start(&args);
    let spoofed = "X-Forwarded-Proto: https\r\n";
    let (_, head) = get(server.cleartext[0], "a.example", "/head", spoofed);
    for line in [
        "x-forwarded-proto: http\n",
        "x-forwarded-port: 80\n",
        "forwarded: for=127.0.0.1;host=a.example;proto=http\n",
    ] {
        assert!(head.contains(line), "{line}{head}");
    }
}

/// A proxy that ends TLS: its clients came over https, whatever its own connection is.
#[test]
fn a_trusted_proxy_names_the_scheme() {
    let upstream = format!("http://{}", upstream::start(Speaks::Http1));
    let site = Site::new(&[]);
    let config = format!(
        r#"
behind.trusted = "127.0.0.0/8"
[[site]]
names = ["a.example"]
upstream = "{upstream}"
http = "content"
response_headers = {{ set = {{ Strict-Transport-Security = "max-age=1000" }} }}
[[site]]
names = ["redirect.example"]
upstream = "{upstream}"
"#
    );
    let server = start(&site, "", &config);
    let address = server.cleartext[0];
    let named = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\n";
    let (status, head) = get(address, "redirect.example", "/head", named);
    assert_eq!(status, 200, "no endless redirect");
    assert!(head.contains("x-forwarded-proto: https\n"), "{head}");
    let element = "host=redirect.example;proto=http\n";
    assert!(head.contains(element), "the proxy's own connection: {head}");
    let unnamed = "X-Forwarded-For: 192.0.2.1\r\n";
    assert_eq!(get(address, "redirect.example", "/head", unnamed).0, 308);

    for (fields, want) in [(named, true), (unnamed, false)] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request =
            format!("GET /head HTTP/1.1\r\nHost: a.example\r\n{fields}Connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, _) = answer.split_once("\r\n\r\n").unwrap();
        for name in ["strict-transport-security", "alt-svc"] {
            assert_eq!(head.contains(name), want, "{name}: {head}");
        }
    }
}

#[test]
fn a_balancer_names_the_client() {
    let site = Site::new(&[("index.html", PAGE)]);
    let behind = "behind.proxy_protocol=[\"127.0.0.0/8\"]";
    let args = [site.path(), "--set", CLEARTEXT, "--set", CONTENT];
    let server = Server::start(&[&args[..], &["--set", behind]].concat());
    let mut stream = TcpStream::connect(server.cleartext[0]).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let header = "PROXY TCP4 192.0.2.7 192.0.2.1 4711 80\r\n";
    let request = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
    stream
        .write_all(format!("{header}{request}").as_bytes())
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let line = server.wait_access("the client", |line| line["client"] == "192.0.2.7");
    assert_eq!(line["via"], "127.0.0.1", "{line}");
}

/// As behind a balancer that ends TLS.
#[test]
fn a_server_needs_no_tls() {
    let site = Site::new(&[("index.html", PAGE)]);
    let args = [site.path(), "--set", "listen=[]"];
    let error = Server::try_start(&args).err().unwrap();
    assert!(error.contains("`listen` is empty"), "{error}");
    let args = [&args[..], &["--set", CLEARTEXT, "--set", CONTENT]].concat();
    let server = Server::start(&args);
    assert!(server.addresses.is_empty(), "{}", server.log());
    let page = String::from_utf8(PAGE.to_vec()).unwrap();
    assert_eq!(get(server.cleartext[0], "a", "/", ""), (200, page));
    let status = server.admin_json("/v1/status");
    assert_eq!(status["listen"], serde_json::json!([]), "{status}");
    let own = server.cleartext[0].to_string();
    assert_eq!(status["cleartext"], serde_json::json!([own]), "{status}");
    let checked = hikyaku(&[&["check"], &args[..]].concat());
    let text = String::from_utf8(checked.stderr).unwrap();
    assert!(checked.status.success(), "{text}");
    assert!(text.contains("on 127.0.0.1:0 in the clear"), "{text}");
}
