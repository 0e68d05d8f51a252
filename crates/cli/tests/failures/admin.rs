//! The admin API's clients, and descriptors that run out.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::{ended, is_served, times};
use hikyaku_testkit::client::{self, H2, H3};
use hikyaku_testkit::{Server, Site, eventually, has};

#[test]
fn silent_clients_of_the_admin_api_do_not_stop_the_server() {
    let site = Site::new(&[("index.html", b"start")]);
    let server = Server::start(&[site.path()]);
    let silent: Vec<TcpStream> = (0..300)
        .map(|_| TcpStream::connect(server.admin).unwrap())
        .collect();
    server.wait_log("admin connections beyond 256 are closed");
    let closed = || silent.iter().filter_map(ended).count();
    eventually("those beyond", || (closed() >= 44).then_some(()));
    is_served(&server);
    drop(silent);
    eventually("a place", || {
        let mut stream = TcpStream::connect(server.admin).unwrap();
        let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let _ = stream.write_all(request.as_bytes());
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer.ends_with("ok\n").then_some(())
    });
    assert_eq!(times(&server, "admin connections beyond"), 1);
}

#[test]
fn watchers_that_take_nothing_are_ended() {
    let site = Site::new(&[("index.html", b"start")]);
    let server = Server::start(&[site.path(), "--set", "timeouts.send=1s"]);
    let mut watcher = TcpStream::connect(server.admin).unwrap();
    let request = "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n";
    watcher.write_all(request.as_bytes()).unwrap();
    watcher.set_nonblocking(true).unwrap();
    // Many pipelined scrapes, of which no answer is read.
    let mut scraper = TcpStream::connect(server.admin).unwrap();
    scraper.set_nonblocking(true).unwrap();
    let scrape = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1000);
    // Events that soon fill every buffer.
    let long = format!("/?{}", "x".repeat(20_000));
    client::block_on(async {
        let mut h2 = H2::connect(server.address()).await.unwrap();
        let h3 = H3::connect(server.address()).await.unwrap();
        let begun = std::time::Instant::now();
        let (mut watching, mut scraping) = (true, true);
        while watching || scraping {
            watching &= ended(&watcher).is_none();
            scraping &= ended(&scraper).is_none();
            // The kernel ends a silent connection silently. Only further data gets a reset.
            let _ = watcher.write(b"\r\n");
            let _ = scraper.write(scrape.as_bytes());
            assert_eq!(h2.get(&long).await.unwrap().status, 200);
            assert_eq!(h3.get(&long).await.unwrap().status, 200);
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "watcher {watching}, scraper {scraping}"
            );
        }
    });
    assert_eq!(server.admin("/healthz"), "ok\n");
}

#[test]
fn running_out_of_descriptors_is_said_once_and_passes() {
    const TEST: &str = "running_out_of_descriptors_is_said_once_and_passes";
    if !has(TEST, "prlimit") {
        return;
    }
    let site = Site::new(&[("index.html", b"start")]);
    let args = [site.path(), "--set", "timeouts.handshake=60s"];
    let server = Server::try_start_by(&["prlimit", "--nofile=80:80"], &args).unwrap();
    client::block_on(async {
        let mut h2 = H2::connect(server.address()).await.unwrap();
        assert_eq!(h2.get("/").await.unwrap().status, 200);
        let many: Vec<TcpStream> = (0..100)
            .map(|_| TcpStream::connect(server.address()).unwrap())
            .collect();
        server.wait_log("accepting TCP connections: Too many open files");
        let admins: Vec<TcpStream> = (0..4)
            .map(|_| TcpStream::connect(server.admin).unwrap())
            .collect();
        server.wait_log("accepting admin connections: Too many open files");
        tokio::time::sleep(Duration::from_millis(500)).await;
        // Existing clients, and new ones over UDP, are served.
        assert_eq!(h2.get("/").await.unwrap().status, 200);
        let h3 = H3::connect(server.address()).await.unwrap();
        assert_eq!(h3.get("/").await.unwrap().status, 200);
        drop((many, admins));
    });
    is_served(&server);
    assert_eq!(times(&server, "Too many open files"), 2, "{}", server.log());
    let failures = server.metric("hikyaku_accept_failures_total{}");
    assert!(failures >= 5.0, "{failures}");
}
