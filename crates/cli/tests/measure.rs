//! The server's measurements of real transfers, their effects and reports.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use hikyaku_testkit::client::{self, H2, H3};
use hikyaku_testkit::fetch::{Http, fetch};
use hikyaku_testkit::{PATIENCE, Server, Site, binary, get, has, hikyaku, plain_http};
use http::Request;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const BIG: usize = 3_000_000;

/// No chance and no experiments, so that each decision follows from measurements.
const PLAIN: [&str; 4] = [
    "--set",
    "policy.exploration=0",
    "--set",
    "policy.holdback=0",
];

#[track_caller]
fn start(site: &Site, args: &[&str]) -> Server {
    Server::start(&[&[site.path()], &PLAIN[..], args].concat())
}

fn number(value: &Value, key: &str) -> u64 {
    value[key]
        .as_u64()
        .unwrap_or_else(|| panic!("{key} of {value}"))
}

#[test]
fn the_access_log_reports_each_transfer() {
    let site = Site::with_big_file(BIG);
    let server = start(&site, &[]);
    for http in Http::ALL {
        // The second request keeps the connection open until the first is acknowledged.
        let (big, small) = (server.url("/big.bin?a=b"), server.url("/nowhere"));
        let records = get(&["--http", http.option(), &big, &small]);
        let line = server.wait_access(http.name(), |line| {
            line["version"] == http.name() && line["path"] == "/big.bin?a=b"
        });
        let record = &records[0];
        assert_eq!(record["http"], http.option());
        assert_eq!(line["client"], "127.0.0.1", "{line}");
        assert_eq!(line["method"], "GET", "{line}");
        assert_eq!(line["host"], server.address().to_string(), "{line}");
        assert_eq!(line["status"], 200, "{line}");
        assert_eq!(number(&line, "bytes"), BIG as u64, "{line}");
        assert_eq!(line["complete"], true, "{line}");
        let local = record["local"].as_str().unwrap();
        assert!(
            local.ends_with(&format!(":{}", line["port"])),
            "{line}, {record}"
        );
        let duration = number(&line, "duration_us");
        assert!(duration > 0, "{line}");
        let goodput = BIG as u64 * 8_000_000 / duration;
        assert_eq!(number(&line, "goodput_bps"), goodput, "{line}");
        let (min_rtt, srtt) = (number(&line, "min_rtt_us"), number(&line, "srtt_us"));
        assert!(min_rtt <= srtt && 0 < srtt && srtt < 10_000_000, "{line}");
        // Between two readings of quinn's clock, a packet on loopback may go and be acknowledged.
        assert!(min_rtt > 0 || http == Http::H3, "{line}");
        // Segments of loopback hold up to 64 KiB, QUIC's packets at least 1200 bytes.
        let (sent, lost) = (number(&line, "packets_sent"), number(&line, "packets_lost"));
        assert!((40..20_000).contains(&sent) && lost <= sent, "{line}");
        assert!(number(&line, "delivery_rate_bps") > 1_000_000, "{line}");
        assert_eq!(line["decision"], "h3", "{line}");
        let line = server.wait_access("not found", |line| {
            line["version"] == http.name() && line["path"] == "/nowhere"
        });
        assert_eq!(line["status"], 404, "{line}");
    }
}

/// The first response of a client already counts for the side that it was drawn for.
#[test]
fn each_response_is_of_an_assignment_from_the_first_on() {
    let site = Site::with_big_file(BIG);
    let sides = [("0", "hikyaku", "plain"), ("1", "hold_back", "hold_back")];
    for (holdback, assignment, group) in sides {
        let holdback = format!("policy.holdback={holdback}");
        let server = start(&site, &["--set", &holdback]);
        get(&["--http", "2", &server.url("/big.bin")]);
        let line = server.wait_access("the first response", |line| line["path"] == "/big.bin");
        assert_eq!(line["assignment"], assignment, "{line}");
        assert_eq!(line["group"], group, "{line}");
        assert_eq!(line["probability"], 1.0, "{line}");
        assert_eq!(line["samples"], 0.0, "{line}");
        assert!(
            line["state"].as_str().is_some_and(|state| state.len() > 10),
            "{line}"
        );
        if assignment == "hold_back" {
            assert_eq!(line["congestion"], "cubic", "{line}");
        }
        let (_, metrics) = plain_http(server.admin, "GET", "/metrics", "", "");
        let counted = |name: &str| {
            let counts = metrics.lines().filter(|line| {
                line.starts_with(name) && line.contains(&format!("assignment=\"{assignment}\""))
            });
            counts
                .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
                .sum::<f64>()
        };
        assert_eq!(
            counted("hikyaku_responses_by_assignment_total"),
            1.0,
            "{metrics}"
        );
        let time = counted("hikyaku_response_time_by_assignment_seconds_total");
        assert!(time > 0.0, "{metrics}");
    }
}

/// A log of real responses can be judged, and is refused where it says too little.
#[test]
fn a_log_answers_what_if() {
    let site = Site::with_big_file(BIG);
    let server = Server::start(&[site.path(), "--set", "policy.holdback=0"]);
    for _ in 0..3 {
        get(&["--http", "2", &server.url("/big.bin")]);
    }
    server.wait_access("a response", |line| line["path"] == "/big.bin");
    let lines = hikyaku_testkit::eventually("three lines", || {
        let lines = server.access_lines();
        (lines.len() >= 3).then_some(lines)
    });
    let log = Path::new(site.path()).join("access.log");
    std::fs::write(&log, lines.join("\n") + "\nno line\n").unwrap();
    let what_if = |settings: &[&str]| {
        let output = hikyaku(&[&["what-if", log.to_str().unwrap()], settings].concat());
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    };
    let (is_answer, text) =
        what_if(&["--was", "policy.holdback=0", "--set", "policy.min_gain=0.1"]);
    assert!(
        !is_answer && text.contains("1 clients are too few"),
        "{text}"
    );
    assert!(text.contains("3 responses of 1 client"), "{text}");
    assert!(
        text.contains("1 lines are no lines of a JSON access log"),
        "{text}"
    );
    let (_, text) = what_if(&[
        "--was",
        "policy.holdback=0.5",
        "--set",
        "policy.min_gain=0.1",
    ]);
    assert!(text.contains("decided by other settings"), "{text}");
    let (is_answer, text) = what_if(&["--set", "policy.half_life.loss=1m"]);
    assert!(
        !is_answer && text.contains("cannot judge `policy.half_life.loss`"),
        "{text}"
    );
}

#[test]
fn the_combined_format_is_the_one_of_log_readers() {
    if !has("the_combined_format_is_the_one_of_log_readers", "curl") {
        return;
    }
    let site = Site::with_big_file(BIG);
    let server = start(&site, &["--set", "log.format=combined"]);
    for (http, protocol) in Http::ALL
        .into_iter()
        .zip(["HTTP/1.1", "HTTP/2.0", "HTTP/3.0"])
    {
        let headers = ["user-agent: a \"quoted\" agent", "referer: https://a.test/"];
        let got = fetch(http, &server, "/big.bin", &headers);
        assert_eq!(got.body.len(), BIG);
        let request = format!("\"GET /big.bin {protocol}\" 200 {BIG} ");
        let line = hikyaku_testkit::eventually("the line", || {
            let lines = server.access_lines();
            lines.into_iter().find(|line| line.contains(&request))
        });
        assert!(line.starts_with("127.0.0.1 - - ["), "{line}");
        let agents = "\"https://a.test/\" \"a \\\"quoted\\\" agent\" ";
        let (_, figures) = line.split_once(agents).unwrap_or_else(|| panic!("{line}"));
        let mut figures = figures.split(' ');
        assert!(
            figures.next().unwrap().parse::<f64>().unwrap() > 0.0,
            "{line}"
        );
        let mut figure = |name: &str, unit: &str| {
            let value = figures.next().unwrap().strip_prefix(name).unwrap();
            value.strip_suffix(unit).unwrap().parse::<f64>().unwrap()
        };
        let min_rtt = figure("min_rtt=", "ms");
        assert!(min_rtt > 0.0 || http == Http::H3, "{line}");
        assert!((0.0..100.0).contains(&figure("loss=", "%")), "{line}");
        assert!(figure("goodput=", "Mbps") > 1.0, "{line}");
        let rest: Vec<_> = figures.collect();
        assert!(
            rest[0].starts_with("decision=h") && rest[1].starts_with("reason="),
            "{line}"
        );
    }
}

#[test]
fn clients_that_abort_are_logged_as_incomplete() {
    let site = Site::with_big_file(30_000_000);
    let server = start(&site, &[]);
    let address = server.address();
    client::block_on(async {
        let mut tls = client::tls(address, &["http/1.1"]).await.unwrap();
        tls.write_all(b"GET /big.bin HTTP/1.1\r\nHost: a\r\n\r\n")
            .await
            .unwrap();
        tls.read_u8().await.unwrap();
        drop(tls);

        let mut h2 = H2::connect(address).await.unwrap();
        let request = Request::get("https://localhost/big.bin").body(()).unwrap();
        let (response, mut stream) = h2.requests.send_request(request, true).unwrap();
        let mut body = response.await.unwrap().into_body();
        body.data().await.unwrap().unwrap();
        stream.send_reset(h2::Reason::CANCEL);
        drop(body);
        // Only the response was cancelled.
        assert_eq!(h2.get("/").await.unwrap().status, 200);

        let h3 = H3::connect(address).await.unwrap();
        let request = Request::get("https://localhost/big.bin").body(()).unwrap();
        let stream = h3.begin(request).await.unwrap();
        let mut receiving = stream.finish().await.unwrap();
        receiving.head().await.unwrap();
        drop(receiving);
        assert_eq!(h3.get("/").await.unwrap().status, 200);
        for http in Http::ALL {
            let line = server.wait_access(http.name(), |line| {
                line["version"] == http.name() && line["path"] == "/big.bin"
            });
            assert_eq!(line["complete"], false, "{line}");
            assert_eq!(line["status"], 200, "{line}");
            assert!(number(&line, "bytes") <= 30_000_000, "{line}");
        }
        h3.close().await;
    });
}

#[test]
fn explain_shows_an_estimate_until_it_is_deleted() {
    let site = Site::with_big_file(BIG);
    let server = start(&site, &[]);
    let admin = server.admin.to_string();
    let explain = |args: &[&str]| {
        let output = hikyaku(&[&["explain", "127.0.0.1", "--admin", &admin], args].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let levels = || {
        let explained: Value = serde_json::from_str(&explain(&["--json"])).unwrap();
        explained["levels"].as_array().unwrap().clone()
    };
    assert!(levels().is_empty());

    let big = server.url("/big.bin");
    get(&["--http", "2", &big, &big]);
    get(&["--http", "3", &big, &big]);
    let own = hikyaku_testkit::eventually("packets of both transports", || {
        let own = levels().into_iter().next()?;
        let packets = |transport: &str| own[transport]["packets"].as_f64();
        (packets("tcp")? > 10.0 && packets("quic")? > 100.0).then_some(own)
    });
    assert_eq!(own["key"], "127.0.0.1", "{own:#}");
    assert!(own["samples"].as_f64().unwrap() >= 2.0, "{own:#}");
    assert!(
        own["min_rtt"].is_string() || own["min_rtt"].is_number(),
        "{own:#}"
    );
    // A neighbour gives the prefix an estimate.
    get(&["--local", "127.0.0.2", &big]);
    let text = hikyaku_testkit::eventually("the prefix", || {
        Some(explain(&[])).filter(|text| text.contains("127.0.0.0/24"))
    });
    assert!(text.contains("127.0.0.1"), "{text}");

    let clients = server.admin_json("/v1/clients?limit=5");
    let mut clients: Vec<_> = clients.as_array().unwrap().iter().collect();
    clients.sort_by_key(|client| client["address"].to_string());
    let addresses: Vec<_> = clients.iter().map(|client| &client["address"]).collect();
    assert_eq!(addresses, ["127.0.0.1", "127.0.0.2"], "{clients:?}");
    let forget = |body: &str| plain_http(server.admin, "POST", "/v1/forget", "", body);
    for wrong in [
        "",
        "{}",
        "{\"all\":false}",
        "{\"addr\":\"::1\"}",
        "{\"address\":\"x\"}",
    ] {
        assert_eq!(forget(wrong).0, 400, "{wrong}");
    }
    let (status, answer) = forget("{\"address\":\"127.0.0.1\"}");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!((status, &answer), (200, &json!({"forgotten": 1})));
    assert!(levels().iter().all(|level| level["key"] != "127.0.0.1"));
    assert!(!levels().is_empty(), "its prefix is known still");
    assert_eq!(forget("{\"all\":true}").0, 200);
    assert!(levels().is_empty());
    assert_eq!(server.admin_json("/v1/clients"), json!([]));
}

#[test]
fn metrics_count_events() {
    let site = Site::with_big_file(BIG);
    let server = start(&site, &[]);
    for http in Http::ALL {
        get(&[
            "--http",
            http.option(),
            &server.url("/big.bin"),
            &server.url("/nowhere"),
        ]);
        let requests = |class: &str| {
            format!(
                "hikyaku_requests_total{{version=\"{}\",status=\"{class}\"}}",
                http.name()
            )
        };
        server.wait_metric(&requests("2xx"), 1.0);
        server.wait_metric(&requests("4xx"), 1.0);
        let of = |name: &str| format!("hikyaku_{name}{{version=\"{}\"}}", http.name());
        assert!(server.metric(&of("response_body_bytes_total")) >= BIG as f64);
        assert_eq!(server.metric(&of("connections_opened_total")), 1.0);
        hikyaku_testkit::eventually("no open connection", || {
            (server.metric(&of("connections")) == 0.0).then_some(())
        });
        assert_eq!(server.metric(&of("response_time_seconds_count")), 2.0);
    }
    assert_eq!(
        server.metric("hikyaku_udp_events_total{event=\"arrived\"}"),
        1.0
    );
    let text = server.admin("/metrics");
    // That of text 0.0.4, which has no end.
    assert!(!text.contains("# EOF"), "{text}");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        let is_known = ["hikyaku_", "process_"]
            .iter()
            .any(|of| name.starts_with(of));
        assert!(is_known, "{line}");
        let value: f64 = value.parse().unwrap();
        // Two clients are too few for a gain.
        let is_gain = name.starts_with("hikyaku_gain_ratio") && value.is_nan();
        assert!(value >= 0.0 || is_gain, "{line}");
    }
}

#[test]
fn events_are_delivered_as_they_happen() {
    let site = Site::new(&[("index.html", b"start")]);
    let server = start(&site, &[]);
    let mut stream = TcpStream::connect(server.admin).unwrap();
    let request = format!("GET /v1/events HTTP/1.1\r\nHost: {}\r\n\r\n", server.admin);
    stream.write_all(request.as_bytes()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (send, lines) = mpsc::channel();
    thread::spawn(move || {
        let lines = BufReader::new(stream).lines();
        for line in lines.map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    let next = |wanted: &str| loop {
        let line = lines.recv_timeout(PATIENCE);
        let line = line.unwrap_or_else(|_| panic!("no {wanted}"));
        if let Some(rest) = line.strip_prefix(wanted) {
            return rest.to_owned();
        }
    };
    assert_eq!(next("content-type: "), "text/event-stream");
    let browser = ["-H", "sec-fetch-site: none"];
    get(&[&browser[..], &["--http", "2", &server.url("/?watched")]].concat());
    next("event: udp");
    let udp: Value = serde_json::from_str(&next("data: ")).unwrap();
    assert_eq!(udp["client"], "127.0.0.1", "{udp}");
    next("event: response");
    let response: Value = serde_json::from_str(&next("data: ")).unwrap();
    assert_eq!(response["path"], "/?watched", "{response}");
    assert_eq!(response["version"], "h2", "{response}");
}

#[test]
fn unknown_clients_are_shown_http3_for_a_short_session() {
    if !has(
        "unknown_clients_are_shown_http3_for_a_short_session",
        "curl",
    ) {
        return;
    }
    let site = Site::new(&[("index.html", b"start")]);
    let server = start(&site, &["--set", "policy.ma_min=90s"]);
    let want = format!("h3=\":{}\"; ma=90", server.port());
    for http in Http::ALL {
        let got = fetch(http, &server, "/", &[]);
        assert_eq!(got.header("alt-svc"), Some(&*want), "{http:?}");
    }
    let withheld = start(&site, &["--set", "policy.unknown=h2"]);
    for http in [Http::H1, Http::H2] {
        let got = fetch(http, &withheld, "/", &[]);
        assert_eq!(got.header("alt-svc"), None, "{http:?}");
    }
}

#[test]
fn a_change_to_http2_clears_on_http3_and_is_silent_on_http2() {
    let site = Site::new(&[("index.html", b"start")]);
    let config = tempfile::NamedTempFile::new().unwrap();
    let write = |version: &str| {
        let text = format!("policy.version = \"{version}\"\n");
        std::fs::write(config.path(), text).unwrap();
    };
    write("h3");
    let server = start(&site, &["--config", config.path().to_str().unwrap()]);
    client::block_on(async {
        let mut h2 = H2::connect(server.address()).await.unwrap();
        let h3 = H3::connect(server.address()).await.unwrap();
        // Their authority has no port, which is that of https.
        let advertised = "h3=\":443\"; ma=";
        for got in [h2.get("/").await.unwrap(), h3.get("/").await.unwrap()] {
            let alt_svc = got.header("alt-svc").unwrap();
            let ma = alt_svc.strip_prefix(advertised).unwrap();
            assert!(ma.parse::<u32>().unwrap() > 0, "{alt_svc}");
        }
        write("h2");
        server.signal(Signal::HUP);
        server.wait_log("configuration reloaded");
        let over_h2 = h2.get("/").await.unwrap();
        let over_h3 = h3.get("/").await.unwrap();
        assert_eq!(over_h2.header("alt-svc"), None);
        assert_eq!(over_h3.header("alt-svc"), Some("clear"));
    });
}

#[test]
fn follow_race_and_cache_reach_http3() {
    let site = Site::new(&[("index.html", b"start")]);
    let server = start(&site, &[]);
    let cache = server.dir().join("alt-svc");
    let cache = cache.to_str().unwrap();
    let url = server.url("/");
    let records = get(&["--alt-svc", "follow", "--alt-svc-cache", cache, &url, &url]);
    assert_eq!(records[0]["http"], "2", "{records:?}");
    assert_eq!(records[1]["http"], "3", "{records:?}");
    let records = get(&["--alt-svc-cache", cache, &url]);
    assert_eq!(records[0]["http"], "3", "a returning client: {records:?}");
    let output = std::process::Command::new(binary())
        .args(["get", "--insecure", "--repeat", "3", &url])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("3 requests") && text.contains("median"),
        "{text}"
    );
}
