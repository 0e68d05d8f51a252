//! Routes of a site, over files of real directories and to a real upstream.
#![allow(clippy::unwrap_used)]

mod access;
#[allow(dead_code, reason = "of the socket, which routes do not need")]
#[path = "../common/mod.rs"]
mod common;
mod errors;
mod fields;
mod support;

use http::{Method, Request};
use support::{Site, error_of};

#[tokio::test]
async fn the_longest_prefix_is_taken() {
    let site = Site::new(
        r#"
        root = "ROOT/www"
        [[route]]
        path = "/docs"
        root = "ROOT/docs"
        strip_prefix = true
        [[route]]
        path = ["/docs/api", "/v1"]
        answer = { status = 200, body = "api" }
        "#,
    )
    .await;
    let cases = [
        ("/", 200, "www index"),
        ("/a.txt", 200, "www a"),
        ("/docs/", 200, "docs index"),
        ("/docs/a.txt", 200, "docs a"),
        ("//docs///a.txt", 200, "docs a"),
        ("/%64ocs/a.txt", 200, "docs a"),
        ("/docs/a.txt?q", 200, "docs a"),
        ("/docs/api", 200, "api"),
        ("/docs/api/x", 200, "api"),
        ("/v1/x", 200, "api"),
        ("/docs/apix", 404, "404 Not Found\n"),
        ("/docsx", 404, "404 Not Found\n"),
        ("/docs/../a.txt", 400, "400 Bad Request\n"),
        ("/docs%2f..%2fa.txt", 400, "400 Bad Request\n"),
    ];
    for (path, status, body) in cases {
        let answer = site.get(path).await;
        assert_eq!((answer.status, answer.text()), (status, body), "{path}");
    }
}

#[tokio::test]
async fn directories_get_their_slash_where_the_client_is() {
    let site = Site::new(
        r#"
        root = "ROOT/www"
        [[route]]
        path = "/docs"
        root = "ROOT/docs"
        strip_prefix = true
        "#,
    )
    .await;
    // The page is in memory when it is asked for without its slash.
    site.get("/docs/").await;
    for (path, location) in [
        ("/docs", "./docs/"),
        ("/docs?a=1", "./docs/?a=1"),
        ("/docs/deep", "./deep/"),
        ("/sub", "./sub/"),
    ] {
        let answer = site.get(path).await;
        assert_eq!(answer.status, 301, "{path}");
        assert_eq!(answer.header("location"), Some(location), "{path}");
        assert!(site.whole(path).is_none(), "{path}");
    }
    assert!(site.whole("/docs/").is_some());
}

#[tokio::test]
async fn globs_and_expressions_come_first_in_their_order() {
    let site = Site::new(
        r#"
        root = "ROOT/www"
        [[route]]
        path = "/"
        answer = { status = 200, body = "prefix" }
        [[route]]
        path = "*.txt"
        answer = { status = 200, body = "glob" }
        [[route]]
        regex = "^/a[.]txt$|^/x/"
        answer = { status = 200, body = "regex" }
        "#,
    )
    .await;
    for (path, body) in [
        ("/", "prefix"),
        ("/a.txt", "glob"),
        ("/x/a.txt", "glob"),
        ("/x/a", "regex"),
    ] {
        assert_eq!(site.get(path).await.text(), body, "{path}");
    }
}

#[tokio::test]
async fn redirects_carry_what_was_asked() {
    let site = Site::new(
        r#"
        root = "ROOT/www"
        [[route]]
        path = "/old"
        redirect = { to = "/new$rest$query" }
        [[route]]
        regex = "^/user/(?<name>[^/]+)/?$"
        redirect = { to = "https://people.example/$name", status = 308 }
        [[route]]
        path = "/plain"
        redirect = { to = "https://$host$path$query", status = 301 }
        "#,
    )
    .await;
    for (path, status, location) in [
        ("/old", 302, "/new/"),
        ("/old/a/b?c=d", 302, "/new/a/b?c=d"),
        ("/old//evil.example/", 302, "/new/evil.example/"),
        ("/old/%0d%0aset-cookie:a", 302, "/new/%0D%0Aset-cookie:a"),
        ("/user/ann", 308, "https://people.example/ann"),
        ("/user/a%20b/", 308, "https://people.example/a%20b"),
        ("/plain/x?y", 301, "https://site.example:8443/plain/x?y"),
    ] {
        let answer = site.get(path).await;
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(answer.header("location"), Some(location), "{path}");
    }
}

#[tokio::test]
async fn an_upstream_sees_the_path_of_its_route() {
    let site = Site::new(
        r#"
        root = "ROOT/www"
        [[route]]
        path = "/api"
        upstream = "UPSTREAM"
        strip_prefix = true
        [[route]]
        path = "/raw"
        upstream = "UPSTREAM"
        [[route]]
        regex = "^/u/(?<id>[0-9]+)$"
        upstream = "UPSTREAM/base"
        rewrite = "/user?id=$id"
        "#,
    )
    .await;
    for (path, seen) in [
        ("/api", "/"),
        ("/api/a?b=c", "/a?b=c"),
        ("/api//a%2fb", "/a%2Fb"),
        ("/raw//a%2fb?x", "/raw//a%2fb?x"),
        ("/u/7?x=1", "/base/user?id=7"),
    ] {
        let answer = site.get(path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.header("x-target"), Some(seen), "{path}");
    }
    let answer = site.send(Method::POST, "/api/a").await;
    assert_eq!(answer.header("x-method"), Some("POST"));
}

#[tokio::test]
async fn single_page_applications_have_one_page() {
    let site = Site::new(
        r#"
        root = "ROOT/www"
        [[route]]
        path = "/app"
        files = { fallback = "app/index.html" }
        "#,
    )
    .await;
    for (path, status, body) in [
        ("/app/", 200, "app index"),
        ("/app/users/7", 200, "app index"),
        ("/app/app.js", 200, "app js"),
        ("/elsewhere", 404, "404 Not Found\n"),
    ] {
        let answer = site.get(path).await;
        assert_eq!((answer.status, answer.text()), (status, body), "{path}");
    }
    assert_eq!(site.send(Method::POST, "/app/users/7").await.status, 405);
}

#[tokio::test]
async fn header_fields_change_by_site_and_route() {
    let site = Site::new(
        r#"
        root = "ROOT/www"
        response_headers = { set = { X-Site = "1", X-Both = "site" }, remove = ["x-powered-by"] }
        request_headers = { set = { x-asked = "site" } }
        [[route]]
        path = "/api"
        upstream = "UPSTREAM"
        request_headers = { set = { x-asked = "route" }, remove = ["cookie"] }
        response_headers = { set = { X-Both = "route" }, add = { vary = "Origin" } }
        [[route]]
        path = "/gone"
        answer = { status = 410 }
        "#,
    )
    .await;
    let whole = site.get("/a.txt").await;
    assert_eq!(whole.header("x-site"), Some("1"));
    assert_eq!(whole.header("x-both"), Some("site"));
    for path in ["/gone", "/nowhere"] {
        assert_eq!(site.get(path).await.header("x-site"), Some("1"), "{path}");
    }
    let api = site.get("/api/x").await;
    for (name, want) in [
        ("x-site", Some("1")),
        ("x-both", Some("route")),
        ("vary", Some("Origin")),
        ("x-powered-by", None),
        ("x-saw-asked", Some("route")),
        ("x-saw-cookie", None),
    ] {
        assert_eq!(api.header(name), want, "{name}");
    }
}

#[tokio::test]
async fn files_in_memory_have_the_fields_of_their_route() {
    let site = Site::new(
        r#"
        root = "ROOT/www"
        response_headers = { set = { x-site = "1" } }
        [[route]]
        path = "/docs"
        root = "ROOT/docs"
        strip_prefix = true
        response_headers = { set = { x-docs = "1" } }
        "#,
    )
    .await;
    for (path, fields) in [
        ("/a.txt", vec![("x-site", "1")]),
        ("/docs/a.txt", vec![("x-docs", "1"), ("x-site", "1")]),
    ] {
        site.get(path).await;
        let whole = site.whole(path).unwrap();
        for (name, value) in fields {
            assert!(
                whole.contains(&format!("{name}: {value}")),
                "{path}: {whole}"
            );
        }
        assert!(
            whole.contains("content-type: text/plain"),
            "{path}: {whole}"
        );
    }
}

#[tokio::test]
async fn a_route_may_be_all_that_there_is() {
    let site = Site::new(
        r#"
        [[route]]
        path = "/health"
        answer = { status = 200, body = "{}", media_type = "application/json" }
        "#,
    )
    .await;
    let answer = site.get("/health").await;
    assert_eq!((answer.status, answer.text()), (200, "{}"));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(site.get("/").await.status, 404);
}

#[tokio::test]
async fn each_host_has_its_site() {
    let named = r#"
        [[site]]
        names = ["docs.example", "*.docs.example", "192.0.2.2"]
        root = "ROOT/docs"
        [[site]]
        names = ["site.example"]
        root = "ROOT/www/sub"
    "#;
    let site = Site::new(&format!("root = \"ROOT/www\"\n{named}")).await;
    let only_named = Site::new(named).await;
    // The Host field and the URI; the text with a site for other hosts, and without.
    let cases = [
        (Some("docs.example"), "/", "docs index", "docs index"),
        (Some("DOCS.example:8443"), "/", "docs index", "docs index"),
        (Some("a.docs.example"), "/", "docs index", "docs index"),
        (Some("192.0.2.2"), "/", "docs index", "docs index"),
        (
            Some("other.example"),
            "/",
            "www index",
            "421 Misdirected Request\n",
        ),
        (
            Some("a.b.docs.example"),
            "/",
            "www index",
            "421 Misdirected Request\n",
        ),
        // The URI is before the field (RFC 9112 §3.2.2).
        (
            Some("other.example"),
            "https://docs.example/",
            "docs index",
            "docs index",
        ),
        // Without a host, that of the handshake.
        (None, "/", "www sub", "www sub"),
    ];
    for (host, uri, with_other, without) in cases {
        for (site, want) in [(&site, with_other), (&only_named, without)] {
            let mut request = Request::get(uri);
            if let Some(host) = host {
                request = request.header("host", host);
            }
            let answer = site.exchange(request).await;
            assert_eq!(answer.text(), want, "{host:?} {uri}");
        }
    }
    let answer = only_named
        .exchange(Request::get("/").header("host", "other.example"))
        .await;
    assert_eq!(answer.status, 421);
}

#[test]
fn names_of_sites_are_hosts_and_each_has_one_site() {
    for (names, want) in [
        ("[\"https://a.example\"]", "`https://a.example`"),
        ("[\"a.example\", \"A.example\"]", "twice"),
    ] {
        let error = error_of(&format!("[[site]]\nnames = {names}\nroot = \"ROOT/www\""));
        assert!(
            error.contains(want) && error.contains("the site `"),
            "{error}"
        );
    }
}

#[test]
fn wrong_routes_are_refused_with_their_names() {
    let cases = [
        ("root = \"ROOT/www\"", "neither `path` nor `regex`"),
        ("path = \"/a\"\nregex = \"^/a\"", "both `path` and `regex`"),
        ("path = \"a\"", "`a`"),
        ("regex = \"(\"", "`regex`"),
        (
            "path = \"/a\"\nroot = \"ROOT/www\"\nanswer = { status = 200 }",
            "more than one of",
        ),
        (
            "path = \"/a\"\nredirect = { to = \"/\", status = 200 }",
            "301",
        ),
        ("path = \"/a\"\nredirect = { to = \"/$1\" }", "`1`"),
        ("path = \"/a\"\nanswer = { status = 99 }", "200 to 599"),
        ("path = \"*.php\"\nstrip_prefix = true", "prefix"),
        (
            "path = \"/a\"\nstrip_prefix = true\nredirect = { to = \"/\" }",
            "not for a redirect or an answer",
        ),
        ("path = \"/a\"\nrewrite = \"/a b\"", "percent-encoded"),
        ("regex = \"^/a\"\nrewrite = \"$rest\"", "with `path`, $rest"),
        (
            "path = \"/a\"\nstrip_prefix = true\nrewrite = \"/\"",
            "both `rewrite` and `strip_prefix`",
        ),
        ("path = \"/a\"\nroot = \"ROOT/nowhere\"", "nowhere"),
        ("path = \"/a\"\nupstream = \"ftp://x\"", "ftp://x"),
        (
            "path = \"/a\"\nresponse_headers = { set = { Content-Length = \"1\" } }",
            "Content-Length",
        ),
    ];
    for (route, want) in cases {
        let error = error_of(&format!("root = \"ROOT/www\"\n[[route]]\n{route}"));
        assert!(error.contains(want), "{route}: {error}");
    }
    let error = error_of("root = \"ROOT/www\"\n[[route]]\npath = [\"/a\", \"b\"]");
    assert!(error.contains("the route for `/a`, `b`"), "{error}");
}
