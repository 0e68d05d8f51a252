//! Client and upstream with raw bytes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use hikyaku_testkit::client::{self, H2, H3};
use hikyaku_testkit::fetch::{Http, Response};
use hikyaku_testkit::{PATIENCE, Server};

/// An upstream of HTTP/1.1 that gives scripted answers, and records its requests.
pub(crate) struct Upstream {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Upstream {
    /// Starts an upstream. `answer` gets the connection and each request, head and content. It
    /// returns whether the connection is read further.
    pub(crate) fn start<F>(answer: F) -> Self
    where
        F: Fn(&str, &mut TcpStream) -> bool + Send + Sync + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (answer, seen_by_all) = (Arc::new(answer), Arc::clone(&seen));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (answer, seen) = (Arc::clone(&answer), Arc::clone(&seen_by_all));
                std::thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    while let Some(request) = read_request(&mut stream) {
                        seen.lock().unwrap().push(request.clone());
                        if !answer(&request, &mut stream) {
                            return;
                        }
                    }
                });
            }
        });
        Self { address, seen }
    }

    /// Gives each request the same answer.
    pub(crate) fn answering(answer: &str) -> Self {
        let answer = answer.to_owned();
        Self::start(move |_, stream| stream.write_all(answer.as_bytes()).is_ok())
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The number of requests so far.
    pub(crate) fn requests(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// The last request, in lower case.
    pub(crate) fn last(&self) -> String {
        let seen = self.seen.lock().unwrap();
        seen.last().unwrap().to_ascii_lowercase()
    }
}

/// Reads a request's head, and its content by its framing.
fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut got = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&got).to_ascii_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.split("content-length: ").nth(1);
            let length = length.map_or(0, |text| {
                text.lines().next().unwrap().parse::<usize>().unwrap()
            });
            let is_chunked = head.contains("transfer-encoding: chunked");
            if body.len() >= length && (!is_chunked || body.ends_with("0\r\n\r\n")) {
                return Some(String::from_utf8(got).unwrap());
            }
            if head.contains("x-head-only: yes") {
                return Some(String::from_utf8_lossy(&got).into_owned());
            }
        }
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer) {
            Ok(read) if read > 0 => got.extend_from_slice(&buffer[..read]),
            _ => return None,
        }
    }
}

/// Sends these bytes over TLS. Returns the answer up to `end`, or until the server ends the
/// connection.
pub(crate) fn exchange(server: &Server, request: &[u8], end: &str) -> String {
    client::block_on(async {
        let mut tls = client::tls(server.address(), &["http/1.1"]).await.unwrap();
        tls.write_all(request).await.unwrap();
        let mut got = Vec::new();
        let read = async {
            while end.is_empty() || !String::from_utf8_lossy(&got).contains(end) {
                if !matches!(tls.read_buf(&mut got).await, Ok(1..)) {
                    break;
                }
            }
        };
        tokio::time::timeout(PATIENCE, read).await.expect("no end");
        String::from_utf8_lossy(&got).into_owned()
    })
}

/// Sends bytes over TLS in records of `size` bytes. Returns the answers until the server ends the
/// connection.
pub(crate) fn exchange_in(server: &Server, bytes: &[u8], size: usize) -> String {
    client::block_on(async {
        let tls = client::tls(server.address(), &["http/1.1"]).await.unwrap();
        let (mut reader, mut writer) = tokio::io::split(tls);
        let mut got = Vec::new();
        let write = async {
            for piece in bytes.chunks(size) {
                writer.write_all(piece).await.unwrap();
                writer.flush().await.unwrap();
            }
        };
        // The server need not say that it ends the connection.
        let read = async { drop(reader.read_to_end(&mut got).await) };
        let both = async { tokio::join!(write, read) };
        tokio::time::timeout(PATIENCE, both).await.expect("no end");
        String::from_utf8_lossy(&got).into_owned()
    })
}

/// Sends a request without content over one version, by a client that reports any content of the
/// response.
pub(crate) fn ask(http: Http, server: &Server, method: &str, path: &str) -> Response {
    let uri = format!("https://localhost:{}{path}", server.port());
    let request = http::Request::builder().method(method).uri(uri);
    let request = request.body(bytes::Bytes::new()).unwrap();
    match http {
        Http::H1 => {
            let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
            let request = format!("{head}connection: close\r\n\r\n");
            parse(&exchange(server, request.as_bytes(), ""))
        }
        Http::H2 => client::block_on(async {
            let mut h2 = H2::connect(server.address()).await.unwrap();
            h2.send(request, None).await.unwrap()
        }),
        Http::H3 => client::block_on(async {
            let h3 = H3::connect(server.address()).await.unwrap();
            let response = h3.send(request).await.unwrap();
            h3.close().await;
            response
        }),
    }
}

/// A response of HTTP/1.1 whose connection has ended; chunks are left as they are.
fn parse(text: &str) -> Response {
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap();
    let headers = lines.map(|line| {
        let (name, value) = line.split_once(": ").unwrap();
        let name: http::HeaderName = name.parse().unwrap();
        (name, value.parse().unwrap())
    });
    Response {
        status: status.parse().unwrap(),
        headers: headers.collect(),
        body: body.into(),
        trailers: http::HeaderMap::new(),
    }
}
