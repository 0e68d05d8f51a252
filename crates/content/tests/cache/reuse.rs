//! Responses that are stored and reused while they are fresh.

use hikyaku_content::{CacheOutcome, Peer, Purge, Scheme};
use hikyaku_units::arm::Version;
use http::{Method, Response};

use crate::common::{peer, respond_to};
use crate::support::*;

const FRESH: (&str, &str) = ("cache-control", "max-age=60");

#[tokio::test]
async fn a_fresh_response_is_reused() {
    let upstream = Upstream::answering(|number, _| {
        response(
            200,
            &[FRESH, ("x", "1"), ("x", "2")],
            format!("content {number}"),
        )
    })
    .await;
    let site = Site::before(&upstream);
    let first = site.get("/a", &[]).await;
    assert_eq!((first.status, &*first.body), (200, "content 0"));
    assert_eq!(
        first.cache_status(),
        "hikyaku; fwd=uri-miss; ttl=60; stored"
    );
    assert_eq!(first.outcome, Some(CacheOutcome::Miss));
    assert_eq!(first.header("age"), None);

    let again = site.get("/a", &[]).await;
    assert_eq!(again.body, "content 0");
    assert!(
        again.cache_status().starts_with("hikyaku; hit; ttl="),
        "{again:?}"
    );
    assert_eq!(again.outcome, Some(CacheOutcome::Hit));
    assert!(again.header("age").is_some());
    assert_eq!(again.header("content-length"), Some("9"));
    assert_eq!(again.header("date"), first.header("date"));
    let repeated: Vec<_> = again.headers.get_all("x").iter().collect();
    assert_eq!(repeated, ["1", "2"]);

    let head = site.send(Method::HEAD, "/a", &[]).await;
    assert_eq!(
        (head.header("content-length"), &*head.body),
        (Some("9"), "")
    );
    assert_eq!(
        site.get("/a?b", &[]).await.body,
        "content 1",
        "another target"
    );
    assert_eq!(upstream.requests(), 2);
    let mut request = request(Method::GET, "https://other.example/a", &[]);
    request.headers_mut().remove("host");
    let got = crate::common::respond(&site.content, request, Version::H2).await;
    assert_eq!(Answer::of(got).await.body, "content 2");
    assert_eq!(site.count(CacheOutcome::Hit), 2);
    assert_eq!(site.count(CacheOutcome::Miss), 3);
}

#[tokio::test]
async fn a_stored_response_is_sent_without_waiting() {
    let upstream = Upstream::answering(|_, request| match request.uri().path() {
        "/gone" => response(404, &[FRESH], "gone"),
        "/large" => response(200, &[FRESH], vec![b'x'; (1 << 20) + 1]),
        _ => response(200, &[FRESH, ("content-type", "text/html")], "content"),
    })
    .await;
    let site = Site::before(&upstream);
    assert!(site.whole("/", &[]).is_none(), "it is not stored");
    for path in ["/", "/gone", "/large"] {
        site.get(path, &[]).await;
    }
    let whole = site.whole("/", &[("cookie", "a=1")]).unwrap();
    assert_eq!(whole.content(), "content");
    assert_eq!(whole.headers()["content-length"], "7");
    assert_eq!(whole.headers()["content-type"], "text/html");
    for name in ["age", "date", "cache-status", "via"] {
        assert!(whole.headers().contains_key(name), "{name}");
    }
    assert_eq!(whole.cache_outcome(), Some(CacheOutcome::Hit));
    for (path, fields) in [
        ("/gone", &[][..]),
        ("/large", &[]),
        ("/", &[("cache-control", "no-cache")]),
        ("/", &[("range", "bytes=0-1")]),
        ("/", &[("if-none-match", "*")]),
    ] {
        assert!(site.whole(path, fields).is_none(), "{path} {fields:?}");
    }
    assert_eq!(site.count(CacheOutcome::Hit), 1);
}

#[tokio::test]
async fn conditions_and_ranges_are_answered_from_what_is_stored() {
    let upstream = Upstream::answering(|_, _| {
        let fields = [
            FRESH,
            ("etag", "\"a\""),
            ("last-modified", "Thu, 26 Nov 2026 12:00:00 GMT"),
            ("content-type", "text/plain"),
        ];
        response(200, &fields, "0123456789")
    })
    .await;
    let site = Site::before(&upstream);
    // Even the first client gets the part that it asks for.
    let first = site.get("/", &[("range", "bytes=2-4")]).await;
    assert_eq!((first.status, &*first.body), (206, "234"));
    assert_eq!(upstream.saw(0, "range"), None);
    eventually("it is stored", || site.whole("/", &[]).is_some()).await;
    type Case<'a> = (Fields<'a>, u16, &'a str, Option<&'a str>);
    let cases: &[Case<'_>] = &[
        (&[("range", "bytes=0-0")], 206, "0", Some("bytes 0-0/10")),
        (&[("range", "bytes=-2")], 206, "89", Some("bytes 8-9/10")),
        (
            &[("range", "bytes=20-")],
            416,
            "416 Range Not Satisfiable\n",
            Some("bytes */10"),
        ),
        (&[("range", "bytes=x")], 200, "0123456789", None),
        (
            &[("range", "bytes=1-2"), ("if-range", "\"a\"")],
            206,
            "12",
            Some("bytes 1-2/10"),
        ),
        (
            &[("range", "bytes=1-2"), ("if-range", "\"b\"")],
            200,
            "0123456789",
            None,
        ),
        (&[("if-none-match", "\"b\", W/\"a\"")], 304, "", None),
        (&[("if-none-match", "\"b\"")], 200, "0123456789", None),
        (
            &[("if-modified-since", "Thu, 26 Nov 2026 12:00:00 GMT")],
            304,
            "",
            None,
        ),
        (
            &[("if-modified-since", "Thu, 26 Nov 2026 11:59:59 GMT")],
            200,
            "0123456789",
            None,
        ),
    ];
    for (fields, status, body, content_range) in cases {
        let got = site.get("/", fields).await;
        assert_eq!((got.status, &*got.body), (*status, *body), "{fields:?}");
        assert_eq!(got.header("content-range"), *content_range, "{fields:?}");
        assert_eq!(got.outcome, Some(CacheOutcome::Hit), "{fields:?}");
        if got.status == 304 {
            assert_eq!(got.header("etag"), Some("\"a\""));
            assert_eq!(got.header("content-type"), None);
        }
    }
    let parts = site.get("/", &[("range", "bytes=0-1,4-5")]).await;
    assert_eq!(parts.status, 206);
    let media_type = parts.header("content-type").unwrap();
    assert!(
        media_type.starts_with("multipart/byteranges; boundary="),
        "{media_type}"
    );
    assert!(
        parts
            .body
            .contains("content-range: bytes 4-5/10\r\n\r\n45\r\n"),
        "{}",
        parts.body
    );
    assert_eq!(upstream.requests(), 1);
}

#[tokio::test]
async fn variants_are_stored_by_the_fields_that_choose_them() {
    let upstream = Upstream::answering(|_, request| {
        let language = request.headers().get("accept-language");
        let language = language.map_or("none", |value| value.to_str().unwrap());
        let fields = [FRESH, ("vary", "Accept-Language, Accept-Encoding")];
        response(200, &fields, language.to_owned())
    })
    .await;
    let site = Site::before(&upstream);
    let language = |value| [("accept-language", value)];
    assert_eq!(site.get("/", &language("de")).await.body, "de");
    let other = site.get("/", &language("en")).await;
    assert_eq!(other.body, "en");
    assert!(
        other.cache_status().starts_with("hikyaku; fwd=vary-miss;"),
        "{other:?}"
    );
    assert_eq!(site.get("/", &[]).await.body, "none");
    assert_eq!(upstream.requests(), 3);
    for (fields, want) in [
        (&language("DE")[..], "de"),
        (&language("en"), "en"),
        (&[], "none"),
    ] {
        let got = site.get("/", fields).await;
        assert_eq!((&*got.body, got.outcome), (want, Some(CacheOutcome::Hit)));
    }
    assert_eq!(upstream.requests(), 3);
}

#[tokio::test]
async fn clients_say_what_they_want() {
    let upstream =
        Upstream::answering(|number, _| response(200, &[FRESH], number.to_string())).await;
    let site = Site::before(&upstream);
    let with = |value| [("cache-control", value)];
    let got = site.get("/", &with("only-if-cached")).await;
    assert_eq!((got.status, upstream.requests()), (504, 0));
    assert_eq!(site.get("/", &with("no-store")).await.body, "0");
    assert_eq!(site.get("/", &[]).await.body, "1", "nothing was stored");
    assert_eq!(site.get("/", &with("only-if-cached")).await.body, "1");
    let got = site.get("/", &with("no-cache")).await;
    assert_eq!(
        (&*got.body, got.cache_status()),
        ("2", "hikyaku; fwd=request; ttl=60; stored")
    );
    let got = site.get("/", &[("pragma", "no-cache")]).await;
    assert_eq!(got.body, "3");
    assert_eq!(site.get("/", &with("min-fresh=61")).await.body, "4");
    assert_eq!(
        site.get("/", &with("min-fresh=30, max-age=30")).await.body,
        "4"
    );
}

#[tokio::test]
async fn changes_make_the_stored_response_go() {
    let upstream = Upstream::answering(|number, request| match *request.method() {
        Method::GET => response(200, &[FRESH], number.to_string()),
        _ => match request.uri().path() {
            "/fails" => response(500, &[], ""),
            _ => response(
                201,
                &[
                    ("location", "/made"),
                    ("content-location", "https://other.example/b"),
                ],
                "",
            ),
        },
    })
    .await;
    let site = Site::before(&upstream);
    let is_stored = |path: &'static str| site.whole(path, &[]).is_some();
    for path in ["/a", "/b", "/made", "/fails"] {
        site.get(path, &[]).await;
    }
    let got = site.send(Method::OPTIONS, "/a", &[]).await;
    assert_eq!(got.cache_status(), "hikyaku; fwd=method");
    assert!(is_stored("/a"), "OPTIONS is safe");
    site.send(Method::POST, "/fails", &[]).await;
    assert!(is_stored("/fails"), "nothing has changed");
    let got = site.send(Method::POST, "/a", &[]).await;
    assert_eq!((got.status, got.outcome), (201, Some(CacheOutcome::Pass)));
    assert!(!is_stored("/a") && !is_stored("/made") && is_stored("/b"));
}

#[tokio::test]
async fn an_answer_without_content_is_stored_too() {
    let upstream = Upstream::answering(|_, request| -> Response<UpstreamBody> {
        match request.uri().path() {
            "/moved" => response(301, &[("location", "/a"), FRESH], ""),
            "/none" => response(204, &[FRESH], ""),
            _ => response(404, &[FRESH], "nothing"),
        }
    })
    .await;
    let site = Site::before(&upstream);
    for path in ["/moved", "/none", "/absent"] {
        let first = site.get(path, &[]).await;
        eventually("it is stored", || site.caches.statuses()[0].entries > 0).await;
        let again = site.get(path, &[("range", "bytes=0-1")]).await;
        assert_eq!(
            (again.status, &again.body),
            (first.status, &first.body),
            "{path}"
        );
        assert_eq!(again.header("location"), first.header("location"));
        assert_eq!(again.outcome, Some(CacheOutcome::Hit), "{path}");
    }
    assert_eq!(upstream.requests(), 3);
}

#[tokio::test]
async fn a_response_that_is_sent_without_waiting_needs_no_allocation() {
    let upstream =
        Upstream::answering(|_, _| response(200, &[FRESH, ("vary", "accept-encoding")], "content"))
            .await;
    let site = Site::before(&upstream);
    let fields = [("accept-encoding", "gzip, br"), ("accept", "*/*")];
    site.get("/a?b", &fields).await;
    let request = request(Method::GET, "/a?b", &fields).map(|_| ());
    let peer = crate::common::peer(Version::H2);
    let count = || {
        let hit = || assert!(site.content.whole_file(&request, &peer).is_some());
        allocation_counter::measure(hit).count_total
    };
    // The head is made anew each second.
    assert_eq!((0..5).map(|_| count()).min(), Some(0));
}

/// The scheme is part of a resource's address (RFC 9110 §4.2.2).
#[tokio::test]
async fn responses_in_the_clear_are_others() {
    let upstream =
        Upstream::answering(|number, _| response(200, &[FRESH], format!("{number}"))).await;
    let site = Site::before(&upstream);
    let get = async |scheme| {
        let peer = Peer {
            scheme,
            ..peer(Version::H1)
        };
        let request = request(Method::GET, "/a", &[]);
        Answer::of(respond_to(&site.content, request, &peer).await).await
    };
    let (http, https) = (Scheme::Http, Scheme::Https);
    let mut bodies = Vec::new();
    for scheme in [http, https, http, https] {
        bodies.push(get(scheme).await.body);
    }
    assert_eq!(bodies, ["0", "1", "0", "1"]);
    assert_eq!(
        upstream.saw(0, "x-forwarded-proto").as_deref(),
        Some("http")
    );
    let purged = |url: &str| site.caches.purge(&Purge::Url(url.to_owned())).unwrap();
    assert_eq!(purged("http://site.example:80/a"), 1);
    assert_eq!(get(http).await.body, "2");
    assert_eq!(get(https).await.body, "1");
    let purge = Purge::Url("ftp://site.example/a".to_owned());
    let error = site.caches.purge(&purge).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("`ftp://site.example/a` is no URL"),
        "{error}"
    );
    let purge = Purge::Prefix("http://site.example/".to_owned());
    assert_eq!(site.caches.purge(&purge).unwrap(), 1);
}
