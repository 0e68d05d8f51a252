//! Clients that are slow, greedy or hostile, while others are served.
#![allow(clippy::unwrap_used)]

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hikyaku_h3_quinn::Code;
use hikyaku_testkit::client::{self, H2, H3};
use hikyaku_testkit::fetch::Http;
use hikyaku_testkit::upstream::{self, Speaks};
use hikyaku_testkit::{PATIENCE, Server, Site, get, noise};
use http::Request;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

fn site() -> Site {
    Site::new(&[("index.html", b"start")])
}

/// Starts a server with these keys set.
#[track_caller]
fn start(content: &[&str], keys: &[&str]) -> Server {
    let keys = keys.iter().flat_map(|key| ["--set", key]);
    let args: Vec<&str> = content.iter().copied().chain(keys).collect();
    Server::start(&args)
}

/// Reads until the server ends the connection, in any manner.
async fn read_to_end(stream: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut all = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut all)).await;
    let _ = read.expect("the connection is never closed");
    all
}

/// Checks that a fresh client of every version is served.
#[track_caller]
fn expect_service(server: &Server) {
    for http in Http::ALL {
        let records = get(&[
            "--http",
            http.option(),
            "--timeout",
            "20s",
            &server.url("/"),
        ]);
        assert_eq!(records[0]["status"], 200, "{http:?}: {records:?}");
    }
}

#[test]
fn handshakes_that_never_end_are_ended() {
    let site = site();
    let server = start(&[site.path()], &["timeouts.handshake=1s"]);
    client::block_on(async {
        let mut silent = TcpStream::connect(server.address()).await.unwrap();
        let mut begun = TcpStream::connect(server.address()).await.unwrap();
        // The first bytes of a ClientHello.
        begun.write_all(&[22, 3, 1, 2, 0, 1, 0]).await.unwrap();
        assert!(read_to_end(&mut silent).await.is_empty());
        read_to_end(&mut begun).await;
    });
    server.wait_metric("hikyaku_handshakes_failed_total{transport=\"tcp\"}", 2.0);
    expect_service(&server);
}

#[test]
fn dribbled_headers_are_cut_off() {
    let site = site();
    let server = start(&[site.path()], &["timeouts.header=1s"]);
    client::block_on(async {
        let tls = client::tls(server.address(), &["http/1.1"]).await.unwrap();
        let (mut read, mut write) = tokio::io::split(tls);
        let dribble = async {
            let mut lines =
                std::iter::once("GET / HTTP/1.1\r\n").chain(std::iter::repeat("a: b\r\n"));
            // A client that sends a line now and then has the same time in all.
            while write
                .write_all(lines.next().unwrap().as_bytes())
                .await
                .is_ok()
            {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        let answer = tokio::select! {
            answer = read_to_end(&mut read) => answer,
            () = dribble => Vec::new(),
        };
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "{answer:?}");

        // HTTP/3: only the beginning of a HEADERS frame arrives.
        let h3 = H3::connect(server.address()).await.unwrap();
        let (mut send, mut receive) = h3.quic.open_bi().await.unwrap();
        send.write_all(&[1, 40, 0, 0]).await.unwrap();
        let end = timeout(PATIENCE, receive.read_to_end(1000)).await;
        let end = end.expect("the stream is never ended");
        // A HEADERS frame: 408.
        assert!(end.is_ok_and(|answer| answer.starts_with(&[1])));
        assert_eq!(h3.get("/").await.unwrap().status, 200);
    });
    expect_service(&server);
}

#[test]
fn idle_connections_are_closed() {
    let site = site();
    let server = start(&[site.path()], &["timeouts.idle=1s", "timeouts.header=1s"]);
    client::block_on(async {
        let mut never_asked = client::tls(server.address(), &["http/1.1"]).await.unwrap();
        let mut asked = client::tls(server.address(), &["http/1.1"]).await.unwrap();
        asked
            .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .await
            .unwrap();
        assert!(read_to_end(&mut asked).await.starts_with(b"HTTP/1.1 200"));
        read_to_end(&mut never_asked).await;

        let never_asked = H2::connect(server.address()).await.unwrap();
        let mut asked = H2::connect(server.address()).await.unwrap();
        assert_eq!(asked.get("/").await.unwrap().status, 200);
        for h2 in [never_asked, asked] {
            let end = timeout(PATIENCE, h2.driver).await.expect("never closed");
            // The client's answer to GOAWAY may meet a closed socket.
            let end = end.unwrap();
            assert!(end.as_ref().err().is_none_or(h2::Error::is_io), "{end:?}");
        }

        let h3 = H3::connect(server.address()).await.unwrap();
        let end = timeout(PATIENCE, h3.quic.closed()).await;
        let end = end.expect("never closed");
        let quinn::ConnectionError::ApplicationClosed(close) = end else {
            panic!("{end}");
        };
        assert_eq!(close.error_code.into_inner(), Code::NoError.value());
    });
}

#[test]
fn header_sections_are_limited() {
    let site = site();
    let server = start(&[site.path()], &["limits.header_size=16KiB"]);
    client::block_on(async {
        for (size, served) in [(8_000, true), (40_000, false)] {
            let value = "x".repeat(size);

            let mut tls = client::tls(server.address(), &["http/1.1"]).await.unwrap();
            let request =
                format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\na: {value}\r\n\r\n");
            // The rest may meet a closed connection.
            let _ = tls.write_all(request.as_bytes()).await;
            let answer = read_to_end(&mut tls).await;
            let status = String::from_utf8_lossy(&answer)
                .split(' ')
                .nth(1)
                .map(str::to_owned);
            let refused = status.as_deref().is_none_or(|status| status == "431");
            assert_eq!(
                status.as_deref() == Some("200"),
                served,
                "{size}: {status:?}"
            );
            assert_eq!(refused, !served, "{size}: {status:?}");

            let request = || {
                let request = Request::get("https://localhost/").header("a", &value);
                request.body(Bytes::new()).unwrap()
            };
            let mut h2 = H2::connect(server.address()).await.unwrap();
            match h2.send(request(), None).await {
                Ok(response) => assert_eq!(response.status == 200, served, "{size}, HTTP/2"),
                Err(error) => assert!(!served, "{size}, HTTP/2: {error}"),
            }
            let h3 = H3::connect(server.address()).await.unwrap();
            match h3.send(request()).await {
                Ok(response) => assert_eq!(response.status == 200, served, "{size}, HTTP/3"),
                Err(error) => assert!(!served, "{size}, HTTP/3: {error}"),
            }
        }
        // The client's own check is circumvented: HEADERS that announce 1 GiB - 1.
        let h3 = H3::connect(server.address()).await.unwrap();
        let (mut send, mut receive) = h3.quic.open_bi().await.unwrap();
        send.write_all(&[1, 0xbf, 0xff, 0xff, 0xff]).await.unwrap();
        let stopped = timeout(PATIENCE, send.stopped()).await.unwrap().unwrap();
        let code = stopped.map(quinn::VarInt::into_inner);
        assert_eq!(code, Some(Code::NoError.value()));
        let answer = receive.read_to_end(1000).await.unwrap();
        assert!(!answer.is_empty(), "431");
        assert_eq!(h3.get("/").await.unwrap().status, 200);
    });
    expect_service(&server);
}

#[test]
fn bodies_are_limited_in_size() {
    let upstream = format!("http://{}", upstream::start(Speaks::Http1));
    let server = start(
        &["--upstream", &upstream],
        &["limits.body_size=100KiB", "timeouts.linger=1s"],
    );
    for http in [Http::H2, Http::H3] {
        for (size, want) in [(100_000, 200), (200_000, 413)] {
            let body = server.dir().join(format!("{size}"));
            std::fs::write(&body, noise(size)).unwrap();
            let data = format!("@{}", body.display());
            let length = format!("content-length: {size}");
            let url = server.url("/echo");
            let args = [
                "--http",
                http.option(),
                "--data",
                &data,
                "-H",
                &length,
                &url,
            ];
            let records = get(&args);
            assert_eq!(records[0]["status"], want, "{http:?}, {size}: {records:?}");
        }
    }
    // A client of HTTP/1.1 that sends on may lose the answer to the closing of the connection.
    let status = client::block_on(async {
        let mut tls = client::tls(server.address(), &["http/1.1"]).await.unwrap();
        let head = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n";
        tls.write_all(head).await.unwrap();
        read_to_end(&mut tls).await
    });
    assert!(status.starts_with(b"HTTP/1.1 413 "), "{status:?}");
    // Without an announced length, the size shows only while the body arrives.
    let error = client::block_on(async {
        let mut h2 = H2::connect(server.address()).await.unwrap();
        let request = Request::post("https://localhost/echo").body(()).unwrap();
        let (response, mut stream) = h2.requests.send_request(request, false).unwrap();
        stream.send_data(noise(200_000).into(), true).unwrap();
        match timeout(PATIENCE, response).await.unwrap() {
            Ok(response) if response.status() == 413 => None,
            // The upstream had begun to answer.
            Ok(response) => {
                let mut body = response.into_body();
                while let Some(data) = body.data().await {
                    match data {
                        Ok(data) => body.flow_control().release_capacity(data.len()).unwrap(),
                        Err(error) => return Some(error),
                    }
                }
                panic!("an oversized body went through");
            }
            Err(error) => Some(error),
        }
    });
    assert!(error.is_none_or(|error| error.is_reset()));
}

#[test]
fn slow_bodies_are_given_up() {
    let upstream = format!("http://{}", upstream::start(Speaks::Http1));
    let server = start(&["--upstream", &upstream], &["timeouts.body=1s"]);
    client::block_on(async {
        let mut tls = client::tls(server.address(), &["http/1.1"]).await.unwrap();
        let request = b"POST /hang HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nslow";
        tls.write_all(request).await.unwrap();
        let answer = read_to_end(&mut tls).await;
        assert!(answer.starts_with(b"HTTP/1.1 408 "), "{answer:?}");

        let request = || Request::post("https://localhost/hang").body(()).unwrap();
        let mut h2 = H2::connect(server.address()).await.unwrap();
        let (response, mut stream) = h2.requests.send_request(request(), false).unwrap();
        stream.send_data(Bytes::from("slow"), false).unwrap();
        let answer = timeout(PATIENCE, response).await.unwrap().unwrap();
        assert_eq!(answer.status(), 408, "HTTP/2");

        let h3 = H3::connect(server.address()).await.unwrap();
        let mut stream = h3.begin(request()).await.unwrap();
        stream.sending.data(Bytes::from("slow")).await.unwrap();
        let answer = timeout(PATIENCE, stream.receiving.head()).await.unwrap();
        assert_eq!(answer.unwrap().status, 408, "HTTP/3");
        stream.sending.reset(Code::RequestCancelled);
        h3.close().await;
    });
    for http in Http::ALL {
        let line = server.wait_access(http.name(), |line| line["version"] == http.name());
        assert_eq!(line["status"], 408, "{line}");
        let error = line["error"].as_str().unwrap();
        assert!(error.contains("timeouts.body"), "{error}");
    }
}

#[test]
fn connections_of_one_address_are_limited() {
    let site = site();
    let server = start(&[site.path()], &["limits.connections_per_address=4"]);
    let refused = "hikyaku_connections_refused_total{limit=\"connections_per_address\"}";
    client::block_on(async {
        let mut open = Vec::new();
        for _ in 0..4 {
            open.push(H2::connect(server.address()).await.unwrap());
        }
        assert!(H2::connect(server.address()).await.is_err());
        assert_eq!(server.metric(refused), 1.0);
        // QUIC connections count, too, but get no answer, so that browsers do not blame HTTP/3.
        let quic = timeout(Duration::from_secs(1), H3::connect(server.address())).await;
        assert!(quic.is_err(), "an answer");
        assert!(server.metric(refused) >= 2.0);
        let line = "a connection from 127.0.0.1 is refused: limits.connections_per_address = 4";
        server.wait_log(line);
        for h2 in &mut open {
            assert_eq!(h2.get("/").await.unwrap().status, 200);
        }
        let elsewhere = get(&["--local", "127.0.0.9", &server.url("/")]);
        assert_eq!(elsewhere[0]["status"], 200, "{elsewhere:?}");
        for h2 in open {
            drop(h2.requests);
            h2.driver.await.unwrap().unwrap();
        }
    });
    hikyaku_testkit::eventually("places are free again", || {
        (get(&[&server.url("/")])[0]["status"] == 200).then_some(())
    });
}

#[test]
fn refusals_are_logged_once_a_second_at_most() {
    let site = site();
    let server = start(&[site.path()], &["limits.connections=2"]);
    let begun = Instant::now();
    client::block_on(async {
        let mut open = Vec::new();
        for _ in 0..2 {
            open.push(H2::connect(server.address()).await.unwrap());
        }
        for _ in 0..50 {
            assert!(H2::connect(server.address()).await.is_err());
        }
        let refused = "hikyaku_connections_refused_total{limit=\"connections\"}";
        assert_eq!(server.metric(refused), 50.0);
        server.wait_log("limits.connections = 2 are open");
        let lines = server.log().matches("limits.connections = 2").count() as u64;
        assert!(lines <= 1 + begun.elapsed().as_secs(), "{}", server.log());
    });
}

/// Begins HTTP/2 with raw frames: preface and SETTINGS are sent.
async fn raw_h2(address: SocketAddr) -> tokio_rustls::client::TlsStream<TcpStream> {
    let mut tls = client::tls(address, &["h2"]).await.unwrap();
    tls.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await
        .unwrap();
    tls.write_all(&frame(4, 0, 0, &[])).await.unwrap();
    tls
}

/// A frame (RFC 9113 §4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [length[1], length[2], length[3], kind, flags];
    [&head[..], &stream.to_be_bytes(), payload].concat()
}

/// `GET https://a/` in HPACK, by the static table and one literal.
const GET: [u8; 6] = [0x82, 0x87, 0x84, 0x41, 0x01, b'a'];

/// Sends the frames of `flood` until the server closes, and reads meanwhile. Returns the received
/// bytes. Other clients are served meanwhile.
fn expect_flood_ends(server: &Server, mut flood: impl FnMut(u32) -> Vec<u8>) -> Vec<u8> {
    std::thread::scope(|threads| {
        let others = threads.spawn(|| expect_service(server));
        let came = client::block_on(async {
            let (mut read, mut write) = tokio::io::split(raw_h2(server.address()).await);
            let flooding = async {
                let begun = Instant::now();
                for count in 0.. {
                    if write.write_all(&flood(count)).await.is_err() {
                        return;
                    }
                    assert!(begun.elapsed() < PATIENCE, "the flood is never ended");
                }
            };
            futures_util::future::join(flooding, read_to_end(&mut read))
                .await
                .1
        });
        others.join().unwrap();
        came
    })
}

/// The code of the last GOAWAY among frames.
fn goaway(mut frames: &[u8]) -> Option<u32> {
    let mut code = None;
    while let [a, b, c, kind, _, _, _, _, _, rest @ ..] = frames {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let payload = rest.get(..length)?;
        if *kind == 7 {
            code = Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
        }
        frames = &rest[length..];
    }
    code
}

const ENHANCE_YOUR_CALM: u32 = 11;

#[test]
fn rapid_resets_end_their_own_connection_alone() {
    let site = site();
    let server = start(&[site.path()], &[]);
    let came = expect_flood_ends(&server, |count| {
        let stream = 2 * count + 1;
        let reset = frame(3, 0, stream, &8_u32.to_be_bytes());
        // END_STREAM and END_HEADERS, then CANCEL.
        [frame(1, 5, stream, &GET), reset].concat()
    });
    assert!(goaway(&came).is_none_or(|code| code == ENHANCE_YOUR_CALM));
    expect_service(&server);
}

#[test]
fn endless_continuations_end_their_own_connection_alone() {
    let site = site();
    let server = start(&[site.path()], &[]);
    let filler = [&[0x00, 0x01, b'a', 0x7f, 0x00][..], &[b'x'; 127]].concat();
    let came = expect_flood_ends(&server, |count| match count {
        // Without END_HEADERS, ever.
        0 => frame(1, 1, 1, &GET),
        _ => frame(9, 0, 1, &filler),
    });
    assert!(
        goaway(&came).is_some_and(|code| code != 0),
        "{} bytes",
        came.len()
    );
    expect_service(&server);
}

#[test]
fn frames_that_ask_for_nothing_are_limited() {
    let site = site();
    let server = start(&[site.path()], &[]);
    let one = 1_u32.to_be_bytes();
    let floods = [
        ("SETTINGS", frame(4, 0, 0, &[])),
        (
            "SETTINGS with a value",
            frame(4, 0, 0, &[0, 3, 0, 0, 0, 100]),
        ),
        ("PING", frame(6, 0, 0, &[0; 8])),
        ("PRIORITY", frame(2, 0, 7, &[0, 0, 0, 0, 15])),
        ("WINDOW_UPDATE", frame(8, 0, 0, &one)),
        ("unknown", frame(0xfa, 0, 0, &[1, 2, 3])),
    ];
    for (count, (name, flood)) in floods.iter().enumerate() {
        let flood = flood.repeat(500);
        expect_flood_ends(&server, |_| flood.clone());
        let ended = server.metric("hikyaku_connections_refused_total{limit=\"flood\"}");
        assert_eq!(ended, (count + 1) as f64, "{name}");
    }
}

#[test]
fn stream_resets_on_http3_do_no_harm() {
    let site = Site::with_big_file(1_000_000);
    let mut server = start(&[site.path()], &[]);
    client::block_on(async {
        let h3 = H3::connect(server.address()).await.unwrap();
        for _ in 0..3000 {
            let request = Request::get("https://localhost/big.bin").body(()).unwrap();
            match h3.begin(request).await {
                // Reset and stopped by H3_REQUEST_CANCELLED.
                Ok(stream) => drop(stream),
                // The server has refused more.
                Err(_) => return,
            }
        }
        let answer = timeout(PATIENCE, h3.get("/")).await;
        match answer.expect("the connection hangs") {
            Ok(response) => assert_eq!(response.status, 200),
            Err(error) => assert!(
                h3.quic.close_reason().is_some(),
                "neither served nor closed: {error}"
            ),
        }
    });
    assert!(server.is_alive());
    expect_service(&server);
}

#[test]
fn broken_http3_streams_hurt_their_own_connection_alone() {
    let site = site();
    let mut server = start(&[site.path()], &[]);
    let payloads: [&[u8]; 5] = [
        // DATA before HEADERS.
        &[0, 3, b'a', b'b', b'c'],
        // HEADERS that are no QPACK.
        &[1, 4, 0xff, 0xff, 0xff, 0xff],
        // SETTINGS on a request stream.
        &[4, 0],
        // Half a frame.
        &[1, 40, 0],
        &[],
    ];
    client::block_on(async {
        for payload in payloads {
            let h3 = H3::connect(server.address()).await.unwrap();
            let (mut send, mut receive) = h3.quic.open_bi().await.unwrap();
            send.write_all(payload).await.unwrap();
            send.finish().unwrap();
            let end = timeout(PATIENCE, receive.read_to_end(10_000)).await;
            assert!(end.is_ok(), "{payload:?} hangs");
            // A connection error or a stream error, as RFC 9114 has it.
            h3.close().await;
        }
        // Another protocol's ALPN.
        assert!(client::quic(server.address(), "hq", None).await.is_err());
    });
    assert!(server.is_alive());
    expect_service(&server);
}

#[test]
fn garbage_datagrams_do_no_harm() {
    let site = site();
    let mut server = start(&[site.path()], &[]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let noise = noise(2_000_000);
    let mut rest = &noise[..];
    for size in (0..1400).cycle() {
        let Some((datagram, left)) = rest.split_at_checked(size) else {
            break;
        };
        socket.send_to(datagram, server.address()).unwrap();
        // Datagrams as long, with headers of version 1: an Initial that is malformed.
        let long = [&[0xc3, 0, 0, 0, 1][..], datagram].concat();
        socket.send_to(&long, server.address()).unwrap();
        rest = left;
    }
    assert!(server.is_alive());
    expect_service(&server);
}

#[test]
fn clients_that_stop_reading_are_closed() {
    let site = Site::with_big_file(50_000_000);
    let keys = ["timeouts.send=1s", "timeouts.send_max=1s"];
    let server = start(&[site.path()], &keys);
    let stalled = "hikyaku_connections_refused_total{limit=\"stalled\"}";
    client::block_on(async {
        let mut h1 = client::tls(server.address(), &["http/1.1"]).await.unwrap();
        let request = b"GET /big.bin HTTP/1.1\r\nHost: a\r\n\r\n";
        h1.write_all(request).await.unwrap();

        let mut h2 = H2::connect(server.address()).await.unwrap();
        let request = Request::get("https://localhost/big.bin").body(()).unwrap();
        let (response, _) = h2.requests.send_request(request, true).unwrap();
        let _h2_body = response.await.unwrap().into_body();

        let window = Some(100_000);
        let h3 = H3::connect_with(server.address(), window).await.unwrap();
        let request = Request::get("https://localhost/big.bin").body(()).unwrap();
        let stream = h3.begin(request).await.unwrap();
        let mut receiving = stream.finish().await.unwrap();
        assert_eq!(receiving.head().await.unwrap().status, 200);

        let end = timeout(PATIENCE, h3.quic.closed()).await;
        assert!(end.is_ok(), "HTTP/3 is never closed");
        let end = timeout(PATIENCE, h2.driver).await;
        assert!(end.is_ok(), "HTTP/2 is never closed");
        let begun = Instant::now();
        while server.metric(stalled) < 3.0 {
            assert!(begun.elapsed() < PATIENCE, "HTTP/1.1 is never closed");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    for http in Http::ALL {
        let line = server.wait_access(http.name(), |line| line["version"] == http.name());
        assert_eq!(line["complete"], false, "{line}");
    }
    expect_service(&server);
}

/// The largest resident memory of a process so far, in KiB.
fn peak_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.unwrap().split_whitespace().next().unwrap();
    kib.parse().unwrap()
}

/// Waits until a process is idle.
fn wait_idle(pid: u32) {
    let used = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        // utime and stime.
        let times: Vec<_> = fields
            .split(' ')
            .skip(11)
            .take(2)
            .map(str::to_owned)
            .collect();
        times
    };
    hikyaku_testkit::eventually("the server is idle", || {
        let before = used();
        std::thread::sleep(Duration::from_millis(500));
        (used() == before).then_some(())
    });
}

/// Opens an HTTP/1.1 connection that requests a file, and reads nothing.
async fn greedy_h1(address: SocketAddr) -> tokio_rustls::client::TlsStream<TcpStream> {
    let mut tls = client::tls(address, &["http/1.1"]).await.unwrap();
    let request = b"GET /big.bin HTTP/1.1\r\nHost: localhost\r\n\r\n";
    tls.write_all(request).await.unwrap();
    tls
}

/// Opens an HTTP/2 connection that requests `streams` files with a window of `window` bytes for
/// each, and reads nothing.
async fn greedy_h2(
    address: SocketAddr,
    streams: u32,
    window: u32,
) -> tokio_rustls::client::TlsStream<TcpStream> {
    const GET_BIG: &[u8] = &[
        0x82, 0x87, 0x04, 0x08, b'/', b'b', b'i', b'g', b'.', b'b', b'i', b'n',
    ];
    let mut tls = client::tls(address, &["h2"]).await.unwrap();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let settings = frame(4, 0, 0, &[&[0, 4][..], &window.to_be_bytes()].concat());
    let more = frame(8, 0, 0, &(WITHOUT_END - 65_535).to_be_bytes());
    let requests = (0..streams).map(|i| frame(1, 5, 2 * i + 1, &[GET_BIG, &GET[3..]].concat()));
    let all = [preface, settings, more].into_iter().chain(requests);
    tls.write_all(&all.collect::<Vec<_>>().concat())
        .await
        .unwrap();
    tls
}

/// The largest window of HTTP/2 (RFC 9113 §6.9.1).
const WITHOUT_END: u32 = 0x7fff_ffff;

#[test]
fn stalled_connections_hold_little_memory() {
    const CONNECTIONS: u64 = 16;
    let memory = "hikyaku_response_memory_bytes";
    let site = Site::with_big_file(20_000_000);
    // name, the window of HTTP/2, the largest KiB of a connection, the part of it for content
    let cases = [
        ("HTTP/1.1", None, 160, 64),
        ("HTTP/2, a full socket", Some(WITHOUT_END), 1024, 128 + 64),
        ("HTTP/2, full windows", Some(1), 1024, 128 + 64),
    ];
    for (name, window, most, most_content) in cases {
        let server = start(&[site.path()], &[]);
        expect_service(&server);
        let before = peak_memory(server.pid());
        client::block_on(async {
            let mut stalled = Vec::new();
            for _ in 0..CONNECTIONS {
                stalled.push(match window {
                    Some(window) => greedy_h2(server.address(), 100, window).await,
                    None => greedy_h1(server.address()).await,
                });
            }
            wait_idle(server.pid());
            let content = server.metric(memory) as u64;
            assert!(
                content <= CONNECTIONS * most_content * 1024,
                "{name}: {content} B"
            );
            let grown = peak_memory(server.pid()) - before;
            assert!(
                grown <= CONNECTIONS * most,
                "{name}: {grown} KiB for {CONNECTIONS} connections"
            );
            expect_service(&server);
        });
        hikyaku_testkit::eventually("all is given back", || {
            (server.metric(memory) == 0.0).then_some(())
        });
    }
}

#[test]
fn memory_of_an_address_is_limited_and_all_clients_are_served() {
    let site = Site::with_big_file(20_000_000);
    let keys = ["limits.memory_per_address=1MiB", "limits.memory=2MiB"];
    let server = start(&[site.path()], &keys);
    client::block_on(async {
        let mut stalled = Vec::new();
        for _ in 0..12 {
            stalled.push(greedy_h2(server.address(), 20, 1).await);
        }
        hikyaku_testkit::eventually("the address has used its share", || {
            (server.metric("hikyaku_response_memory_bytes") >= 1_048_576.0).then_some(())
        });
        // Each connection may hold one chunk in any case, and one more that it was about to read.
        let most = 1_048_576.0 + 12.0 * 2.0 * 65_536.0;
        assert!(server.metric("hikyaku_response_memory_bytes") <= most);
        for http in Http::ALL {
            let records = get(&["--http", http.option(), &server.url("/big.bin")]);
            assert_eq!(records[0]["body_bytes"], 20_000_000, "{records:?}");
        }
    });
}

#[test]
fn quic_clients_prove_their_address_under_load() {
    let site = site();
    let server = start(&[site.path()], &["limits.quic_retry_above=0"]);
    for count in 1..=3 {
        let records = get(&["--http", "3", &server.url("/")]);
        assert_eq!(records[0]["status"], 200, "{records:?}");
        let retries = server.metric("hikyaku_quic_retries_total{}");
        assert!(retries >= f64::from(count), "{retries}");
    }
}

#[test]
fn streams_at_once_are_limited() {
    let upstream = format!("http://{}", upstream::start(Speaks::Http1));
    let keys = ["limits.streams=4", "proxy.response_timeout=2s"];
    let server = start(&["--upstream", &upstream], &keys);
    client::block_on(async {
        let h3 = H3::connect(server.address()).await.unwrap();
        let mut hanging = Vec::new();
        for _ in 0..4 {
            let request = Request::get("https://localhost/hang").body(()).unwrap();
            let stream = h3.begin(request).await.unwrap();
            hanging.push(stream.finish().await.unwrap());
        }
        let fifth = timeout(Duration::from_millis(500), h3.get("/head")).await;
        assert!(fifth.is_err(), "a fifth stream");
        for mut receiving in hanging {
            let answer = timeout(PATIENCE, receiving.head()).await.unwrap();
            assert_eq!(answer.unwrap().status, 504);
        }
        let answer = timeout(PATIENCE, h3.get("/head")).await.unwrap();
        assert_eq!(answer.unwrap().status, 200);
    });
}
