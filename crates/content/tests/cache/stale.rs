//! Stored responses that are not fresh any more.
//!
//! The upstream says that a response is a minute old, so that no test has to wait for that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use hikyaku_content::{CacheConfig, CacheOutcome};
use http::Method;

use crate::support::*;

const ETAG: (&str, &str) = ("etag", "\"a\"");
const OLD: (&str, &str) = ("age", "60");

#[tokio::test]
async fn a_stale_response_is_validated() {
    let upstream = Upstream::answering(|number, request| {
        let is_known = request
            .headers()
            .get("if-none-match")
            .is_some_and(|tag| tag == "\"a\"");
        let fields = [
            ("cache-control", "max-age=60"),
            ETAG,
            ("x", "new"),
            ("y", "1"),
        ];
        match (number, is_known) {
            (0, _) => {
                let modified = ("last-modified", "Thu, 26 Nov 2026 12:00:00 GMT");
                let fields = [fields[0], ETAG, OLD, ("x", "old"), ("z", "1"), modified];
                response(200, &fields, "content")
            }
            (1, true) => response(304, &fields, ""),
            _ => response(500, &[], "not asked by the tag"),
        }
    })
    .await;
    let site = Site::before(&upstream);
    let first = site.get("/", &[]).await;
    assert_eq!(first.header("age"), Some("60"));
    assert_eq!(first.cache_status(), "hikyaku; fwd=uri-miss; ttl=0; stored");
    // A client's own condition holds for what it gets in the end.
    let got = site
        .get("/", &[("if-none-match", "\"a\""), ("range", "bytes=0-1")])
        .await;
    assert_eq!(got.status, 304);
    assert_eq!(
        got.cache_status(),
        "hikyaku; fwd=stale; fwd-status=304; ttl=60; stored"
    );
    assert_eq!(got.outcome, Some(CacheOutcome::Revalidated));
    assert_eq!(upstream.saw(1, "if-none-match").unwrap(), "\"a\"");
    assert_eq!(
        upstream.saw(1, "if-modified-since").unwrap(),
        "Thu, 26 Nov 2026 12:00:00 GMT"
    );
    assert_eq!(upstream.saw(1, "range"), None);
    let got = site.get("/", &[]).await;
    assert_eq!((got.status, &*got.body), (200, "content"));
    assert_eq!(got.outcome, Some(CacheOutcome::Hit));
    let fields = ["x", "y", "z", "content-length"].map(|name| got.header(name));
    assert_eq!(fields, [Some("new"), Some("1"), Some("1"), Some("7")]);
    assert_eq!(upstream.requests(), 2);
}

#[tokio::test]
async fn another_response_takes_the_place_of_a_stale_one() {
    let upstream = Upstream::answering(|number, _| match number {
        0 => response(200, &[("cache-control", "max-age=60"), OLD, ETAG], "old"),
        1 => response(
            200,
            &[("cache-control", "max-age=60"), ("etag", "\"b\"")],
            "new",
        ),
        _ => response(200, &[("cache-control", "no-store")], "never"),
    })
    .await;
    let site = Site::before(&upstream);
    site.get("/", &[]).await;
    let got = site.send(Method::HEAD, "/", &[]).await;
    assert_eq!(got.header("etag"), Some("\"b\""));
    eventually("it is stored", || site.whole("/", &[]).is_some()).await;
    assert_eq!(site.get("/", &[]).await.body, "new");
    let got = site.get("/", &[("cache-control", "no-cache")]).await;
    assert_eq!(
        (&*got.body, got.cache_status()),
        ("never", "hikyaku; fwd=request")
    );
    assert!(
        site.whole("/", &[]).is_none(),
        "the upstream has taken it back"
    );
}

#[tokio::test]
async fn a_stale_response_is_served_while_the_upstream_is_asked() {
    let upstream = Upstream::answering(|number, _| {
        let stale = ("cache-control", "max-age=60, stale-while-revalidate=60");
        match number {
            0 => response(200, &[stale, OLD], "old"),
            _ => response(200, &[stale], "new"),
        }
    })
    .await;
    let site = Site::before(&upstream);
    site.get("/", &[]).await;
    let got = site.get("/", &[]).await;
    assert_eq!(
        (&*got.body, got.outcome),
        ("old", Some(CacheOutcome::Stale))
    );
    assert_eq!(got.cache_status(), "hikyaku; hit; ttl=0");
    eventually("the upstream is asked", || site.whole("/", &[]).is_some()).await;
    assert_eq!(site.get("/", &[]).await.body, "new");
    assert_eq!(upstream.requests(), 2);
}

#[tokio::test]
async fn a_stale_response_takes_the_place_of_errors() {
    let fails = Arc::new(AtomicBool::new(false));
    let failing = Arc::clone(&fails);
    let upstream = Upstream::answering(move |_, request| match failing.load(Relaxed) {
        true => response(503, &[], "an error"),
        false => {
            let control = match request.uri().path() {
                "/may" => "max-age=60, stale-if-error=600",
                "/must-not" => "max-age=60, stale-if-error=600, must-revalidate",
                _ => "max-age=60",
            };
            response(200, &[("cache-control", control), OLD, ETAG], "old")
        }
    })
    .await;
    let site = Site::before(&upstream);
    for path in ["/may", "/must-not", "/"] {
        site.get(path, &[]).await;
    }
    fails.store(true, Relaxed);
    let got = site.get("/may", &[]).await;
    assert_eq!((got.status, &*got.body), (200, "old"));
    assert_eq!(
        got.cache_status(),
        "hikyaku; fwd=stale; fwd-status=503; ttl=0"
    );
    assert_eq!(got.outcome, Some(CacheOutcome::Stale));
    let asked = upstream.requests();
    let got = site.get("/may", &[]).await;
    assert_eq!(
        (&*got.body, upstream.requests()),
        ("old", asked),
        "it has just failed"
    );
    for path in ["/must-not", "/"] {
        assert_eq!(site.get(path, &[]).await.status, 503, "{path}");
    }
    fails.store(false, Relaxed);
    assert_eq!(
        site.get("/", &[]).await.body,
        "old",
        "an error removes nothing"
    );

    let config = CacheConfig {
        stale_if_error: Duration::from_secs(600),
        ..enabled()
    };
    let site = Site::with(&upstream, config);
    site.get("/", &[]).await;
    fails.store(true, Relaxed);
    assert_eq!(site.get("/", &[]).await.body, "old", "as the operator says");
}

#[tokio::test]
async fn a_304_may_take_a_response_back() {
    let upstream = Upstream::answering(|number, _| match number {
        0 => response(
            200,
            &[("cache-control", "max-age=60"), OLD, ETAG],
            "content",
        ),
        1 => response(304, &[ETAG, ("set-cookie", "id=1")], ""),
        _ => response(200, &[], "asked anew"),
    })
    .await;
    let site = std::sync::Arc::new(Site::before(&upstream));
    site.get("/", &[]).await;
    let (first, second) = tokio::join!(site.get("/", &[]), site.get("/", &[]));
    assert_eq!((first.status, &*first.body), (200, "content"));
    assert_eq!(first.header("set-cookie"), Some("id=1"));
    assert_eq!(second.body, "asked anew", "the cookie is for one client");
    assert!(site.whole("/", &[]).is_none());
}
