//! Memory of connections that are idle.

use std::time::Duration;

use hikyaku_testkit::client::{self, H2, H3};
use hikyaku_testkit::fetch::Http;
use hikyaku_testkit::{Server, eventually};

use crate::support::*;

/// Connections after which the server holds all that they share.
const FIRST: u64 = 64;
/// Connections that are measured.
const COUNT: u64 = 256;
/// Bytes that a connection may hold after one request. `make bench` has the figures of a release build
/// (docs/performance.md); in a debug build tasks are larger.
const LIMITS: [(Http, u64); 2] = [(Http::H2, 16 * 1024), (Http::H3, 38 * 1024)];

/// The server's memory once it does not change any more.
fn memory_at_rest(server: &Server) -> u64 {
    eventually("the server is at rest", || {
        let before = server.memory();
        std::thread::sleep(Duration::from_millis(500));
        (server.memory() == before).then_some(before)
    })
}

/// A connection that has had an answer.
enum Open {
    H2(#[allow(dead_code, reason = "held open")] H2),
    H3(#[allow(dead_code, reason = "held open")] H3),
}

async fn open(http: Http, server: &Server) -> Open {
    if http == Http::H2 {
        let mut h2 = H2::connect(server.address()).await.unwrap();
        assert_eq!(h2.get("/").await.unwrap().status, 200);
        return Open::H2(h2);
    }
    let h3 = H3::connect(server.address()).await.unwrap();
    assert_eq!(h3.get("/").await.unwrap().status, 200);
    Open::H3(h3)
}

#[test]
fn idle_connections_hold_little_memory() {
    let site = site();
    for (http, limit) in LIMITS {
        let server = start(&[site.path()], &["timeouts.idle=10m"]);
        client::block_on(async {
            let mut connections = Vec::new();
            for _ in 0..FIRST {
                connections.push(open(http, &server).await);
            }
            let before = memory_at_rest(&server);
            for _ in 0..COUNT {
                connections.push(open(http, &server).await);
            }
            let each = memory_at_rest(&server).saturating_sub(before) / COUNT;
            assert!(each < limit, "{http:?}: {each} bytes for each connection");
            let name = format!("hikyaku_connections{{version=\"{}\"}}", http.name());
            assert_eq!(server.metric(&name) as u64, FIRST + COUNT, "{http:?}");
        });
    }
}
