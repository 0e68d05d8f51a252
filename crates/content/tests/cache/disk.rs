//! Responses that are stored on disk, too.

use std::path::Path;

use hikyaku_content::{CacheConfig, CacheOutcome, Purge};
use http::Method;

use crate::support::*;

const FRESH: (&str, &str) = ("cache-control", "max-age=60");

fn on_disk(dir: &Path) -> CacheConfig {
    CacheConfig {
        dir: Some(dir.to_owned()),
        ..enabled()
    }
}

/// Waits until so many files are written.
async fn written(site: &Site, files: u64) {
    eventually("the disk has them", || {
        site.caches.statuses()[0]
            .disk
            .is_some_and(|(_, count)| count == files)
    })
    .await;
}

/// The site after a restart.
async fn restarted(site: Site, upstream: &Upstream, dir: &Path) -> Site {
    let caches = site.caches.clone();
    drop(site);
    eventually("nobody has the directory", || caches.statuses().is_empty()).await;
    Site::with(upstream, on_disk(dir))
}

#[tokio::test]
async fn a_restart_keeps_what_is_stored() {
    let upstream = Upstream::answering(|_, request| {
        let language = request.headers().get("accept-language");
        let language = language
            .map_or("none", |value| value.to_str().unwrap())
            .to_owned();
        match request.uri().path() {
            "/varies" => response(200, &[FRESH, ("vary", "accept-language")], language),
            "/stale" => match request.headers().contains_key("if-none-match") {
                true => response(
                    304,
                    &[("cache-control", "max-age=60"), ("etag", "\"a\"")],
                    "",
                ),
                false => {
                    let fields = [
                        FRESH,
                        ("age", "60"),
                        ("etag", "\"a\""),
                        ("x", "1"),
                        ("x", "2"),
                    ];
                    response(200, &fields, "stale")
                }
            },
            _ => response(404, &[FRESH], "nothing"),
        }
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let site = Site::with(&upstream, on_disk(dir.path()));
    let german = [("accept-language", "de")];
    site.get("/varies", &german).await;
    site.get("/varies", &[]).await;
    site.get("/stale", &[]).await;
    site.get("/absent", &[]).await;
    // The names of the fields that choose have a file of their own.
    written(&site, 5).await;
    assert_eq!(upstream.requests(), 4);

    let site = restarted(site, &upstream, dir.path()).await;
    for (path, fields, status, body) in [
        ("/varies", &german[..], 200, "de"),
        ("/varies", &[], 200, "none"),
        ("/absent", &[], 404, "nothing"),
    ] {
        let got = site.get(path, fields).await;
        assert_eq!((got.status, &*got.body), (status, body), "{path}");
        assert_eq!(got.outcome, Some(CacheOutcome::Hit), "{path}");
        assert!(got.header("age").is_some(), "{path}");
    }
    assert!(
        site.whole("/varies", &german).is_some(),
        "it is in memory now"
    );
    assert_eq!(upstream.requests(), 4);

    let got = site.get("/stale", &[]).await;
    assert_eq!(
        (&*got.body, got.outcome),
        ("stale", Some(CacheOutcome::Revalidated))
    );
    assert_eq!(got.headers.get_all("x").iter().count(), 2);
    assert_eq!(upstream.requests(), 5);
    let site = restarted(site, &upstream, dir.path()).await;
    let got = site.get("/stale", &[]).await;
    assert_eq!(
        (&*got.body, got.outcome),
        ("stale", Some(CacheOutcome::Hit)),
        "with its new head"
    );
    assert_eq!(upstream.requests(), 5);
}

#[tokio::test]
async fn what_is_gone_from_memory_is_gone_from_disk() {
    let upstream = Upstream::answering(|_, request| match *request.method() {
        Method::GET => response(200, &[FRESH, ("cache-tag", "t"), ("vary", "x")], "content"),
        _ => response(204, &[], ""),
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let mut site = Site::with(&upstream, on_disk(dir.path()));
    let url = "https://site.example/a".to_owned();
    let purges = [
        Some(Purge::Url(url.clone())),
        Some(Purge::Prefix(url)),
        Some(Purge::Tag("t".to_owned())),
        None,
    ];
    for (number, purge) in purges.iter().enumerate() {
        site.get("/a", &[]).await;
        written(&site, 2).await;
        match purge {
            Some(purge) => assert!(site.caches.purge(purge).unwrap() > 0),
            None => assert_eq!(site.send(Method::POST, "/a", &[]).await.status, 204),
        }
        site = restarted(site, &upstream, dir.path()).await;
        let before = upstream.requests();
        assert_eq!(
            site.get("/a", &[]).await.outcome,
            Some(CacheOutcome::Miss),
            "{purge:?}"
        );
        assert_eq!(upstream.requests(), before + 1, "{number}");
        site.caches
            .purge(&Purge::Prefix("https://site.example/".to_owned()))
            .unwrap();
        written(&site, 0).await;
    }
}

#[test]
fn a_directory_that_is_none_is_reported() {
    let config = hikyaku_content::SiteConfig {
        upstream: Some("http://127.0.0.1:1".into()),
        cache: on_disk(Path::new("/dev/null")),
        ..hikyaku_content::SiteConfig::default()
    };
    let error = hikyaku_content::Content::new(&[config])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("in the site: `cache.dir`: opening /dev/null/.others: "),
        "{error}"
    );
}
