//! Whom the client trusts.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::args::GetArgs;
use super::error::GetError;

/// The TLS configuration without ALPN protocols, which are set per use.
///
/// Sessions are never resumed: every handshake is a full one, so that repeats measure the
/// same thing.
pub(super) fn config(args: &GetArgs) -> Result<ClientConfig, GetError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| GetError::Tls(error.to_string()))?;
    let mut config = if args.insecure {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAny(provider)))
            .with_no_client_auth()
    } else {
        let roots = match &args.cacert {
            Some(path) => roots_of(path)?,
            None => system_roots(),
        };
        builder.with_root_certificates(roots).with_no_client_auth()
    };
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn roots_of(path: &Path) -> Result<RootCertStore, GetError> {
    let failed = |source: io::Error| GetError::File {
        doing: "reading trusted certificates from",
        path: path.to_owned(),
        source,
    };
    let invalid = |text: String| failed(io::Error::new(io::ErrorKind::InvalidData, text));
    let pem = fs::read(path).map_err(failed)?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| invalid(format!("not PEM: {error}")))?;
        roots
            .add(certificate)
            .map_err(|error| invalid(format!("not usable as a root: {error}")))?;
    }
    if roots.is_empty() {
        return Err(invalid("it holds no certificate".to_owned()));
    }
    Ok(roots)
}

/// The system's roots. A machine without any is told by the first handshake that fails, as
/// it may only ever talk to http:// URLs.
fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// `--insecure`: any certificate will do, but the handshake's signature must be its own.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
