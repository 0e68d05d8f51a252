//! 0-RTT on HTTP/3 is off by default. Where it is on, only requests whose replay does no harm
//! are answered before the handshake is complete (RFC 8470).
#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::sync::Arc;

use hikyaku_edge::{Config, Server};
use hikyaku_h3_quic::Client;
use hikyaku_quic::proto::crypto::rustls::QuicClientConfig;
use hikyaku_quic::proto::{ClientConfig, VarInt};
use hikyaku_quic::{Connection, Endpoint};
use http::{Method, Request, StatusCode};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

fn start(early_data: bool) -> (Server, tempfile::TempDir) {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("index.html"), "hello").unwrap();
    let mut config =
        Config::load(None, &["log.access=off".into(), "admin.listen=".into()]).unwrap();
    config.root = Some(root.path().to_owned());
    config.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0)).into()];
    config.tls.early_data = early_data;
    (Server::start(config).unwrap(), root)
}

/// A client that remembers sessions and wants to send early data.
fn client(server: &Server) -> (Endpoint, ClientConfig) {
    let mut roots = rustls::RootCertStore::empty();
    let certificate = CertificateDer::from_pem_slice(server.certificate().pem().as_bytes());
    roots.add(certificate.unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    tls.enable_early_data = true;
    let tls = QuicClientConfig::try_from(tls).unwrap();
    let endpoint = Endpoint::bind(SocketAddr::from(([127, 0, 0, 1], 0)), None).unwrap();
    (endpoint, ClientConfig::new(Arc::new(tls)))
}

async fn request(quic: Connection, method: Method) -> StatusCode {
    let (client, driver) = Client::new(quic, hikyaku_h3_quic::Config::default());
    tokio::spawn(driver);
    let request = Request::builder().method(method).uri("https://localhost/");
    let head = request.body(()).unwrap().into_parts().0.into();
    let (sending, mut receiving) = client.request(&head).await.unwrap();
    // A server that has answered already may ask to be sent nothing more (RFC 9114 §4.1).
    let _ = sending.finish().await;
    receiving.head().await.unwrap().status
}

/// Visits once, so that the client has a ticket, and then returns with early data, which
/// is `None` if the client was not offered it.
async fn return_early(early_data: bool, method: Method) -> Option<StatusCode> {
    let (server, _root) = start(early_data);
    let (endpoint, config) = client(&server);
    let connect = || {
        endpoint
            .connect(config.clone(), server.addresses()[0], "localhost")
            .unwrap()
    };
    let first = connect().await.unwrap();
    assert_eq!(request(first.clone(), Method::GET).await, StatusCode::OK);
    first.close(VarInt::from_u32(0), b"");
    endpoint.wait_idle().await;
    let (quic, accepted) = connect().into_0rtt().ok()?;
    let status = request(quic, method).await;
    assert!(accepted.await, "the server took no early data");
    server.stop().await;
    Some(status)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn early_data_is_off_by_default() {
    assert_eq!(return_early(false, Method::GET).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn early_requests_are_answered_where_replay_does_no_harm() {
    assert_eq!(return_early(true, Method::GET).await, Some(StatusCode::OK));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn early_requests_that_may_change_something_have_to_wait() {
    // The handshake may be complete before the request is looked at; then it is answered.
    for _ in 0..50 {
        match return_early(true, Method::POST).await {
            Some(StatusCode::TOO_EARLY) => return,
            other => assert_eq!(other, Some(StatusCode::METHOD_NOT_ALLOWED)),
        }
    }
    panic!("never 425");
}
