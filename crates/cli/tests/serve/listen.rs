//! Addresses that are listened on, TLS and MPTCP.

use hikyaku_testkit::fetch::{Http, curl};
use hikyaku_testkit::{Server, Site, get, has, hikyaku, skip};

use crate::PAGE;

#[test]
fn every_listen_address_is_served_over_every_version() {
    if !has("every_listen_address_is_served_over_every_version", "curl") {
        return;
    }
    let site = Site::new(&[("index.html", PAGE)]);
    let (_server, addresses) = Server::start_on_all(&[site.path()]);
    for url in addresses.map(|address| format!("https://{address}/")) {
        for (option, version) in [("--http1.1", "1.1"), ("--http2", "2")] {
            let output = curl(&[option, "-w", "%{http_version}", &url]);
            let want = [PAGE, version.as_bytes()].concat();
            assert_eq!(output.stdout, want, "{url} {option}");
        }
        let records = get(&["--http", "3", &url]);
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
