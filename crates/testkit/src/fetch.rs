//! Fetching by curl for HTTP/1.1 and HTTP/2, and by hikyaku's client for HTTP/3.

use std::fs;
use std::process::{Command, Output};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request};

use super::client::{self, H3};
use super::{PATIENCE, Server};

/// An HTTP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http {
    H1,
    H2,
    H3,
}

impl Http {
    pub const ALL: [Self; 3] = [Self::H1, Self::H2, Self::H3];

    /// The name in the access log.
    pub fn name(self) -> &'static str {
        match self {
            Self::H1 => "h1",
            Self::H2 => "h2",
            Self::H3 => "h3",
        }
    }

    /// The value of `hikyaku get --http`.
    pub fn option(self) -> &'static str {
        match self {
            Self::H1 => "1.1",
            Self::H2 => "2",
            Self::H3 => "3",
        }
    }
}

/// A response.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    pub trailers: HeaderMap,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// Runs curl without any configuration or proxy of the user.
pub fn curl(args: &[&str]) -> Output {
    Command::new("curl")
        .args(["-q", "-sS", "-k", "--noproxy", "*", "--max-time", "120"])
        .args(args)
        .output()
        .unwrap()
}

/// Makes one exchange over `http`, on its own connection. `headers` are lines of `name: value`.
#[track_caller]
pub fn fetch(http: Http, server: &Server, path: &str, headers: &[&str]) -> Response {
    send(http, server, "GET", path, headers, b"")
}

/// Makes one exchange with a method and a body, otherwise like [`fetch`].
#[track_caller]
pub fn send(
    http: Http,
    server: &Server,
    method: &str,
    path: &str,
    headers: &[&str],
    body: &[u8],
) -> Response {
    let version = match http {
        Http::H1 => "--http1.1",
        Http::H2 => "--http2",
        Http::H3 => return send_h3(server, method, path, headers, body),
    };
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (head, got, sent) = (file("head"), file("got"), file("sent"));
    let url = server.url(path);
    let data = format!("@{sent}");
    let mut args = vec![version, "--path-as-is", "-D", &head, "-o", &got];
    match method {
        "HEAD" => args.push("-I"),
        _ => args.extend(["-X", method]),
    }
    for header in headers {
        args.extend(["-H", header]);
    }
    if !body.is_empty() {
        fs::write(&sent, body).unwrap();
        args.extend([
            "-H",
            "content-type:",
            "-H",
            "expect:",
            "--data-binary",
            &data,
        ]);
    }
    args.push(&url);
    let output = curl(&args);
    assert!(
        output.status.success(),
        "{http:?} {path}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let body = match method {
        "HEAD" => Vec::new(),
        _ => fs::read(&got).unwrap_or_default(),
    };
    parse(&fs::read_to_string(&head).unwrap(), body)
}

/// Parses curl's `-D`: head sections, and trailers after the last.
fn parse(dump: &str, body: Vec<u8>) -> Response {
    let start = dump.rfind("\r\n\r\nHTTP/").map_or(0, |end| end + 4);
    let (head, trailers) = dump[start..].split_once("\r\n\r\n").unwrap();
    let (status, headers) = head.split_once("\r\n").unwrap_or((head, ""));
    Response {
        status: status.split_whitespace().nth(1).unwrap().parse().unwrap(),
        headers: header_map(headers.lines()),
        body,
        trailers: header_map(trailers.lines().filter(|line| !line.is_empty())),
    }
}

fn header_map<'a>(lines: impl Iterator<Item = &'a str>) -> HeaderMap {
    let mut map = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(':').unwrap();
        let name = HeaderName::from_bytes(name.trim().as_bytes()).unwrap();
        map.append(name, HeaderValue::from_str(value.trim()).unwrap());
    }
    map
}

fn send_h3(server: &Server, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Response {
    let uri = format!("https://localhost:{}{path}", server.port());
    let mut request = Request::builder().method(method).uri(uri);
    for header in headers {
        let (name, value) = header.split_once(':').unwrap();
        request = request.header(name, value.trim());
    }
    if !body.is_empty() {
        request = request.header("content-length", body.len());
    }
    let request = request.body(Bytes::copy_from_slice(body)).unwrap();
    let address = server.address();
    client::block_on(async {
        let exchange = async {
            let h3 = H3::connect(address).await.unwrap();
            let response = h3.send(request).await.unwrap();
            h3.close().await;
            response
        };
        tokio::time::timeout(PATIENCE * 2, exchange).await.unwrap()
    })
}
