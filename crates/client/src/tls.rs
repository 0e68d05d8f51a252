//! The certificates that the client trusts, and the sessions that it keeps.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use hikyaku_tls::AcceptAny;
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::args::GetArgs;
use super::error::GetError;

/// Returns the TLS configuration without ALPN protocols, which each use sets.
///
/// Without `--resume`, every handshake is a full one, so that repeats measure the same thing. With it,
/// each use of the configuration has to [keep its sessions](keep_sessions).
pub(super) fn config(args: &GetArgs) -> Result<ClientConfig, GetError> {
    let failed = |error: rustls::Error| GetError::Tls(error.to_string());
    let mut config = if args.insecure {
        AcceptAny::new().config(&[]).map_err(failed)?
    } else {
        let roots = match &args.cacert {
            Some(path) => roots_of(path)?,
            None => system_roots(),
        };
        ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .with_root_certificates(roots)
            .with_no_client_auth()
    };
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// Makes connections with this configuration resume each other's sessions. Those of TCP and of QUIC are
/// apart, as in browsers.
///
/// They stay in memory: rustls has no form of them that a file could keep.
pub(super) fn keep_sessions(config: &mut ClientConfig) {
    config.resumption = Resumption::in_memory_sessions(MAX_SESSIONS);
}

/// Sessions that are kept, eight of each host.
const MAX_SESSIONS: usize = 1024;

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

/// Returns the system's roots. On a machine without any, the first handshake fails with that
/// message, since the client may only use http:// URLs.
fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}
