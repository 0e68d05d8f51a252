//! Memory that clients take which read nothing.

use std::net::SocketAddr;
use std::time::Duration;

use hikyaku_testkit::client;
use hikyaku_testkit::fetch::Http;
use hikyaku_testkit::{Site, get};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::*;

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
