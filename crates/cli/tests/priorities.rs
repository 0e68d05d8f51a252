//! Priorities of responses (RFC 9218) over real sockets. Content that has been given to the transport goes before
//! all that is more urgent. So there has to be little of it.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hikyaku_testkit::client::{self, H2, H3};
use hikyaku_testkit::{PATIENCE, Server, Site, noise};
use http::Request;
use http_body_util::BodyExt as _;

/// More than a connection may hold of responses, so that the large one never ends before the small one.
const LARGE: usize = 30_000_000;
const SMALL: usize = 20_000;
/// Bytes of the large response after which the small one is asked for: more than what leaves before the rate is
/// bounded.
const BEGUN: u64 = 1_500_000;
/// Bytes of the large response that may still come: what waits in the kernel, in TLS and on the way. It would be
/// over a megabyte if the kernel held as much as it does by default.
const MOST: u64 = 250_000;

fn server() -> (Site, Server) {
    let site = Site::new(&[("small", &noise(SMALL)), ("large", &noise(LARGE))]);
    let server = Server::start(&[site.path(), "--set", "policy.max_pacing_rate=8Mbps"]);
    (site, server)
}

fn request(path: &str, priority: &str) -> Request<()> {
    let request = Request::get(format!("https://localhost{path}")).header("priority", priority);
    request.body(()).unwrap()
}

/// Waits until so many bytes have come.
async fn reaches(came: &AtomicU64, count: u64) {
    let begun = Instant::now();
    while came.load(Ordering::Relaxed) < count {
        assert!(begun.elapsed() < PATIENCE, "never: {count} bytes");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn an_urgent_response_overtakes_on_http2() {
    let (_site, server) = server();
    client::block_on(async {
        let mut settings = h2::client::Builder::new();
        settings
            .initial_window_size(1 << 26)
            .initial_connection_window_size(1 << 26);
        let mut h2 = H2::connect_with(server.address(), &settings).await.unwrap();
        let came = Arc::new(AtomicU64::new(0));
        let (large, _) = h2
            .requests
            .send_request(request("/large", "u=5"), true)
            .unwrap();
        let counted = Arc::clone(&came);
        tokio::spawn(async move {
            let mut body = large.await.unwrap().into_body();
            while let Some(Ok(data)) = body.data().await {
                counted.fetch_add(data.len() as u64, Ordering::Relaxed);
            }
        });
        reaches(&came, BEGUN).await;
        let before = came.load(Ordering::Relaxed);
        let small = request("/small", "u=0").map(|()| Bytes::new());
        let small = h2.send(small, None).await.unwrap();
        let between = came.load(Ordering::Relaxed) - before;
        assert_eq!((small.status, small.body.len()), (200, SMALL));
        assert!(between < MOST, "{between} bytes came before it");
    });
}

#[test]
fn an_urgent_response_overtakes_on_http3() {
    let (_site, server) = server();
    client::block_on(async {
        let h3 = H3::connect_with(server.address(), Some(1 << 26))
            .await
            .unwrap();
        let came = Arc::new(AtomicU64::new(0));
        let large = h3.begin(request("/large", "u=5")).await.unwrap();
        let counted = Arc::clone(&came);
        tokio::spawn(async move {
            let mut receiving = large.finish().await.unwrap();
            receiving.head().await.unwrap();
            while let Some(Ok(frame)) = receiving.frame().await {
                let length = frame.data_ref().map_or(0, Bytes::len);
                counted.fetch_add(length as u64, Ordering::Relaxed);
            }
        });
        reaches(&came, BEGUN).await;
        let before = came.load(Ordering::Relaxed);
        let small = request("/small", "u=0").map(|()| Bytes::new());
        let small = h3.send(small).await.unwrap();
        let between = came.load(Ordering::Relaxed) - before;
        assert_eq!((small.status, small.body.len()), (200, SMALL));
        assert!(between < MOST, "{between} bytes came before it");
        h3.close().await;
    });
}
