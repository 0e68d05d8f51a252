//! Clients that are slow, wait, or send before they read.
#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use hikyaku_quic::proto::crypto::rustls::QuicClientConfig;
use hikyaku_quic::proto::{ClientConfig, ConnectionError, TransportConfig};
use hikyaku_quic::{Connection, Endpoint};
use hikyaku_testkit::client::{self, H2, H3};
use hikyaku_testkit::upstream::{self, Speaks};
use hikyaku_testkit::{PATIENCE, Server, Site, noise};
use http::Request;
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::time::timeout;

/// Starts a server with these keys set.
#[track_caller]
fn start(content: &[&str], keys: &[&str]) -> Server {
    let keys = keys.iter().flat_map(|key| ["--set", key]);
    let args: Vec<&str> = content.iter().copied().chain(keys).collect();
    Server::start(&args)
}

/// The size of a slow reader's response.
const SIZE: usize = 300_000;
/// The bytes that a slow reader takes at once, and its pause after that: less than 30 kB/s.
const STEP: usize = 60_000;
const PAUSE: Duration = Duration::from_millis(2200);

/// Reads an HTTP/1.1 response in steps. Returns the length of its content.
async fn read_h1(address: SocketAddr) -> usize {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16_000).unwrap();
    let tcp = socket.connect(address).await.unwrap();
    let mut tls = client::tls_over(tcp, &["http/1.1"]).await.unwrap();
    let request = b"GET /big.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    tls.write_all(request).await.unwrap();
    let (mut all, mut taken, mut buffer) = (Vec::new(), 0, vec![0; STEP]);
    while let Ok(Ok(read @ 1..)) = timeout(PATIENCE, tls.read(&mut buffer)).await {
        all.extend_from_slice(&buffer[..read]);
        taken += read;
        if taken >= STEP {
            tokio::time::sleep(PAUSE).await;
            taken = 0;
        }
    }
    let head = all.windows(4).position(|end| end == b"\r\n\r\n");
    head.map_or(0, |head| all.len() - head - 4)
}

async fn read_h2(address: SocketAddr) -> usize {
    let mut h2 = H2::connect(address).await.unwrap();
    let request = Request::get("https://localhost/big.bin").body(()).unwrap();
    let (response, _) = h2.requests.send_request(request, true).unwrap();
    let mut body = response.await.unwrap().into_body();
    let (mut all, mut taken) = (0, 0);
    while let Ok(Some(Ok(data))) = timeout(PATIENCE, body.data()).await {
        all += data.len();
        taken += data.len();
        if taken >= STEP {
            tokio::time::sleep(PAUSE).await;
            body.flow_control().release_capacity(taken).unwrap();
            taken = 0;
        }
    }
    all
}

async fn read_h3(address: SocketAddr) -> usize {
    let h3 = H3::connect_with(address, Some(STEP as u32)).await.unwrap();
    let request = Request::get("https://localhost/big.bin").body(()).unwrap();
    let stream = h3.begin(request).await.unwrap();
    let mut body = stream.finish().await.unwrap();
    body.head().await.unwrap();
    let (mut all, mut taken) = (0, 0);
    while let Ok(Some(Ok(frame))) = timeout(PATIENCE, body.frame()).await {
        let data = frame.into_data().unwrap();
        all += data.len();
        taken += data.len();
        if taken >= STEP {
            tokio::time::sleep(PAUSE).await;
            taken = 0;
        }
    }
    all
}

#[test]
fn slow_but_steady_readers_get_all() {
    let site = Site::with_big_file(SIZE);
    // The client repeatedly takes nothing for longer than `timeouts.send`.
    let keys = [
        "timeouts.send=1s",
        "timeouts.send_max=20s",
        "limits.min_send_rate=80kbps",
    ];
    let files = start(&[site.path()], &keys);
    let upstream = format!("https://{}", files.address());
    let proxied = [&["proxy.insecure=true"][..], &keys].concat();
    let proxy = start(&["--upstream", &upstream], &proxied);
    client::block_on(async {
        let mut readers = Vec::new();
        for (name, server) in [("files", &files), ("proxy", &proxy)] {
            let address = server.address();
            readers.push((name, "HTTP/1.1", tokio::spawn(read_h1(address))));
            readers.push((name, "HTTP/2", tokio::spawn(read_h2(address))));
            readers.push((name, "HTTP/3", tokio::spawn(read_h3(address))));
        }
        for (name, version, reader) in readers {
            assert_eq!(reader.await.unwrap(), SIZE, "{name}, {version}");
        }
    });
    let stalled = "hikyaku_connections_refused_total{limit=\"stalled\"}";
    assert_eq!(files.metric(stalled) + proxy.metric(stalled), 0.0);
}

/// A frame of HTTP/2 (RFC 9113 §4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [length[1], length[2], length[3], kind, flags];
    [&head[..], &stream.to_be_bytes(), payload].concat()
}

/// `GET https://a/big.bin` in HPACK.
const GET: &[u8] = b"\x82\x87\x41\x01a\x04\x08/big.bin";

/// Requests more than it takes, reads all that arrives, and sends `other` again and again. Returns
/// the number of bytes until the server closed.
async fn take_nothing(address: SocketAddr, other: Vec<u8>) -> usize {
    let mut tls = client::tls(address, &["h2"]).await.unwrap();
    let begin = [
        &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..],
        &frame(4, 0, 0, &[]),
        &frame(1, 5, 1, GET),
    ];
    tls.write_all(&begin.concat()).await.unwrap();
    let (mut read, mut write) = tokio::io::split(tls);
    let sending = async {
        while write.write_all(&other).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let mut all = Vec::new();
    let reading = timeout(PATIENCE / 3, read.read_to_end(&mut all));
    tokio::select! {
        end = reading => { let _ = end.expect("the connection is never closed"); }
        () = sending => {}
    }
    all.len()
}

#[test]
fn only_content_that_is_taken_keeps_a_client() {
    let site = Site::with_big_file(5_000_000);
    let keys = ["timeouts.send=1s", "timeouts.send_max=1s"];
    let server = start(&[site.path()], &keys);
    let address = server.address();
    let one = 1_u32.to_be_bytes();
    let cases = [
        ("PING", frame(6, 0, 0, &[0; 8])),
        ("many PINGs", frame(6, 0, 0, &[0; 8]).repeat(50)),
        ("SETTINGS", frame(4, 0, 0, &[])),
        ("WINDOW_UPDATE by a byte", frame(8, 0, 1, &one)),
    ];
    client::block_on(async {
        let attacks = cases.map(|(name, other)| async move {
            let came = take_nothing(address, other).await;
            assert!(came >= 65_535, "{name}: {came} bytes");
        });
        join_all(attacks).await;
        let h3 = async {
            let crypto = QuicClientConfig::try_from(client::tls_config(&["h3"])).unwrap();
            let (endpoint, quic) = keep_alive(address, crypto, 100_000).await;
            let h3 = H3::over(endpoint, quic);
            let request = Request::get("https://localhost/big.bin").body(()).unwrap();
            let stream = h3.begin(request).await.unwrap();
            let mut receiving = stream.finish().await.unwrap();
            receiving.head().await.unwrap();
            let end = timeout(PATIENCE / 3, h3.quic.closed()).await;
            assert!(end.is_ok(), "HTTP/3 is never closed");
        };
        h3.await;
    });
    let stalled = "hikyaku_connections_refused_total{limit=\"stalled\"}";
    server.wait_metric(stalled, 5.0);
}

/// A QUIC connection whose client sends PINGs all the time.
async fn keep_alive(
    address: SocketAddr,
    crypto: QuicClientConfig,
    window: u32,
) -> (Endpoint, Connection) {
    let mut transport = TransportConfig::default();
    transport
        .keep_alive_interval(Some(Duration::from_millis(100)))
        .stream_receive_window(window.into())
        .receive_window(window.into());
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::new(transport));
    let endpoint = Endpoint::bind(([127, 0, 0, 1], 0).into(), None).unwrap();
    let connecting = endpoint.connect(config, address, "localhost").unwrap();
    let quic = connecting.await.unwrap();
    (endpoint, quic)
}

#[test]
fn connections_without_requests_end_though_they_are_kept_alive() {
    let site = Site::new(&[("index.html", b"start")]);
    let server = start(&[site.path()], &["timeouts.idle=1s"]);
    client::block_on(async {
        let crypto = QuicClientConfig::try_from(client::tls_config(&["h3"])).unwrap();
        let (endpoint, quic) = keep_alive(server.address(), crypto, 1 << 20).await;
        let h3 = H3::over(endpoint, quic);
        let end = timeout(PATIENCE / 3, h3.quic.closed()).await;
        let end = end.expect("never closed");
        let ConnectionError::ApplicationClosed(close) = end else {
            panic!("{end}");
        };
        assert_eq!(close.error_code.into_inner(), 0x100, "H3_NO_ERROR");
    });
}

#[test]
fn requests_that_wait_keep_their_connection() {
    let upstream = format!("http://{}", upstream::start(Speaks::Http1));
    let server = start(&["--upstream", &upstream], &["timeouts.idle=1s"]);
    const { assert!(upstream::LATE.as_secs() > 2, "longer than idle time") };
    let late = |server: &Server| {
        client::block_on(async {
            let h3 = H3::connect(server.address()).await.unwrap();
            let response = timeout(PATIENCE, h3.get("/late")).await.unwrap().unwrap();
            assert_eq!(response.body, b"late");
            h3.close().await;
        });
    };
    late(&server);
    if hikyaku_testkit::has("requests_that_wait_keep_their_connection", "gtlsclient") {
        let url = server.url("/late");
        let port = server.port().to_string();
        let client = Command::new("gtlsclient")
            .args(["--exit-on-all-streams-close", "localhost", &port, &url])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&client.stderr).into_owned();
        let line = server.wait_access("ngtcp2", |line| {
            line["version"] == "h3" && line["path"] == "/late" && line["complete"] == true
        });
        assert_eq!(line["status"], 200, "{said}");
        assert!(said.contains("[:status: 200]"), "{said}");
    }
}

/// Runs a client `runs` times, a few at a time. Returns the standard output of each.
fn run_many(runs: usize, command: impl Fn() -> Command + Sync) -> Vec<String> {
    let side_by_side = 4;
    std::thread::scope(|threads| {
        let run = || {
            (0..runs / side_by_side)
                .map(|_| {
                    let output = command().output().unwrap();
                    String::from_utf8_lossy(&output.stdout).into_owned()
                })
                .collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..side_by_side).map(|_| threads.spawn(run)).collect();
        let joined = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap());
        joined.collect()
    })
}

/// Tests an early answer of files and of the proxy: server, path, status.
fn early(test: impl Fn(&Server, &str, &str)) {
    let site = Site::new(&[("index.html", b"start")]);
    let upstream = format!("http://{}", upstream::start(Speaks::Http1));
    let proxy = start(&["--upstream", &upstream], &["limits.body_size=100kB"]);
    test(&proxy, "/echo", "413");
    let proxy = start(&["--upstream", &upstream], &[]);
    test(&proxy, "/early", "403");
    let files = start(&[site.path()], &[]);
    test(&files, "/index.html", "405");
}

#[test]
fn curl_gets_early_answers() {
    early(|server, path, status| {
        let body = server.dir().join("upload");
        std::fs::write(&body, noise(5_000_000)).unwrap();
        for version in ["--http1.1", "--http2"] {
            let answers = run_many(60, || {
                let mut curl = Command::new("curl");
                curl.args(["-ksS", version, "-o", "/dev/null", "-w", "%{http_code}"])
                    .args(["--max-time", "60", "-H", "Expect:"])
                    .arg("--data-binary")
                    .arg(format!("@{}", body.display()))
                    .arg(server.url(path));
                curl
            });
            let right = answers.iter().filter(|answer| *answer == status).count();
            assert_eq!(right, 60, "{version} {path}: {answers:?}");
        }
    });
}

/// A client that sends whole bodies before it reads; each run is a new connection.
const PYTHON: &str = r#"
import http.client, ssl, sys
port, path, runs = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
context = ssl._create_unverified_context()
for _ in range(runs):
    try:
        connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=60)
        connection.request("POST", path, bytes(5_000_000))
        answer = connection.getresponse()
        answer.read()
        print(answer.status)
    except OSError as error:
        print(error)
"#;

#[test]
fn python_gets_early_answers() {
    early(|server, path, status| {
        let port = server.port().to_string();
        let output = Command::new("python3")
            .args(["-c", PYTHON, &port, path, "20"])
            .output()
            .unwrap();
        let answers = String::from_utf8_lossy(&output.stdout).into_owned();
        let right = answers.lines().filter(|answer| *answer == status).count();
        assert_eq!(right, 20, "{path}: {answers}");
    });
}

/// A Go client that sends whole bodies before it reads, over HTTP/1.1 and HTTP/2.
const GO: &str = r#"
package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	for _, http2 := range []bool{false, true} {
		for range 20 {
			transport := &http.Transport{
				TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
				ForceAttemptHTTP2: http2,
			}
			client := &http.Client{Transport: transport}
			body := bytes.NewReader(make([]byte, 5_000_000))
			answer, err := client.Post(os.Args[1], "application/octet-stream", body)
			if err != nil {
				fmt.Println(err)
				continue
			}
			_, err = io.Copy(io.Discard, answer.Body)
			fmt.Println(answer.StatusCode, answer.ProtoMajor, err)
			transport.CloseIdleConnections()
		}
	}
}
"#;

#[test]
fn go_gets_early_answers() {
    if !hikyaku_testkit::has("go_gets_early_answers", "go") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("early.go"), dir.path().join("early"));
    std::fs::write(&source, GO).unwrap();
    let built = Command::new("go")
        .args(["build", "-o"])
        .args([&program, &source])
        .status();
    assert!(built.unwrap().success());
    early(|server, path, status| {
        let output = Command::new(&program).arg(server.url(path)).output();
        let answers = String::from_utf8_lossy(&output.unwrap().stdout).into_owned();
        for version in [1, 2] {
            let want = format!("{status} {version} <nil>");
            let right = answers.lines().filter(|answer| *answer == want).count();
            assert_eq!(right, 20, "HTTP/{version} {path}: {answers}");
        }
    });
}

#[test]
fn http3_clients_get_early_answers() {
    early(|server, path, status| {
        client::block_on(async {
            for _ in 0..20 {
                let h3 = H3::connect(server.address()).await.unwrap();
                let request = Request::post(server.url(path))
                    .header("content-length", 5_000_000)
                    .body(());
                let mut stream = h3.begin(request.unwrap()).await.unwrap();
                // The server may ask to stop; its answer holds all the same.
                let _ = stream.sending.data(Bytes::from(noise(5_000_000))).await;
                let answer = timeout(PATIENCE, client::receive(stream.receiving)).await;
                assert_eq!(
                    answer.unwrap().unwrap().status.to_string(),
                    status,
                    "{path}"
                );
                h3.close().await;
            }
        });
    });
}
