//! Pages in place of errors.

use http::Method;

use crate::support::{Site, error_of};

#[tokio::test]
async fn errors_in_words_get_their_page() {
    let site = Site::new(
        r#"
        root = "ROOT/www"
        error_pages = { 404 = "ROOT/pages/404.html", 5xx = "ROOT/pages/5xx.txt" }
        [[route]]
        path = "/down"
        answer = { status = 503 }
        response_headers = { set = { x-all = "1" } }
        [[route]]
        path = "/words"
        answer = { status = 503, body = "own words" }
        [[route]]
        path = "/inner"
        error_pages = { 404 = "ROOT/pages/5xx.txt" }
        [[route]]
        path = "/gone"
        upstream = "http://127.0.0.1:1"
        [[route]]
        path = "/own"
        root = "ROOT/www"
        files = { not_found = "a.txt" }
        "#,
    )
    .await;
    let html = Some("text/html");
    let text = Some("text/plain; charset=utf-8");
    let cases = [
        ("/a.txt", 200, "www a", text),
        ("/nowhere", 404, "no such page", html),
        ("/sub", 301, "301 Moved Permanently\n", text),
        ("/../x", 400, "400 Bad Request\n", text),
        ("/down", 503, "broken", text),
        ("/words", 503, "own words", text),
        ("/inner/x", 404, "broken", text),
        ("/gone", 502, "broken", text),
        ("/own/x", 404, "www a", text),
    ];
    for (path, status, body, media_type) in cases {
        let answer = site.get(path).await;
        let got = (answer.status, answer.text(), answer.header("content-type"));
        assert_eq!(got, (status, body, media_type), "{path}");
    }
    assert_eq!(site.get("/down").await.header("x-all"), Some("1"));
    let head = site.send(Method::HEAD, "/nowhere").await;
    assert_eq!((head.status, head.text()), (404, ""));
    assert_eq!(head.header("content-type"), html);
    let refused = site.send(Method::DELETE, "/a.txt").await;
    assert_eq!(
        (refused.status, refused.text()),
        (405, "405 Method Not Allowed\n")
    );
}

#[tokio::test]
async fn errors_of_an_upstream_are_its_own_unless_intercepted() {
    for (intercepts, status, want) in [
        (false, 404, "of the upstream"),
        (true, 404, "no such page"),
        (true, 200, "of the upstream"),
        (true, 403, "of the upstream"),
    ] {
        let site = Site::new(&format!(
            r#"
            error_pages = {{ 404 = "ROOT/pages/404.html" }}
            [[route]]
            path = "/"
            upstream = "UPSTREAM"
            proxy = {{ intercept_errors = {intercepts} }}
            "#
        ))
        .await;
        let answer = site.get(&format!("/status/{status}")).await;
        assert_eq!(
            (answer.status, answer.text()),
            (status, want),
            "{intercepts}"
        );
        let etag = answer.header("etag");
        assert_eq!(
            etag.is_some(),
            want == "of the upstream",
            "{intercepts} {status}"
        );
    }
}

#[tokio::test]
async fn a_page_has_the_media_type_of_other_files() {
    let site = Site::new(
        r#"
        root = "ROOT/www"
        error_pages = { 404 = "ROOT/pages/404.html" }
        files = { types = { html = "text/html; charset=utf-8" } }
        [[route]]
        path = "/latin"
        files = { types = { html = "text/html; charset=iso-8859-1" } }
        error_pages = { 404 = "ROOT/pages/404.html" }
        [[route]]
        path = "/own"
        files = { types = { html = "text/html; charset=koi8-r" }, not_found = "index.html" }
        "#,
    )
    .await;
    for (path, charset) in [
        ("/none", "utf-8"),
        ("/latin/none", "iso-8859-1"),
        ("/own/none", "koi8-r"),
    ] {
        let answer = site.get(path).await;
        let media_type = format!("text/html; charset={charset}");
        assert_eq!(answer.header("content-type"), Some(&*media_type), "{path}");
        assert_eq!(answer.status, 404, "{path}");
    }
}

#[test]
fn pages_that_are_not_there_are_refused() {
    let error = error_of("root = \"ROOT/www\"\nerror_pages = { 404 = \"ROOT/none.html\" }");
    assert!(
        error.starts_with("in the site: `error_pages.404`, "),
        "{error}"
    );
    assert!(error.contains("none.html: No such file"), "{error}");
    let error = error_of("root = \"ROOT/www\"\nerror_pages = { 204 = \"ROOT/www/a.txt\" }");
    assert!(
        error.contains("`error_pages` has `204`: expected a status"),
        "{error}"
    );
}
