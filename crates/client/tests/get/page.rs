//! Pages with their sub-resources.

use hikyaku_client::ExitStatus;

use crate::server::{ALL, Server};
use crate::{get, number};

/// A page with a dozen images, a style sheet that needs more, and a script.
fn site(server: &Server) {
    let images: String = (0..12)
        .map(|i| format!("<img src=/bytes/{}>", 1000 + i))
        .collect();
    let html = format!(
        "<!doctype html><head><title>t</title><link rel=icon href=/icon></head>\
         <body>{images}<link rel=stylesheet href=/css/main.css><script src=/end.js></script>\
         <img src=/bytes/1000><img src=data:,x></body>"
    );
    // A second one in the head, so that urgency must come before order.
    let html = html.replace("</head>", "<script src=/head.js></script></head>");
    server.document("/", "text/html", html);
    server.document(
        "/css/main.css",
        "text/css",
        "@import 'more.css'; a{b:url(/background)}",
    );
    server.document(
        "/css/more.css",
        "text/css",
        "@font-face{src:url(f.woff2),url(f.woff)}",
    );
    for path in [
        "/head.js",
        "/end.js",
        "/icon",
        "/background",
        "/css/f.woff2",
    ] {
        server.document(path, "text/plain", "x");
    }
}

const SUB_RESOURCES: usize = 12 + 7;

#[test]
fn a_page_is_loaded_with_all_it_needs() {
    for http in ["1.1", "2", "3"] {
        let server = Server::start(ALL);
        site(&server);
        let line = format!(
            "{} --http {http} --page {}",
            server.trust(),
            server.url("/")
        );
        let (records, status) = get(&line);
        assert_eq!(status, ExitStatus::Success, "{:?}", records.0);
        let requests = records.requests();
        assert_eq!(requests.len(), 1 + SUB_RESOURCES, "{http}");
        assert!(
            requests
                .iter()
                .all(|r| r["status"] == 200 && r["http"] == http)
        );
        assert!(requests.iter().all(|r| r["page"] == server.url("/")));
        let run = records.one("run");
        assert_eq!(run["requests"], 1 + SUB_RESOURCES as u64);
        let ends = requests
            .iter()
            .map(|r| number(&r["start_us"]) + number(&r["total_us"]));
        let last = ends.max().unwrap();
        assert_eq!(
            number(&run["total_us"]),
            last - number(&run["start_us"]),
            "{http}"
        );
        assert_eq!(run["page"], server.url("/"));
        let summary = records.one("summary");
        assert_eq!(
            (&summary["of"], &summary["total_us"]["median"]),
            (&"page".into(), &run["total_us"])
        );
    }
}

#[test]
fn requests_go_out_in_the_order_of_a_browser() {
    let server = Server::start(ALL);
    site(&server);
    get(&format!(
        "{} --http 2 --page {}",
        server.trust(),
        server.url("/")
    ));
    let seen = server.seen();
    let paths: Vec<_> = seen.iter().map(|seen| seen.path.as_str()).collect();
    let first = [
        "/",
        "/head.js",
        "/css/main.css",
        "/end.js",
        "/bytes/1000",
        "/bytes/1001",
    ];
    assert_eq!(paths[..6], first);
    let at = |path| paths.iter().position(|p| *p == path).unwrap();
    assert_eq!(at("/icon"), 16, "after all images: {paths:?}");
    assert!(at("/css/main.css") < at("/css/more.css"));
    assert!(at("/css/more.css") < at("/css/f.woff2"));
    assert!(
        seen.iter()
            .all(|request| request.connection == seen[0].connection)
    );
}

#[test]
fn http1_takes_six_connections_and_the_others_one() {
    for (options, want) in [
        ("--http 1.1", 6),
        ("--http 1.1 --connections 2", 2),
        ("--http 2", 1),
        ("--http 2 --connections 3", 3),
        ("--http 3", 1),
        ("--http 3 --connections 3", 3),
    ] {
        let server = Server::start(ALL);
        let images: String = (0..12)
            .map(|i| format!("<img src=/delay/{}>", 50 + i))
            .collect();
        server.document("/", "text/html", images);
        let (records, _) = get(&format!(
            "{} {options} --page {}",
            server.trust(),
            server.url("/")
        ));
        assert_eq!(records.of("connection").len(), want, "{options}");
    }
}

#[test]
fn http1_has_one_request_at_a_time_on_a_connection() {
    let server = Server::start(ALL);
    let images: String = (0..6)
        .map(|i| format!("<img src=/delay/{}>", 50 + i))
        .collect();
    server.document("/", "text/html", images);
    let line = format!(
        "{} --http 1.1 --connections 2 --page {}",
        server.trust(),
        server.url("/")
    );
    let (records, _) = get(&line);
    // Three rounds of two.
    assert!(number(&records.one("run")["total_us"]) >= 150_000);
}

#[test]
fn other_origins_have_connections_of_their_own() {
    let (server, other) = (Server::start(ALL), Server::start(ALL));
    let html = format!("<img src={}><img src=/bytes/5>", other.url("/bytes/7"));
    server.document("/", "text/html", html);
    let (records, status) = get(&format!("-4 --insecure --page {}", server.url("/")));
    assert_eq!(status, ExitStatus::Success);
    assert_eq!(records.of("connection").len(), 2);
    assert_eq!(other.seen().len(), 1);
}

#[test]
fn the_document_comes_over_http2_and_the_rest_over_http3() {
    let server = Server::start(ALL);
    site(&server);
    server.set(|state| state.alt_svc_tcp = Some(r#"h3=":PORT"; ma=60"#.to_owned()));
    let (records, _) = get(&format!("{} --page {}", server.trust(), server.url("/")));
    assert_eq!(
        records.one("run")["http"],
        serde_json::json!({"2": 1, "3": SUB_RESOURCES})
    );
}

#[test]
fn an_error_page_is_not_the_page() {
    let server = Server::start(ALL);
    let (records, status) = get(&format!(
        "{} --page --fail {}",
        server.trust(),
        server.url("/gone")
    ));
    assert_eq!(status, ExitStatus::HttpStatus);
    assert_eq!(records.requests().len(), 1);
}

#[test]
fn a_lost_resource_does_not_hold_up_the_page() {
    let server = Server::start(ALL);
    server.document(
        "/",
        "text/html",
        "<img src=/never><img src=/bytes/5><img src=/status/404>",
    );
    let line = format!(
        "{} --page --timeout 300ms {}",
        server.trust(),
        server.url("/")
    );
    let (records, status) = get(&line);
    assert_eq!(status, ExitStatus::Failed);
    let run = records.one("run");
    assert_eq!(
        (&run["requests"], &run["failed"], &run["timed_out"]),
        (&4.into(), &1.into(), &1.into())
    );
}

#[test]
fn pages_share_the_session() {
    let server = Server::start(ALL);
    site(&server);
    server.document("/two", "text/html", "<img src=/bytes/1>");
    let (records, _) = get(&format!(
        "{} --page {} {}",
        server.trust(),
        server.url("/"),
        server.url("/two")
    ));
    let runs = records.of("run");
    assert_eq!(
        (&runs[0]["requests"], &runs[1]["requests"]),
        (&20.into(), &2.into())
    );
    assert_eq!(records.of("connection").len(), 1);
    let summaries = records.of("summary");
    assert_eq!(
        (&summaries[0]["requests"], &summaries[1]["requests"]),
        (&20.into(), &2.into())
    );
}
