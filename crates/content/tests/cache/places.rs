//! The cache between the other parts of a route.

use hikyaku_content::files::Coding;
use hikyaku_content::{
    CacheConfig, CacheOutcome, CompressionConfig, Content, HeadersConfig, RouteConfig, SiteConfig,
};

use crate::support::*;

const FRESH: (&str, &str) = ("cache-control", "max-age=60");

fn routes(text: &str) -> Vec<RouteConfig> {
    #[derive(serde::Deserialize)]
    struct Keys {
        route: Vec<RouteConfig>,
    }
    toml::from_str::<Keys>(text).unwrap().route
}

#[tokio::test]
async fn the_key_is_what_the_client_asked_for() {
    let upstream =
        Upstream::answering(|_, request| response(200, &[FRESH], request.uri().to_string())).await;
    let config = SiteConfig {
        cache: CacheConfig {
            ignore_query: vec!["utm_*".to_owned()],
            ..enabled()
        },
        routes: routes(
            "[[route]]\npath = \"/a\"\nrewrite = \"/x?from=a\"\n\
             [[route]]\npath = \"/b\"\nrewrite = \"/x?from=b\"",
        ),
        ..SiteConfig::default()
    };
    let site = Site::of(&upstream, config);
    assert_eq!(site.get("/a?utm_source=1&q", &[]).await.body, "/x?from=a");
    assert_eq!(site.get("/b", &[]).await.body, "/x?from=b");
    let got = site.get("/a?q&utm_medium=2", &[]).await;
    assert_eq!(
        (&*got.body, got.outcome),
        ("/x?from=a", Some(CacheOutcome::Hit))
    );
    assert_eq!(site.whole("/b", &[]).unwrap().content(), "/x?from=b");
    assert_eq!(upstream.requests(), 2);
}

#[tokio::test]
async fn compression_and_changed_fields_come_after_the_cache() {
    let upstream = Upstream::answering(|_, _| {
        response(
            200,
            &[FRESH, ("content-type", "text/html"), ("etag", "\"a\"")],
            "x".repeat(5000),
        )
    })
    .await;
    let mut response_headers = HeadersConfig::default();
    response_headers
        .set
        .insert("x-added".to_owned(), "1".to_owned());
    response_headers.remove.push("cache-status".to_owned());
    let config = SiteConfig {
        cache: enabled(),
        compression: CompressionConfig {
            encodings: vec![Coding::Gzip],
            ..CompressionConfig::default()
        },
        response_headers,
        ..SiteConfig::default()
    };
    let site = Site::of(&upstream, config);
    let gzip = [("accept-encoding", "gzip")];
    for _ in 0..2 {
        let response = site.respond(http::Method::GET, "/", &gzip).await;
        assert_eq!(response.headers()["content-encoding"], "gzip");
        assert_eq!(response.headers()["x-added"], "1");
        assert!(!response.headers().contains_key("cache-status"));
        drop(response);
    }
    assert!(site.whole("/", &gzip).is_none(), "it is compressed first");
    let got = site
        .get("/", &[("if-none-match", "W/\"a~coded-gzip\"")])
        .await;
    assert_eq!(
        (got.status, got.header("etag")),
        (304, Some("W/\"a~coded-gzip\""))
    );
    assert_eq!(upstream.requests(), 1);
}

#[tokio::test]
async fn a_route_may_have_its_own_settings() {
    let upstream = Upstream::answering(|_, _| response(200, &[("etag", "\"a\"")], "content")).await;
    let config = SiteConfig {
        cache: enabled(),
        routes: routes(
            "[[route]]\npath = \"/off\"\ncache = {}\n\
             [[route]]\npath = \"/ttl\"\ncache = { enabled = true, default_ttl = \"1m\" }",
        ),
        ..SiteConfig::default()
    };
    let site = Site::of(&upstream, config);
    for (path, want) in [
        ("/off", None),
        ("/ttl", Some(CacheOutcome::Hit)),
        ("/", Some(CacheOutcome::Miss)),
    ] {
        site.get(path, &[]).await;
        assert_eq!(site.get(path, &[]).await.outcome, want, "{path}");
    }
}

#[tokio::test]
async fn a_reload_keeps_what_is_stored() {
    let upstream = Upstream::answering(|_, _| response(200, &[FRESH], "content")).await;
    let site = Site::before(&upstream);
    site.get("/", &[]).await;
    let url = format!("http://{}", upstream.address);
    let config = SiteConfig {
        upstream: Some(url.as_str().into()),
        caches: site.caches.clone(),
        cache: CacheConfig {
            heuristic: false,
            ..enabled()
        },
        ..SiteConfig::default()
    };
    let content = Content::new(&[config]).unwrap();
    let site = Site {
        content: std::sync::Arc::new(content),
        caches: site.caches,
    };
    assert!(site.whole("/", &[]).is_some());
}

#[test]
fn settings_that_do_not_fit_are_reported() {
    let site = |cache: CacheConfig, route: &str| SiteConfig {
        upstream: Some("http://127.0.0.1:1".into()),
        cache,
        routes: routes(route),
        ..SiteConfig::default()
    };
    let cases = [
        (
            site(
                enabled(),
                "[[route]]\npath = \"/a\"\ncache = { enabled = true, memory = \"1MiB\" }",
            ),
            "in the route for `/a`: `cache.memory`, `cache.dir`, `cache.disk`, `cache.object_size` and `cache.ignore_query` are the site's",
        ),
        (
            site(
                CacheConfig {
                    ignore_query: vec!["a&b".to_owned()],
                    ..enabled()
                },
                "route = []",
            ),
            "in the site: `cache.ignore_query` has a name that is no parameter's",
        ),
    ];
    for (config, want) in cases {
        let error = Content::new(&[config]).unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
    }
}
