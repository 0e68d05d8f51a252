//! Servers with a file of secrets in common know each other's clients: session tickets, QUIC's tokens and
//! stateless resets.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hikyaku_quic::Endpoint;
use hikyaku_quic::proto::{self, ClientConfig};
use hikyaku_testkit::client::{H3, block_on};
use hikyaku_testkit::tls::s_client;
use hikyaku_testkit::{PATIENCE, Server, Site, has, this_test};
use hikyaku_tls::AcceptAny;
use quinn::crypto::rustls::QuicClientConfig;
use rustix::process::Signal;
use tokio::net::UdpSocket;
use tokio::time::timeout;

/// Edges of one site with a file of secrets.
struct Edges {
    site: Site,
    keys: PathBuf,
    _dir: tempfile::TempDir,
}

impl Edges {
    /// Edges that have this byte as a secret, over and over.
    fn new(secret: u8) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let edges = Self {
            site: Site::new(&[("index.html", b"start")]),
            keys: dir.path().join("fleet.keys"),
            _dir: dir,
        };
        edges.write(&[secret]);
        edges
    }

    fn write(&self, secrets: &[u8]) {
        let lines = secrets.iter().map(|byte| format!("{byte:02x}").repeat(32));
        self.write_text(&lines.collect::<Vec<_>>().join("\n"));
    }

    fn write_text(&self, text: &str) {
        let new = self.keys.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(new, &self.keys).unwrap();
    }

    fn start(&self, args: &[&str]) -> Server {
        let keys = format!("fleet.key_file={}", self.keys.display());
        Server::start(&[&[self.site.path(), "--set", &keys], args].concat())
    }
}

#[test]
fn sessions_over_tcp_are_resumed_at_another_edge() {
    if !has(&this_test(), "openssl") {
        return;
    }
    let edges = Edges::new(1);
    let [a, b] = [(); 2].map(|()| edges.start(&[]));
    let stranger = Edges::new(2).start(&[]);
    let dir = tempfile::tempdir().unwrap();
    for version in ["-tls1_2", "-tls1_3"] {
        let path = dir.path().join(version).to_str().unwrap().to_owned();
        let first = s_client(&a, version, ["-sess_out", &path]);
        assert!(first.starts_with("New, TLSv1."), "{version}: {first}");
        assert!(Path::new(&path).exists(), "{version}: no ticket");
        let there = s_client(&b, version, ["-sess_in", &path]);
        assert!(there.starts_with("Reused, TLSv1."), "{version}: {there}");
        let elsewhere = s_client(&stranger, version, ["-sess_in", &path]);
        assert!(
            elsewhere.starts_with("New, TLSv1."),
            "{version}: {elsewhere}"
        );
    }
}

#[test]
fn secrets_are_replaced_while_edges_serve() {
    if !has(&this_test(), "openssl") {
        return;
    }
    let edges = Edges::new(1);
    let a = edges.start(&[]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("session").to_str().unwrap().to_owned();
    let resumes = || s_client(&a, "-tls1_3", ["-sess_in", &path]).starts_with("Reused");
    s_client(&a, "-tls1_3", ["-sess_out", &path]);

    // Half of it: the former one stays.
    edges.write_text(&"02".repeat(20));
    let log = a.wait_log("the former secrets stay in use");
    assert!(
        log.contains("line 1 is no secret of 64 hexadecimal"),
        "{log}"
    );
    assert!(resumes());
    a.signal(Signal::HUP);
    a.wait_log("reading the fleet's secrets from");
    assert!(resumes());

    edges.write(&[2, 1]);
    a.wait_log("the fleet's secrets have changed; 2 are in use");
    assert!(resumes(), "the former one opens still");
    edges.write(&[2]);
    a.wait_log("the fleet's secrets have changed; 1 are in use");
    assert!(!resumes(), "it was dropped");
}

#[test]
fn a_server_does_not_start_with_secrets_that_are_open() {
    let edges = Edges::new(1);
    fs::set_permissions(&edges.keys, fs::Permissions::from_mode(0o644)).unwrap();
    let keys = format!("fleet.key_file={}", edges.keys.display());
    let args = [edges.site.path(), "--set", &keys];
    let log = Server::try_start(&args).err().unwrap();
    assert!(log.contains("(fleet.key_file)"), "{log}");
    assert!(
        log.contains("others have access to it (mode 0644)"),
        "{log}"
    );
    let check = hikyaku_testkit::hikyaku(&[&["check"], &args[..]].concat());
    assert!(!check.status.success());
    let text = String::from_utf8_lossy(&check.stderr);
    assert!(text.contains("others have access to it"), "{text}");
}

/// A QUIC client that keeps sessions, and its verifier, which counts certificates. Resumed sessions show none
/// (RFC 8446 §2.2).
fn quic_client() -> (quinn::ClientConfig, Arc<AcceptAny>) {
    let verifier = AcceptAny::new();
    let tls = QuicClientConfig::try_from(verifier.config(&["h3"]).unwrap()).unwrap();
    (quinn::ClientConfig::new(Arc::new(tls)), verifier)
}

async fn connect(config: &quinn::ClientConfig, address: SocketAddr) {
    let endpoint = quinn::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let connecting = endpoint.connect_with(config.clone(), address, "localhost");
    let quic = timeout(PATIENCE, connecting.unwrap())
        .await
        .unwrap()
        .unwrap();
    // The tickets come after the handshake, before the first stream.
    let control = timeout(PATIENCE, quic.accept_uni()).await;
    control.unwrap().unwrap();
    quic.close(0x100_u32.into(), b"");
    endpoint.wait_idle().await;
}

#[test]
fn sessions_over_quic_are_resumed_at_another_edge() {
    let edges = Edges::new(1);
    let [a, b] = [(); 2].map(|()| edges.start(&[]));
    let stranger = Edges::new(2).start(&[]);
    let (config, verifier) = quic_client();
    for (name, server, shown) in [
        ("a new client", &a, 1),
        ("resumed", &a, 1),
        ("at another edge", &b, 1),
        ("and back", &a, 1),
        ("somewhere else", &stranger, 2),
    ] {
        block_on(connect(&config, server.address()));
        assert_eq!(verifier.shown(), shown, "{name}");
    }
}

/// Early data is for the process that has remembered the session: another edge can't know whether it was used.
#[test]
fn early_data_is_taken_by_nobody_else() {
    let edges = Edges::new(1);
    let args = ["--set", "tls.early_data=true"];
    let [a, b] = [(); 2].map(|()| edges.start(&args));
    let verifier = AcceptAny::new();
    let mut tls = verifier.config(&["h3"]).unwrap();
    tls.enable_early_data = true;
    let tls = proto::crypto::rustls::QuicClientConfig::try_from(tls).unwrap();
    let config = ClientConfig::new(Arc::new(tls));
    block_on(async {
        let begin = |server: &Server| {
            let endpoint = Endpoint::bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
            let connecting = endpoint.connect(config.clone(), server.address(), "localhost");
            (endpoint, connecting.unwrap())
        };
        let (endpoint, connecting) = begin(&a);
        let h3 = H3::over(endpoint, connecting.await.unwrap());
        assert_eq!(h3.get("/").await.unwrap().status, 200);
        h3.close().await;
        let (_endpoint, connecting) = begin(&b);
        let Ok((_quic, accepted)) = connecting.into_0rtt() else {
            panic!("the client has a session that allows early data");
        };
        assert!(!timeout(PATIENCE, accepted).await.unwrap());
        assert_eq!(verifier.shown(), 2, "a full handshake");
    });
}

/// A way between a client and edges with one address: datagrams go to one of them.
struct Anycast {
    address: SocketAddr,
    /// The index of the edge.
    towards: Arc<AtomicUsize>,
}

impl Anycast {
    /// Goes on to the next edge `after` so many datagrams of the client, and stays there.
    async fn new(edges: [SocketAddr; 2], after: usize) -> Self {
        // One socket to both sides: the edges see one address of the client.
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let towards = Arc::new(AtomicUsize::new(0));
        let now = Arc::clone(&towards);
        tokio::spawn(async move {
            let (mut datagram, mut client, mut count) = (vec![0; 64 * 1024], None, 0);
            while let Ok((length, from)) = socket.recv_from(&mut datagram).await {
                let to = match edges.contains(&from) {
                    true => client,
                    false => {
                        client = Some(from);
                        let edge = edges[now.load(Ordering::SeqCst)];
                        count += 1;
                        if count == after {
                            now.store(1, Ordering::SeqCst);
                        }
                        Some(edge)
                    }
                };
                if let Some(to) = to {
                    let _ = socket.send_to(&datagram[..length], to).await;
                }
            }
        });
        Self { address, towards }
    }
}

/// A QUIC client whose first message fits into one datagram: it offers no hybrid key exchange.
fn brief_client() -> ClientConfig {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.kx_groups = vec![rustls::crypto::aws_lc_rs::kx_group::X25519];
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(provider));
    let mut tls = tls
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(AcceptAny::new())
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let tls = proto::crypto::rustls::QuicClientConfig::try_from(tls).unwrap();
    ClientConfig::new(Arc::new(tls))
}

#[test]
fn an_edge_takes_the_retry_tokens_of_another() {
    let edges = Edges::new(1);
    let [a, b] = [(); 2].map(|()| edges.start(&["--set", "limits.quic_retry_above=0"]));
    block_on(async {
        // The first datagram meets one edge, which asks for proof; the proof comes to the other.
        let way = Anycast::new([a.address(), b.address()], 1).await;
        let endpoint = Endpoint::bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let connecting = endpoint.connect(brief_client(), way.address, "localhost");
        let quic = timeout(PATIENCE, connecting.unwrap()).await.unwrap();
        let h3 = H3::over(endpoint, quic.unwrap());
        assert_eq!(h3.get("/").await.unwrap().status, 200);
    });
    let retries = "hikyaku_quic_retries_total{}";
    assert_eq!([a.metric(retries), b.metric(retries)], [1.0, 0.0]);
}

/// How a connection ends whose datagrams come to another edge from some time on.
fn end_at_another_edge(edges: &Edges, args: &[&str]) -> Option<quinn::ConnectionError> {
    let [a, b] = [(); 2].map(|()| edges.start(args));
    block_on(async {
        let way = Anycast::new([a.address(), b.address()], 0).await;
        let h3 = H3::connect(way.address).await.unwrap();
        assert_eq!(h3.get("/").await.unwrap().status, 200);
        way.towards.store(1, Ordering::SeqCst);
        // Far from the idle time, after which any connection ends.
        let asked = timeout(Duration::from_secs(5), h3.get("/")).await;
        assert!(asked.is_err() || asked.unwrap().is_err());
        timeout(Duration::ZERO, h3.quic.closed()).await.ok()
    })
}

#[test]
fn edges_with_one_address_reset_each_others_connections() {
    let args = ["--set", "fleet.shared_addresses=true"];
    let end = end_at_another_edge(&Edges::new(1), &args);
    assert_eq!(end, Some(quinn::ConnectionError::Reset));
}

#[test]
fn edges_with_addresses_of_their_own_do_not() {
    assert_eq!(end_at_another_edge(&Edges::new(1), &[]), None);
}
