use std::collections::VecDeque;

use parking_lot::Mutex;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::{default_provider, kx_group};
use rustls::crypto::{SupportedKxGroup, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::quic;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, HandshakeKind, NamedGroup, ServerConfig,
    ServerConnection, SignatureScheme, SupportedProtocolVersion,
};

use super::*;
use crate::secrets::Secrets;

type Group = &'static dyn SupportedKxGroup;

static BROWSER: [Group; 4] = [
    kx_group::X25519MLKEM768,
    kx_group::X25519,
    kx_group::SECP256R1,
    kx_group::SECP384R1,
];

/// Takes any certificate, counts them, and keeps the last OCSP response.
#[derive(Debug)]
struct Counting(
    CryptoProvider,
    std::sync::atomic::AtomicUsize,
    Mutex<Vec<u8>>,
);

impl ServerCertVerifier for Counting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        *self.2.lock() = ocsp.to_vec();
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, cert, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, cert, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A client that keeps sessions.
struct Client {
    config: Arc<ClientConfig>,
    verifier: Arc<Counting>,
}

impl Client {
    fn new(groups: &[Group], version: &'static SupportedProtocolVersion, alpn: &str) -> Self {
        let mut provider = default_provider();
        provider.kx_groups = groups.to_vec();
        let verifier = Arc::new(Counting(provider.clone(), 0.into(), Mutex::default()));
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[version])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::<Counting>::clone(&verifier))
            .with_no_client_auth();
        config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
        Self {
            config: Arc::new(config),
            verifier,
        }
    }

    fn certificates(&self) -> usize {
        self.verifier.1.load(std::sync::atomic::Ordering::Relaxed)
    }
}

/// The server's settings for TCP and for QUIC, which share a certificate and a ticket key.
fn servers() -> [Arc<ServerConfig>; 2] {
    servers_with_certificate().0
}

fn servers_with_certificate() -> ([Arc<ServerConfig>; 2], Arc<Certificate>) {
    let provider = Arc::new(default_provider());
    let source = Source::SelfSigned {
        names: default_names(),
    };
    let certificate = Arc::new(Certificate::load(source, &provider).unwrap());
    let secrets = Secrets::load(None, None).unwrap();
    let settings = Settings {
        resumption: Resumption::new(Arc::clone(&secrets.tickets)),
        http2: true,
        only_tls13: false,
        early_data: false,
        tls_alpn_01: false,
    };
    let configs = [tcp_config, quic_config].map(|config| {
        Arc::new(
            config(
                Arc::<Certificate>::clone(&certificate),
                &provider,
                &settings,
            )
            .unwrap(),
        )
    });
    (configs, certificate)
}

#[test]
fn an_ocsp_response_comes_with_the_certificate_over_tcp_and_quic() {
    let ([tcp, quic], certificate) = servers_with_certificate();
    let fingerprint = certificate.description().fingerprint;
    let (tls12, tls13) = (&rustls::version::TLS12, &rustls::version::TLS13);
    for response in [&b"first"[..], b"second", b""] {
        certificate.staple(&fingerprint, Some(response).filter(|it| !it.is_empty()));
        certificate.staple("of another", Some(b"other"));
        for (version, alpn) in [(tls12, "h2"), (tls13, "h2"), (tls13, "h3")] {
            let client = Client::new(&BROWSER, version, alpn);
            match alpn {
                "h3" => drop(over_quic(&quic, &client)),
                _ => drop(over_tcp(&tcp, &client)),
            }
            assert_eq!(*client.verifier.2.lock(), response, "{alpn}");
        }
    }
}

fn name() -> ServerName<'static> {
    ServerName::try_from("localhost").unwrap()
}

/// Completes a handshake over TCP, to the last ticket.
fn over_tcp(server: &Arc<ServerConfig>, client: &Client) -> ServerConnection {
    let mut server = ServerConnection::new(Arc::clone(server)).unwrap();
    let mut client = ClientConnection::new(Arc::clone(&client.config), name()).unwrap();
    while client.wants_write() || server.wants_write() {
        let (mut there, mut back) = (VecDeque::new(), VecDeque::new());
        while client.wants_write() {
            client.write_tls(&mut there).unwrap();
        }
        while !there.is_empty() {
            server.read_tls(&mut there).unwrap();
            server.process_new_packets().unwrap();
        }
        while server.wants_write() {
            server.write_tls(&mut back).unwrap();
        }
        while !back.is_empty() {
            client.read_tls(&mut back).unwrap();
            client.process_new_packets().unwrap();
        }
    }
    assert!(!server.is_handshaking());
    server
}

/// The same over QUIC, without its packets; returns the number of tickets, too.
fn over_quic(server: &Arc<ServerConfig>, client: &Client) -> (quic::ServerConnection, u32) {
    let version = quic::Version::V1;
    let server = quic::ServerConnection::new(Arc::clone(server), version, Vec::new());
    let config = Arc::clone(&client.config);
    let client = quic::ClientConnection::new(config, version, name(), Vec::new());
    let (mut server, mut client) = (server.unwrap(), client.unwrap());
    loop {
        // Up to a change of keys, so that no side reads messages of two.
        let (mut there, mut back) = (Vec::new(), Vec::new());
        let asked = client.write_hs(&mut there);
        server.read_hs(&there).unwrap();
        let answered = server.write_hs(&mut back);
        client.read_hs(&back).unwrap();
        if asked.is_none() && answered.is_none() && there.is_empty() && back.is_empty() {
            break;
        }
    }
    assert!(!server.is_handshaking());
    let tickets = client.tls13_tickets_received();
    (server, tickets)
}

#[test]
fn each_client_gets_the_key_exchange_that_it_prefers_at_once() {
    let (tls12, tls13) = (&rustls::version::TLS12, &rustls::version::TLS13);
    let cases: &[(&str, &[Group], _, NamedGroup)] = &[
        ("a browser", &BROWSER, tls13, NamedGroup::X25519MLKEM768),
        (
            "a browser of 2023",
            &BROWSER[1..],
            tls13,
            NamedGroup::X25519,
        ),
        (
            "X25519 before the hybrid",
            &[kx_group::X25519, kx_group::X25519MLKEM768],
            tls13,
            NamedGroup::X25519,
        ),
        (
            "P-256 alone",
            &[kx_group::SECP256R1],
            tls13,
            NamedGroup::secp256r1,
        ),
        (
            "P-384 alone",
            &[kx_group::SECP384R1],
            tls13,
            NamedGroup::secp384r1,
        ),
        ("a browser of TLS 1.2", &BROWSER, tls12, NamedGroup::X25519),
        (
            "P-256 of TLS 1.2",
            &[kx_group::SECP256R1],
            tls12,
            NamedGroup::secp256r1,
        ),
    ];
    let [tcp, quic] = servers();
    for (what, groups, version, want) in cases {
        let session = over_tcp(&tcp, &Client::new(groups, version, "h2"));
        let got = session.negotiated_key_exchange_group().unwrap().name();
        assert_eq!(
            (got, session.handshake_kind()),
            (*want, Some(HandshakeKind::Full)),
            "{what}"
        );
        if version.version == rustls::ProtocolVersion::TLSv1_3 {
            let (session, _) = over_quic(&quic, &Client::new(groups, version, "h3"));
            let got = session.negotiated_key_exchange_group().unwrap().name();
            assert_eq!(
                (got, session.handshake_kind()),
                (*want, Some(HandshakeKind::Full)),
                "{what}, QUIC"
            );
        }
    }
}

#[test]
fn a_resumed_session_needs_no_certificate() {
    let [tcp, quic] = servers();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let client = Client::new(&BROWSER, version, "h2");
        let what = version.version;
        let kinds = [(); 3].map(|()| over_tcp(&tcp, &client).handshake_kind().unwrap());
        let want = [
            HandshakeKind::Full,
            HandshakeKind::Resumed,
            HandshakeKind::Resumed,
        ];
        assert_eq!((kinds, client.certificates()), (want, 1), "{what:?}");
    }
    let client = Client::new(&BROWSER, &rustls::version::TLS13, "h3");
    for want in [
        HandshakeKind::Full,
        HandshakeKind::Resumed,
        HandshakeKind::Resumed,
    ] {
        let (session, tickets) = over_quic(&quic, &client);
        // The next connection needs one.
        assert_eq!((session.handshake_kind(), tickets), (Some(want), 1));
    }
    assert_eq!(client.certificates(), 1, "QUIC");
}
