//! Requests at once, which share one request to the upstream.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::future::join_all;
use hikyaku_content::{CacheConfig, CacheOutcome};
use hikyaku_units::ByteSize;
use http::Method;
use tokio::sync::{Semaphore, mpsc};

use crate::support::*;

const FRESH: (&str, &str) = ("cache-control", "max-age=60");

/// An upstream whose answers wait for a permit each.
async fn holding(
    answer: impl Fn(usize, &http::Request<()>) -> http::Response<UpstreamBody> + Send + Sync + 'static,
) -> (Upstream, Arc<Semaphore>) {
    let permits = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&permits);
    let upstream = Upstream::waiting(move |number, request| {
        let (held, response) = (Arc::clone(&held), answer(number, request));
        Box::pin(async move {
            held.acquire().await.unwrap().forget();
            response
        })
    })
    .await;
    (upstream, permits)
}

/// Sends requests at once, and lets the upstream answer when all of them wait.
async fn at_once(
    site: &Arc<Site>,
    permits: &Semaphore,
    fields: Vec<Fields<'static>>,
) -> Vec<Answer> {
    let requests = fields.into_iter().map(|fields| {
        let site = Arc::clone(site);
        async move { site.get("/", fields).await }
    });
    let all = join_all(requests);
    let mut all = Box::pin(all);
    // Each of them is polled once before any has an answer.
    let first = futures_util::future::poll_immediate(&mut all).await;
    assert!(first.is_none());
    permits.add_permits(10_000);
    all.await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_requests_at_once_are_one_for_the_upstream() {
    let (upstream, permits) =
        holding(|number, _| response(200, &[FRESH], format!("content {number}"))).await;
    let site = Arc::new(Site::before(&upstream));
    let answers = at_once(&site, &permits, vec![&[]; 1000]).await;
    assert_eq!(answers.len(), 1000);
    for answer in &answers {
        assert_eq!((answer.status, &*answer.body), (200, "content 0"));
    }
    assert_eq!(upstream.requests(), 1);
    assert_eq!(site.count(CacheOutcome::Miss), 1);
    let status = answers[999].cache_status();
    assert_eq!(status, "hikyaku; fwd=uri-miss; ttl=60; stored; collapsed");
    assert_eq!(answers[999].outcome, Some(CacheOutcome::Collapsed));
}

#[tokio::test]
async fn each_variant_is_asked_for_once() {
    let (upstream, permits) = holding(|_, request| {
        let language = &request.headers()["accept-language"];
        let language = language.to_str().unwrap().to_owned();
        response(200, &[FRESH, ("vary", "accept-language")], language)
    })
    .await;
    let site = Arc::new(Site::before(&upstream));
    let languages: [Fields<'static>; 3] = [
        &[("accept-language", "de")],
        &[("accept-language", "en")],
        &[("accept-language", "ja")],
    ];
    let fields: Vec<_> = (0..30).map(|number| languages[number % 3]).collect();
    let answers = at_once(&site, &permits, fields.clone()).await;
    for (answer, fields) in answers.iter().zip(fields) {
        assert_eq!(answer.body, fields[0].1);
    }
    assert_eq!(upstream.requests(), 3);
}

#[tokio::test]
async fn what_is_not_stored_is_asked_for_by_each_at_once() {
    let (upstream, permits) =
        holding(|number, _| response(200, &[("cache-control", "private")], number.to_string()))
            .await;
    let site = Arc::new(Site::before(&upstream));
    let answers = at_once(&site, &permits, vec![&[]; 20]).await;
    let mut bodies: Vec<usize> = answers.iter().map(|it| it.body.parse().unwrap()).collect();
    bodies.sort_unstable();
    assert_eq!(bodies, (0..20).collect::<Vec<_>>(), "each has its own");

    // From now on none waits for another.
    let (upstream, permits) = holding(|_, _| response(200, &[], "")).await;
    let site = Arc::new(Site::before(&upstream));
    permits.add_permits(1);
    site.get("/", &[]).await;
    let mut all = Box::pin(join_all((0..5).map(|_| site.get("/", &[]))));
    assert!(
        futures_util::future::poll_immediate(&mut all)
            .await
            .is_none()
    );
    let (all, ()) = tokio::join!(all, async {
        eventually("all of them ask", || upstream.requests() == 6).await;
        permits.add_permits(5);
    });
    assert_eq!(all.len(), 5);
}

/// The sender of the last response's content.
type Pieces = Arc<Mutex<Option<mpsc::UnboundedSender<Result<Bytes, hikyaku_content::BoxError>>>>>;

/// An upstream whose content the test sends bit by bit.
async fn sent_in_pieces() -> (Upstream, Pieces) {
    let pieces = Pieces::default();
    let made = Arc::clone(&pieces);
    let upstream = Upstream::answering(move |_, _| {
        let (sender, body) = piecewise();
        *made.lock().unwrap() = Some(sender);
        streaming(200, &[FRESH], body)
    });
    (upstream.await, pieces)
}

#[tokio::test]
async fn others_read_what_has_arrived() {
    let (upstream, pieces) = sent_in_pieces().await;
    let site = Site::before(&upstream);
    let mut first = site.respond(Method::GET, "/", &[]).await.into_body();
    let sender = pieces.lock().unwrap().take().unwrap();
    sender.send(Ok(Bytes::from_static(b"abc"))).unwrap();
    assert_eq!(piece(&mut first).await.unwrap().unwrap(), "abc");
    let second = site.respond(Method::GET, "/", &[]).await;
    let mut second = second.into_body();
    assert_eq!(
        piece(&mut second).await.unwrap().unwrap(),
        "abc",
        "before the end"
    );
    // The client whose request it was goes away.
    drop(first);
    sender.send(Ok(Bytes::from_static(b"def"))).unwrap();
    assert_eq!(piece(&mut second).await.unwrap().unwrap(), "def");
    drop(sender);
    assert!(piece(&mut second).await.is_none());
    let got = site.get("/", &[]).await;
    assert_eq!(
        (&*got.body, got.outcome),
        ("abcdef", Some(CacheOutcome::Hit))
    );
    assert_eq!(upstream.requests(), 1);
}

#[tokio::test]
async fn a_client_that_goes_takes_the_response_from_nobody() {
    let (upstream, permits) = holding(|_, _| response(200, &[FRESH], "content")).await;
    let site = Site::before(&upstream);
    let mut first = Box::pin(site.get("/", &[]));
    let mut second = Box::pin(site.get("/", &[]));
    assert!(
        futures_util::future::poll_immediate(&mut first)
            .await
            .is_none()
    );
    assert!(
        futures_util::future::poll_immediate(&mut second)
            .await
            .is_none()
    );
    drop(first);
    permits.add_permits(10);
    assert_eq!(second.await.body, "content");
    assert_eq!(upstream.requests(), 1);
}

#[tokio::test]
async fn a_response_that_breaks_off_is_whole_for_nobody() {
    let pieces = Arc::new(Mutex::new(Vec::new()));
    let made = Arc::clone(&pieces);
    let upstream = Upstream::answering(move |number, _| {
        if number > 0 {
            return response(200, &[FRESH], "whole");
        }
        let (sender, body) = piecewise();
        made.lock().unwrap().push(sender);
        streaming(200, &[FRESH], body)
    })
    .await;
    let site = Site::before(&upstream);
    let mut first = site.respond(Method::GET, "/", &[]).await.into_body();
    let mut second = site.respond(Method::GET, "/", &[]).await.into_body();
    let sender = pieces.lock().unwrap().pop().unwrap();
    sender.send(Ok(Bytes::from_static(b"torn"))).unwrap();
    for body in [&mut first, &mut second] {
        assert_eq!(piece(body).await.unwrap().unwrap(), "torn");
    }
    sender.send(Err("reset".into())).unwrap();
    for body in [&mut first, &mut second] {
        assert!(piece(body).await.unwrap().is_err());
    }
    assert_eq!(site.get("/", &[]).await.body, "whole");
    assert_eq!(upstream.requests(), 2);
}

#[tokio::test]
async fn content_that_grows_too_large_reaches_all_who_read_it() {
    let (upstream, pieces) = sent_in_pieces().await;
    let config = CacheConfig {
        object_size: ByteSize::from_bytes(2000),
        ..enabled()
    };
    let site = Site::with(&upstream, config);
    let first = site.respond(Method::GET, "/", &[]).await;
    let second = site.respond(Method::GET, "/", &[]).await;
    let sender = pieces.lock().unwrap().take().unwrap();
    for _ in 0..100 {
        sender.send(Ok(Bytes::from_static(&[b'x'; 1000]))).unwrap();
    }
    drop(sender);
    let (first, second) = tokio::join!(Answer::of(first), Answer::of(second));
    assert_eq!((first.body.len(), second.body.len()), (100_000, 100_000));
    assert_eq!(upstream.requests(), 1);
    assert!(site.whole("/", &[]).is_none());
}

#[tokio::test]
async fn an_upstream_that_can_not_be_asked_fails_once_for_all() {
    let upstream = Upstream::at(std::net::SocketAddr::from(([127, 0, 0, 1], 1)));
    let site = Site::before(&upstream);
    let answers = join_all((0..10).map(|_| site.get("/", &[]))).await;
    for answer in answers {
        assert_eq!((answer.status, &*answer.body), (502, "502 Bad Gateway\n"));
    }
}
