//! Purges by URL, by the beginning of URLs, and by tag.

use std::sync::Arc;

use hikyaku_content::Purge;
use tokio::sync::Semaphore;

use crate::support::*;

const FRESH: (&str, &str) = ("cache-control", "max-age=60");

#[tokio::test]
async fn what_is_meant_goes_and_all_else_stays() {
    let upstream = Upstream::answering(|_, request| {
        let fields = match request.uri().path() {
            "/img/a" => [FRESH, ("cache-tag", "img, a"), ("vary", "x")],
            "/img/b" => [FRESH, ("surrogate-key", "img b"), ("vary", "x")],
            _ => [FRESH, ("cache-tag", "page"), ("vary", "x")],
        };
        response(200, &fields, "content")
    })
    .await;
    let site = Site::before(&upstream);
    let paths = ["/img/a", "/img/b", "/img/b?q=1", "/page"];
    let url = |path: &str| format!("https://Site.example:443{path}");
    // the purge, how many responses go, and the paths that stay
    let cases: &[(Purge, usize, &[&str])] = &[
        (
            Purge::Url(url("/img/b")),
            2,
            &["/img/a", "/img/b?q=1", "/page"],
        ),
        (Purge::Url(url("/img")), 0, &paths),
        (
            Purge::Url("https://other.example/page".to_owned()),
            0,
            &paths,
        ),
        (Purge::Prefix(url("/img/")), 6, &["/page"]),
        (Purge::Prefix(url("/")), 8, &[]),
        (Purge::Tag("img".to_owned()), 6, &["/page"]),
        (Purge::Tag("b".to_owned()), 4, &["/img/a", "/page"]),
        (Purge::Tag("im".to_owned()), 0, &paths),
    ];
    for (purge, count, stay) in cases {
        for path in paths {
            for x in ["1", "2"] {
                let got = site.get(path, &[("x", x)]).await;
                assert_eq!(
                    (got.header("cache-tag"), got.header("surrogate-key")),
                    (None, None)
                );
            }
        }
        assert_eq!(site.caches.purge(purge).unwrap(), *count, "{purge:?}");
        for path in paths {
            let is_there = site.whole(path, &[("x", "1")]).is_some();
            assert_eq!(is_there, stay.contains(&path), "{purge:?} {path}");
        }
    }
}

#[tokio::test]
async fn all_can_go_at_once() {
    let upstream = Upstream::answering(|_, _| response(200, &[FRESH], "content")).await;
    let site = Site::before(&upstream);
    for path in ["/a", "/b"] {
        site.get(path, &[]).await;
    }
    assert_eq!(site.caches.clear(), 2);
    assert!(site.whole("/a", &[]).is_none() && site.whole("/b", &[]).is_none());
}

#[tokio::test]
async fn a_purge_holds_for_what_is_under_way() {
    let permits = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&permits);
    let upstream = Upstream::waiting(move |number, _| {
        let held = Arc::clone(&held);
        Box::pin(async move {
            held.acquire().await.unwrap().forget();
            response(200, &[FRESH], number.to_string())
        })
    })
    .await;
    let site = Site::before(&upstream);
    let purges = [
        Purge::Url("https://site.example/".to_owned()),
        Purge::Prefix("https://site.example/".to_owned()),
        Purge::Tag("any".to_owned()),
    ];
    for (number, purge) in purges.iter().enumerate() {
        let mut before = Box::pin(site.get("/", &[]));
        assert!(
            futures_util::future::poll_immediate(&mut before)
                .await
                .is_none()
        );
        assert_eq!(site.caches.purge(purge).unwrap(), 0);
        permits.add_permits(1);
        assert_eq!(before.await.body, number.to_string());
        assert!(
            site.whole("/", &[]).is_none(),
            "it may be from before {purge:?}"
        );
    }
}

#[test]
fn a_url_has_a_host() {
    let caches = hikyaku_content::Caches::default();
    for url in ["", "/path", "no url"] {
        // Without a cache nothing is looked for.
        assert_eq!(caches.purge(&Purge::Tag(url.to_owned())).unwrap(), 0);
        let error = Purge::Url(url.to_owned()).check().unwrap_err().to_string();
        assert!(error.contains("https://www.example.org/"), "{error}");
    }
}
