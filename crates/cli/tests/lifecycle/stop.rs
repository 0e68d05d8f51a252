//! Stops with requests in flight.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use hikyaku_h3_quic::{Code, Receiving, StreamError};
use hikyaku_testkit::client::{self, H2, H3};
use hikyaku_testkit::upstream::{self, Speaks};
use hikyaku_testkit::{PATIENCE, Server, Site};
use http::Request;
use http_body_util::BodyExt;
use rustix::process::Signal;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const BIG: usize = 20_000_000;
const STREAMS: usize = 8;

/// A response whose head has come and whose body is still to be read.
enum InFlight {
    H1(
        Box<tokio_rustls::client::TlsStream<tokio::net::TcpStream>>,
        usize,
    ),
    H2(h2::RecvStream),
    H3(Box<Receiving<http::response::Parts>>),
}

impl InFlight {
    /// Reads slowly at first, then to the end. Returns the body.
    async fn rest(mut self) -> Vec<u8> {
        let mut body = Vec::new();
        for chunk in 0.. {
            let Some(data) = self.next().await else {
                return body;
            };
            body.extend_from_slice(&data);
            if chunk < 10 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        body
    }

    async fn next(&mut self) -> Option<Vec<u8>> {
        match self {
            Self::H1(_, 0) => None,
            Self::H1(tls, left) => {
                let mut data = vec![0; 100_000.min(*left)];
                tls.read_exact(&mut data).await.unwrap();
                *left -= data.len();
                Some(data)
            }
            Self::H2(body) => {
                let data = body.data().await?.unwrap();
                body.flow_control().release_capacity(data.len()).unwrap();
                Some(data.to_vec())
            }
            Self::H3(body) => {
                let frame = body.frame().await?.unwrap();
                Some(frame.into_data().unwrap().to_vec())
            }
        }
    }
}

async fn start_h1(address: SocketAddr) -> InFlight {
    let mut tls = client::tls(address, &["http/1.1"]).await.unwrap();
    let request = b"GET /big.bin HTTP/1.1\r\nHost: localhost\r\n\r\n";
    tls.write_all(request).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(tls.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 200 "));
    InFlight::H1(Box::new(tls), BIG)
}

async fn start_h2(h2: &mut H2) -> InFlight {
    let request = Request::get("https://localhost/big.bin").body(()).unwrap();
    let (response, _) = h2.requests.send_request(request, true).unwrap();
    let response = response.await.unwrap();
    assert_eq!(response.status(), 200);
    InFlight::H2(response.into_body())
}

async fn start_h3(h3: &H3) -> InFlight {
    let request = Request::get("https://localhost/big.bin").body(()).unwrap();
    let stream = h3.begin(request).await.unwrap();
    let mut receiving = stream.finish().await.unwrap();
    assert_eq!(receiving.head().await.unwrap().status, 200);
    InFlight::H3(Box::new(receiving))
}

#[test]
fn a_graceful_stop_answers_everything_in_flight() {
    let site = Site::with_big_file(BIG);
    let want = Sha256::digest(fs::read(Path::new(site.path()).join("big.bin")).unwrap());
    let mut server = Server::start(&[site.path()]);
    let address = server.address();
    let stopped_at = client::block_on(async {
        let mut h2 = H2::connect(address).await.unwrap();
        let h3 = H3::connect(address).await.unwrap();
        let mut idle = H2::connect(address).await.unwrap();
        idle.get("/").await.unwrap();
        let mut in_flight = Vec::new();
        for _ in 0..STREAMS {
            in_flight.push(start_h1(address).await);
            in_flight.push(start_h2(&mut h2).await);
            in_flight.push(start_h3(&h3).await);
        }
        server.signal(Signal::TERM);
        let stopped_at = Instant::now();
        let reading: Vec<_> = in_flight
            .into_iter()
            .map(|response| tokio::spawn(response.rest()))
            .collect();

        expect_goaway_on_h2(&mut h2).await;
        expect_goaway_on_h3(&h3).await;
        // The client's answer to GOAWAY may meet a closed socket.
        let idle = idle.driver.await.unwrap();
        assert!(idle.as_ref().err().is_none_or(h2::Error::is_io), "{idle:?}");
        let refused = tokio::net::TcpStream::connect(address).await.unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        for response in reading {
            let body = tokio::time::timeout(PATIENCE, response).await;
            let body = body.unwrap().unwrap();
            assert_eq!(Sha256::digest(&body), want, "{} bytes came", body.len());
        }
        stopped_at
    });
    assert!(server.wait_exit().success());
    assert!(stopped_at.elapsed() < PATIENCE);
    assert!(
        server.log().contains("every request was answered"),
        "{}",
        server.log()
    );
    let lines = server.access_lines();
    let whole = format!("\"status\":200,\"bytes\":{BIG},");
    let whole = lines.iter().filter(|line| line.contains(&whole)).count();
    assert_eq!(whole, 3 * STREAMS, "{lines:#?}");
}

#[test]
fn a_client_that_has_just_come_is_answered_at_a_stop() {
    let site = Site::new(&[("index.html", b"start")]);
    let upstream = upstream::start(Speaks::Http1);
    let config = tempfile::NamedTempFile::new().unwrap();
    let route = format!("[[route]]\npath = \"/echo\"\nupstream = \"http://{upstream}\"");
    fs::write(
        config.path(),
        format!("root = {:?}\n{route}\n", site.path()),
    )
    .unwrap();
    let mut server = Server::start(&["--config", config.path().to_str().unwrap()]);
    client::block_on(async {
        let connect = async || client::tls(server.address(), &["http/1.1"]).await.unwrap();
        let requests = [
            "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nword",
        ];
        let mut new = Vec::new();
        for request in requests {
            new.push((connect().await, request, 0));
            // One byte has come, and the others come after the stop.
            let mut begun = connect().await;
            begun.write_all(&request.as_bytes()[..1]).await.unwrap();
            begun.flush().await.unwrap();
            new.push((begun, request, 1));
        }
        let mut silent = connect().await;
        server.signal(Signal::TERM);
        server.wait_log("stopping: ");
        for (mut tls, request, sent) in new {
            tls.write_all(&request.as_bytes()[sent..]).await.unwrap();
            let mut answer = String::new();
            tls.read_to_string(&mut answer).await.unwrap();
            let answer = answer.to_ascii_lowercase();
            assert!(answer.starts_with("http/1.1 200 "), "{request}: {answer}");
            assert!(answer.contains("connection: close"), "{answer}");
        }
        let mut nothing = Vec::new();
        silent.read_to_end(&mut nothing).await.unwrap();
        assert!(nothing.is_empty());
    });
    assert!(server.wait_exit().success());
}

/// The connection stays until its responses are read, but takes no more requests.
async fn expect_goaway_on_h2(h2: &mut H2) {
    let begun = Instant::now();
    let error = loop {
        assert!(begun.elapsed() < PATIENCE, "no GOAWAY on HTTP/2");
        let request = Request::get("https://localhost/").body(()).unwrap();
        let answer = match h2.requests.clone().ready().await {
            Ok(mut requests) => match requests.send_request(request, true) {
                Ok((response, _)) => response.await.map(drop),
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        match answer {
            // The request was sent before the server's GOAWAY.
            Ok(()) => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(error) => break error,
        }
    };
    assert!(error.is_go_away() && error.is_remote(), "{error:?}");
    assert_eq!(error.reason(), Some(h2::Reason::NO_ERROR));
}

async fn expect_goaway_on_h3(h3: &H3) {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < PATIENCE, "no GOAWAY on HTTP/3");
        match h3.get("/").await {
            Ok(response) => assert_eq!(response.status, 200),
            Err(error) if is_refused(&error) => return,
            Err(error) => panic!("HTTP/3 after the stop: {error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn requests_under_load_are_answered_or_refused_but_never_lost() {
    let site = Site::new(&[("index.html", b"small")]);
    let mut server = Server::start(&[site.path()]);
    let address = server.address();
    let answered = client::block_on(async {
        let mut clients = Vec::new();
        for _ in 0..4 {
            let mut h2 = H2::connect(address).await.unwrap();
            clients.push(tokio::spawn(async move {
                let mut answered = 0;
                loop {
                    match h2.get("/").await {
                        Ok(response) => assert_eq!(response.body, b"small"),
                        // It is sent again on another connection, by RFC 9113 §6.8.
                        Err(error) if error.is_go_away() => return answered,
                        Err(error) => panic!("HTTP/2: {error:?}"),
                    }
                    answered += 1;
                }
            }));
            let h3 = H3::connect(address).await.unwrap();
            clients.push(tokio::spawn(async move {
                let mut answered = 0;
                loop {
                    match h3.get("/").await {
                        Ok(response) => assert_eq!(response.body, b"small"),
                        Err(error) if is_refused(&error) => return answered,
                        Err(_) if ended_well(&h3) => return answered,
                        Err(error) => panic!("HTTP/3: {error:?}"),
                    }
                    answered += 1;
                }
            }));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.signal(Signal::TERM);
        let mut answered = 0;
        for client in clients {
            let count = tokio::time::timeout(PATIENCE, client).await;
            answered += count.unwrap().unwrap();
        }
        answered
    });
    assert!(server.wait_exit().success());
    assert!(answered > 100, "{answered}");
    assert!(
        server.log().contains("every request was answered"),
        "{}",
        server.log()
    );
}

/// Whether a GOAWAY refused the request, or crossed it on its way. RFC 9114 §5.2 lets the client
/// send it again elsewhere.
fn is_refused(error: &StreamError) -> bool {
    match error {
        StreamError::GoingAway => true,
        StreamError::Reset(code) | StreamError::Stopped(code) => {
            *code == Code::RequestRejected.value()
        }
        _ => false,
    }
}

/// Whether the server closed the connection after its GOAWAY, with nothing in flight.
fn ended_well(h3: &H3) -> bool {
    let no_error = Code::NoError.value();
    let closed = h3.quic.close_reason();
    matches!(closed, Some(quinn::ConnectionError::ApplicationClosed(close))
        if close.error_code.into_inner() == no_error)
}

#[test]
fn responses_are_cut_after_the_drain_time_or_a_second_signal() {
    let site = Site::with_big_file(BIG);
    let cases = [
        ("timeouts.drain=500ms", 1, "1 connections were cut"),
        ("timeouts.drain=1h", 2, "stopped at once"),
    ];
    for (drain, signals, want) in cases {
        let mut server = Server::start(&[site.path(), "--set", drain]);
        client::block_on(async {
            // The client stops reading.
            let _in_flight = start_h1(server.address()).await;
            for _ in 0..signals {
                server.signal(Signal::TERM);
                server.wait_log("stopping: ");
            }
            assert!(server.wait_exit().success(), "{drain}");
        });
        server.wait_log(want);
    }
}
