//! Requests in bytes and their responses, without sockets.

use hikyaku_units::arm::Version;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::fakes::{InForce, Server, in_force, part, replace, sample};
use crate::tls::{Certificate, Source};

mod dashboard;

struct Api {
    server: Server,
    admin: Arc<Admin>,
    settings: InForce<Settings>,
}

impl Api {
    fn start(token: Option<&str>) -> Self {
        let server = Server::start();
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let names = vec!["localhost".to_owned()];
        let certificate = Certificate::load(Source::SelfSigned { names }, &provider).unwrap();
        let certificate = Arc::new(certificate);
        let certificates = Certificates::new(certificate, &[], None, None, &provider).unwrap();
        let certificates = in_force(certificates);
        let settings = Settings {
            token: token.map(str::to_owned),
            send_timeout: Duration::from_secs(30),
            serves: "/srv/www".to_owned(),
            policy: "adaptive",
            congestion: "adaptive",
        };
        let settings = in_force(settings);
        let admin = Arc::new(Admin {
            shared: Arc::clone(&server.shared),
            connections: Arc::clone(&server.site.connections),
            live: Arc::clone(&server.site.live),
            traces: Arc::clone(&server.site.traces),
            certificates: part(&certificates),
            addresses: vec!["198.51.100.1:443".parse().unwrap()],
            cleartext: vec!["198.51.100.1:80".parse().unwrap()],
            demands: Demands::default(),
            settings: part(&settings),
            upstreams: Upstreams::default(),
            acme: None,
            stapler: Arc::new(Stapler::new(part(&certificates), None, &provider)),
            caches: Caches::default(),
            series: Series::default(),
        });
        Self {
            server,
            admin,
            settings,
        }
    }

    fn connect(&self) -> DuplexStream {
        let (client, server) = tokio::io::duplex(64 * 1024);
        tokio::spawn(listener::talk(
            server,
            Arc::clone(&self.admin),
            CancellationToken::new(),
        ));
        client
    }

    /// Sends a request of these lines and this body; returns the response's head and body.
    async fn send(&self, lines: &str, body: &str) -> (String, String) {
        let mut client = self.connect();
        let length = body.len();
        let request = format!(
            "{lines} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        client.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        client.read_to_string(&mut response).await.unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    async fn get(&self, path: &str) -> Value {
        let (head, body) = self.send(&format!("GET {path}"), "").await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        serde_json::from_str(&body).unwrap()
    }

    fn learn(&self, client: &str) {
        let client = client.parse().unwrap();
        self.server.shared.clients.observe(client, &sample());
    }
}

#[tokio::test(start_paused = true)]
async fn every_path_answers_its_method() {
    let api = Api::start(None);
    // request, body, status, in the answer
    let cases = [
        ("GET /", "", 200, "<!doctype html>"),
        ("GET /healthz", "", 200, "ok\n"),
        ("POST /healthz", "", 405, "allow: GET"),
        ("GET /nowhere", "", 404, "there is nothing at this path"),
        ("GET /v1/forget", "", 405, "allow: POST"),
        (
            "GET /v1/clients/somebody",
            "",
            400,
            "expected an IPv4 or IPv6 address",
        ),
        ("GET /v1/clients?limit=many", "", 400, "limit"),
        ("GET /v1/qlog", "", 400, "give `client`"),
        ("POST /v1/forget", "{", 400, "EOF"),
        ("GET /v1/cache/purge", "", 405, "allow: POST"),
        ("POST /v1/cache/purge", "{}", 400, "give one of"),
        (
            "POST /v1/cache/purge",
            "{\"url\": \"/x\"}",
            400,
            "`/x` is no URL",
        ),
        (
            "POST /v1/cache/purge",
            "{\"tag\": \"a\"}",
            200,
            "{\"purged\":0}",
        ),
        (
            "POST /v1/forget",
            "{\"all\": true, \"address\": \"::1\"}",
            400,
            "give one of",
        ),
        (
            "POST /v1/forget",
            &" ".repeat(5000),
            400,
            "reading the request's body",
        ),
        (
            "GET /metrics",
            "",
            200,
            "content-type: text/plain; version=0.0.4",
        ),
        ("GET /v1/gain", "", 200, "\"edges\":1"),
        ("GET /v1/gain?by=moon", "", 400, "`moon` is no kind"),
        ("GET /v1/gain?by=country", "", 422, "set `gain.countries`"),
        ("POST /v1/gain", "", 405, "allow: GET"),
    ];
    for (request, body, status, holds) in cases {
        let (head, answer) = api.send(request, body).await;
        assert!(
            head.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request}: {head}"
        );
        let all = format!("{head}\r\n{answer}");
        assert!(
            all.to_lowercase().contains(&holds.to_lowercase()),
            "{request}: {all}"
        );
        let kept = match request {
            "GET /" => "cache-control: no-cache",
            _ => "cache-control: no-store",
        };
        assert!(head.contains(kept), "{request}: {head}");
        assert!(
            head.contains("x-content-type-options: nosniff"),
            "{request}: {head}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_come_in_the_format_and_coding_that_are_asked_for() {
    let api = Api::start(None);
    let open = "GET /metrics HTTP/1.1\r\naccept: application/openmetrics-text";
    // The rest of the request's lines follows the version.
    let (head, body) = api.send(&format!("{open}\r\nx: y"), "").await;
    assert!(
        head.contains("content-type: application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
    assert!(head.contains("vary: Accept, Accept-Encoding"), "{head}");
    assert!(body.ends_with("\n# EOF\n") && body.contains("# TYPE hikyaku_build info\n"));
    let (head, body) = api.send("GET /metrics", "").await;
    assert!(
        head.contains("content-type: text/plain; version=0.0.4"),
        "{head}"
    );
    assert!(!head.contains("content-encoding"), "{head}");
    assert!(!body.contains("# EOF") && body.contains("# TYPE hikyaku_build_info gauge\n"));
    assert!(body.contains("\nprocess_open_fds "), "{body}");
    let mut client = api.connect();
    let request = "GET /metrics HTTP/1.1\r\nhost: localhost\r\naccept-encoding: gzip\r\n\
                   connection: close\r\n\r\n";
    client.write_all(request.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    client.read_to_end(&mut response).await.unwrap();
    let end = response
        .windows(4)
        .position(|bytes| bytes == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8_lossy(&response[..end]);
    assert!(head.contains("content-encoding: gzip"), "{head}");
    let mut plain = String::new();
    let mut decoder = flate2::read::GzDecoder::new(&response[end + 4..]);
    std::io::Read::read_to_string(&mut decoder, &mut plain).unwrap();
    assert!(
        plain.contains("\n# TYPE process_cpu_seconds_total counter\n"),
        "{plain}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_token_is_asked_for_where_there_is_one() {
    let api = Api::start(Some("s3cret"));
    let (head, _) = api.send("GET /v1/status", "").await;
    assert!(head.starts_with("HTTP/1.1 401 "), "{head}");
    assert!(head.contains("www-authenticate: Bearer"), "{head}");
    let with_token = "GET /v1/status HTTP/1.1\r\nauthorization: Bearer s3cret\r\nx: y";
    let mut client = api.connect();
    let request = format!("{with_token}\r\nhost: a.example\r\nconnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    client.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    let settings = Settings {
        token: None,
        send_timeout: Duration::ZERO,
        serves: String::new(),
        policy: "h2",
        congestion: "cubic",
    };
    replace(&api.settings, settings);
    assert_eq!(
        api.get("/v1/status").await["policy"],
        "h2",
        "after a reload"
    );
}

#[tokio::test(start_paused = true)]
async fn the_status_is_that_of_the_server() {
    let api = Api::start(None);
    let _open = api.server.connection(Version::H2);
    tokio::time::advance(Duration::from_secs(90)).await;
    let status = api.get("/v1/status").await;
    assert_eq!(status["uptime_s"], 90);
    assert_eq!(status["listen"], json!(["198.51.100.1:443"]));
    assert_eq!(status["cleartext"], json!(["198.51.100.1:80"]));
    assert_eq!(status["serves"], "/srv/www");
    assert_eq!(status["connections"], json!({"h1": 0, "h2": 1, "h3": 0}));
    assert_eq!(status["egress"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn clients_are_listed_explained_and_forgotten() {
    let api = Api::start(None);
    api.learn("192.0.2.1");
    api.learn("192.0.2.2");
    tokio::time::advance(Duration::from_secs(60)).await;
    api.learn("198.51.100.1");
    let listed = api.get("/v1/clients?limit=1").await;
    assert_eq!(listed[0]["address"], "198.51.100.1");
    assert_eq!(api.get("/v1/clients").await[1]["age_s"], 60);
    let explained = api.get("/v1/clients/192.0.2.1").await;
    let text = explained["text"].as_str().unwrap();
    assert!(text.contains("192.0.2.1"), "{text}");
    let forget = |scope: Value| {
        let api = &api;
        async move { api.send("POST /v1/forget", &scope.to_string()).await.1 }
    };
    assert_eq!(
        forget(json!({"address": "192.0.2.1"})).await,
        "{\"forgotten\":1}\n"
    );
    assert_eq!(
        forget(json!({"prefix": "192.0.2.0/24"})).await,
        "{\"forgotten\":2}\n"
    );
    assert_eq!(forget(json!({"all": true})).await, "{\"forgotten\":1}\n");
    assert_eq!(api.get("/v1/clients").await, json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_demand_is_answered_once_it_is_met() {
    let api = Api::start(None);
    // order, how it ends, status, in the answer
    let cases = [
        (Order::Reload, Ok(()), 200, "\"reloaded\":true"),
        (Order::Reload, Err("line 3"), 422, "line 3"),
        (Order::Upgrade, Ok(()), 200, "\"upgraded\":true"),
        (Order::Upgrade, Err("line 4"), 422, "line 4"),
    ];
    for (order, outcome, status, holds) in cases {
        let path = match order {
            Order::Reload => "POST /v1/reload",
            Order::Upgrade => "POST /v1/upgrade",
        };
        let meeting = async {
            let demand = api.admin.demands.next().await.unwrap();
            assert_eq!(demand.order(), order);
            demand.answer(outcome.map_err(str::to_owned));
        };
        let ((head, body), ()) = tokio::join!(api.send(path, ""), meeting);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        assert!(body.contains(holds), "{body}");
    }
}

#[tokio::test]
async fn an_answer_that_is_due_is_written_at_the_end() {
    let api = Api::start(None);
    let (mut client, server) = tokio::io::duplex(64 * 1024);
    let end = CancellationToken::new();
    let talking = listener::talk(server, Arc::clone(&api.admin), end.clone());
    let asking = async {
        let request = b"POST /v1/upgrade HTTP/1.1\r\nhost: localhost\r\n\r\n";
        client.write_all(request).await.unwrap();
        let demand = api.admin.demands.next().await.unwrap();
        end.cancel();
        demand.answer(Ok(()));
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.contains("\"upgraded\":true"), "{answer}");
    };
    tokio::join!(talking, asking);
}

#[tokio::test(start_paused = true)]
async fn who_watches_gets_events_and_signs_of_life() {
    let api = Api::start(None);
    let mut client = api.connect();
    let request = b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n";
    client.write_all(request).await.unwrap();
    let mut seen = String::new();
    let mut buffer = [0; 4096];
    let mut until = async |what: &str| {
        while !seen.contains(what) {
            let count = client.read(&mut buffer).await.unwrap();
            assert_ne!(count, 0, "{seen}");
            seen.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
        }
    };
    until("text/event-stream").await;
    let _opened = api.server.connection(Version::H3);
    until("event: udp\ndata: {\"client\":\"192.0.2.7\",\"event\":\"arrived\"}\n\n").await;
    let quiet = tokio::time::Instant::now();
    until(": nothing new\n\n").await;
    assert_eq!(quiet.elapsed().as_secs(), 15);
}

#[tokio::test(start_paused = true)]
async fn a_head_that_does_not_come_ends_the_connection() {
    let api = Api::start(None);
    let mut client = api.connect();
    client
        .write_all(b"GET /healthz HTTP/1.1\r\n")
        .await
        .unwrap();
    let begun = tokio::time::Instant::now();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 10);
}
