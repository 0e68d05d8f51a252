//! Fields with variables, `Server`, and requests that are not logged.

use http::Request;

use crate::support::{Site, error_of};

#[tokio::test]
async fn variables_stand_for_parts_of_each_request() {
    let site = Site::new(
        r#"
        root = "ROOT/www"
        response_headers = { set = { x-url = "$scheme://$host$path$query", x-by = "$method from $client" } }
        [[route]]
        path = "/api"
        upstream = "UPSTREAM"
        strip_prefix = true
        request_headers = { set = { x-asked = "$path of $protocol" }, add = { cookie = "$query" } }
        [[route]]
        path = "/gone"
        answer = { status = 410 }
        [[route]]
        path = "/office"
        access = { allow = ["198.51.100.0/24"] }
        "#,
    )
    .await;
    // A file that is in memory would have the fields of its first request.
    site.get("/a.txt?first").await;
    assert!(site.whole("/a.txt?first").is_none());
    for (path, status) in [
        ("/a.txt?b=c", 200),
        ("/a.txt", 200),
        ("/none", 404),
        ("/gone?x", 410),
        ("/office/", 403),
        ("/sub/../a.txt", 400),
        ("/api/x?y", 200),
    ] {
        let answer = site.get(path).await;
        assert_eq!(answer.status, status, "{path}");
        let url = format!("https://site.example:8443{path}");
        assert_eq!(answer.header("x-url"), Some(&*url), "{path}");
        assert_eq!(answer.header("x-by"), Some("GET from 192.0.2.1"), "{path}");
    }
    let api = site.get("/api/x").await;
    assert_eq!(api.header("x-saw-asked"), Some("/api/x of HTTP/1.1"));
    // Nothing is left of the query, so that no field is added.
    assert_eq!(api.header("x-saw-cookie"), Some("a=1"));
    let without_host = site.exchange(Request::get("/a.txt").version(http::Version::HTTP_10));
    assert_eq!(without_host.await.header("x-url"), Some("https:///a.txt"));
}

#[tokio::test]
async fn an_upstream_learns_the_name_of_the_user_alone() {
    let site = Site::new(
        r#"
        root = "ROOT/www"
        [[route]]
        path = "/api"
        upstream = "UPSTREAM"
        access = { allow = ["192.0.2.1"], basic_auth = { users = "ROOT/users" }, satisfy = "any" }
        request_headers = { set = { Remote-User = "$user" } }
        [[route]]
        path = "/team"
        upstream = "UPSTREAM"
        access = { basic_auth = { users = "ROOT/users" } }
        request_headers = { set = { Remote-User = "$user" }, remove = ["Authorization"] }
        response_headers = { set = { x-user = "$user" } }
        "#,
    )
    .await;
    let asked = |path: &str| Request::get(path).header("remote-user", "root");
    let named = asked("/team").header("authorization", "Basic YWRhOnNlY3JldA==");
    let team = site.exchange(named).await;
    assert_eq!(team.header("x-saw-user"), Some("ada"));
    assert_eq!(team.header("x-user"), Some("ada"));
    let refused = site.exchange(asked("/team")).await;
    assert_eq!((refused.status, refused.header("x-user")), (401, None));
    // Nobody has said who it is, and the client's own field is taken away.
    let api = site.exchange(asked("/api")).await;
    assert_eq!((api.status, api.header("x-saw-user")), (200, None));
}

#[tokio::test]
async fn a_request_has_one_id_for_the_upstream_the_client_and_the_log() {
    let site = Site::new(
        r#"
        root = "ROOT/www"
        response_headers = { set = { X-Request-Id = "$request_id" } }
        [[route]]
        path = "/api"
        upstream = "UPSTREAM"
        request_headers = { set = { X-Request-Id = "$request_id" } }
        [[route]]
        path = "/inner"
        upstream = "UPSTREAM"
        request_headers = { set = { X-Request-Id = "$request_id" } }
        response_headers = { remove = ["X-Request-Id"] }
        [[route]]
        path = "/none"
        response_headers = { set = { X-Request-Id = "none" } }
        "#,
    )
    .await;
    let api = site.get("/api").await;
    let id = api.id.as_deref().unwrap();
    assert_eq!(id.len(), 32);
    assert_eq!(api.header("x-request-id"), Some(id));
    assert_eq!(api.header("x-saw-id"), Some(id));
    let file = site.get("/a.txt").await;
    assert_eq!(file.header("x-request-id"), file.id.as_deref());
    assert_ne!(file.id, api.id);
    let inner = site.get("/inner").await;
    assert_eq!(inner.header("x-request-id"), None);
    assert_eq!(inner.header("x-saw-id"), inner.id.as_deref());
    assert_eq!(site.get("/none").await.id, None);
}

#[tokio::test]
async fn the_server_is_named_as_the_operator_wants() {
    for (rule, file, upstream, is_removed) in [
        ("{}", "server: hikyaku\n", Some("upstream"), false),
        ("{ remove = [\"Server\"] }", "", None, true),
        (
            "{ set = { Server = \"me\" } }",
            "server: me\n",
            Some("me"),
            false,
        ),
    ] {
        let site = Site::new(&format!(
            r#"
            root = "ROOT/www"
            response_headers = {rule}
            [[route]]
            path = "/api"
            upstream = "UPSTREAM"
            [[route]]
            path = "/office"
            access = {{ allow = ["198.51.100.0/24"] }}
            [[route]]
            path = "/gone"
            answer = {{ status = 410 }}
            "#
        ))
        .await;
        let api = site.get("/api").await;
        assert_eq!(api.header("server"), upstream, "{rule}");
        for path in ["/a.txt", "/none", "/api", "/office", "/gone", "/sub/../x"] {
            let answer = site.get(path).await;
            assert_eq!(answer.has_no_server, is_removed, "{rule} {path}");
        }
        let whole = site.whole("/a.txt").unwrap();
        let lines = whole.lines().filter(|line| line.starts_with("server"));
        let lines: String = lines.map(|line| format!("{line}\n")).collect();
        assert_eq!(lines, file, "{rule}");
    }
}

#[tokio::test]
async fn a_route_may_be_left_out_of_the_access_log() {
    let site = Site::new(
        r#"
        root = "ROOT/www"
        [[route]]
        path = "/sub/"
        access_log = false
        [[route]]
        path = "/app/"
        "#,
    )
    .await;
    for (path, want) in [
        ("/a.txt", true),
        ("/sub/", false),
        ("/sub//x", false),
        ("/%73ub/x", false),
        ("/app/app.js", true),
        ("/sub/../a.txt", true),
    ] {
        assert_eq!(site.is_logged(path), want, "{path}");
        if site.get(path).await.status == 200 {
            let whole = site.whole_file(path).unwrap();
            assert_eq!(whole.is_logged(), want, "{path}");
        }
    }
    let site = Site::new(
        r#"
        root = "ROOT/www"
        access_log = false
        [[route]]
        path = "/app/"
        access_log = true
        "#,
    )
    .await;
    for (path, want) in [("/a.txt", false), ("/app/", true), ("/app/../a.txt", false)] {
        assert_eq!(site.is_logged(path), want, "{path}");
    }
}

#[tokio::test]
async fn paths_without_an_extension_are_files() {
    let site = Site::new(
        r#"
        root = "ROOT/www"
        [[route]]
        path = "/"
        files = { extensions = [".html"] }
        [[route]]
        path = "/app/"
        "#,
    )
    .await;
    for (path, status, body) in [
        ("/about", 200, "www about"),
        ("/about.html", 200, "www about"),
        ("/sub", 200, "www sub page"),
        ("/sub/", 200, "www sub"),
        ("/about/", 404, "404 Not Found\n"),
        ("/app/index", 404, "404 Not Found\n"),
    ] {
        let answer = site.get(path).await;
        assert_eq!((answer.status, answer.text()), (status, body), "{path}");
    }
    let error = error_of("root = \"ROOT/www\"\nfiles = { extensions = [\"html\"] }");
    assert!(
        error.ends_with("`extensions`: `html` is no extension such as `.html`"),
        "{error}"
    );
}

#[test]
fn rules_that_would_have_no_effect_are_refused() {
    for (rule, want) in [
        (
            "response_headers = { remove = [\"Date\"] }",
            "`response_headers` names `Date`, which the server sets itself: leave it out",
        ),
        (
            "request_headers = { set = { X-Real-IP = \"$client\" } }",
            "`request_headers` names `X-Real-IP`, which the server writes itself for upstreams: leave it out",
        ),
        (
            "response_headers = { set = { X-Ip = \"$remote_addr\" } }",
            "`response_headers`: the value of `X-Ip` names the variable `remote_addr`: there are $client, $host",
        ),
    ] {
        let error = error_of(&format!("root = \"ROOT/www\"\n{rule}"));
        assert!(error.contains(want), "{error}");
        let error = error_of(&format!(
            "root = \"ROOT/www\"\n[[route]]\npath = \"/a\"\n{rule}"
        ));
        assert!(
            error.contains(want) && error.contains("the route for `/a`"),
            "{error}"
        );
    }
}
