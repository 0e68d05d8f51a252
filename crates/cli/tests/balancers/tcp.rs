//! A balancer of TCP that names its clients by the PROXY protocol.

use std::net::{IpAddr, SocketAddr};

use hikyaku_testkit::client::{self, H2};
use hikyaku_testkit::{Server, Site, get, has, this_test};
use serde_json::Value;
use tokio::net::TcpSocket;

use crate::haproxy::Haproxy;

/// The options by which HAProxy sends the header, by version.
const VERSIONS: [&str; 2] = ["send-proxy", "send-proxy-v2"];

/// The option with fields behind the addresses.
const WITH_FIELDS: &str = "send-proxy-v2 proxy-v2-options crc32c,unique-id";

/// Where HAProxy connects from.
const BALANCER: &str = "127.0.0.1";

/// Starts a server whose balancer is at 127.0.0.1, without chance in its decisions.
#[track_caller]
fn start(site: &Site, keys: &[&str]) -> Server {
    let usual = [
        "behind.proxy_protocol=127.0.0.1",
        "policy.holdback=0",
        "policy.exploration=0",
    ];
    let keys = usual.iter().chain(keys).flat_map(|key| ["--set", key]);
    let args: Vec<&str> = [site.path()].into_iter().chain(keys).collect();
    Server::start(&args)
}

fn site() -> Site {
    Site::with_big_file(200_000)
}

fn explain(server: &Server, client: &str) -> Value {
    server.admin_json(&format!("/v1/clients/{client}"))
}

/// Opens a connection of HTTP/2 from an address.
async fn connect(from: &str, to: SocketAddr) -> std::io::Result<H2> {
    let from: IpAddr = from.parse().unwrap();
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    let tls = client::tls_over(socket.connect(to).await?, &["h2"]).await?;
    let handshake = h2::client::handshake(tls).await;
    let (requests, connection) = handshake.map_err(std::io::Error::other)?;
    Ok(H2 {
        requests,
        driver: tokio::spawn(connection),
    })
}

#[test]
fn each_client_has_its_own_address_and_no_path_is_learnt() {
    if !has(&this_test(), "haproxy") {
        return;
    }
    let site = site();
    for option in VERSIONS.into_iter().chain([WITH_FIELDS]) {
        let server = start(&site, &[]);
        let haproxy = Haproxy::of_tcp(server.address(), option);
        let port = haproxy.port;
        for (client, host) in [
            ("127.0.0.2", "127.0.0.1"),
            ("127.0.0.3", "127.0.0.1"),
            ("::1", "[::1]"),
        ] {
            let url = format!("https://{host}:{port}/big.bin");
            let records = get(&["--http", "2", "--local", client, &url]);
            assert_eq!(records[0]["status"], 200, "{option}: {records:?}");
            let alt_svc = records[0]["alt_svc"].as_str().unwrap();
            let named = format!("h3=\":{port}\"; ma=");
            assert!(alt_svc.starts_with(&named), "{option}: {alt_svc}");
            let line = server.wait_access(client, |line| line["client"] == client);
            assert_eq!(line["via"], BALANCER, "{option}: {line}");
            assert_ne!(line["port"], 0, "{option}: {line}");
            let explained = explain(&server, client);
            assert_eq!(explained["path"]["samples"], 0.0, "{option}: {explained:#}");
            assert_eq!(explained["tcp_is_hidden"], true, "{option}: {explained:#}");
            let text = explained["text"].as_str().unwrap();
            assert!(
                text.contains("the path to a balancer is not learnt"),
                "{text}"
            );
        }
        let balancer = explain(&server, BALANCER);
        assert_eq!(balancer["path"]["samples"], 0.0, "{balancer:#}");
        assert!(
            !server.log().contains("a request names port"),
            "{}",
            server.log()
        );
    }
}

#[test]
fn a_direct_client_beside_the_balancer_is_learnt() {
    let site = site();
    let server = start(&site, &[]);
    let url = server.url("/big.bin");
    let records = get(&["--http", "2", "--local", "127.0.0.9", &url]);
    assert_eq!(records[0]["status"], 200, "{records:?}");
    let line = server.wait_access("the client", |line| line["client"] == "127.0.0.9");
    assert_eq!(line["via"], Value::Null, "{line}");
    hikyaku_testkit::eventually("a sample of its path", || {
        let explained = explain(&server, "127.0.0.9");
        (explained["path"]["samples"].as_f64().unwrap() > 0.0).then_some(())
    });
    assert_eq!(explain(&server, "127.0.0.9")["tcp_is_hidden"], false);
}

#[test]
fn limits_hold_for_each_client_and_not_for_the_balancer() {
    if !has(&this_test(), "haproxy") {
        return;
    }
    let site = site();
    let server = start(&site, &["limits.connections_per_address=2"]);
    let haproxy = Haproxy::of_tcp(server.address(), "send-proxy-v2");
    let address = haproxy.address();
    client::block_on(async {
        let mut open = Vec::new();
        for client in ["127.0.0.2", "127.0.0.3", "127.0.0.2", "127.0.0.3"] {
            let mut h2 = connect(client, address).await.unwrap();
            assert_eq!(h2.get("/").await.unwrap().status, 200, "{client}");
            open.push(h2);
        }
        assert!(
            connect("127.0.0.2", address).await.is_err(),
            "the third one"
        );
        let refused = "hikyaku_connections_refused_total{limit=\"connections_per_address\"}";
        assert_eq!(server.metric(refused), 1.0);
        server
            .wait_log("a connection from 127.0.0.2 is refused: limits.connections_per_address = 2");

        let explained = explain(&server, "127.0.0.2");
        let listed = explained["open"].as_array().unwrap();
        assert_eq!(listed.len(), 2, "{explained:#}");
        assert!(
            listed.iter().all(|one| one["via"] == BALANCER),
            "{explained:#}"
        );
        let text = explained["text"].as_str().unwrap();
        assert!(
            text.contains("through 127.0.0.1, whose path is not learnt"),
            "{text}"
        );
    });
}

#[test]
fn udp_that_never_reaches_the_server_is_learnt_of_each_client() {
    if !has(&this_test(), "haproxy") {
        return;
    }
    let site = site();
    let server = start(&site, &[]);
    let haproxy = Haproxy::of_tcp(server.address(), "send-proxy-v2");
    let url = format!("https://{}/", haproxy.address());
    let ended = "hikyaku_udp_events_total{event=\"session_ended\"}";
    let session = |client: &str| {
        let args = ["--http", "auto", "--alt-svc", "ignore", "--local", client];
        let browser = ["-H", "sec-fetch-site: none", &url, &url];
        let records = get(&[&args[..], &browser].concat());
        assert_eq!(records[1]["status"], 200, "{records:?}");
        records[1]["alt_svc"].as_str().map(str::to_owned)
    };
    for count in 1..=2 {
        assert!(session("127.0.0.2").unwrap().starts_with("h3="), "{count}");
        server.wait_metric(ended, f64::from(count));
    }
    assert_eq!(session("127.0.0.2").as_deref(), Some("clear"));
    let explained = explain(&server, "127.0.0.2");
    let code = &explained["decision"]["reason_code"];
    assert_eq!(code, "udp_never_came", "{explained:#}");
}
