//! Requests that are asked of another upstream when one has failed.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::mortal::{Mortal, nobody};
use crate::support::{
    Edge, Kind, Upstream, echo, eventually, full, impatient, no_body, post, raw_upstream, read,
    reason,
};
use hikyaku_content::ProxyConfig;
use http::{Method, Response, StatusCode};
use tokio::io::AsyncReadExt;

/// Settings under which no upstream is avoided.
fn never_avoided() -> ProxyConfig {
    ProxyConfig {
        avoid_after: 0,
        ..ProxyConfig::default()
    }
}

#[tokio::test]
async fn a_post_that_was_sent_is_never_repeated() {
    let mut lost = Mortal::start().await;
    let others = [Mortal::start().await, Mortal::start().await];
    let urls = [lost.url(), others[0].url(), others[1].url()];
    let edge = Arc::new(Edge::of_group(&urls, &ProxyConfig::default()));
    let next = Arc::new(AtomicUsize::new(0));
    let clients = [(); 20].map(|()| {
        let (edge, next) = (Arc::clone(&edge), Arc::clone(&next));
        tokio::spawn(async move {
            let mut failed = 0;
            loop {
                let number = next.fetch_add(1, Relaxed);
                if number >= 2000 {
                    return failed;
                }
                let response = edge.send(post(&format!("/{number}"), full("order"))).await;
                match response.status() {
                    StatusCode::OK => drop(read(response).await),
                    status => {
                        assert_eq!(status, 502, "{}", reason(&response));
                        failed += 1;
                    }
                }
            }
        })
    });
    eventually("load", || (next.load(Relaxed) >= 500).then_some(())).await;
    lost.kill().await;
    let mut failed = 0;
    for client in clients {
        failed += client.await.unwrap();
    }
    assert!(failed <= 20, "{failed}: those under way at most");
    let seen = [lost.seen(), others[0].seen(), others[1].seen()].concat();
    let once: HashSet<_> = seen.iter().collect();
    assert_eq!(seen.len(), once.len(), "none was seen twice");
    assert!(once.len() >= 2000 - failed, "all others were answered");
}

#[tokio::test]
async fn what_an_upstream_got_nothing_of_is_asked_of_another() {
    let urls = [
        format!("http://{}", nobody().await),
        Mortal::start().await.url(),
    ];
    let edge = Edge::of_group(&urls, &never_avoided());
    for _ in 0..10 {
        assert_eq!(edge.send(post("/", full("x"))).await.status(), 200);
    }
    let status = edge.status(&urls[0]);
    assert!(
        status.repeats > 0 && status.repeats == status.failures,
        "{status:?}"
    );
}

#[tokio::test]
async fn an_idempotent_request_is_repeated_with_its_content() {
    let takes_and_closes = raw_upstream(|mut stream, _| async move {
        let _ = stream.read(&mut [0; 1024]).await;
    })
    .await;
    let other = Upstream::start(Kind::Http1, echo).await;
    let urls = [format!("http://{takes_and_closes}"), other.url()];
    for (method, is_repeated) in [(Method::PUT, true), (Method::PATCH, false)] {
        let edge = Edge::of_group(&urls, &never_avoided());
        for _ in 0..10 {
            let mut request = post("/", full("content"));
            *request.method_mut() = method.clone();
            let response = edge.send(request).await;
            match response.status() {
                StatusCode::OK => assert_eq!(read(response).await, "content"),
                status => assert!(!is_repeated && status == 502, "{method}: {status}"),
            }
        }
        let status = edge.status(&urls[0]);
        assert!(status.failures > 0, "{method}");
        assert_eq!(status.repeats > 0, is_repeated, "{method}");
    }
}

#[tokio::test]
async fn an_upstream_that_does_not_answer_in_time_has_failed() {
    let hangs = raw_upstream(|stream, _| async move {
        let _open = stream;
        std::future::pending::<()>().await;
    })
    .await;
    let urls = [format!("http://{hangs}"), Mortal::start().await.url()];
    let edge = Edge::of_group(&urls, &impatient());
    for _ in 0..10 {
        assert_eq!(edge.get("/").await.status(), 200);
    }
    let status = edge.status(&urls[0]);
    assert!(
        status.failures <= 3 && status.repeats == status.failures,
        "{status:?}"
    );
}

#[tokio::test]
async fn a_status_counts_as_a_failure_where_it_is_configured() {
    let busy = Upstream::start(Kind::Http1, |_| async {
        let mut response = Response::new(full("busy"));
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        response
    })
    .await;
    let other = Mortal::start().await;
    let urls = [busy.url(), other.url()];
    let config = ProxyConfig {
        failure_status: vec![503],
        ..never_avoided()
    };
    let edge = Edge::of_group(&urls, &config);
    for _ in 0..10 {
        assert_eq!(edge.get("/").await.status(), 200);
    }
    let failures = edge.status(&busy.url()).failures;
    assert!(failures > 0);
    let mut refused = 0;
    for _ in 0..10 {
        let response = edge.send(post("/", no_body())).await;
        if response.status() == 503 {
            assert_eq!(read(response).await, "busy");
            refused += 1;
        }
    }
    let status = edge.status(&busy.url());
    assert_eq!(status.failures, failures + refused, "no POST is repeated");

    let edge = Edge::of_group(&urls, &never_avoided());
    for _ in 0..10 {
        edge.get("/").await;
    }
    assert_eq!(
        edge.status(&busy.url()).failures,
        0,
        "it is an answer as any other"
    );
}

#[tokio::test]
async fn where_all_are_down_the_last_cause_is_reported_and_repeats_are_few() {
    let urls = [nobody().await, nobody().await].map(|address| format!("http://{address}"));
    let edge = Edge::of_group(&urls, &ProxyConfig::default());
    for _ in 0..100 {
        let response = edge.get("/").await;
        assert_eq!(response.status(), 502);
        let reason = reason(&response);
        assert!(
            reason.contains("connecting: Connection refused"),
            "{reason}"
        );
        let named = |url: &String| reason.starts_with(&url.replace("http://", "upstream "));
        assert!(urls.iter().any(named), "{reason}");
    }
    let repeats = urls.iter().map(|url| edge.status(url).repeats).sum::<u64>();
    assert_eq!(repeats, 30, "ten, and a fifth of the requests");
}
