//! Requests on their way to the server, and to an upstream.

use std::io::Write;
use std::process::{Command, Stdio};

use bytes::Bytes;
use http::Request;

use crate::raw::{Upstream, ask, exchange, exchange_in};
use hikyaku_testkit::client::{self, H2, H3};
use hikyaku_testkit::fetch::{Http, fetch};
use hikyaku_testkit::{Server, Site, has};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Sends a request whose content has no announced length: chunked over HTTP/1.1.
fn stream(http: Http, server: &Server, method: &str, content: &'static str) -> u16 {
    let uri = format!("https://localhost:{}/", server.port());
    let request = Request::builder().method(method).uri(uri);
    match http {
        Http::H1 => {
            let size = content.len();
            let head = format!("{method} / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n");
            let body =
                format!("transfer-encoding: chunked\r\n\r\n{size:x}\r\n{content}\r\n0\r\n\r\n");
            let answer = exchange(server, (head + &body).as_bytes(), "");
            answer.split(' ').nth(1).unwrap().parse().unwrap()
        }
        Http::H2 => client::block_on(async {
            let request = request.body(Bytes::from(content)).unwrap();
            let mut h2 = H2::connect(server.address()).await.unwrap();
            h2.send(request, None).await.unwrap().status
        }),
        Http::H3 => client::block_on(async {
            let request = request.body(Bytes::from(content)).unwrap();
            let h3 = H3::connect(server.address()).await.unwrap();
            let status = h3.send(request).await.unwrap().status;
            h3.close().await;
            status
        }),
    }
}

#[test]
fn content_is_passed_on_with_every_method_and_none_is_made_up() {
    let upstream = Upstream::answering(OK);
    let server = Server::start(&["--upstream", &upstream.url()]);
    for http in Http::ALL {
        for method in [
            "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY",
        ] {
            let name = format!("{method} over {http:?}");
            assert_eq!(stream(http, &server, method, "content"), 200, "{name}");
            let seen = upstream.last();
            assert!(seen.starts_with(&format!("{} / ", method.to_ascii_lowercase())));
            assert!(
                seen.contains("\r\n7\r\ncontent\r\n0\r\n\r\n"),
                "{name}: {seen}"
            );
            assert!(!seen.contains("content-length"), "{name}: {seen}");

            assert_eq!(ask(http, &server, method, "/").status, 200, "{name}");
            let seen = upstream.last();
            assert!(!seen.contains("transfer-encoding"), "{name}: {seen}");
            let wants_content = matches!(method, "POST" | "PUT" | "PATCH");
            let zero = seen.contains("content-length: 0\r\n");
            assert_eq!(zero, wants_content, "{name} without content: {seen}");
        }
    }
}

/// curl sends its standard input as it arrives.
#[test]
fn curl_streams_content_with_get_and_delete() {
    if !has("curl_streams_content_with_get_and_delete", "curl") {
        return;
    }
    let upstream = Upstream::answering(OK);
    let server = Server::start(&["--upstream", &upstream.url()]);
    for version in ["--http1.1", "--http2"] {
        for method in ["GET", "DELETE"] {
            let url = server.url("/");
            let mut curl = Command::new("curl")
                .args(["-q", "-sS", "-k", "--noproxy", "*", version, "-X", method])
                .args(["-H", "expect:", "-T", "-", &url])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            curl.stdin.take().unwrap().write_all(b"content").unwrap();
            let output = curl.wait_with_output().unwrap();
            assert_eq!(output.stdout, b"ok", "{version} {method}");
            let seen = upstream.last();
            assert!(
                seen.contains("\r\n7\r\ncontent\r\n"),
                "{version} {method}: {seen}"
            );
        }
    }
}

#[test]
fn many_fields_are_taken_and_too_large_ones_refused_alike() {
    if !has(
        "many_fields_are_taken_and_too_large_ones_refused_alike",
        "curl",
    ) {
        return;
    }
    let site = Site::new(&[("index.html", b"start")]);
    let server = Server::start(&[site.path()]);
    let fields = |count: usize, length: usize| -> Vec<String> {
        let value = "v".repeat(length);
        (0..count)
            .map(|number| format!("x-{number:05}: {value}"))
            .collect()
    };
    let cases = [
        ("many fields", fields(1000, 1), 200),
        ("a long one", fields(1, 60_000), 200),
        ("too many fields", fields(1800, 1), 431),
        ("more than are counted", fields(2100, 1), 431),
        ("long ones", fields(900, 50), 431),
    ];
    for (name, fields, status) in cases {
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        // The HTTP/3 client cannot read the answer before it has sent the head.
        for http in [Http::H1, Http::H2] {
            let got = fetch(http, &server, "/", &fields);
            assert_eq!(got.status, status, "{name} over {http:?}");
        }
        if status == 200 {
            assert_eq!(fetch(Http::H3, &server, "/", &fields).status, 200, "{name}");
        }
    }
}

/// Statuses and contents of the answers to pipelined requests, of which each announces its length.
fn answers<'a>(requests: &[&str], mut text: &'a str) -> Vec<(u16, &'a str)> {
    let mut answers = Vec::new();
    while let Some((head, rest)) = text.split_once("\r\n\r\n") {
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = head.split("content-length: ").nth(1).unwrap();
        let length = length.lines().next().unwrap().parse().unwrap();
        let is_head = requests
            .get(answers.len())
            .is_some_and(|it| it.starts_with("HEAD"));
        let (content, rest) = rest.split_at(if is_head { 0 } else { length });
        answers.push((status, content));
        text = rest;
    }
    answers
}

/// Small files are answered in another place than all else.
#[test]
fn pipelined_requests_are_answered_in_order_whoever_answers() {
    let large = "L".repeat(3 << 20);
    let site = Site::new(&[("index.html", b"start"), ("large", large.as_bytes())]);
    let server = Server::start(&[site.path()]);
    let request = |line: &str, fields: &str| format!("{line} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    let many: String = (0..1000).map(|n| format!("x-{n}: y\r\n")).collect();
    let cases = [
        (request("GET /", ""), 200, "start"),
        (request("GET /", ""), 200, "start"),
        (request("HEAD /", ""), 200, ""),
        (request("GET /large", ""), 200, large.as_str()),
        (request("GET /", ""), 200, "start"),
        (request("GET /", "Range: bytes=1-2\r\n"), 206, "ta"),
        (request("GET /", "X-Y: z\r\n"), 200, "start"),
        (
            request("GET /", "Content-Length: 3\r\n") + "GET",
            200,
            "start",
        ),
        (request("GET /", &many), 200, "start"),
        (request("GET /", "Connection: close\r\n"), 200, "start"),
    ];
    let requests = cases.each_ref().map(|(request, ..)| request.as_str());
    let wanted = cases
        .each_ref()
        .map(|&(_, status, content)| (status, content));
    let bytes = requests.concat();
    // Each piece ends within a request, and so do some answers.
    for size in [bytes.len(), 500, 7] {
        let got = exchange_in(&server, bytes.as_bytes(), size);
        let got = answers(&requests, &got);
        assert!(got == wanted, "{size} bytes each: {got:.100?}");
    }
}

/// The answer to bytes over TLS: the status, or none if the connection just ends.
#[test]
fn malformed_requests_of_http_1_1_are_refused() {
    const HEAD: &str = "Host: a\r\n";
    let site = Site::new(&[("index.html", b"start")]);
    let server = Server::start(&[site.path()]);
    let body = "0\r\n\r\n";
    let cases: &[(&str, String, &str)] = &[
        ("plain", format!("GET / HTTP/1.1\r\n{HEAD}\r\n"), "200"),
        ("no host", "GET / HTTP/1.1\r\n\r\n".to_owned(), "400"),
        (
            "no host, HTTP/1.0",
            "GET / HTTP/1.0\r\n\r\n".to_owned(),
            "200",
        ),
        (
            "two hosts",
            format!("GET / HTTP/1.1\r\n{HEAD}{HEAD}\r\n"),
            "400",
        ),
        (
            "empty host",
            "GET / HTTP/1.1\r\nHost:\r\n\r\n".to_owned(),
            "200",
        ),
        (
            "a port",
            "GET / HTTP/1.1\r\nHost: a:8443\r\n\r\n".to_owned(),
            "200",
        ),
        (
            "an address",
            "GET / HTTP/1.1\r\nHost: [::1]:1\r\n\r\n".to_owned(),
            "200",
        ),
        (
            "a space in the host",
            "GET / HTTP/1.1\r\nHost: a b\r\n\r\n".to_owned(),
            "400",
        ),
        (
            "a list of hosts",
            "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n".to_owned(),
            "400",
        ),
        (
            "user information",
            "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n".to_owned(),
            "400",
        ),
        (
            "no number as port",
            "GET / HTTP/1.1\r\nHost: a:b\r\n\r\n".to_owned(),
            "400",
        ),
        (
            "a large port",
            "GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n".to_owned(),
            "400",
        ),
        (
            "a path in the host",
            "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n".to_owned(),
            "400",
        ),
        (
            "absolute-form",
            format!("GET https://a/ HTTP/1.1\r\n{HEAD}\r\n"),
            "200",
        ),
        (
            "another scheme",
            format!("GET ftp://a/ HTTP/1.1\r\n{HEAD}\r\n"),
            "400",
        ),
        (
            "user in the target",
            format!("GET https://u@a/ HTTP/1.1\r\n{HEAD}\r\n"),
            "400",
        ),
        (
            "authority-form",
            format!("GET a:443 HTTP/1.1\r\n{HEAD}\r\n"),
            "400",
        ),
        ("GET *", format!("GET * HTTP/1.1\r\n{HEAD}\r\n"), "400"),
        (
            "OPTIONS *",
            format!("OPTIONS * HTTP/1.1\r\n{HEAD}\r\n"),
            "204",
        ),
        (
            "CONNECT",
            format!("CONNECT a:443 HTTP/1.1\r\n{HEAD}\r\n"),
            "405",
        ),
        ("no path", format!("GET HTTP/1.1\r\n{HEAD}\r\n"), "400"),
        (
            "a space in the path",
            format!("GET /a b HTTP/1.1\r\n{HEAD}\r\n"),
            "400",
        ),
        (
            "two spaces",
            format!("GET  / HTTP/1.1\r\n{HEAD}\r\n"),
            "400",
        ),
        ("no version", format!("GET /\r\n{HEAD}\r\n"), "400"),
        ("HTTP/2.0", format!("GET / HTTP/2.0\r\n{HEAD}\r\n"), "400"),
        (
            "lower-case version",
            format!("GET / http/1.1\r\n{HEAD}\r\n"),
            "400",
        ),
        (
            "a method of no token",
            format!("G@T / HTTP/1.1\r\n{HEAD}\r\n"),
            "400",
        ),
        (
            "a folded field",
            format!("GET / HTTP/1.1\r\n{HEAD}x: a\r\n b\r\n\r\n"),
            "400",
        ),
        (
            "space before the colon",
            format!("GET / HTTP/1.1\r\n{HEAD}x : a\r\n\r\n"),
            "400",
        ),
        (
            "space before a field",
            format!("GET / HTTP/1.1\r\n x: a\r\n{HEAD}\r\n"),
            "400",
        ),
        (
            "no name",
            format!("GET / HTTP/1.1\r\n{HEAD}: a\r\n\r\n"),
            "400",
        ),
        (
            "no colon",
            format!("GET / HTTP/1.1\r\n{HEAD}x\r\n\r\n"),
            "400",
        ),
        (
            "CR in a value",
            format!("GET / HTTP/1.1\r\n{HEAD}x: a\rb\r\n\r\n"),
            "400",
        ),
        (
            "NUL in a value",
            format!("GET / HTTP/1.1\r\n{HEAD}x: a\0b\r\n\r\n"),
            "400",
        ),
        (
            "a name of no token",
            format!("GET / HTTP/1.1\r\n{HEAD}x(: a\r\n\r\n"),
            "400",
        ),
        (
            "lengths that differ",
            format!("GET / HTTP/1.1\r\n{HEAD}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
            "400",
        ),
        (
            "a list of lengths",
            format!("GET / HTTP/1.1\r\n{HEAD}Content-Length: 1, 1\r\n\r\na"),
            "400",
        ),
        (
            "a signed length",
            format!("GET / HTTP/1.1\r\n{HEAD}Content-Length: +1\r\n\r\na"),
            "400",
        ),
        (
            "no length",
            format!("GET / HTTP/1.1\r\n{HEAD}Content-Length: a\r\n\r\n"),
            "400",
        ),
        (
            "equal lengths",
            format!("GET / HTTP/1.1\r\n{HEAD}Content-Length: 1\r\nContent-Length: 1\r\n\r\na"),
            "200",
        ),
        (
            "chunked",
            format!(
                "GET / HTTP/1.1\r\n{HEAD}Transfer-Encoding: Chunked\r\n\r\n1;ext=\"Q\"\r\na\r\n{body}"
            ),
            "200",
        ),
        (
            "another coding before",
            format!("GET / HTTP/1.1\r\n{HEAD}Transfer-Encoding: gzip, chunked\r\n\r\n{body}"),
            "501",
        ),
        (
            "another coding in a field before",
            format!(
                "GET / HTTP/1.1\r\n{HEAD}Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n{body}"
            ),
            "501",
        ),
        (
            "chunked twice",
            format!("GET / HTTP/1.1\r\n{HEAD}Transfer-Encoding: chunked, chunked\r\n\r\n{body}"),
            "400",
        ),
        (
            "chunked not last",
            format!("GET / HTTP/1.1\r\n{HEAD}Transfer-Encoding: chunked, gzip\r\n\r\n{body}"),
            "400",
        ),
        (
            "identity",
            format!("GET / HTTP/1.1\r\n{HEAD}Transfer-Encoding: identity\r\n\r\n"),
            "400",
        ),
        (
            "chunked, HTTP/1.0",
            format!("GET / HTTP/1.0\r\n{HEAD}Transfer-Encoding: chunked\r\n\r\n{body}"),
            "400",
        ),
    ];
    for (name, request, want) in cases {
        let answer = exchange(&server, request.as_bytes(), "\r\n\r\n");
        let status = answer.split(' ').nth(1).unwrap_or_default();
        assert_eq!(status, *want, "{name}: {answer}");
    }
}

/// RFC 9112 §6.1: such a message is taken by its coding, and the connection is closed.
#[test]
fn nothing_follows_a_request_whose_framing_is_in_doubt() {
    let site = Site::new(&[("index.html", b"start")]);
    let server = Server::start(&[site.path()]);
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    let cases = [
        (
            "both",
            "Content-Length: 5\r\nTransfer-Encoding: chunked",
            "200",
        ),
        (
            "both, turned",
            "Transfer-Encoding: chunked\r\nContent-Length: 5",
            "200",
        ),
        ("two codings", "Transfer-Encoding: gzip, chunked", "501"),
        ("a bad host", "Host: b", "400"),
    ];
    for (name, fields, want) in cases {
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
        let request = format!("{head}0\r\n\r\n{smuggled}");
        let answer = exchange(&server, request.as_bytes(), "");
        assert_eq!(answer.split(' ').nth(1), Some(want), "{name}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{name}: {answer}");
        assert!(answer.contains("connection: close\r\n"), "{name}: {answer}");
    }
}

#[test]
fn malformed_requests_of_http_2_are_refused() {
    let site = Site::new(&[("index.html", b"start")]);
    let server = Server::start(&[site.path()]);
    let cases: &[(&str, &str, &str, &[(&str, &str)], &str)] = &[
        ("plain", "GET", "https://a/", &[], "200"),
        (
            "the same host",
            "GET",
            "https://a/",
            &[("host", "A")],
            "200",
        ),
        (
            "another host",
            "GET",
            "https://a/",
            &[("host", "b")],
            "PROTOCOL_ERROR",
        ),
        (
            "user information",
            "GET",
            "https://u@a/",
            &[],
            "PROTOCOL_ERROR",
        ),
        (
            "space before a value",
            "GET",
            "https://a/",
            &[("x", " a")],
            "PROTOCOL_ERROR",
        ),
        (
            "space after a value",
            "GET",
            "https://a/",
            &[("x", "a ")],
            "PROTOCOL_ERROR",
        ),
        (
            "a tab after a value",
            "GET",
            "https://a/",
            &[("x", "a\t")],
            "PROTOCOL_ERROR",
        ),
        (
            "space within a value",
            "GET",
            "https://a/",
            &[("x", "a b")],
            "200",
        ),
    ];
    client::block_on(async {
        let mut h2 = H2::connect(server.address()).await.unwrap();
        for (name, method, uri, fields, want) in cases {
            let mut request = Request::builder().method(*method).uri(*uri);
            for (field, value) in *fields {
                request = request.header(*field, *value);
            }
            let request = request.body(Bytes::new()).unwrap();
            // RFC 9113 §8.1.1: malformed ones are stream errors of type PROTOCOL_ERROR.
            let got = match h2.send(request, None).await {
                Ok(response) => response.status.to_string(),
                Err(error) => error
                    .reason()
                    .map(|it| format!("{it:?}"))
                    .unwrap_or_default(),
            };
            assert_eq!(got, *want, "{name}");
        }
    });
}
