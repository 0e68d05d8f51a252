//! Responses on their way from an upstream to the client.

use std::io::{Read, Write};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};

use crate::raw::{Upstream, ask, exchange};
use hikyaku_testkit::client::{self, H2, H3};
use hikyaku_testkit::fetch::{Http, curl, fetch};
use hikyaku_testkit::{Server, Site, eventually, has};

#[test]
fn head_is_never_given_content() {
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let site = Site::new(&[
        ("index.html", b"start"),
        ("dir/a", b"a"),
        ("404.html", b"none"),
    ]);
    let proxy = Server::start(&["--upstream", &closed]);
    let files = Server::start(&[site.path(), "--set", "files.listing=true"]);
    let page = "files.not_found=404.html";
    let with_page = Server::start(&[site.path(), "--set", page]);
    let cases = [
        ("the upstream fails", &proxy, "/", 502),
        ("a file", &files, "/", 200),
        ("not found", &files, "/nowhere", 404),
        ("a listing", &files, "/dir/", 200),
        ("a redirect", &files, "/dir", 301),
        ("a page for what is not found", &with_page, "/nowhere", 404),
    ];
    for (name, server, path, status) in cases {
        for http in Http::ALL {
            let get = ask(http, server, "GET", path);
            let head = ask(http, server, "HEAD", path);
            assert_eq!(
                (get.status, head.status),
                (status, status),
                "{name}, {http:?}"
            );
            assert_eq!(head.body, b"", "{name}, {http:?}");
            let length = get.body.len().to_string();
            assert_eq!(
                head.header("content-length"),
                Some(&*length),
                "{name}, {http:?}"
            );
        }
    }
    // The response comes before any content is read.
    let request = b"HEAD / HTTP/1.1\r\nHost: a b\r\n\r\n";
    let answer = exchange(&files, request, "");
    assert!(
        answer.starts_with("HTTP/1.1 400 ") && answer.ends_with("\r\n\r\n"),
        "{answer}"
    );
}

/// A row of [`forbidden_responses_of_an_upstream_are_repaired_or_refused`].
struct Case {
    name: &'static str,
    method: &'static str,
    answer: &'static str,
    status: u16,
    body: &'static str,
    want: &'static [(&'static str, Option<&'static str>)],
}

const CASES: &[Case] = &[
    Case {
        name: "204 with a length",
        method: "GET",
        answer: "HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n",
        status: 204,
        body: "",
        want: &[("content-length", None)],
    },
    Case {
        name: "204 with a coding",
        method: "DELETE",
        answer: "HTTP/1.1 204 No Content\r\ntransfer-encoding: chunked\r\n\r\n",
        status: 204,
        body: "",
        want: &[("transfer-encoding", None)],
    },
    Case {
        name: "205 with content",
        method: "POST",
        answer: "HTTP/1.1 205 Reset Content\r\ncontent-length: 5\r\n\r\nreset",
        status: 205,
        body: "",
        want: &[],
    },
    Case {
        name: "304 with a length",
        method: "GET",
        answer: "HTTP/1.1 304 Not Modified\r\netag: \"a\"\r\ncontent-length: 5\r\n\r\n",
        status: 304,
        body: "",
        want: &[("content-length", None), ("etag", Some("\"a\""))],
    },
    Case {
        name: "HEAD with a length",
        method: "HEAD",
        answer: "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n",
        status: 200,
        body: "",
        want: &[("content-length", Some("5"))],
    },
    Case {
        name: "HEAD with a length that is none",
        method: "HEAD",
        answer: "HTTP/1.1 200 OK\r\ncontent-length: five\r\n\r\n",
        status: 200,
        body: "",
        want: &[("content-length", None)],
    },
    Case {
        name: "a repeated length",
        method: "GET",
        answer: "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nok",
        status: 200,
        body: "ok",
        want: &[("content-length", Some("2"))],
    },
    Case {
        name: "lengths that differ",
        method: "GET",
        answer: "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok",
        status: 502,
        body: "502 Bad Gateway\n",
        want: &[],
    },
    Case {
        name: "a coding that is not understood",
        method: "GET",
        answer: "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        status: 502,
        body: "502 Bad Gateway\n",
        want: &[],
    },
    Case {
        name: "a folded field",
        method: "GET",
        answer: "HTTP/1.1 200 OK\r\nx: a\r\n b\r\ncontent-length: 2\r\n\r\nok",
        status: 502,
        body: "502 Bad Gateway\n",
        want: &[],
    },
    Case {
        name: "a control character in a value",
        method: "GET",
        answer: "HTTP/1.1 200 OK\r\nx: a\x01b\r\ncontent-length: 2\r\n\r\nok",
        status: 502,
        body: "502 Bad Gateway\n",
        want: &[],
    },
    Case {
        name: "fields of the connection",
        method: "GET",
        answer: "HTTP/1.1 200 OK\r\nconnection: keep-alive, x-hop\r\nkeep-alive: timeout=5\r\n\
                 proxy-connection: x\r\nupgrade: h2c\r\nte: x\r\nx-hop: 1\r\nx: \t1 \t\r\n\
                 content-length: 2\r\n\r\nok",
        status: 200,
        body: "ok",
        want: &[
            ("keep-alive", None),
            ("proxy-connection", None),
            ("upgrade", None),
            ("te", None),
            ("x-hop", None),
            ("x", Some("1")),
        ],
    },
];

#[test]
fn forbidden_responses_of_an_upstream_are_repaired_or_refused() {
    for case in CASES {
        let upstream = Upstream::answering(case.answer);
        let server = Server::start(&["--upstream", &upstream.url()]);
        for http in Http::ALL {
            let got = ask(http, &server, case.method, "/");
            let name = format!("{} over {http:?}: {got:?}", case.name);
            assert_eq!(got.status, case.status, "{name}");
            assert_eq!(got.text(), case.body, "{name}");
            for (field, value) in case.want {
                assert_eq!(got.header(field), *value, "{field} of {name}");
            }
        }
    }
}

#[test]
fn trailer_fields_that_are_forbidden_do_not_pass() {
    let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum, set-cookie\r\n\r\n\
                  2\r\nok\r\n0\r\nx-sum: 1\r\nset-cookie: a=b\r\ncontent-length: 9\r\n\
                  authorization: x\r\nhost: evil\r\nconnection: close\r\n\r\n";
    let upstream = Upstream::answering(answer);
    let server = Server::start(&["--upstream", &upstream.url()]);
    let request = || {
        let request = Request::get(server.url("/")).header("te", "trailers");
        request.body(Bytes::new()).unwrap()
    };
    let (h2, h3) = client::block_on(async {
        let mut h2 = H2::connect(server.address()).await.unwrap();
        let over_h2 = h2.send(request(), None).await.unwrap();
        let h3 = H3::connect(server.address()).await.unwrap();
        let over_h3 = h3.send(request()).await.unwrap();
        h3.close().await;
        (over_h2, over_h3)
    });
    for (http, got) in [(Http::H2, h2), (Http::H3, h3)] {
        assert_eq!(got.body, b"ok", "{http:?}");
        let names: Vec<_> = got.trailers.keys().map(http::HeaderName::as_str).collect();
        assert_eq!(names, ["x-sum"], "{http:?}");
    }
    let head = "GET / HTTP/1.1\r\nhost: a\r\nte: trailers\r\nconnection: te, close\r\n\r\n";
    let got = exchange(&server, head.as_bytes(), "");
    let (_, trailers) = got.split_once("\r\nok\r\n0\r\n").unwrap();
    assert_eq!(trailers, "x-sum: 1\r\n\r\n", "{got}");
}

#[test]
fn an_upstreams_fields_are_bounded_by_their_size_alone() {
    let many = (0..1000)
        .map(|number| format!("x-{number}: v\r\n"))
        .collect::<String>();
    let ok = |fields: &str| format!("HTTP/1.1 200 OK\r\n{fields}content-length: 2\r\n\r\nok");
    let long = |length: usize| format!("x: {}\r\n", "v".repeat(length));
    let cases = [
        ("many fields", ok(&many), 200),
        ("a long field", ok(&long(60_000)), 200),
        ("a field too long", ok(&long(66_000)), 502),
        ("too many fields", ok(&"x: y\r\n".repeat(2000)), 502),
        ("more than are counted", ok(&"x: y\r\n".repeat(2100)), 502),
    ];
    for (name, answer, status) in cases {
        let upstream = Upstream::answering(&answer);
        let server = Server::start(&["--upstream", &upstream.url()]);
        for http in Http::ALL {
            let got = ask(http, &server, "GET", "/");
            assert_eq!(got.status, status, "{name} over {http:?}");
            if status == 200 {
                assert_eq!(got.body, b"ok", "{name} over {http:?}");
                continue;
            }
            let line = server.wait_access(http.name(), |line| line["version"] == http.name());
            let error = line["error"].as_str().unwrap();
            assert!(
                error.contains("larger than limits.header_size"),
                "{name}: {error}"
            );
        }
    }
}

/// HTTP/2 is left out: hyper's server has no way to send them.
#[test]
fn early_hints_of_an_upstream_reach_the_client() {
    let hints = "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\nconnection: x\r\n\r\n";
    let upstream = Upstream::start(move |request, stream| {
        let ok = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        if request.starts_with("GET /together") {
            let all = format!("{hints}HTTP/1.1 100 Continue\r\n\r\n{hints}{ok}");
            return stream.write_all(all.as_bytes()).is_ok();
        }
        let hinted = stream.write_all(hints.as_bytes());
        std::thread::sleep(Duration::from_millis(100));
        hinted.is_ok() && stream.write_all(ok.as_bytes()).is_ok()
    });
    let server = Server::start(&["--upstream", &upstream.url()]);
    for (path, count) in [("/", 1), ("/together", 2)] {
        let request = |version, more: &str| {
            let head = format!("GET {path} HTTP/{version}\r\nhost: a\r\n{more}\r\n");
            exchange(&server, head.as_bytes(), "\r\n\r\nok")
        };
        let got = request("1.1", "");
        let want = "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n";
        assert!(got.starts_with(&want.repeat(count)), "{path}: {got}");
        let rest = &got[want.len() * count..];
        assert!(rest.starts_with("HTTP/1.1 200 OK\r\n"), "{path}: {got}");
        // HTTP/1.0 has no interim responses.
        let old = request("1.0", "");
        assert!(old.starts_with("HTTP/1.0 200 OK\r\n"), "{path}: {old}");

        let over_h3 = client::block_on(async {
            let h3 = H3::connect(server.address()).await.unwrap();
            let request = Request::get(server.url(path)).body(()).unwrap();
            let stream = h3.begin(request).await.unwrap();
            let mut receiving = stream.finish().await.unwrap();
            let mut statuses = Vec::new();
            while statuses.last().is_none_or(|&status| status < 200) {
                let head = receiving.head().await.unwrap();
                statuses.push(head.status.as_u16());
            }
            h3.close().await;
            statuses
        });
        assert_eq!(over_h3, [&vec![103; count][..], &[200]].concat(), "{path}");
        assert_eq!(ask(Http::H2, &server, "GET", path).body, b"ok", "{path}");
    }
    if has("early_hints_of_an_upstream_reach_the_client", "curl") {
        for (option, want) in [
            ("--http1.1", "HTTP/1.1 103 Early Hints\r\n"),
            ("--http2", "HTTP/2 103 \r\n"),
        ] {
            let output = curl(&[option, "-D", "-", &server.url("/")]);
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(text.starts_with(want), "{text}");
            assert!(text.ends_with("\r\n\r\nok"), "{text}");
        }
    }
}

/// Starts an HTTP/2 upstream that answers each request with 103, twice, and 200, until the test's
/// runtime ends. hyper's server cannot do so.
async fn hinting_http2() -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                while let Some(Ok((_, mut reply))) = connection.accept().await {
                    tokio::spawn(async move {
                        for path in ["</a.css>", "</b.css>"] {
                            let hint = Response::builder().status(103).header("link", path);
                            reply.send_informational(hint.body(()).unwrap()).unwrap();
                            tokio::time::sleep(Duration::from_millis(50)).await;
                        }
                        let ok = Response::builder()
                            .header("content-length", 2)
                            .body(())
                            .unwrap();
                        let mut body = reply.send_response(ok, false).unwrap();
                        body.send_data(Bytes::from("ok"), true).unwrap();
                    });
                }
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn early_hints_of_an_upstream_of_http2_reach_the_client() {
    let upstream = format!("h2c://{}", hinting_http2().await);
    tokio::task::spawn_blocking(move || {
        let server = Server::start(&["--upstream", &upstream]);
        let request = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
        for _ in 0..2 {
            let got = exchange(&server, request, "\r\n\r\nok");
            let heads: Vec<_> = got.split("\r\n\r\n").collect();
            assert_eq!(heads.len(), 4, "{got}");
            assert_eq!(heads[0], "HTTP/1.1 103 Early Hints\r\nlink: </a.css>");
            assert_eq!(heads[1], "HTTP/1.1 103 Early Hints\r\nlink: </b.css>");
            assert!(heads[2].starts_with("HTTP/1.1 200 OK\r\n"), "{got}");
        }
        assert_eq!(ask(Http::H2, &server, "GET", "/").body, b"ok");
        assert_eq!(ask(Http::H3, &server, "GET", "/").body, b"ok");
    })
    .await
    .unwrap();
}

/// The content is sent once 100 has arrived.
#[test]
fn an_expectation_over_http_3_is_answered() {
    let upstream = Upstream::answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let server = Server::start(&["--upstream", &upstream.url()]);
    client::block_on(async {
        let h3 = H3::connect(server.address()).await.unwrap();
        let request = Request::put(server.url("/")).header("expect", "100-continue");
        let request = request.body(()).unwrap();
        let mut stream = h3.begin(request).await.unwrap();
        assert_eq!(stream.receiving.head().await.unwrap().status, 100);
        stream.sending.data(Bytes::from("content")).await.unwrap();
        let mut receiving = stream.finish().await.unwrap();
        assert_eq!(receiving.head().await.unwrap().status, 200);
        h3.close().await;
    });
    let seen = upstream.last();
    assert!(
        seen.contains("content") && !seen.contains("expect"),
        "{seen}"
    );
}

/// Pipelined requests get their own interim responses, in order.
#[test]
fn early_hints_stay_in_order_on_a_pipelined_connection() {
    let upstream = Upstream::start(|request, stream| {
        let path = request.split(' ').nth(1).unwrap();
        let body = path.repeat(20_000);
        let head = format!("HTTP/1.1 103 Early Hints\r\nlink: <{path}>\r\n\r\nHTTP/1.1 200 OK\r\n");
        let length = format!("content-length: {}\r\n\r\n", body.len());
        stream
            .write_all((head + &length + &body).as_bytes())
            .is_ok()
    });
    let server = Server::start(&["--upstream", &upstream.url()]);
    let get = |path: &str, more: &str| format!("GET {path} HTTP/1.1\r\nhost: a\r\n{more}\r\n");
    let requests = [
        get("/a", ""),
        get("/b", ""),
        get("/c", "connection: close\r\n"),
    ]
    .concat();
    let got = exchange(&server, requests.as_bytes(), "");
    let parts: Vec<&str> = got.split("HTTP/1.1 ").skip(1).collect();
    assert_eq!(parts.len(), 6, "{} bytes", got.len());
    for (pair, path) in parts.chunks(2).zip(["/a", "/b", "/c"]) {
        assert_eq!(
            pair[0],
            format!("103 Early Hints\r\nlink: <{path}>\r\n\r\n")
        );
        assert!(pair[1].starts_with("200 OK\r\n"), "{path}");
        assert!(pair[1].ends_with(&path.repeat(20_000)), "{path}");
    }
}

/// The upstream answers from the head alone, and closes with the rest unread: a reset.
#[test]
fn an_answer_that_comes_early_is_not_lost() {
    if !has("an_answer_that_comes_early_is_not_lost", "curl") {
        return;
    }
    let upstream = Upstream::start(|_, stream| {
        let page = "too large ".repeat(3000);
        let head = "HTTP/1.1 413 Content Too Large\r\nconnection: close\r\n";
        let head = format!("{head}content-length: {}\r\n\r\n", page.len());
        let _ = stream.write_all((head + &page).as_bytes());
        // Bytes written from now on are reset.
        let _ = stream.read(&mut [0; 100]);
        false
    });
    let server = Server::start(&["--upstream", &upstream.url()]);
    let file = server.dir().join("body");
    std::fs::write(&file, vec![b'b'; 3_000_000]).unwrap();
    let data = format!("@{}", file.display());
    for version in ["--http1.1", "--http2"].repeat(5) {
        let args = [version, "-H", "expect:", "-H", "x-head-only: yes"];
        // The client decides whether it reads while it sends.
        curl(&[&args[..], &["--data-binary", &data, &server.url("/")]].concat());
    }
    let lines = eventually("ten lines", || {
        Some(server.access_lines()).filter(|lines| lines.len() == 10)
    });
    for line in lines {
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["status"], 413, "{line}");
    }
}

/// The upstream takes a part of the request, and closes without an answer.
#[test]
fn no_answer_at_all_is_a_bad_gateway() {
    if !has("no_answer_at_all_is_a_bad_gateway", "curl") {
        return;
    }
    let upstream = Upstream::start(|_, _| false);
    let server = Server::start(&["--upstream", &upstream.url()]);
    for http in Http::ALL {
        assert_eq!(fetch(http, &server, "/", &[]).status, 502, "{http:?}");
    }
}

#[test]
fn urgent_responses_go_first_on_http_2() {
    let large = vec![b'x'; 400_000];
    let site = Site::new(&[("large", &large), ("small", &[b'y'; 100_000])]);
    let server = Server::start(&[site.path()]);
    client::block_on(async {
        let h2 = H2::connect(server.address()).await.unwrap();
        let mut requests = h2.requests.clone().ready().await.unwrap();
        let mut begin = |path: &str, priority: &str| {
            let request = Request::get(format!("https://a/{path}"));
            let request = request.header("priority", priority).body(()).unwrap();
            requests.send_request(request, true).unwrap().0
        };
        // Each response is larger than the window of the connection, 65,535 bytes.
        let slow = begin("large", "u=6").await.unwrap();
        let urgent = begin("small", "u=0").await.unwrap();
        let (mut slow, mut urgent) = (slow.into_body(), urgent.into_body());
        let (mut before, mut got) = (0, 0);
        while got < 100_000 {
            tokio::select! {
                biased;
                Some(data) = slow.data() => {
                    let length = data.unwrap().len();
                    slow.flow_control().release_capacity(length).unwrap();
                    before += length;
                }
                Some(data) = urgent.data() => {
                    let length = data.unwrap().len();
                    urgent.flow_control().release_capacity(length).unwrap();
                    got += length;
                }
            }
        }
        assert!(before < 200_000, "{before} bytes of the other response");
    });
}
