//! Versions and congestion controls that are pinned.

use hikyaku_testkit::client::{self};
use hikyaku_testkit::fetch::{Http, fetch};
use hikyaku_testkit::{Server, Site, get, has, skip};

use crate::PAGE;

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
