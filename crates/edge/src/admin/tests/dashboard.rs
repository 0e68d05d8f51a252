//! The requests of the dashboard.

use hikyaku_core::client::sample::{Observation, TransportSample};
use serde_json::{Value, json};

use super::*;

/// More clients than are drawn, and than a list may have.
const MANY: u32 = 100_000;

impl Api {
    /// Has one sample of each of many clients, on unlike paths.
    fn learn_many(&self, count: u32) {
        let Observation::Path(usual) = sample() else {
            panic!("the sample is of a path");
        };
        for number in 0..count {
            let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 + number);
            let path = TransportSample {
                min_rtt: Duration::from_millis(u64::from(1 + number % 397)),
                packets_sent: 10_000,
                packets_lost: number % 1013,
                ..usual
            };
            let clients = &self.server.shared.clients;
            clients.observe(address.into(), &Observation::Path(path));
        }
    }

    /// The head, and the body as JSON.
    async fn list(&self, query: &str) -> (String, Vec<Value>) {
        let (head, body) = self.send(&format!("GET /v1/clients?{query}"), "").await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{query}: {head} {body}");
        (head, serde_json::from_str(&body).unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_clients_give_small_answers() {
    let api = Api::start(None);
    api.learn_many(MANY);
    let (head, listed) = api.list("limit=50&sort=rtt").await;
    assert_eq!(listed.len(), 50);
    let rtts: Vec<u64> = listed
        .iter()
        .map(|one| one["min_rtt_us"].as_u64().unwrap())
        .collect();
    assert!(rtts.is_sorted_by(|a, b| a >= b), "{rtts:?}");
    let header = |name: &str| -> u64 {
        let line = head
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap();
        line.trim_start_matches(": ").parse().unwrap()
    };
    assert!(header("hikyaku-known") <= u64::from(MANY));
    // Older ones go where a stripe is full.
    assert!(header("hikyaku-known") > u64::from(MANY) / 3, "{head}");
    assert!(header("hikyaku-matching") <= header("hikyaku-known"));
    let (_, lowest) = api.list("limit=1&sort=rtt&order=ascending").await;
    assert_eq!(lowest[0]["min_rtt_us"], 1000);

    let (_, body) = api.send("GET /v1/map", "").await;
    assert!(body.len() < 150_000, "{} bytes", body.len());
    let map: Value = serde_json::from_str(&body).unwrap();
    let dots = map["dots"].as_array().unwrap();
    assert!((100..=600).contains(&dots.len()), "{} dots", dots.len());
    let drawn: u64 = dots
        .iter()
        .map(|dot| dot["clients"].as_u64().unwrap())
        .sum();
    assert!(drawn <= map["drawn"].as_u64().unwrap());
    assert!(map["drawn"].as_u64().unwrap() <= 20_224, "{}", map["drawn"]);
    let gains = map["plane"]["gain"].as_array().unwrap();
    let signs = |sign: f64| {
        gains
            .iter()
            .flat_map(|row| row.as_array().unwrap())
            .any(move |gain| gain.as_f64().unwrap() * sign > 0.0)
    };
    assert!(
        signs(1.0) && signs(-1.0),
        "each version is faster somewhere"
    );
}

#[tokio::test(start_paused = true)]
async fn lists_are_filtered() {
    let api = Api::start(None);
    api.learn("192.0.2.1");
    api.learn("192.0.2.2");
    api.learn("198.51.100.1");
    let pin = json!({ "address": "192.0.2.2", "version": "h2" }).to_string();
    api.send("POST /v1/pin", &pin).await;
    // query, addresses
    let cases: &[(&str, &[&str])] = &[
        ("address=192.", &["192.0.2.1", "192.0.2.2"]),
        ("address=2001", &[]),
        ("version=h2", &["192.0.2.2"]),
        ("version=h3&address=192", &["192.0.2.1"]),
        ("group=hold_back", &[]),
    ];
    for (query, want) in cases {
        let (_, listed) = api.list(query).await;
        let mut got: Vec<_> = listed
            .iter()
            .map(|one| one["address"].as_str().unwrap())
            .collect();
        got.sort_unstable();
        assert_eq!(got, *want, "{query}");
    }
    for (query, why) in [
        ("sort=beauty", "expected seen"),
        ("order=up", "ascending"),
        ("version=h4", "h1, h2 or h3"),
        ("colour=red", "`colour` is not one of"),
    ] {
        let (head, body) = api.send(&format!("GET /v1/clients?{query}"), "").await;
        assert!(head.starts_with("HTTP/1.1 400 "), "{query}: {head}");
        assert!(body.contains(why), "{query}: {body}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pinned_client_gets_its_version_for_a_time() {
    let api = Api::start(None);
    let version = async || {
        let known = api.get("/v1/clients/192.0.2.1").await;
        let pinned = known.get("pinned").cloned().unwrap_or_default();
        (
            known["decision"]["version"].clone(),
            known["decision"]["reason_code"].clone(),
            pinned,
        )
    };
    assert_eq!(version().await.0, "h3");
    let pin = json!({ "address": "192.0.2.1", "version": "h2", "for": "10m" }).to_string();
    let epoch = api
        .server
        .shared
        .clients
        .epoch("192.0.2.1".parse().unwrap());
    let (_, answer) = api.send("POST /v1/pin", &pin).await;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer, json!({ "pinned": "h2", "for_s": 600 }));
    let after = api
        .server
        .shared
        .clients
        .epoch("192.0.2.1".parse().unwrap());
    assert_ne!(epoch, after, "its connections decide again");
    let pinned = json!({ "version": "h2", "for_s": 600 });
    assert_eq!(version().await, (json!("h2"), json!("pinned"), pinned));
    let decided = api
        .server
        .shared
        .clients
        .decide("192.0.2.1".parse().unwrap(), None);
    assert_eq!(decided.version, Version::H2);
    tokio::time::advance(Duration::from_secs(601)).await;
    assert_eq!(version().await.0, "h3", "it has ended");
    api.send("POST /v1/pin", &pin).await;
    let unpin = json!({ "address": "192.0.2.1", "version": null }).to_string();
    assert_eq!(
        api.send("POST /v1/pin", &unpin).await.1,
        "{\"unpinned\":true}\n"
    );
    assert_eq!(
        api.send("POST /v1/pin", &unpin).await.1,
        "{\"unpinned\":false}\n"
    );
    for refused in [
        json!({ "address": "192.0.2.1", "version": "h1" }),
        json!({ "address": "192.0.2.1", "version": "h2", "for": "2d" }),
        json!({ "address": "nobody", "version": "h2" }),
        json!({ "address": "192.0.2.1", "version": "h2", "till": "x" }),
    ] {
        let (head, _) = api.send("POST /v1/pin", &refused.to_string()).await;
        assert!(head.starts_with("HTTP/1.1 400 "), "{refused}: {head}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_has_a_sentence_and_the_model_its_calibration() {
    let api = Api::start(None);
    let known = api.get("/v1/clients/192.0.2.1").await;
    let sentence = known["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("Gets HTTP/3 with "), "{sentence}");
    assert_eq!(
        known["text"].as_str().unwrap().lines().next(),
        Some(sentence)
    );
    let model = api.get("/v1/model").await;
    assert_eq!(model["arms"], json!([]));
    assert!(!model["description"].as_str().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_series_has_an_interval_for_each_pair_of_looks() {
    let api = Api::start(None);
    for _ in 0..200 {
        api.admin.series.record(&api.admin);
        tokio::time::advance(Duration::from_secs(5)).await;
    }
    let series = api.get("/v1/series").await;
    let points = series["points"].as_array().unwrap();
    assert_eq!(points.len(), 180, "the oldest go");
    assert_eq!(points[0]["seconds"], 5.0);
    assert_eq!(points[0]["p50_us"]["h3"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn the_files_of_the_page_need_no_token_and_are_kept() {
    let api = Api::start(Some("s3cret"));
    for path in ["/", "/page/app.js", "/page/style.css"] {
        let (head, body) = api.send(&format!("GET {path}"), "").await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{path}: {head}");
        assert!(head.contains("cache-control: no-cache"), "{path}: {head}");
        assert!(head.contains("script-src 'self'"), "{path}: {head}");
        assert!(!body.is_empty(), "{path}");
        let tag = head
            .lines()
            .find_map(|line| line.strip_prefix("etag: "))
            .unwrap();
        let (head, body) = api
            .send(
                &format!("GET {path} HTTP/1.1\r\nif-none-match: {tag}\r\nx: y"),
                "",
            )
            .await;
        assert!(head.starts_with("HTTP/1.1 304 "), "{path}: {head}");
        assert!(body.is_empty(), "{path}");
    }
    let (head, _) = api.send("GET /page/nothing.js", "").await;
    assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
}
