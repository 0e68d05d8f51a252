//! Evidence on UDP, and the clients that it concerns.
#![allow(clippy::unwrap_used)]

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use hikyaku_core::explain::Explanation;
use hikyaku_testkit::fetch::curl;
use hikyaku_testkit::{PATIENCE, Server, Site, client, get, has};
use serde_json::{Value, json};

/// The field of a client that follows advertisements.
const BROWSER: &str = "sec-fetch-site: none";

/// Starts a server without chance and experiments, so that each decision follows from measurements.
#[track_caller]
fn start(site: &Site, args: &[&str]) -> Server {
    let plain = ["policy.exploration=0", "policy.holdback=0"];
    let plain = plain.map(|setting| ["--set", setting]).concat();
    Server::start(&[&[site.path()], &plain[..], args].concat())
}

fn explain(server: &Server, client: u8) -> Value {
    server.admin_json(&format!("/v1/clients/127.0.0.{client}"))
}

fn udp_events(server: &Server, event: &str) -> f64 {
    server.metric(&format!("hikyaku_udp_events_total{{event=\"{event}\"}}"))
}

/// Makes the first packet of a QUIC client, for another address to send.
fn initial() -> Vec<u8> {
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    sink.set_read_timeout(Some(PATIENCE)).unwrap();
    let address = sink.local_addr().unwrap();
    client::block_on(async {
        let receiving = tokio::task::spawn_blocking(move || {
            let mut packet = vec![0; 1500];
            let length = sink.recv(&mut packet).unwrap();
            packet.truncate(length);
            packet
        });
        tokio::select! {
            packet = receiving => packet.unwrap(),
            _ = client::quic(address, "h3", None) => panic!("nobody answers"),
        }
    })
}

/// Sends such packets from 127.0.0.`client`.
fn forge(server: &Server, client: u8, count: usize) {
    let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, client), 0)).unwrap();
    for _ in 0..count {
        socket.send_to(&initial(), server.address()).unwrap();
    }
}

#[test]
fn forged_packets_are_no_evidence() {
    let site = Site::new(&[("index.html", b"start")]);
    let cases: [&[&str]; 2] = [&[], &["--set", "tls.early_data=true"]];
    for settings in cases {
        let short = ["--set", "timeouts.handshake=300ms"];
        let server = start(&site, &[settings, &short].concat());
        for client in 11..=13 {
            forge(&server, client, 2);
        }
        let failed = "hikyaku_handshakes_failed_total{transport=\"quic\"}";
        server.wait_metric(failed, 6.0);
        for event in ["arrived", "broke"] {
            assert_eq!(udp_events(&server, event), 0.0, "{event}, {settings:?}");
        }
        for client in [11, 99] {
            let explained = explain(&server, client);
            let code = &explained["decision"]["reason_code"];
            assert_eq!(code, "too_few_samples", "{settings:?}: {explained:#}");
            assert_eq!(explained["levels"], json!([]), "{settings:?}");
        }
    }
}

#[test]
fn forged_packets_do_not_take_the_places_of_an_address() {
    let site = Site::new(&[("index.html", b"start")]);
    let server = start(&site, &["--set", "limits.connections_per_address=40"]);
    forge(&server, 11, 44);
    server.wait_metric("hikyaku_quic_retries_total{}", 12.0);
    let refused = "hikyaku_connections_refused_total{limit=\"connections_per_address\"}";
    assert_eq!(server.metric(refused), 0.0);
    // An answer from the address proves it.
    let args = ["--http", "3", "--local", "127.0.0.11", &server.url("/")];
    assert_eq!(get(&args)[0]["status"], 200);
    assert_eq!(udp_events(&server, "arrived"), 1.0);
}

/// Makes a session of two requests over HTTP/2 from 127.0.0.`client`. Returns its last `Alt-Svc`.
fn session(server: &Server, client: u8, headers: &[&str]) -> Option<String> {
    let (interface, url) = (format!("127.0.0.{client}"), server.url("/"));
    let mut args = vec!["--http2", "--interface", &interface, "-D", "-"];
    args.extend(headers.iter().flat_map(|header| ["-H", header]));
    args.extend([url.as_str(), url.as_str()]);
    let output = String::from_utf8(curl(&args).stdout).unwrap();
    let mut fields = output.lines().rev();
    fields.find_map(|line| Some(line.strip_prefix("alt-svc: ")?.to_owned()))
}

#[test]
fn scripts_that_stay_on_tcp_are_no_evidence() {
    if !has("scripts_that_stay_on_tcp_are_no_evidence", "curl") {
        return;
    }
    let site = Site::new(&[("index.html", b"start")]);
    // The faster version is not the question here.
    let server = start(&site, &["--set", "policy.min_samples=1000"]);
    for count in 0..6 {
        for script in [21, 22] {
            let alt_svc = session(&server, script, &[]).unwrap();
            assert!(alt_svc.starts_with("h3="), "session {count}: {alt_svc}");
        }
    }
    assert_eq!(udp_events(&server, "session_ended"), 0.0);
    // A browser with the address of a script, and one with the next.
    for browser in [21, 23] {
        let alt_svc = session(&server, browser, &[BROWSER]).unwrap();
        assert!(alt_svc.starts_with("h3="), "{alt_svc}");
    }
}

#[test]
fn newcomers_among_clients_without_udp_get_no_advertisement() {
    if !has(
        "newcomers_among_clients_without_udp_get_no_advertisement",
        "curl",
    ) {
        return;
    }
    let site = Site::new(&[("index.html", b"start")]);
    let server = start(&site, &[]);
    for count in 1..=4 {
        let browser = 31 + count % 2;
        assert!(session(&server, browser, &[BROWSER]).is_some());
        let ended = "hikyaku_udp_events_total{event=\"session_ended\"}";
        server.wait_metric(ended, f64::from(count));
    }
    let explained = explain(&server, 39);
    let code = &explained["decision"]["reason_code"];
    assert_eq!(code, "udp_never_came", "{explained:#}");
    assert_eq!(session(&server, 39, &[BROWSER]), None, "nothing to forget");
    let alt_svc = session(&server, 31, &[BROWSER]);
    assert_eq!(
        alt_svc.as_deref(),
        Some("clear"),
        "one with an advertisement"
    );
    // No client was probed.
    let explained: Explanation = serde_json::from_value(explain(&server, 39)).unwrap();
    let next_probe = explained.udp.next_probe_in.unwrap();
    let [least, most] = [3000, 3600].map(Duration::from_secs);
    assert!((least..=most).contains(&next_probe), "{next_probe:?}");
}

#[test]
fn http3_that_never_comes_is_withheld_until_the_next_probe() {
    let site = Site::new(&[("index.html", b"start")]);
    let probe = [
        "--set",
        "policy.udp.probe_min=3s",
        "--set",
        "policy.udp.probe_max=1h",
    ];
    let server = start(&site, &probe);
    let session = || {
        let url = server.url("/");
        let args = [
            "--http",
            "auto",
            "--alt-svc",
            "ignore",
            "-H",
            BROWSER,
            &url,
            &url,
        ];
        let records = get(&args);
        let alt_svc = |index: usize| records[index]["alt_svc"].as_str().map(str::to_owned);
        assert_eq!(records[1]["reused"], true, "{records:?}");
        alt_svc(1)
    };
    let ended = "hikyaku_udp_events_total{event=\"session_ended\"}";
    for count in 1..=2 {
        let alt_svc = session().unwrap_or_else(|| panic!("session {count}"));
        assert!(!alt_svc.contains("ma=0"), "{alt_svc}");
        server.wait_metric(ended, f64::from(count));
    }
    let withdrawn = session();
    assert_eq!(withdrawn.as_deref(), Some("clear"), "after two sessions");
    let explained = server.admin_json("/v1/clients/127.0.0.1");
    assert_eq!(
        explained["decision"]["reason_code"], "udp_never_came",
        "{explained:#}"
    );
    hikyaku_testkit::eventually("a probe", || session().filter(|alt_svc| alt_svc != "clear"));
    // UDP works at last, which counts.
    let records = get(&["--http", "3", &server.url("/")]);
    assert_eq!(records[0]["status"], 200, "{records:?}");
    let explained = server.admin_json("/v1/clients/127.0.0.1");
    // The faster version is not the question here.
    assert_ne!(
        explained["decision"]["reason_code"], "udp_never_came",
        "{explained:#}"
    );
}

#[test]
fn clients_that_ask_once_are_no_sign_of_blocked_udp() {
    let site = Site::new(&[("index.html", b"start")]);
    let server = start(&site, &[]);
    for count in 0..6 {
        let records = get(&["--http", "2", "-H", BROWSER, &server.url("/")]);
        assert!(
            records[0]["alt_svc"].is_string(),
            "session {count}: {records:?}"
        );
    }
}
