//! Active checks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::mortal::Mortal;
use crate::support::{Edge, Kind, Upstream, eventually, full, proxy};
use hikyaku_content::proxy::HealthConfig;
use hikyaku_content::{ProxyConfig, Upstreams};
use http::{Response, StatusCode};
use tokio::runtime::Handle;

fn checked(path: &str) -> ProxyConfig {
    ProxyConfig {
        health: Some(HealthConfig {
            path: path.to_owned(),
            interval: Duration::from_millis(100),
            ..HealthConfig::default()
        }),
        slow_start: Duration::ZERO,
        ..ProxyConfig::default()
    }
}

/// An upstream whose checks, at `/healthz`, succeed while it is well, and the number of checks.
async fn upstream(kind: Kind, is_well: &Arc<AtomicBool>) -> (Upstream, Arc<AtomicUsize>) {
    let checks = Arc::new(AtomicUsize::new(0));
    let (is_well, count) = (Arc::clone(is_well), Arc::clone(&checks));
    let upstream = Upstream::start(kind, move |request| {
        let is_check = request.uri().path() == "/healthz";
        count.fetch_add(usize::from(is_check), Relaxed);
        let is_fine = !is_check || is_well.load(Relaxed);
        async move {
            let mut response = Response::new(full("x"));
            if !is_fine {
                *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            }
            response
        }
    });
    (upstream.await, checks)
}

#[tokio::test]
async fn checks_turn_an_upstream_off_and_on() {
    for kind in [Kind::Http1, Kind::Http2] {
        let is_well = Arc::new(AtomicBool::new(true));
        let (upstream, checks) = upstream(kind, &is_well).await;
        let other = Mortal::start().await;
        let url = upstream.url();
        let edge = Edge::of_group(&[url.clone(), other.url()], &checked("/healthz"));
        edge.upstreams.start_checks();
        let becomes = async |is_up: bool| {
            let seen = || (edge.status(&url).is_up == is_up).then_some(());
            eventually(&format!("{kind:?} up: {is_up}"), seen).await;
        };
        eventually("checks", || (checks.load(Relaxed) >= 3).then_some(())).await;
        assert!(edge.status(&url).is_up);
        is_well.store(false, Relaxed);
        becomes(false).await;
        let before = edge.status(&url).requests;
        for _ in 0..20 {
            assert_eq!(edge.get("/").await.status(), 200);
        }
        assert_eq!(edge.status(&url).requests, before, "{kind:?}");
        is_well.store(true, Relaxed);
        becomes(true).await;
        for _ in 0..20 {
            assert_eq!(edge.get("/").await.status(), 200);
        }
        assert!(edge.status(&url).requests > before, "{kind:?}");
        let seen = upstream.last_seen();
        assert_eq!(seen.version, kind.version());
    }
}

#[tokio::test]
async fn an_upstream_without_clients_is_found_dead() {
    let mut dies = Mortal::start().await;
    let urls = [dies.url(), Mortal::start().await.url()];
    let edge = Edge::of_group(&urls, &checked("/"));
    edge.upstreams.start_checks();
    eventually("a check", || (!dies.seen().is_empty()).then_some(())).await;
    assert_eq!(dies.seen()[0], "GET /");
    dies.kill().await;
    let down = || (!edge.status(&urls[0]).is_up).then_some(());
    eventually("it is down", down).await;
    assert_eq!(edge.status(&urls[0]).requests, 0, "checks are no requests");
    assert!(edge.status(&urls[1]).is_up);
}

#[tokio::test]
async fn checks_are_replaced_by_those_of_new_content_and_end_with_it() {
    let upstreams = Upstreams::default();
    let is_well = Arc::new(AtomicBool::new(false));
    let (upstream, checks) = upstream(Kind::Http1, &is_well).await;
    let urls = [upstream.url()];
    let before = Handle::current().metrics().num_alive_tasks();
    let first = proxy(&urls, &checked("/healthz"), &upstreams).unwrap();
    upstreams.start_checks();
    let down = || (!upstreams.statuses()[0].is_up).then_some(());
    eventually("it is down", down).await;

    // The former content may live as long as its connections do.
    let second = proxy(&urls, &checked("/healthz"), &upstreams).unwrap();
    assert!(!upstreams.statuses()[0].is_up, "what was known is kept");
    upstreams.start_checks();
    drop(first);
    assert!(!upstreams.statuses()[0].is_up);
    is_well.store(true, Relaxed);
    let up = || upstreams.statuses()[0].is_up.then_some(());
    eventually("it is up", up).await;

    drop(second);
    upstreams.start_checks();
    let ended = || (upstreams.statuses().is_empty()).then_some(());
    eventually("its state is dropped", ended).await;
    let all_ended = || (Handle::current().metrics().num_alive_tasks() <= before).then_some(());
    eventually("no task is left", all_ended).await;
    let last = checks.load(Relaxed);
    tokio::time::sleep(Duration::from_millis(250)).await;
    assert_eq!(checks.load(Relaxed), last, "nobody asks any more");
}
