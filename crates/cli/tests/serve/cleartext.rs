//! HTTP in the clear: clients are sent to https, but for the challenges of certificate authorities.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use hikyaku_testkit::fetch::curl;
use hikyaku_testkit::{PATIENCE, Server, Site, has, plain_http};
use rustix::process::Signal;

use crate::PAGE;

const CLEARTEXT: &str = "http.listen=[\"127.0.0.1:0\"]";

#[test]
fn clients_are_sent_to_https() {
    if !has("clients_are_sent_to_https", "curl") {
        return;
    }
    let site = Site::new(&[("index.html", PAGE)]);
    let server = Server::start(&[site.path(), "--set", CLEARTEXT]);
    let address = server.cleartext[0];
    for (path, method) in [("/", "GET"), ("/a?b=c", "POST"), ("/x", "HEAD")] {
        let url = format!("http://{address}{path}");
        let format = "%{http_code} %{redirect_url}";
        let mut args = vec!["-w", format, "-o", "/dev/null", &url];
        match method {
            "POST" => args.extend(["-d", "content"]),
            "HEAD" => args.push("-I"),
            _ => {}
        }
        let output = curl(&args);
        let got = String::from_utf8(output.stdout).unwrap();
        assert_eq!(
            got,
            format!("308 https://127.0.0.1:{}{path}", server.port())
        );
    }
    let followed = curl(&["-L", "-k", &format!("http://{address}/")]);
    assert_eq!(followed.stdout, PAGE);
    for (headers, want) in [("Host: a\r\nHost: b\r\n", 400), ("Host: a b\r\n", 400)] {
        let (status, _) = plain_http(address, "GET", "/", headers, "");
        assert_eq!(status, want, "{headers}");
    }
    assert_eq!(server.metric("hikyaku_cleartext_connections_total{}"), 6.0);
}

#[test]
fn a_client_that_sends_first_and_reads_then_gets_the_redirect() {
    let site = Site::new(&[("index.html", PAGE)]);
    let server = Server::start(&[site.path(), "--set", CLEARTEXT]);
    let address = server.cleartext[0];
    let content = vec![b'x'; 10_000_000];
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = content.len();
    let head = format!("POST /a HTTP/1.1\r\nHost: example.org\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&content).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 308 "), "{answer}");
    if !has(
        "a_client_that_sends_first_and_reads_then_gets_the_redirect",
        "curl",
    ) {
        return;
    }
    site.write("upload", &content);
    let upload = format!("@{}/upload", site.path());
    let url = format!("http://{address}/a");
    // Without `Expect` curl sends at once.
    let args = ["-H", "Expect:", "-w", "%{http_code}", "-o", "/dev/null"];
    let output = curl(&[&args[..], &["--data-binary", &upload, &url]].concat());
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"308");
}

#[test]
fn challenges_are_served_in_the_clear_and_nothing_else() {
    let site = Site::new(&[
        ("www/index.html", PAGE),
        ("acme/.well-known/acme-challenge/token", b"token.key"),
        ("acme/secret", b"secret"),
    ]);
    let config = Path::new(site.path()).join("edge.toml");
    let write = |more: &str| {
        let root = site.path();
        let text = format!("root = \"{root}/www\"\n[http]\nlisten = [\"127.0.0.1:0\"]\n{more}\n");
        fs::write(&config, text.replace("DIR", root)).unwrap();
    };
    write("");
    let server = Server::start(&["--config", config.to_str().unwrap()]);
    let address = server.cleartext[0];
    let get = |path: &str| plain_http(address, "GET", path, "Host: example.org\r\n", "");
    let token = "/.well-known/acme-challenge/token";
    assert_eq!(get(token).0, 308);

    write("challenges = \"DIR/acme\"\nhttps_port = 443");
    server.signal(Signal::HUP);
    server.wait_metric("hikyaku_reloads_total{}", 1.0);
    assert_eq!(get(token), (200, "token.key".to_owned()));
    for (path, want) in [
        ("/.well-known/acme-challenge/other", 404),
        ("/.well-known/acme-challenge/../../secret", 400),
        ("/secret", 308),
        ("/", 308),
    ] {
        assert_eq!(get(path).0, want, "{path}");
    }
}

#[test]
fn a_balancer_names_the_client_in_the_clear_too() {
    let site = Site::new(&[("index.html", PAGE)]);
    let behind = "behind.proxy_protocol=[\"127.0.0.0/8\"]";
    let server = Server::start(&[site.path(), "--set", CLEARTEXT, "--set", behind]);
    let request = "GET /a HTTP/1.1\r\nHost: example.org\r\n\r\n";
    let answer = |header: &str| {
        let mut stream = TcpStream::connect(server.cleartext[0]).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
            .write_all(format!("{header}{request}").as_bytes())
            .unwrap();
        let mut answer = String::new();
        // A connection that is closed before it has read all may be reset.
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    let named = answer("PROXY TCP4 192.0.2.7 192.0.2.1 4711 80\r\n");
    assert!(named.starts_with("HTTP/1.1 308 "), "{named}");
    assert_eq!(answer(""), "");
}

#[test]
fn what_cannot_be_served_in_the_clear_is_reported() {
    let site = Site::new(&[("index.html", PAGE)]);
    let challenges = "http.challenges=/nonexistent/acme";
    let error = Server::try_start(&[site.path(), "--set", challenges])
        .err()
        .unwrap();
    assert!(error.contains("serving `http.challenges`"), "{error}");
    assert!(error.contains("/nonexistent/acme"), "{error}");
}
