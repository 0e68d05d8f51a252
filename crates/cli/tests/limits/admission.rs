//! Connections and streams that are too many.

use std::time::{Duration, Instant};

use hikyaku_testkit::client::{self, H2, H3};
use hikyaku_testkit::upstream::{self, Speaks};
use hikyaku_testkit::{PATIENCE, get};
use http::Request;
use tokio::time::timeout;

use crate::support::*;

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
