//! Cost of a connection for the server: CPU time for a full and for a resumed handshake. Each has one
//! request of HTTP/1.1, or none over QUIC.
//!
//! `cargo bench -p hikyaku-edge --bench handshake`; RSA needs the program `openssl`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use hikyaku_edge::{Config, Server};
use hikyaku_quic::Endpoint;
use hikyaku_quic::proto::ClientConfig as QuicConfig;
use hikyaku_quic::proto::crypto::rustls::QuicClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, Stream};

const CONNECTIONS: u32 = 2000;

fn main() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("index.html"), "hello").unwrap();
    println!("CPU of the server for a connection, in µs ({CONNECTIONS} connections each)");
    println!("{:>20} {:>8} {:>8}", "", "full", "resumed");
    for (key, options) in [
        (
            "ecdsa",
            ["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"].as_slice(),
        ),
        ("rsa", &["rsa:2048"]),
    ] {
        let pem = certificate(dir.path(), options);
        let (server, runtime) = start(dir.path());
        let address = server.addresses()[0];
        let cases = [
            ("TLS 1.2", &rustls::version::TLS12),
            ("TLS 1.3", &rustls::version::TLS13),
        ];
        for (name, version) in cases {
            let costs = [false, true].map(|resume| {
                let config = Arc::new(client(&pem, version, "http/1.1", resume));
                cost(|| over_tcp(&config, address))
            });
            print(&format!("{key}, {name}"), costs);
        }
        let costs = [false, true].map(|resume| {
            let tls = client(&pem, &rustls::version::TLS13, "h3", resume);
            let tls = QuicClientConfig::try_from(tls).unwrap();
            let config = QuicConfig::new(Arc::new(tls));
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            let _guard = runtime.enter();
            let endpoint = Endpoint::bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
            cost(|| runtime.block_on(over_quic(&endpoint, config.clone(), address)))
        });
        print(&format!("{key}, QUIC"), costs);
        runtime.block_on(server.stop());
    }
}

fn print(name: &str, [full, resumed]: [f64; 2]) {
    println!("{name:>20} {full:>8.1} {resumed:>8.1}");
}

/// Makes the files of a certificate for localhost.
fn certificate(dir: &Path, key: &[&str]) -> Vec<u8> {
    let (cert, private) = (dir.join("cert.pem"), dir.join("key.pem"));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
        ])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-addext", "subjectAltName=DNS:localhost", "-newkey"])
        .args(key)
        .args(["-keyout".as_ref(), private.as_os_str()])
        .args(["-out".as_ref(), cert.as_os_str()])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    fs::read(cert).unwrap()
}

fn start(dir: &Path) -> (Server, tokio::runtime::Runtime) {
    let keys = ["log.access=off", "admin.listen=", "policy.min_cwnd=off"];
    let mut config = Config::load(None, &keys.map(str::to_owned)).unwrap();
    config.root = Some(dir.to_owned());
    config.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0)).into()];
    config.tls.cert = vec![dir.join("cert.pem")];
    config.tls.key = vec![dir.join("key.pem")];
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("server")
        .enable_all()
        .build()
        .unwrap();
    let server = runtime.block_on(async { Server::start(config).unwrap() });
    (server, runtime)
}

fn client(
    pem: &[u8],
    version: &'static rustls::SupportedProtocolVersion,
    alpn: &str,
    resume: bool,
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(pem).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
    if !resume {
        config.resumption = Resumption::disabled();
    }
    config
}

fn over_tcp(config: &Arc<ClientConfig>, address: SocketAddr) {
    let name = ServerName::try_from("localhost").unwrap();
    let mut tls = ClientConnection::new(Arc::clone(config), name).unwrap();
    let mut tcp = TcpStream::connect(address).unwrap();
    tcp.set_nodelay(true).unwrap();
    let mut stream = Stream::new(&mut tls, &mut tcp);
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200"));
}

async fn over_quic(endpoint: &Endpoint, config: QuicConfig, address: SocketAddr) {
    let connecting = endpoint.connect(config, address, "localhost").unwrap();
    let quic = connecting.await.unwrap();
    // Behind the tickets.
    quic.accept_uni().await.unwrap();
    quic.close(0x100_u32.into(), b"");
}

/// µs of the server's threads for one connection.
fn cost(connect: impl Fn()) -> f64 {
    for _ in 0..100 {
        connect();
    }
    let before = cpu();
    for _ in 0..CONNECTIONS {
        connect();
    }
    (cpu() - before) as f64 / f64::from(CONNECTIONS) / 1000.0
}

/// ns that the threads named `server` have run.
fn cpu() -> u64 {
    let mut sum = 0;
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let file = |name: &str| fs::read_to_string(task.as_ref().unwrap().path().join(name));
        let name = file("comm").unwrap();
        if name.trim() == "server" || name.starts_with("quic-") {
            let stat = file("schedstat").unwrap();
            sum += stat.split(' ').next().unwrap().parse::<u64>().unwrap();
        }
    }
    sum
}
