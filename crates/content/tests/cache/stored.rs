//! Responses that are stored, and those that never are.

use hikyaku_content::{AccessConfig, CacheConfig, CacheOutcome, SiteConfig};
use hikyaku_units::ByteSize;

use crate::support::*;

/// Whether the second of two requests with these fields is a hit, for a response with those.
async fn is_reused(request: Fields<'static>, answer: Fields<'static>) -> bool {
    let upstream = Upstream::answering(move |_, _| response(200, answer, "content")).await;
    let site = Site::before(&upstream);
    let first = site.get("/", request).await;
    assert_eq!(first.body, "content");
    let is_stored = first.cache_status().ends_with("; stored");
    let again = site.get("/", request).await;
    let is_hit = again.outcome == Some(CacheOutcome::Hit);
    assert_eq!(is_stored, is_hit, "{request:?} {answer:?}");
    is_hit
}

#[tokio::test]
async fn what_is_for_one_user_is_stored_for_nobody() {
    const FRESH: (&str, &str) = ("cache-control", "max-age=60");
    const PUBLIC: (&str, &str) = ("cache-control", "public, max-age=60");
    const COOKIE: (&str, &str) = ("set-cookie", "id=1");
    const USER: (&str, &str) = ("authorization", "Basic eDp5");
    let cases: &[(Fields<'static>, Fields<'static>, bool)] = &[
        (&[], &[FRESH], true),
        (&[("cookie", "id=1")], &[FRESH], true),
        (&[], &[("cache-control", "private, max-age=60")], false),
        (&[], &[("cache-control", "no-store")], false),
        (&[], &[FRESH, ("vary", "*")], false),
        (&[], &[FRESH, ("vary", "x-forwarded-for")], false),
        (&[], &[], false),
        (&[], &[FRESH, COOKIE], false),
        (&[], &[PUBLIC, COOKIE], true),
        (&[USER], &[FRESH], false),
        (&[USER], &[PUBLIC], true),
        (
            &[],
            &[
                ("cdn-cache-control", "max-age=60"),
                ("cache-control", "private"),
            ],
            true,
        ),
    ];
    for (request, answer, want) in cases {
        assert_eq!(
            is_reused(request, answer).await,
            *want,
            "{request:?} {answer:?}"
        );
    }
}

#[tokio::test]
async fn a_route_that_asks_who_its_users_are_has_no_other_responses() {
    let upstream = Upstream::answering(|_, request| match request.uri().path() {
        "/verify" => response(200, &[("remote-user", "a")], ""),
        "/public" => response(200, &[("cache-control", "public, max-age=60")], "for all"),
        _ => response(200, &[("cache-control", "max-age=60")], "for one"),
    })
    .await;
    let access = format!(
        "forward_auth = {{ url = \"http://{}/verify\" }}",
        upstream.address
    );
    let config = SiteConfig {
        cache: enabled(),
        access: toml::from_str::<AccessConfig>(&access).unwrap(),
        ..SiteConfig::default()
    };
    let site = Site::of(&upstream, config);
    for (path, want) in [("/", CacheOutcome::Miss), ("/public", CacheOutcome::Hit)] {
        site.get(path, &[]).await;
        assert_eq!(site.get(path, &[]).await.outcome, Some(want), "{path}");
        assert!(site.whole(path, &[]).is_none(), "{path}");
    }
}

#[tokio::test]
async fn fields_that_are_private_go_to_their_client_alone() {
    let upstream = Upstream::answering(|_, _| {
        let control = ("cache-control", "max-age=60, private=\"set-cookie, x\"");
        response(
            200,
            &[control, ("set-cookie", "id=1"), ("x", "1"), ("y", "1")],
            "content",
        )
    })
    .await;
    let site = Site::before(&upstream);
    let first = site.get("/", &[]).await;
    assert_eq!(
        (first.header("set-cookie"), first.header("x")),
        (Some("id=1"), Some("1"))
    );
    let again = site.get("/", &[]).await;
    assert_eq!(again.outcome, Some(CacheOutcome::Hit));
    assert_eq!(
        (again.header("set-cookie"), again.header("x")),
        (None, None)
    );
    assert_eq!(again.header("y"), Some("1"));
}

#[tokio::test]
async fn large_responses_pass() {
    let upstream = Upstream::answering(|_, request| {
        let fresh = [("cache-control", "max-age=60")];
        let body = vec![b'x'; 5000];
        match request.uri().path() {
            "/known" => response(200, &fresh, body),
            _ => {
                let (sender, content) = piecewise();
                for piece in body.chunks(500) {
                    sender
                        .send(Ok(bytes::Bytes::copy_from_slice(piece)))
                        .unwrap();
                }
                streaming(200, &fresh, content)
            }
        }
    })
    .await;
    let config = CacheConfig {
        object_size: ByteSize::from_bytes(2000),
        ..enabled()
    };
    let site = Site::with(&upstream, config);
    for path in ["/known", "/unknown"] {
        for _ in 0..2 {
            let got = site.get(path, &[]).await;
            assert_eq!(got.body.len(), 5000, "{path}");
            assert_eq!(got.outcome, Some(CacheOutcome::Miss), "{path}");
        }
        assert!(site.whole(path, &[]).is_none(), "{path}");
    }
    let part = site.get("/known", &[("range", "bytes=0-1")]).await;
    assert_eq!(part.status, 200, "the upstream has none");
    assert_eq!(
        upstream.saw(4, "range").unwrap(),
        "bytes=0-1",
        "it is asked for the part"
    );
}

#[tokio::test]
async fn the_memory_is_bounded() {
    let upstream = Upstream::answering(|_, _| {
        response(200, &[("cache-control", "max-age=60")], vec![b'x'; 10_000])
    })
    .await;
    let config = CacheConfig {
        memory: ByteSize::from_kib(256),
        object_size: ByteSize::from_kib(16),
        ..enabled()
    };
    let site = Site::with(&upstream, config);
    for number in 0..100 {
        site.get(&format!("/{number}"), &[]).await;
        assert!(site.caches.statuses()[0].bytes <= 256 << 10);
    }
    let status = &site.caches.statuses()[0];
    assert!(status.evictions >= 70, "{status:?}");
    assert!((1..30).contains(&status.entries), "{status:?}");
}

#[tokio::test]
async fn a_response_that_may_be_stored_ends_the_passing() {
    let upstream = Upstream::answering(|number, _| match number {
        0 => response(200, &[], "not stored"),
        _ => response(200, &[("cache-control", "max-age=60")], "content"),
    })
    .await;
    let site = Site::before(&upstream);
    for want in [CacheOutcome::Miss; 3] {
        assert_eq!(site.get("/", &[]).await.outcome, Some(want));
    }
    assert_eq!(site.get("/", &[]).await.outcome, Some(CacheOutcome::Hit));
    assert_eq!(upstream.requests(), 3);
}
