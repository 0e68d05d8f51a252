//! Who may use a route.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::support::{Answer, Site, error_of};

#[tokio::test]
async fn addresses_may_or_may_not() {
    let site = Site::new(
        r#"
        root = "ROOT/www"
        [access]
        allow = ["192.0.2.0/24", "2001:db8::/32"]
        deny = ["192.0.2.9"]
        [[route]]
        path = "/sub"
        access = {}
        [[route]]
        path = "/go"
        redirect = { to = "/a.txt" }
        [[route]]
        path = "/ok"
        answer = { status = 200, body = "ok" }
        "#,
    )
    .await;
    let cases = [
        ("192.0.2.1", "/a.txt", 200),
        ("::ffff:192.0.2.1", "/a.txt", 200),
        ("2001:db8::1", "/a.txt", 200),
        ("192.0.2.9", "/a.txt", 403),
        ("198.51.100.1", "/a.txt", 403),
        ("198.51.100.1", "/%61.txt", 403),
        ("198.51.100.1", "/go", 403),
        ("198.51.100.1", "/ok", 403),
        ("198.51.100.1", "/nowhere", 403),
        ("198.51.100.1", "/../a.txt", 403),
        ("198.51.100.1", "/sub/", 200),
        ("192.0.2.9", "/sub/", 200),
    ];
    for (client, path, status) in cases {
        let answer = site.get_from(client, path).await;
        assert_eq!(answer.status, status, "{client} {path}");
    }
    // The second one is of the files in memory.
    assert!(site.whole("/a.txt").is_none());
    assert!(site.whole("/sub/").is_some());
}

#[tokio::test]
async fn a_name_and_a_password_are_asked_for() {
    let site = Site::new(
        r#"
        root = "ROOT/www"
        [[route]]
        path = "/"
        access = { basic_auth = { users = "ROOT/users", realm = 'The "Site"' } }
        response_headers = { set = { x-all = "1" } }
        "#,
    )
    .await;
    let cases = [
        (None, 401),
        (Some("Basic YWRhOnNlY3JldA=="), 200), // ada:secret
        (Some("Basic YWRhOnNlY3JldA=="), 200),
        (Some("basic YWRhOnNlY3JldA"), 200),
        (Some("Basic YWRhOndyb25n"), 401), // ada:wrong
        (Some("Basic YWRhOnNlY3JldA=="), 200),
        (Some("Basic Ym9iOnNlY3JldA=="), 401), // bob:secret
        (Some("Basic YWRh"), 401),             // ada
        (Some("Basic %"), 401),
        (Some("Bearer secret"), 401),
    ];
    for (field, status) in cases {
        let mut request = Request::get("/a.txt").header("host", "site.example");
        if let Some(field) = field {
            request = request.header("authorization", field);
        }
        let answer = site.exchange(request).await;
        assert_eq!(answer.status, status, "{field:?}");
        assert_eq!(answer.header("x-all"), Some("1"), "{field:?}");
        let challenge = answer.header("www-authenticate");
        match status {
            200 => assert_eq!((challenge, answer.user.as_deref()), (None, Some("ada"))),
            _ => {
                let want = r#"Basic realm="The \"Site\"", charset="UTF-8""#;
                assert_eq!((challenge, &answer.user), (Some(want), &None), "{field:?}");
            }
        }
    }
}

#[tokio::test]
async fn guesses_of_passwords_are_bounded_by_the_rate() {
    let site = Site::new(
        r#"
        root = "ROOT/www"
        [access]
        basic_auth = { users = "ROOT/users" }
        rate_limit = { requests = 3, per = "1h" }
        "#,
    )
    .await;
    let mut answers = Vec::new();
    for _ in 0..5 {
        answers.push(site.get("/a.txt").await);
    }
    let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [401, 401, 401, 429, 429]);
    // A third of an hour for each.
    let wait = answers[3].header("retry-after").unwrap();
    let wait: u32 = wait.parse().unwrap();
    assert!((1_100..=1_200).contains(&wait), "{wait}");
    assert_eq!(site.get_from("198.51.100.1", "/a.txt").await.status, 401);
}

#[tokio::test]
async fn an_address_or_a_password_is_enough() {
    let site = Site::new(
        r#"
        root = "ROOT/www"
        [access]
        allow = ["198.51.100.0/24"]
        basic_auth = { users = "ROOT/users" }
        satisfy = "any"
        "#,
    )
    .await;
    assert_eq!(site.get_from("198.51.100.1", "/a.txt").await.status, 200);
    assert_eq!(site.get_from("192.0.2.1", "/a.txt").await.status, 401);
    let request = Request::get("/a.txt").header("host", "site.example");
    let answer = site.exchange(request.header("authorization", "Basic YWRhOnNlY3JldA=="));
    assert_eq!(answer.await.status, 200);
}

#[tokio::test]
async fn another_server_decides() {
    let site = Site::new(&auth_config(&auth_server().await, "")).await;
    let refused = site
        .exchange(Request::get("/x").header("host", "site.example"))
        .await;
    assert_eq!((refused.status, refused.text()), (302, "log in"));
    assert_eq!(refused.header("location"), Some("https://login.example/"));
    assert_eq!(refused.header("set-cookie"), Some("session=new"));

    let request = Request::post("/x/y?q=1").header("host", "site.example:8443");
    let request = request
        .header("x-token", "good")
        .header("if-none-match", "\"a\"")
        .header("range", "bytes=0-1")
        .header("connection", "x-gone")
        .header("x-gone", "1");
    let passed = site.exchange(request).await;
    assert_eq!(passed.header("x-target"), Some("/x/y?q=1"));
    assert_eq!(passed.header("x-method"), Some("POST"));
    assert_eq!(passed.header("x-saw-user"), Some("ada"));
    let want = "GET /check?from=edge | POST /x/y?q=1 site.example:8443 https 192.0.2.1 | []";
    assert_eq!(passed.header("x-saw-seen"), Some(want));
    // The answer's own fields stay with this server.
    assert_eq!(passed.header("remote-user"), None);
}

/// RFC 9110 §7.6.1: an intermediary removes the fields that `Connection` names. A client must not have the
/// server's own removed, nor send them.
#[tokio::test]
async fn a_client_can_neither_send_nor_remove_what_the_server_says() {
    let server = auth_server().await;
    let everybody = "allow = [\"0.0.0.0/0\"]\nsatisfy = \"any\"";
    for (more, token, want) in [
        ("", "good", Some("ada")),
        ("", "nobody", None),
        (everybody, "good", None),
    ] {
        let site = Site::new(&auth_config(&server, more)).await;
        let request = Request::get("/x").header("host", "site.example");
        let request = request
            .header("x-token", token)
            .header("remote-user", "root")
            .header("connection", "remote-user, x-asked");
        let answer = site.exchange(request).await;
        assert_eq!(answer.status, 200, "{more} {token}");
        assert_eq!(answer.header("x-saw-user"), want, "{more} {token}");
        assert_eq!(answer.header("x-saw-asked"), Some("set"), "{more} {token}");
    }
}

#[tokio::test]
async fn a_server_that_is_gone_lets_nobody_pass() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = listener.local_addr().unwrap();
    drop(listener);
    let site = Site::new(&auth_config(&format!("http://{gone}"), "")).await;
    let answer: Answer = site.get("/x").await;
    assert_eq!(answer.status, 502);
}

#[test]
fn settings_that_do_not_fit_are_refused() {
    let cases = [
        (
            "satisfy = \"any\"",
            "`satisfy = \"any\"` needs `allow` or `deny`",
        ),
        (
            "basic_auth = { users = \"ROOT/nobody\" }",
            "`access`: reading the users from ",
        ),
        (
            "basic_auth = { users = \"ROOT/www/a.txt\" }",
            "line 1: it has no colon: expected NAME:HASH",
        ),
        (
            "forward_auth = { url = \"ftp://a\" }",
            "its scheme is none of http, https, h2c",
        ),
        (
            "forward_auth = { url = \"http://a\", copy_headers = [\"a b\"] }",
            "`forward_auth.copy_headers` names `a b`",
        ),
        (
            "rate_limit = { requests = 4000000000, per = \"1s\" }",
            "`rate_limit.per` is too short",
        ),
    ];
    for (access, want) in cases {
        let site = format!("root = \"ROOT/www\"\n[access]\n{access}\n");
        let error = error_of(&site);
        assert!(error.contains(want), "{error}");
        assert!(error.starts_with("in the site: "), "{error}");
        let route =
            format!("root = \"ROOT/www\"\n[[route]]\npath = \"/a\"\n[route.access]\n{access}\n");
        let error = error_of(&route);
        assert!(error.contains(want), "{error}");
        assert!(error.starts_with("in the route for `/a`: "), "{error}");
    }
}

fn auth_config(server: &str, more: &str) -> String {
    format!(
        r#"
        [request_headers]
        set = {{ x-asked = "set" }}
        [access]
        forward_auth = {{ url = "{server}/check?from=edge", copy_headers = ["Remote-User", "Remote-Seen"] }}
        {more}
        [[route]]
        path = "/"
        upstream = "UPSTREAM"
        "#
    )
}

/// Starts a server that knows a token, and returns its URL.
async fn auth_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service_fn(|request| async move { Ok::<_, Infallible>(judge(&request)) });
            let serving = hyper::server::conn::http1::Builder::new();
            tokio::spawn(serving.serve_connection(TokioIo::new(stream), service));
        }
    });
    url
}

fn judge(request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let field = |name: &str| {
        let value = request.headers().get(name);
        value.map_or("", |value| value.to_str().unwrap())
    };
    let token = field("x-token");
    if !["good", "nobody"].contains(&token) {
        let response = Response::builder().status(302);
        return response
            .header("location", "https://login.example/")
            .header("set-cookie", "session=new")
            .body(Full::from("log in"))
            .unwrap();
    }
    let seen = format!(
        "{} {} | {} {} {} {} {} | [{}{}{}]",
        request.method(),
        request.uri(),
        field("x-forwarded-method"),
        field("x-forwarded-uri"),
        field("x-forwarded-host"),
        field("x-forwarded-proto"),
        field("x-forwarded-for"),
        field("if-none-match"),
        field("range"),
        field("content-length"),
    );
    let mut response = Response::builder().status(204).header("remote-seen", seen);
    if token == "good" {
        response = response.header("remote-user", "ada");
    }
    response.body(Full::default()).unwrap()
}
