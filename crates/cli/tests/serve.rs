//! Content over HTTP/1.1, 2 and 3, from the real binary: files, reverse proxy, TLS, pins.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use hikyaku_testkit::client::{self, H2, H3};
use hikyaku_testkit::fetch::{Http, Response, curl, fetch, send};
use hikyaku_testkit::upstream::{self, Speaks};
use hikyaku_testkit::{PATIENCE, Server, Site, get, has, hikyaku, noise, skip};
use http::{HeaderMap, HeaderValue, Request};
use sha2::{Digest, Sha256};
use tokio_tungstenite::tungstenite::Message;

/// A row of [`every_version_answers_alike`].
struct Case {
    name: &'static str,
    method: &'static str,
    path: &'static str,
    headers: &'static [&'static str],
    status: u16,
    body: &'static [u8],
    /// Header fields of the response.
    want: &'static [(&'static str, Option<&'static str>)],
}

const PAGE: &[u8] = b"<!doctype html><title>start</title>";
const STYLE: &[u8] = b"body { color: black }";
const GET: Case = Case {
    name: "",
    method: "GET",
    path: "/",
    headers: &[],
    status: 200,
    body: PAGE,
    want: &[],
};

const CASES: &[Case] = &[
    Case {
        name: "index",
        want: &[
            ("content-type", Some("text/html")),
            ("content-length", Some("35")),
            ("accept-ranges", Some("bytes")),
            ("server", Some("hikyaku")),
        ],
        ..GET
    },
    Case {
        name: "HEAD",
        method: "HEAD",
        body: b"",
        want: &[("content-length", Some("35"))],
        ..GET
    },
    Case {
        name: "a range",
        headers: &["range: bytes=2-8"],
        status: 206,
        body: b"doctype",
        want: &[("content-range", Some("bytes 2-8/35"))],
        ..GET
    },
    Case {
        name: "the last bytes",
        headers: &["range: bytes=-8"],
        status: 206,
        body: b"</title>",
        want: &[("content-range", Some("bytes 27-34/35"))],
        ..GET
    },
    Case {
        name: "a range beyond the end",
        headers: &["range: bytes=35-"],
        status: 416,
        body: b"416 Range Not Satisfiable\n",
        want: &[("content-range", Some("bytes */35"))],
        ..GET
    },
    Case {
        name: "unchanged since",
        headers: &["if-modified-since: Sun, 01 Jan 2090 00:00:00 GMT"],
        status: 304,
        body: b"",
        want: &[("content-type", None)],
        ..GET
    },
    Case {
        name: "any entity tag",
        headers: &["if-none-match: *"],
        status: 304,
        body: b"",
        ..GET
    },
    Case {
        name: "another entity tag",
        headers: &["if-match: \"other\""],
        status: 412,
        body: b"412 Precondition Failed\n",
        ..GET
    },
    Case {
        name: "not found",
        path: "/nowhere",
        status: 404,
        body: b"nothing here",
        want: &[("content-type", Some("text/html"))],
        ..GET
    },
    Case {
        name: "directory",
        path: "/dir?a=1",
        status: 301,
        body: b"301 Moved Permanently\n",
        want: &[("location", Some("/dir/?a=1"))],
        ..GET
    },
    Case {
        name: "path traversal",
        path: "/%2e%2e/%2e%2e/etc/passwd",
        status: 400,
        body: b"400 Bad Request\n",
        ..GET
    },
    Case {
        name: "precompressed",
        path: "/style.css",
        headers: &["accept-encoding: gzip"],
        body: b"as gzip",
        want: &[
            ("content-encoding", Some("gzip")),
            ("content-type", Some("text/css")),
            ("vary", Some("accept-encoding")),
        ],
        ..GET
    },
    Case {
        name: "precompressed, by the server's preference",
        path: "/style.css",
        headers: &["accept-encoding: gzip, br"],
        body: b"as brotli",
        want: &[("content-encoding", Some("br"))],
        ..GET
    },
    Case {
        name: "not compressed",
        path: "/style.css",
        body: STYLE,
        want: &[
            ("content-encoding", None),
            ("vary", Some("accept-encoding")),
        ],
        ..GET
    },
    Case {
        name: "method",
        method: "DELETE",
        status: 405,
        body: b"405 Method Not Allowed\n",
        want: &[("allow", Some("GET, HEAD, OPTIONS"))],
        ..GET
    },
];

#[test]
fn every_version_answers_alike() {
    if !has("every_version_answers_alike", "curl") {
        return;
    }
    let site = Site::new(&[
        ("index.html", PAGE),
        ("404.html", b"nothing here"),
        ("dir/index.html", PAGE),
        ("style.css", STYLE),
        ("style.css.gz", b"as gzip"),
        ("style.css.br", b"as brotli"),
    ]);
    let server = Server::start(&[site.path(), "--set", "files.not_found=404.html"]);
    for case in CASES {
        let [h1, h2, h3] = Http::ALL.map(|http| {
            let got = send(http, &server, case.method, case.path, case.headers, b"");
            check(case, http, &got);
            got
        });
        for other in [h2, h3] {
            assert_eq!(comparable(&h1), comparable(&other), "{}", case.name);
        }
    }
}

fn check(case: &Case, http: Http, got: &Response) {
    let name = format!("{} over {http:?}: {got:?}", case.name);
    assert_eq!(got.status, case.status, "{name}");
    assert_eq!(got.body, case.body, "{name}");
    for (header, want) in case.want {
        let value = got.header(header).map(str::to_ascii_lowercase);
        let want = want.map(str::to_ascii_lowercase);
        assert_eq!(value, want, "{header} of {name}");
    }
    assert!(got.headers.contains_key("date"), "{name}");
}

/// Headers that must be equal in every version; `Content-Length` of a file is in [`CASES`].
fn comparable(response: &Response) -> Vec<(String, String)> {
    let mut headers: Vec<_> = response
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .filter(|(name, _)| {
            !matches!(
                name.as_str(),
                "date" | "alt-svc" | "connection" | "content-length"
            )
        })
        .collect();
    headers.sort();
    headers
}

#[test]
fn validators_of_one_version_hold_in_the_others() {
    if !has("validators_of_one_version_hold_in_the_others", "curl") {
        return;
    }
    let site = Site::new(&[("index.html", PAGE)]);
    let server = Server::start(&[site.path()]);
    for http in Http::ALL {
        let first = fetch(http, &server, "/", &[]);
        let tag = format!("if-none-match: {}", first.header("etag").unwrap());
        let since = first.header("last-modified").unwrap();
        let since = format!("if-modified-since: {since}");
        let resumed = format!("if-range: {}", first.header("etag").unwrap());
        for other in Http::ALL {
            let name = format!("{http:?}, then {other:?}");
            assert_eq!(fetch(other, &server, "/", &[&tag]).status, 304, "{name}");
            assert_eq!(fetch(other, &server, "/", &[&since]).status, 304, "{name}");
            let part = fetch(other, &server, "/", &[&resumed, "range: bytes=0-1"]);
            assert_eq!((part.status, &part.body[..]), (206, &b"<!"[..]), "{name}");
        }
        let other = &["if-range: \"other\"", "range: bytes=0-1"];
        assert_eq!(fetch(http, &server, "/", other).status, 200, "{http:?}");
    }
}

#[test]
fn a_large_file_arrives_whole_over_every_version() {
    if !has("a_large_file_arrives_whole_over_every_version", "curl") {
        return;
    }
    let site = Site::with_big_file(50_000_000);
    let server = Server::start(&[site.path()]);
    let want = hash(&Path::new(site.path()).join("big.bin"));
    for http in [Http::H1, Http::H2] {
        let got = fetch(http, &server, "/big.bin", &[]);
        assert_eq!(Sha256::digest(&got.body).to_vec(), want, "curl, {http:?}");
    }
    for http in Http::ALL {
        let got = server.dir().join(http.name());
        let records = get(&[
            "--http",
            http.option(),
            "-o",
            got.to_str().unwrap(),
            &server.url("/big.bin"),
        ]);
        assert_eq!(records[0]["status"], 200, "{records:?}");
        assert_eq!(records[0]["http"], http.option(), "{records:?}");
        assert_eq!(hash(&got), want, "hikyaku get, {http:?}");
    }
}

fn hash(path: &Path) -> Vec<u8> {
    Sha256::digest(std::fs::read(path).unwrap()).to_vec()
}

#[test]
fn the_proxy_streams_bodies_and_trailers_both_ways() {
    let body = noise(3_000_000);
    for speaks in [Speaks::Http1, Speaks::Http2] {
        let scheme = if speaks == Speaks::Http1 {
            "http"
        } else {
            "h2c"
        };
        let upstream = format!("{scheme}://{}", upstream::start(speaks));
        let server = Server::start(&["--upstream", &upstream]);
        let name = |http| format!("{http:?} to {scheme}");
        if has("the_proxy_streams_bodies_and_trailers_both_ways", "curl") {
            let te = ["te: trailers", "connection: TE"];
            let got = send(Http::H1, &server, "POST", "/echo", &te, &body);
            let length = got.trailers.get("x-length").unwrap();
            assert_eq!(got.body, body, "{}", name(Http::H1));
            assert_eq!(length, "3000000", "{}", name(Http::H1));
        }
        let (h2, h3) = client::block_on(async {
            let request = Request::post(server.url("/echo")).header("te", "trailers");
            let request = request.header("trailer", "x-from-client");
            let request = request.body(Bytes::from(body.clone())).unwrap();
            let mut trailers = HeaderMap::new();
            trailers.insert("x-from-client", HeaderValue::from_static("yes"));
            let mut h2 = H2::connect(server.address()).await.unwrap();
            let got = h2.send(request.clone(), Some(trailers.clone()));
            let got = got.await.unwrap();
            let h3 = H3::connect(server.address()).await.unwrap();
            (got, echo_over_h3(h3, request, trailers).await)
        });
        for (http, got) in [(Http::H2, h2), (Http::H3, h3)] {
            assert_eq!(got.body, body, "{}", name(http));
            assert_eq!(got.trailers["x-length"], "3000000", "{}", name(http));
            assert_eq!(got.trailers["x-from-client"], "yes", "{}", name(http));
        }
        for http in Http::ALL {
            let line = server.wait_access(http.name(), |line| line["version"] == http.name());
            assert_eq!(line["bytes"], 3_000_000, "{line}");
            assert_eq!(line["complete"], true, "{line}");
        }
    }
}

/// Reads the body while sending, since the upstream returns it at once.
async fn echo_over_h3(h3: H3, request: Request<Bytes>, trailers: HeaderMap) -> Response {
    let (head, body) = request.into_parts();
    let request = Request::from_parts(head, ());
    let stream = h3.begin(request).await.unwrap();
    let mut sending = stream.sending;
    let sent = async {
        for chunk in body.chunks(100_000) {
            sending.data(Bytes::copy_from_slice(chunk)).await.unwrap();
        }
        sending.trailers(&trailers).await.unwrap();
        drop(sending.finish().await.unwrap());
    };
    let received = async { client::receive(stream.receiving).await.unwrap() };
    let ((), response) = futures_util::future::join(sent, received).await;
    h3.close().await;
    response
}

#[test]
fn the_upstream_sees_whom_it_answers() {
    if !has("the_upstream_sees_whom_it_answers", "curl") {
        return;
    }
    let upstream = format!("http://{}", upstream::start(Speaks::Http1));
    let server = Server::start(&["--upstream", &upstream]);
    for http in Http::ALL {
        let headers = ["x-forwarded-for: 192.0.2.1", "x-own: kept"];
        let got = fetch(http, &server, "/head?q=1", &headers);
        let text = got.text();
        assert!(text.starts_with("GET /head?q=1\n"), "{http:?}: {text}");
        assert!(text.contains("x-own: kept\n"), "{http:?}: {text}");
        assert!(
            text.contains("x-forwarded-for: 127.0.0.1\n"),
            "{http:?}: {text}"
        );
        assert!(
            text.contains("x-forwarded-proto: https\n"),
            "{http:?}: {text}"
        );
        assert!(
            text.contains("forwarded: for=127.0.0.1"),
            "{http:?}: {text}"
        );
        assert!(!text.contains("192.0.2.1"), "{http:?}: {text}");
    }
}

#[test]
fn upstream_failures_are_reported_and_logged() {
    if !has("upstream_failures_are_reported_and_logged", "curl") {
        return;
    }
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let slow = format!("http://{}", upstream::start(Speaks::Http1));
    let cases = [
        ("nobody listens", &closed, "/", 502, "refused"),
        ("no answer", &slow, "/hang", 504, "none within 300ms"),
    ];
    for (name, upstream, path, status, reason) in cases {
        let timeout = "proxy.response_timeout=300ms";
        let server = Server::start(&["--upstream", upstream, "--set", timeout]);
        for http in Http::ALL {
            let got = fetch(http, &server, path, &[]);
            assert_eq!(got.status, status, "{name}, {http:?}");
            let line = server.wait_access(http.name(), |line| line["version"] == http.name());
            assert_eq!(line["status"], status, "{name}, {http:?}");
            let error = line["error"].as_str().unwrap().to_ascii_lowercase();
            assert!(error.contains(reason), "{name}, {http:?}: {error}");
        }
    }
}

#[test]
fn a_response_that_breaks_off_is_never_taken_for_whole() {
    let upstream = format!("http://{}", upstream::start(Speaks::Http1));
    let server = Server::start(&["--upstream", &upstream]);
    for http in Http::ALL {
        let records = get(&["--http", http.option(), &server.url("/half")]);
        assert_ne!(records[0]["error"], serde_json::Value::Null, "{records:?}");
        let line = server.wait_access(http.name(), |line| line["version"] == http.name());
        assert_eq!(line["complete"], false, "{line}");
        assert!(line["error"].is_string(), "{line}");
    }
}

#[test]
fn websockets_pass_through_http1() {
    let upstream = format!("http://{}", upstream::start(Speaks::WebSocket));
    let server = Server::start(&["--upstream", &upstream]);
    client::block_on(async {
        let tls = client::tls(server.address(), &["http/1.1"]).await.unwrap();
        let url = format!("wss://localhost:{}/chat", server.port());
        let (mut socket, response) = tokio_tungstenite::client_async(url, tls).await.unwrap();
        assert_eq!(response.status(), 101);
        for message in [
            Message::text("hello"),
            Message::binary(noise(200_000)),
            Message::text("and again"),
        ] {
            socket.send(message.clone()).await.unwrap();
            let echoed = tokio::time::timeout(PATIENCE, socket.next()).await;
            assert_eq!(echoed.unwrap().unwrap().unwrap(), message);
        }
        socket.close(None).await.unwrap();
    });
}

#[test]
fn every_listen_address_is_served_over_every_version() {
    if !has("every_listen_address_is_served_over_every_version", "curl") {
        return;
    }
    let site = Site::new(&[("index.html", PAGE)]);
    let args = [
        site.path(),
        "--listen",
        "127.0.0.1:0",
        "--listen",
        "[::1]:0",
        "--listen",
        "[::]:0",
    ];
    let server = Server::start(&args);
    assert_eq!(server.addresses.len(), 3);
    let mut urls: Vec<String> = server.addresses[..2]
        .iter()
        .map(|address| format!("https://{address}/"))
        .collect();
    // The wildcard takes both families.
    let port = server.addresses[2].port();
    urls.extend([
        format!("https://127.0.0.1:{port}/"),
        format!("https://[::1]:{port}/"),
    ]);
    for url in &urls {
        for (option, version) in [("--http1.1", "1.1"), ("--http2", "2")] {
            let output = curl(&[option, "-w", "%{http_version}", url]);
            let want = [PAGE, version.as_bytes()].concat();
            assert_eq!(output.stdout, want, "{url} {option}");
        }
        let records = get(&["--http", "3", url]);
        assert_eq!(records[0]["status"], 200, "{url}: {records:?}");
        assert_eq!(records[0]["body_bytes"], PAGE.len(), "{url}");
    }
}

#[test]
fn tls_versions_are_as_configured() {
    if !has("tls_versions_are_as_configured", "curl") {
        return;
    }
    let site = Site::new(&[("index.html", PAGE)]);
    for (min, tls12) in [("1.2", true), ("1.3", false)] {
        let set = format!("tls.min_version={min}");
        let server = Server::start(&[site.path(), "--set", &set]);
        for (max, served) in [("1.1", false), ("1.2", tls12), ("1.3", true)] {
            let output = curl(&["--tlsv1.0", "--tls-max", max, &server.url("/")]);
            let what = format!("min_version {min}, client up to {max}: {output:?}");
            assert_eq!(output.status.success(), served, "{what}");
        }
        assert!(server.metric("hikyaku_handshakes_failed_total{transport=\"tcp\"}") >= 1.0);
    }
}

#[test]
fn alpn_offers_the_versions_of_the_pin() {
    let site = Site::new(&[("index.html", PAGE)]);
    let cases: &[(&str, &[&str], Option<&str>)] = &[
        ("adaptive", &["h2", "http/1.1"], Some("h2")),
        ("adaptive", &["http/1.1", "h2"], Some("h2")),
        ("adaptive", &["http/1.1"], Some("http/1.1")),
        ("adaptive", &["http/1.0"], Some("http/1.0")),
        ("adaptive", &[], None),
        ("h1", &["h2", "http/1.1"], Some("http/1.1")),
        ("h2", &["h2", "http/1.1"], Some("h2")),
        ("h3", &["h2", "http/1.1"], Some("h2")),
    ];
    for (pin, offered, want) in cases {
        let set = format!("policy.version={pin}");
        let server = Server::start(&[site.path(), "--set", &set]);
        let tls = client::block_on(client::tls(server.address(), offered)).unwrap();
        let chosen = tls.get_ref().1.alpn_protocol();
        assert_eq!(chosen, want.map(str::as_bytes), "{pin}: {offered:?}");
    }
}

#[test]
fn pins_decide_alt_svc() {
    if !has("pins_decide_alt_svc", "curl") {
        return;
    }
    let site = Site::new(&[("index.html", PAGE)]);
    let cases = [
        ("h1", None, Some("clear")),
        ("h2", None, Some("clear")),
        ("h3", Some("h3=\":"), Some("h3=\":")),
    ];
    for (pin, on_tcp, on_quic) in cases {
        let set = format!("policy.version={pin}");
        let server = Server::start(&[site.path(), "--set", &set]);
        for http in Http::ALL {
            let got = fetch(http, &server, "/", &[]);
            let alt_svc = got.header("alt-svc");
            let want = if http == Http::H3 { on_quic } else { on_tcp };
            let what = format!("{pin} over {http:?}: {alt_svc:?}");
            assert_eq!(got.status, 200, "{what}");
            match want {
                None => assert_eq!(alt_svc, None, "{what}"),
                Some(want) => assert!(alt_svc.unwrap().starts_with(want), "{what}"),
            }
        }
    }
}

#[test]
fn congestion_control_is_as_pinned() {
    let available = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    if !available
        .unwrap()
        .split_whitespace()
        .any(|name| name == "bbr")
    {
        return skip("congestion_control_is_as_pinned", "the kernel has no bbr");
    }
    let site = Site::with_big_file(2_000_000);
    for congestion in ["cubic", "bbr"] {
        let set = format!("policy.congestion={congestion}");
        let off = "policy.min_cwnd=off";
        let server = Server::start(&[site.path(), "--set", &set, "--set", off]);
        for http in Http::ALL {
            let records = get(&["--http", http.option(), &server.url("/big.bin")]);
            assert_eq!(records[0]["body_bytes"], 2_000_000, "{records:?}");
            let line = server.wait_access(http.name(), |line| line["version"] == http.name());
            assert_eq!(line["congestion"], congestion, "{line}");
            assert_eq!(line["complete"], true, "{line}");
        }
    }
}

/// No client gets BBR without measurements, and the log names the congestion control in use.
#[test]
fn an_unknown_client_gets_a_fair_congestion_control() {
    let site = Site::with_big_file(100_000);
    let server = Server::start(&[site.path()]);
    for (http, fair) in [
        (Http::H1, &["cubic", "floor"][..]),
        (Http::H2, &["cubic", "floor"]),
        (Http::H3, &["floor"]),
    ] {
        get(&["--http", http.option(), &server.url("/big.bin")]);
        let line = server.wait_access(http.name(), |line| line["version"] == http.name());
        let used = line["congestion"].as_str().unwrap();
        assert!(fair.contains(&used), "{line}");
    }
}

#[test]
fn mptcp_clients_are_served_and_measured() {
    const IPPROTO_MPTCP: i32 = 262;
    let stream = rustix::net::SocketType::STREAM;
    let mptcp = std::num::NonZero::new(IPPROTO_MPTCP as u32).map(rustix::net::Protocol::from_raw);
    if rustix::net::socket(rustix::net::AddressFamily::INET, stream, mptcp).is_err() {
        return skip(
            "mptcp_clients_are_served_and_measured",
            "the kernel has no MPTCP",
        );
    }
    let site = Site::with_big_file(3_000_000);
    let server = Server::start(&[site.path()]);
    assert!(server.log().contains("(TCP, MPTCP: "), "{}", server.log());
    for http in [Http::H1, Http::H2] {
        // The kernel drops its counters with the subflow. So the figures of a connection that is
        // closed at once may be lost; the second request keeps it open.
        let (first, second) = (server.url("/big.bin"), server.url("/"));
        let records = get(&["--mptcp", "--http", http.option(), &first, &second]);
        assert_eq!(records[0]["body_bytes"], 3_000_000, "{records:?}");
        assert_eq!(records[1]["status"], 200, "{records:?}");
        let line = server.wait_access(http.name(), |line| line["version"] == http.name());
        assert_eq!(line["complete"], true, "{line}");
        // On a busy machine, counting may begin after the first packets of 64 KiB.
        assert!(line["packets_sent"].as_u64().unwrap() > 0, "{line}");
        assert!(line["min_rtt_us"].as_u64().unwrap() > 0, "{line}");
    }
    let plain = Server::start(&[site.path(), "--set", "mptcp=false"]);
    assert!(!plain.log().contains("MPTCP"), "{}", plain.log());
}

#[test]
fn ports_and_names_are_listened_on() {
    let site = Site::new(&[("index.html", b"start")]);
    let v6 = std::net::TcpListener::bind("[::1]:0").is_ok();
    // The address as it is given, and the addresses by which it is reached.
    let any: &[&str] = if v6 {
        &["127.0.0.1", "[::1]"]
    } else {
        &["127.0.0.1"]
    };
    let cases: [(&str, &[&str]); 5] = [
        ("0", any),
        (":0", any),
        ("*:0", any),
        ("[::]:0", any),
        ("0.0.0.0:0", &["127.0.0.1"]),
    ];
    for (listen, hosts) in cases {
        let server = Server::start(&[site.path(), "--listen", listen]);
        for (host, http) in hosts.iter().flat_map(|host| [(host, "2"), (host, "3")]) {
            let url = format!("https://{host}:{}/", server.port());
            let records = get(&["--http", http, &url]);
            assert_eq!(records[0]["status"], 200, "{listen} by {url}: {records:?}");
        }
    }
    let server = Server::start(&[
        site.path(),
        "--listen",
        "localhost:0",
        "--admin",
        "localhost:0",
    ]);
    let served = |address: &str| {
        server
            .addresses
            .iter()
            .any(|a| a.ip().to_string() == address)
    };
    assert!(served("127.0.0.1"), "{:?}", server.addresses);
    for address in &server.addresses {
        assert!(address.ip().is_loopback(), "{address}");
        let url = format!("https://{address}/");
        assert_eq!(get(&[&url])[0]["status"], 200, "{url}");
    }
    let admin = format!("localhost:{}", server.admin.port());
    let explained = hikyaku(&["explain", "127.0.0.1", "--admin", &admin]);
    assert!(explained.status.success(), "{explained:?}");
}

/// The upstream answers with the first bytes, and takes the others only while its answer is read.
#[test]
fn an_early_answer_is_read_while_the_rest_is_sent() {
    const SIZE: usize = 6_000_000;
    let upstream = format!("http://{}", upstream::start(Speaks::Http1));
    let server = Server::start(&["--upstream", &upstream]);
    let site = Site::new(&[]);
    site.write("upload", &hikyaku_testkit::noise(SIZE));
    let data = format!("@{}/upload", site.path());
    for http in [Http::H2, Http::H3] {
        let url = server.url("/echo");
        let records = get(&["--http", http.option(), "--data", &data, &url]);
        assert_eq!(records[0]["status"], 200, "{http:?}: {records:?}");
        assert_eq!(records[0]["body_bytes"], SIZE, "{http:?}: {records:?}");
    }
}
