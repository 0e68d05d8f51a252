#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};

/// A verifier that takes any certificate. The handshake still has to prove that the server owns it
/// (RFC 8446 §4.4.3).
#[derive(Debug)]
pub struct AcceptAny {
    algorithms: WebPkiSupportedAlgorithms,
    shown: AtomicUsize,
}

impl AcceptAny {
    /// Makes a verifier with the signature algorithms of aws-lc-rs.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            algorithms: aws_lc_rs::default_provider().signature_verification_algorithms,
            shown: AtomicUsize::new(0),
        })
    }

    /// The number of certificates that servers have shown. A resumed handshake shows none (RFC 8446
    /// §2.2).
    pub fn shown(&self) -> usize {
        self.shown.load(Ordering::Relaxed)
    }

    /// The configuration of a client with this verifier. It offers the protocols `alpn` (RFC 7301),
    /// the preferred one first.
    ///
    /// # Errors
    /// If aws-lc-rs and rustls share no version of TLS, which never happens with the releases in use.
    pub fn config(self: &Arc<Self>, alpn: &[&str]) -> Result<ClientConfig, rustls::Error> {
        let mut config =
            ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()?
                .dangerous()
                .with_custom_certificate_verifier(Arc::<Self>::clone(self))
                .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Ok(config)
    }
}

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.shown.fetch_add(1, Ordering::Relaxed);
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
