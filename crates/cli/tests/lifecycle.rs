//! Starts, reloads, stops and crashes, with clients in the middle of it.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hikyaku_h3_quic::{Code, Receiving, StreamError};
use hikyaku_testkit::client::{self, H2, H3};
use hikyaku_testkit::{PATIENCE, Server, Site, certificate, eventually, get, hikyaku};
use http::Request;
use http_body_util::BodyExt;
use redb::{Database, TableDefinition};
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

#[test]
fn a_reload_keeps_connections_and_is_refused_whole() {
    let site = Site::new(&[
        ("index.html", b"start"),
        ("old.html", b"old page"),
        ("new.html", b"new page"),
    ]);
    let config = tempfile::NamedTempFile::new().unwrap();
    let write = |not_found: &str| {
        let text = format!("root = {:?}\n\n[files]\n{not_found}\n", site.path());
        fs::write(config.path(), text).unwrap();
    };
    write("not_found = \"old.html\"");
    let server = Server::start(&["--config", config.path().to_str().unwrap()]);
    client::block_on(async {
        let mut h2 = H2::connect(server.address()).await.unwrap();
        let h3 = H3::connect(server.address()).await.unwrap();
        let mut expect = async |want: &str| {
            let over_h2 = h2.get("/nowhere").await.unwrap();
            let over_h3 = h3.get("/nowhere").await.unwrap();
            for got in [over_h2, over_h3] {
                assert_eq!((got.status, got.text()), (404, want));
            }
        };
        expect("old page").await;

        write("not_found = \"new.html\"");
        server.signal(Signal::HUP);
        server.wait_log("configuration reloaded");
        expect("new page").await;

        let bad = [
            ("not_fund = \"old.html\"", "unknown field `not_fund`"),
            (
                "listing = 3",
                "invalid type: integer `3`, expected a boolean",
            ),
            ("index = [", "unclosed array, expected `]`"),
        ];
        for (count, (line, why)) in bad.into_iter().enumerate() {
            write(line);
            server.signal(Signal::HUP);
            let log = server.wait_log(why);
            assert!(log.contains("configuration refused, the former stays in force"));
            assert!(log.contains("line 4"), "{log}");
            assert_eq!(log.matches("configuration refused").count(), count + 1);
            expect("new page").await;
        }

        let text = format!("root = {:?}\nmptcp = false\n", site.path());
        fs::write(config.path(), text).unwrap();
        server.signal(Signal::HUP);
        server.wait_log("`listen` can't change while the server runs; restart it for that");
        expect("new page").await;
    });
}

#[test]
fn replaced_certificates_are_used_without_a_signal() {
    let site = Site::new(&[("index.html", b"start")]);
    let dir = tempfile::tempdir().unwrap();
    let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    let put = |(certificate, private): &(String, String)| {
        fs::write(&cert, certificate).unwrap();
        fs::write(&key, private).unwrap();
    };
    let (first, second) = (certificate(), certificate());
    put(&first);
    let args = [
        site.path(),
        "--cert",
        cert.to_str().unwrap(),
        "--key",
        key.to_str().unwrap(),
    ];
    let server = Server::start(&args);
    let trusts = |(certificate, _): &(String, String), http: &str| {
        let roots = dir.path().join("roots.pem");
        fs::write(&roots, certificate).unwrap();
        let roots = roots.to_str().unwrap();
        let url = format!("https://localhost:{}/", server.port());
        let to = format!("localhost:{}:127.0.0.1", server.port());
        let args = [
            "get",
            "--fail",
            "--http",
            http,
            "--cacert",
            roots,
            "--resolve",
            &to,
            &url,
        ];
        hikyaku(&args).status.success()
    };
    for http in ["1.1", "2", "3"] {
        assert!(trusts(&first, http), "HTTP/{http}");
        assert!(!trusts(&second, http), "HTTP/{http}");
    }
    put(&second);
    server.wait_log("certificate changed; fingerprint (SHA-256)");
    for http in ["1.1", "2", "3"] {
        assert!(trusts(&second, http), "HTTP/{http}");
        assert!(!trusts(&first, http), "HTTP/{http}");
    }
    // One half of a pair has changed: the former pair stays.
    fs::write(&cert, &first.0).unwrap();
    server.wait_log("certificate not reloaded, the former stays in use");
    assert!(trusts(&second, "3"));
}

#[test]
fn the_access_log_is_opened_anew_on_sighup() {
    let site = Site::new(&[("index.html", b"start")]);
    let server = Server::start(&[site.path()]);
    get(&[&server.url("/?before")]);
    server.wait_access("the first request", |line| line["path"] == "/?before");
    let rotated = server.dir().join("access.log.1");
    fs::rename(server.access_path(), &rotated).unwrap();
    server.signal(Signal::HUP);
    server.wait_log("configuration reloaded");
    get(&[&server.url("/?after")]);
    server.wait_access("the second request", |line| line["path"] == "/?after");
    let old = fs::read_to_string(&rotated).unwrap();
    assert!(
        old.contains("/?before") && !old.contains("/?after"),
        "{old}"
    );
    assert_eq!(server.access_lines().len(), 1);
}

/// The last seconds that a crash may lose.
const MAY_BE_LOST: Duration = Duration::from_secs(5);

#[test]
fn a_killed_server_knows_its_clients_again() {
    let site = Site::with_big_file(200_000);
    // Each kill has its waiting time; three servers are killed in that time.
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| is_killed_and_knows_its_clients(&site));
        }
    });
}

fn is_killed_and_knows_its_clients(site: &Site) {
    let state = tempfile::tempdir().unwrap();
    let args = [site.path(), "--state", state.path().to_str().unwrap()];
    let mut server = Server::start(&args);
    for round in 1..=4 {
        let client = format!("127.0.7.{round}");
        let records = get(&["--local", &client, &server.url("/big.bin")]);
        assert_eq!(records[0]["status"], 200, "{records:?}");
        // Other clients keep the store writing until the very end.
        let done = Arc::new(AtomicBool::new(false));
        let writing = thread::spawn({
            let (done, url) = (Arc::clone(&done), server.url("/"));
            move || {
                for last in (1..=254).cycle() {
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                    get(&[
                        "--timeout",
                        "1s",
                        "--local",
                        &format!("127.0.8.{last}"),
                        &url,
                    ]);
                }
            }
        });
        thread::sleep(MAY_BE_LOST);
        server.signal(Signal::KILL);
        server.wait_exit();
        done.store(true, Ordering::Relaxed);
        writing.join().unwrap();

        server = Server::start(&args);
        assert!(!server.log().contains("can't be read"), "{}", server.log());
        assert!(
            server.log().contains("known from before"),
            "{}",
            server.log()
        );
        for known in 1..=round {
            let client = format!("127.0.7.{known}");
            let explained = server.admin_json(&format!("/v1/clients/{client}"));
            let own = &explained["levels"][0];
            assert_eq!(own["key"], *client, "round {round}: {explained:#}");
            assert!(own["samples"].as_f64().unwrap() > 0.0, "{explained:#}");
        }
    }
}

#[test]
fn a_stopped_server_keeps_its_last_samples() {
    let site = Site::with_big_file(200_000);
    let state = tempfile::tempdir().unwrap();
    let args = [site.path(), "--state", state.path().to_str().unwrap()];
    let mut server = Server::start(&args);
    get(&[&server.url("/big.bin")]);
    server.signal(Signal::TERM);
    assert!(server.wait_exit().success());
    let server = Server::start(&args);
    let explained = server.admin_json("/v1/clients/127.0.0.1");
    assert_eq!(explained["levels"][0]["key"], "127.0.0.1", "{explained:#}");
}

#[test]
fn unusable_stores_are_set_aside() {
    let site = Site::new(&[("index.html", b"start")]);
    let good = good_store(&site);
    let foreign = |path: &Path| {
        let table: TableDefinition<'_, u64, u64> = TableDefinition::new("clients-1");
        let database = Database::create(path).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(table).unwrap().insert(1, 2).unwrap();
        transaction.commit().unwrap();
    };
    let cases: [(&str, &dyn Fn(&Path)); 5] = [
        ("noise", &|path| {
            fs::write(path, hikyaku_testkit::noise(100_000)).unwrap();
        }),
        ("text", &|path| fs::write(path, "not a store\n").unwrap()),
        ("truncated", &|path| {
            fs::write(path, &good[..good.len() / 2]).unwrap();
        }),
        ("damaged", &|path| {
            let mut bytes = good.clone();
            bytes[..4096].copy_from_slice(&hikyaku_testkit::noise(4096));
            fs::write(path, bytes).unwrap();
        }),
        ("of another program", &foreign),
    ];
    for (name, make) in cases {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("clients.redb");
        make(&path);
        let before = fs::read(&path).unwrap();
        let server = Server::start(&[site.path(), "--state", state.path().to_str().unwrap()]);
        let log = server.log();
        assert!(log.contains("can't be read"), "{name}: {log}");
        assert!(log.contains("it is kept as"), "{name}: {log}");
        assert_eq!(get(&[&server.url("/")])[0]["status"], 200, "{name}");
        let kept = fs::read_dir(state.path()).unwrap().find_map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            name.contains("unreadable").then_some(path)
        });
        let kept = fs::read(kept.unwrap()).unwrap();
        // redb may have marked a file of its own format as open.
        assert!(kept == before || kept.len() >= before.len(), "{name}");
    }
}

/// The content of a store that a server has written.
fn good_store(site: &Site) -> Vec<u8> {
    let state = tempfile::tempdir().unwrap();
    let args = [site.path(), "--state", state.path().to_str().unwrap()];
    let mut server = Server::start(&args);
    get(&[&server.url("/")]);
    server.signal(Signal::TERM);
    assert!(server.wait_exit().success());
    fs::read(state.path().join("clients.redb")).unwrap()
}

#[test]
fn an_empty_store_file_is_begun_anew() {
    let site = Site::new(&[("index.html", b"start")]);
    let state = tempfile::tempdir().unwrap();
    fs::write(state.path().join("clients.redb"), "").unwrap();
    let server = Server::start(&[site.path(), "--state", state.path().to_str().unwrap()]);
    assert_eq!(get(&[&server.url("/")])[0]["status"], 200);
}

#[test]
fn a_store_has_one_server() {
    let site = Site::new(&[("index.html", b"start")]);
    let state = tempfile::tempdir().unwrap();
    let args = [site.path(), "--state", state.path().to_str().unwrap()];
    let first = Server::start(&args);
    let path = state.path().join("clients.redb");
    assert!(
        first.log().contains(path.to_str().unwrap()),
        "{}",
        first.log()
    );
    let refused = Server::try_start(&args).err().unwrap();
    assert!(
        refused.contains("another hikyaku uses it; give each its own --state"),
        "{refused}"
    );
    assert!(refused.contains(path.to_str().unwrap()), "{refused}");
    assert_eq!(get(&[&first.url("/")])[0]["status"], 200);
}

#[test]
fn without_state_it_says_so() {
    let site = Site::new(&[("index.html", b"start")]);
    let server = Server::start(&[site.path()]);
    assert!(
        server.log().contains("in memory: measurements are lost"),
        "{}",
        server.log()
    );
    eventually("the admin page", || TcpStream::connect(server.admin).ok());
    assert_eq!(server.admin("/healthz"), "ok\n");
}
