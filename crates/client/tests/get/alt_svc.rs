//! Moves between HTTP/2 and HTTP/3 by Alt-Svc.

use serde_json::Value;

use ::http::Version;
use hikyaku_client::ExitStatus;

use crate::server::{ALL, Offer, Server};
use crate::{Records, get, number};

/// A server that advertises HTTP/3 on both transports.
fn advertising(offer: Offer, value: &str) -> Server {
    let server = Server::start(offer);
    server.set(|state| {
        state.alt_svc_tcp = Some(value.to_owned());
        state.alt_svc_quic = Some(value.to_owned());
    });
    server
}

const HTTP3: &str = r#"h3=":PORT"; ma=3600"#;

/// Fetches `paths` one after the other.
fn fetch(server: &Server, options: &str, paths: &[&str]) -> Records {
    let urls: Vec<_> = paths.iter().map(|path| server.url(path)).collect();
    let (records, status) = get(&format!("{} {options} {}", server.trust(), urls.join(" ")));
    assert_eq!(status, ExitStatus::Success, "{:?}", records.0);
    records
}

#[test]
fn follow_waits_for_the_handshake() {
    let server = advertising(ALL, HTTP3);
    let records = fetch(&server, "", &["/bytes/125", "/bytes/1000", "/bytes/1000"]);
    assert_eq!(records.versions(), ["2", "3", "3"]);
    assert!(records.requests().iter().all(|r| r["retry"] == Value::Null));
    assert_eq!(records.of("connection").len(), 2);
    let seen = server.seen();
    assert!(!seen[0].headers.contains_key("alt-used"));
    let authority = format!("localhost:{}", server.address.port());
    assert_eq!(seen[1].headers["alt-used"], authority.as_str());
}

#[test]
fn a_single_url_opens_no_connection_for_nothing() {
    let server = advertising(ALL, HTTP3);
    let records = fetch(&server, "", &["/bytes/125"]);
    assert_eq!(records.of("connection").len(), 1);
}

#[test]
fn race_goes_on_over_tcp_until_http3_is_up() {
    let server = advertising(ALL, HTTP3);
    let records = fetch(
        &server,
        "--alt-svc race",
        &["/bytes/1", "/delay/300", "/bytes/1"],
    );
    assert_eq!(records.versions(), ["2", "2", "3"]);
    // Connected by then, so the third request did not wait.
    let third = records.requests()[2].clone();
    assert_eq!(third["reused"], true);
    assert!(number(&third["blocked_us"]) < 100_000, "{third}");
}

#[test]
fn ignore_stays_on_tcp() {
    let server = advertising(ALL, HTTP3);
    let records = fetch(&server, "--alt-svc ignore", &["/bytes/1", "/bytes/1"]);
    assert_eq!(records.versions(), ["2", "2"]);
    assert_eq!(
        records.requests()[0]["alt_svc"],
        HTTP3.replace("PORT", &server.address.port().to_string())
    );
}

#[test]
fn clear_brings_the_next_request_back() {
    let server = advertising(ALL, HTTP3);
    server.set(|state| state.alt_svc_quic = Some("clear".to_owned()));
    let records = fetch(&server, "", &["/bytes/1"; 4]);
    // HTTP/2 still advertises it, so the client flaps, as browsers do.
    assert_eq!(records.versions(), ["2", "3", "2", "3"]);
}

#[test]
fn an_advertisement_expires() {
    let server = advertising(ALL, r#"h3=":PORT"; ma=1"#);
    server.set(|state| state.alt_svc_quic = None);
    let options = "--warm --repeat 2 --interval 2100ms";
    let records = fetch(&server, options, &["/bytes/1", "/bytes/1"]);
    assert_eq!(records.versions(), ["2", "3", "2", "3"]);
}

#[test]
fn cold_repeats_are_new_clients_and_warm_ones_are_not() {
    let server = advertising(ALL, HTTP3);
    let records = fetch(&server, "--repeat 2", &["/bytes/1", "/bytes/1"]);
    assert_eq!(records.versions(), ["2", "3", "2", "3"]);
    let records = fetch(&server, "--repeat 2 --warm", &["/bytes/1", "/bytes/1"]);
    assert_eq!(records.versions(), ["2", "3", "3", "3"]);
}

#[test]
fn a_returning_client_starts_on_http3() {
    let server = advertising(ALL, HTTP3);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("alt-svc.json");
    for mode in ["follow", "race"] {
        let options = format!("--alt-svc {mode} --alt-svc-cache {}", file.display());
        let records = fetch(&server, &options, &["/bytes/1"]);
        assert_eq!(records.versions(), ["2"], "{mode}");
        let records = fetch(&server, &options, &["/bytes/1"]);
        assert_eq!(records.versions(), ["3"], "{mode}");
        assert_eq!(
            records.of("connection").len(),
            1,
            "{mode}: no TCP connection"
        );
        std::fs::remove_file(&file).unwrap();
    }
}

#[test]
fn a_broken_cache_file_is_reported() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "nonsense").unwrap();
    let line = format!(
        "--alt-svc-cache {} https://localhost/",
        file.path().display()
    );
    let error = crate::get_text(&line).1.unwrap_err();
    assert!(
        error.to_string().contains("reading the Alt-Svc cache"),
        "{error}"
    );
}

#[test]
fn blocked_udp_leads_back_to_tcp_and_is_remembered() {
    let server = advertising(
        Offer {
            http3: Some(false),
            ..ALL
        },
        HTTP3,
    );
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("alt-svc.json");
    let options = format!("--connect-timeout 300ms --alt-svc-cache {}", file.display());
    let records = fetch(&server, &options, &["/bytes/1", "/bytes/1", "/bytes/1"]);
    assert_eq!(records.versions(), ["2", "2", "2"]);
    let retries: Vec<_> = records
        .requests()
        .iter()
        .map(|r| r["retry"].clone())
        .collect();
    let reason = retries[1].as_str().unwrap();
    assert!(
        reason.starts_with("HTTP/3 at localhost:") && reason.contains("no QUIC connection"),
        "{reason}"
    );
    assert_eq!(retries[2], Value::Null, "marked broken");
    assert!(number(&records.requests()[1]["blocked_us"]) > 100_000);

    // The next client with this file does not even try, though the advertisement is fresh.
    let records = fetch(&server, &options, &["/bytes/1", "/bytes/1"]);
    assert!(
        records
            .requests()
            .iter()
            .all(|r| r["http"] == "2" && r["retry"] == Value::Null)
    );
}

#[test]
fn race_with_blocked_udp_costs_a_returning_client_the_head_start_alone() {
    let server = advertising(ALL, HTTP3);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("alt-svc.json");
    let swallowing = advertising(
        Offer {
            http3: Some(false),
            ..ALL
        },
        HTTP3,
    );
    let options = format!("--alt-svc race --alt-svc-cache {}", file.display());
    drop(server);
    fetch(&swallowing, &options, &["/bytes/1"]);
    let records = fetch(&swallowing, &options, &["/bytes/1"]);
    assert_eq!(records.versions(), ["2"]);
    let blocked = number(&records.requests()[0]["blocked_us"]);
    assert!(blocked >= 90_000, "{blocked}");
}

#[test]
fn http3_may_be_at_another_port() {
    let other = Server::start(ALL);
    let value = format!(r#"h3="localhost:{}""#, other.address.port());
    let server = advertising(ALL, &value);
    let options = "--insecure -4";
    let urls = format!("{} {}", server.url("/bytes/1"), server.url("/bytes/2"));
    let (records, _) = get(&format!("{options} {urls}"));
    assert_eq!(records.versions(), ["2", "3"]);
    let seen = other.seen();
    assert_eq!(
        (seen[0].version, seen[0].path.as_str()),
        (Version::HTTP_3, "/bytes/2")
    );
    assert_eq!(records.requests()[1]["remote"], other.address.to_string());
}

#[test]
fn an_alternative_must_prove_to_be_the_origin() {
    let impostor = Server::start(ALL);
    let value = format!(r#"h3="localhost:{}""#, impostor.address.port());
    let server = advertising(ALL, &value);
    let records = fetch(&server, "", &["/bytes/1", "/bytes/1"]);
    assert_eq!(records.versions(), ["2", "2"]);
    assert!(
        records.requests()[1]["retry"]
            .as_str()
            .unwrap()
            .contains("QUIC handshake")
    );
    assert!(impostor.seen().is_empty());
}

#[test]
fn http3_that_hangs_up_is_given_up() {
    let server = advertising(ALL, HTTP3);
    let records = fetch(&server, "", &["/bytes/1", "/hangup", "/bytes/1"]);
    assert_eq!(records.versions(), ["2", "2", "2"]);
    let reason = records.requests()[1]["retry"].as_str().unwrap();
    assert!(reason.starts_with("HTTP/3 at"), "{reason}");
}

#[test]
fn cleartext_advertisements_are_ignored() {
    let server = advertising(Offer { tls: false, ..ALL }, HTTP3);
    let url = server.url("/bytes/5").replace("https", "http");
    let (records, _) = get(&format!("-4 {url} {url}"));
    assert_eq!(records.versions(), ["1.1", "1.1"]);
}
