//! Compression on the fly, which every version answers alike.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use bytes::Bytes;
use hikyaku_h3_quic::Receiving;
use hikyaku_testkit::client::{self, H2, H3};
use hikyaku_testkit::fetch::{Http, curl, fetch, send};
use hikyaku_testkit::{PATIENCE, Server, Site, has};
use http::{Request, response};
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

const ON: [&str; 2] = ["--set", "compression.encodings=['zstd', 'br', 'gzip']"];

fn page() -> String {
    let lines = (0..2000).map(|line| format!("<li>line {line}</li>\n"));
    lines.collect()
}

/// A server of one page, which is kept under its codings, and of a file above that.
fn server() -> (Site, Server) {
    let large = page().repeat(50);
    let site = Site::new(&[
        ("index.html", page().as_bytes()),
        ("large.txt", large.as_bytes()),
    ]);
    let server = Server::start(&[&[site.path()][..], &ON].concat());
    (site, server)
}

#[test]
fn every_version_sends_the_same_coded_files() {
    if !has("every_version_sends_the_same_coded_files", "curl") {
        return;
    }
    let (_site, server) = server();
    for coding in ["zstd", "br", "gzip"] {
        let accepts = format!("accept-encoding: {coding}");
        let mut first = None;
        for http in Http::ALL {
            // It is in memory from the second request on.
            for _ in 0..2 {
                let got = fetch(http, &server, "/", &[&accepts]);
                let what = format!("{coding} over {http:?}");
                assert_eq!(got.status, 200, "{what}");
                assert_eq!(got.header("content-encoding"), Some(coding), "{what}");
                assert_eq!(got.header("vary"), Some("accept-encoding"), "{what}");
                let length = got.body.len().to_string();
                assert_eq!(got.header("content-length"), Some(&*length), "{what}");
                assert!(got.body.len() < page().len() / 3, "{what}");
                let before = first.get_or_insert_with(|| got.body.clone());
                assert!(*before == got.body, "{what}");
                let head = send(http, &server, "HEAD", "/", &[&accepts], b"");
                assert_eq!(head.header("content-length"), Some(&*length), "{what}");
            }
            let got = fetch(http, &server, "/large.txt", &[&accepts]);
            assert_eq!(got.header("content-encoding"), Some(coding), "{http:?}");
            assert_eq!(got.header("content-length"), None, "{http:?}");
        }
    }
    // In pages: the large file has 50 for each version. The kept one counts anew each time that it is read
    // again, since its time stamp is too young to show a change.
    let streamed = 50 * Http::ALL.len();
    for coding in ["zstd", "br", "gzip"] {
        let metric = format!("hikyaku_compression_content_bytes_total{{coding=\"{coding}\"}}");
        let pages = server.metric(&metric) / page().len() as f64;
        let kept = pages - streamed as f64;
        assert!((1.0..=4.0).contains(&kept), "{coding}: {kept}");
    }
}

#[test]
fn other_clients_decode_what_they_get() {
    if !has("other_clients_decode_what_they_get", "curl") {
        return;
    }
    let (_site, server) = server();
    for (path, want) in [("/", page()), ("/large.txt", page().repeat(50))] {
        for version in ["--http1.1", "--http2"] {
            for coding in ["br", "gzip", "zstd"] {
                let accepts = format!("accept-encoding: {coding}");
                let url = server.url(path);
                let got = curl(&[version, "--compressed", "-H", &accepts, &url]);
                let error = String::from_utf8_lossy(&got.stderr);
                if error.contains("nrecognized content encoding") {
                    continue;
                }
                assert!(got.status.success(), "{path} {coding}: {error}");
                assert!(got.stdout == want.as_bytes(), "{path} {coding} {version}");
            }
        }
    }
}

#[test]
fn pythons_gzip_decodes_what_it_gets() {
    const SCRIPT: &str = "
import gzip, ssl, sys, urllib.request
context = ssl._create_unverified_context()
request = urllib.request.Request(sys.argv[1], headers={'Accept-Encoding': 'gzip'})
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
with opener.open(request) as response:
    assert response.headers['Content-Encoding'] == 'gzip', response.headers
    sys.stdout.buffer.write(gzip.decompress(response.read()))
";
    if !has("pythons_gzip_decodes_what_it_gets", "python3") {
        return;
    }
    let (_site, server) = server();
    for (path, want) in [("/", page()), ("/large.txt", page().repeat(50))] {
        let got = Command::new("python3")
            .args(["-c", SCRIPT, &server.url(path)])
            .output()
            .unwrap();
        assert!(
            got.status.success(),
            "{}",
            String::from_utf8_lossy(&got.stderr)
        );
        assert!(got.stdout == want.as_bytes(), "{path}");
    }
}

/// An upstream of events, each of which is sent when the test says so.
fn upstream_of_events() -> (SocketAddr, mpsc::Sender<&'static str>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (event, events) = mpsc::channel::<&'static str>();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        let mut buffer = [0; 4096];
        while !head.ends_with(b"\r\n\r\n") {
            let length = stream.read(&mut buffer).unwrap();
            head.extend_from_slice(&buffer[..length]);
        }
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                    transfer-encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        for event in events {
            let chunk = format!("{:x}\r\n{event}\r\n", event.len());
            stream.write_all(chunk.as_bytes()).unwrap();
        }
        stream.write_all(b"0\r\n\r\n").unwrap();
    });
    (address, event)
}

#[test]
fn events_arrive_at_once_over_every_version() {
    let types = "compression.types=['text/event-stream']";
    for (more, is_coded) in [(&["--set", types][..], true), (&[], false)] {
        for http in Http::ALL {
            let (upstream, event) = upstream_of_events();
            let url = format!("http://{upstream}");
            let args = [&["--upstream", url.as_str()][..], &ON, more].concat();
            let server = Server::start(&args);
            client::block_on(async {
                let mut chunks = Chunks::open(http, &server).await;
                let (mut got, mut want) = (Vec::new(), String::new());
                for text in ["data: 1\n\n", "data: 2\n\n", "data: 3\n\n"] {
                    event.send(text).unwrap();
                    want += text;
                    // The upstream sends no more before this one has arrived.
                    while so_far(&got, is_coded) != want.as_bytes() {
                        got.extend(chunks.next().await.unwrap());
                    }
                }
                drop(event);
                while let Some(chunk) = chunks.next().await {
                    got.extend(chunk);
                }
                assert_eq!(so_far(&got, is_coded), want.as_bytes());
                chunks.close().await;
            });
        }
    }
}

/// The content that a client has of the beginning of a response.
fn so_far(got: &[u8], is_coded: bool) -> Vec<u8> {
    if !is_coded {
        return got.to_vec();
    }
    let mut content = Vec::new();
    let mut decoder = flate2::write::GzDecoder::new(&mut content);
    decoder.write_all(got).unwrap();
    decoder.flush().unwrap();
    drop(decoder);
    content
}

/// The content of a response, as it comes.
enum Chunks {
    H1(Box<TlsStream<TcpStream>>),
    H2(H2, h2::RecvStream),
    H3(Box<(H3, Receiving<response::Parts>)>),
}

impl Chunks {
    async fn open(http: Http, server: &Server) -> Self {
        let url = format!("https://localhost:{}/", server.port());
        let request = Request::get(url).header("accept-encoding", "gzip");
        let request = request.body(()).unwrap();
        match http {
            Http::H1 => {
                let mut tls = client::tls(server.address(), &["http/1.1"]).await.unwrap();
                let head = "GET / HTTP/1.1\r\nhost: localhost\r\naccept-encoding: gzip\r\n\r\n";
                tls.write_all(head.as_bytes()).await.unwrap();
                while !line(&mut tls).await.is_empty() {}
                Self::H1(Box::new(tls))
            }
            Http::H2 => {
                let mut h2 = H2::connect(server.address()).await.unwrap();
                h2.requests = h2.requests.clone().ready().await.unwrap();
                let (response, _) = h2.requests.send_request(request, true).unwrap();
                let body = response.await.unwrap().into_body();
                Self::H2(h2, body)
            }
            Http::H3 => {
                let h3 = H3::connect(server.address()).await.unwrap();
                let stream = h3.begin(request).await.unwrap();
                let mut receiving = stream.finish().await.unwrap();
                receiving.head().await.unwrap();
                Self::H3(Box::new((h3, receiving)))
            }
        }
    }

    /// The next bytes; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        let next = async {
            match self {
                Self::H1(tls) => chunk(tls).await,
                Self::H2(_, body) => Some(body.data().await?.unwrap()),
                Self::H3(connection) => {
                    let frame = connection.1.frame().await?.unwrap();
                    frame.into_data().ok()
                }
            }
        };
        let next = tokio::time::timeout(PATIENCE, next).await;
        next.expect("an event is held back")
    }

    /// Ends the connection.
    async fn close(self) {
        match self {
            Self::H1(tls) => drop(tls),
            Self::H2(connection, _) => drop(connection),
            Self::H3(connection) => connection.0.close().await,
        }
    }
}

/// Reads a chunk of HTTP/1.1 (RFC 9112 §7.1); `None` for the last.
async fn chunk(tls: &mut TlsStream<TcpStream>) -> Option<Bytes> {
    let length = usize::from_str_radix(&line(tls).await, 16).unwrap();
    let mut chunk = vec![0; length];
    tls.read_exact(&mut chunk).await.unwrap();
    assert!(line(tls).await.is_empty());
    (length > 0).then(|| chunk.into())
}

/// Reads a line.
async fn line(tls: &mut TlsStream<TcpStream>) -> String {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.push(tls.read_u8().await.unwrap());
    }
    String::from_utf8(line).unwrap().trim_end().to_owned()
}
