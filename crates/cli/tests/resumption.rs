//! State of clients from before a restart still counts after it: session tickets, and lost QUIC
//! connections.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hikyaku_testkit::client::{H3, block_on};
use hikyaku_testkit::tls::s_client;
use hikyaku_testkit::{Server, Site, has, this_test};
use hikyaku_tls::AcceptAny;
use quinn::crypto::rustls::QuicClientConfig;
use rustix::process::Signal;
use tokio::time::timeout;

/// Kills the server, and starts another on the same addresses.
#[track_caller]
fn restart(server: &mut Server, args: &[&str]) -> Server {
    server.signal(Signal::KILL);
    server.wait_exit();
    let addresses: Vec<_> = server.addresses.iter().map(ToString::to_string).collect();
    let listen = addresses.iter().flat_map(|address| ["--listen", address]);
    let args: Vec<_> = args.iter().copied().chain(listen).collect();
    Server::try_start(&args).unwrap()
}

/// Connects to `addresses`, kills the server, sends requests, and returns how each connection
/// ended.
fn ends_after_a_crash(
    server: &mut Server,
    addresses: &[SocketAddr],
    args: &[&str],
) -> (Server, Vec<Option<quinn::ConnectionError>>) {
    block_on(async {
        let mut open = Vec::new();
        for &address in addresses {
            let h3 = H3::connect(address).await.unwrap();
            assert_eq!(h3.get("/").await.unwrap().status, 200, "{address}");
            open.push(h3);
        }
        let restarted = restart(server, args);
        let mut ends = Vec::new();
        for h3 in &mut open {
            // Far from the idle time, after which any connection ends.
            let asked = timeout(Duration::from_secs(5), h3.get("/")).await;
            assert!(asked.is_err() || asked.unwrap().is_err());
            let end = timeout(Duration::ZERO, h3.quic.closed()).await;
            ends.push(end.ok());
        }
        (restarted, ends)
    })
}

#[test]
fn quic_clients_learn_at_once_of_a_crash() {
    let site = Site::new(&[("index.html", b"start")]);
    let state = tempfile::tempdir().unwrap();
    let args = [site.path(), "--state", state.path().to_str().unwrap()];
    let (mut server, addresses) = Server::start_on_all(&args);
    let (_restarted, ends) = ends_after_a_crash(&mut server, &addresses, &args);
    for (address, end) in addresses.iter().zip(ends) {
        assert_eq!(end, Some(quinn::ConnectionError::Reset), "{address}");
    }
    let keys = fs::metadata(state.path().join("keys.json")).unwrap();
    assert_eq!(keys.permissions().mode() & 0o777, 0o600);
}

#[test]
fn without_state_a_crash_is_silence() {
    let site = Site::new(&[("index.html", b"start")]);
    let args = [site.path()];
    let mut server = Server::start(&args);
    let addresses = server.addresses.clone();
    let (_restarted, ends) = ends_after_a_crash(&mut server, &addresses, &args);
    assert_eq!(ends, [None], "the key is drawn for each process");
}

#[test]
fn keys_that_cannot_be_read_are_replaced_with_a_warning() {
    let site = Site::new(&[("index.html", b"start")]);
    let state = tempfile::tempdir().unwrap();
    let keys = state.path().join("keys.json");
    fs::write(&keys, "{\"quic\":").unwrap();
    let args = [site.path(), "--state", state.path().to_str().unwrap()];
    let server = Server::start(&args);
    let log = server.log();
    assert!(log.contains("reading the server's keys from"), "{log}");
    assert!(log.contains("they are drawn anew"), "{log}");
    assert!(fs::read_to_string(&keys).unwrap().contains("\"tickets\""));
}

#[test]
fn sessions_over_tcp_are_resumed_after_a_crash() {
    if !has(&this_test(), "openssl") {
        return;
    }
    let site = Site::new(&[("index.html", b"start")]);
    let state = tempfile::tempdir().unwrap();
    let args = [site.path(), "--state", state.path().to_str().unwrap()];
    let mut server = Server::start(&args);
    let dir = tempfile::tempdir().unwrap();
    let path = |version: &str| dir.path().join(version).to_str().unwrap().to_owned();
    let versions = ["-tls1_2", "-tls1_3"];
    for version in versions {
        let first = s_client(&server, version, ["-sess_out", &path(version)]);
        assert!(first.starts_with("New, TLSv1."), "{version}: {first}");
    }
    server = restart(&mut server, &args);
    for version in versions {
        assert!(Path::new(&path(version)).exists(), "{version}: no ticket");
        let again = s_client(&server, version, ["-sess_in", &path(version)]);
        assert!(again.starts_with("Reused, TLSv1."), "{version}: {again}");
    }
    // A reload makes other settings, and must not forget the key.
    server.signal(Signal::HUP);
    server.wait_log("configuration reloaded");
    for version in versions {
        let again = s_client(&server, version, ["-sess_in", &path(version)]);
        assert!(
            again.starts_with("Reused, TLSv1."),
            "reloaded, {version}: {again}"
        );
    }
}

/// A QUIC client that keeps sessions, and its verifier, which counts certificates. Resumed sessions
/// show none (RFC 8446 §2.2).
fn quic_client() -> (quinn::ClientConfig, Arc<AcceptAny>) {
    let verifier = AcceptAny::new();
    let tls = QuicClientConfig::try_from(verifier.config(&["h3"]).unwrap()).unwrap();
    (quinn::ClientConfig::new(Arc::new(tls)), verifier)
}

#[test]
fn sessions_over_quic_are_resumed_after_a_crash() {
    let site = Site::new(&[("index.html", b"start")]);
    let state = tempfile::tempdir().unwrap();
    let args = [site.path(), "--state", state.path().to_str().unwrap()];
    let mut server = Server::start(&args);
    let (config, verifier) = quic_client();
    let connect = |address: SocketAddr| {
        let config = config.clone();
        block_on(async move {
            let endpoint = quinn::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
            let connecting = endpoint.connect_with(config, address, "localhost").unwrap();
            let quic = connecting.await.unwrap();
            // The tickets come after the handshake, before the first stream.
            let control = timeout(hikyaku_testkit::PATIENCE, quic.accept_uni()).await;
            control.unwrap().unwrap();
            quic.close(0x100_u32.into(), b"");
            endpoint.wait_idle().await;
        });
        verifier.shown()
    };
    assert_eq!(connect(server.address()), 1, "a new client");
    assert_eq!(connect(server.address()), 1, "resumed");
    server = restart(&mut server, &args);
    assert_eq!(connect(server.address()), 1, "resumed after a crash");
    drop(server);
}
