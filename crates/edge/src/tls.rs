//! TLS: certificates, session tickets, and the settings for TCP and QUIC.

mod certificate;
mod certificates;
mod description;
mod load;
mod names;
mod ocsp;
mod report;

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::server::{ResolvesServerCert, ServerSessionMemoryCache, StoresServerSessions};

use crate::secrets::Tickets;
pub use certificate::{Certificate, Pair, Source};
pub(crate) use certificates::Certificates;
pub use description::Description;
pub use hikyaku_acme::{State as AcmeState, Status as AcmeStatus};
pub use ocsp::OcspReport;
pub(crate) use ocsp::Stapler;
pub use report::{CertificateReport, ReportedCertificate};

/// Why no certificate could be made ready.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file could not be read.
    #[error("reading the {what} from {}", path.display())]
    Read {
        /// Certificate or key.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("reading the {what} from {}: {why}", path.display())]
    Parse {
        /// Certificate or key.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// Certificate and key do not belong together, or the key is of an unusable kind.
    #[error("using the key of {} with its certificate", path.display())]
    Unusable {
        /// The key's file.
        path: PathBuf,
        /// Why.
        #[source]
        source: rustls::Error,
    },
    /// Certificates that clients cannot be given in each other's place.
    #[error("using {} beside {}: {why}", cert.display(), beside.display())]
    Unlike {
        /// The chain's file.
        cert: PathBuf,
        /// That of the first.
        beside: PathBuf,
        /// The names or keys that they must or must not have in common.
        why: String,
    },
    /// A certificate of our own could not be made.
    #[error("making a self-signed certificate for {names}")]
    SelfSigned {
        /// The names that it was to hold.
        names: String,
        /// Why.
        #[source]
        source: rcgen::Error,
    },
    /// Protocol versions and cipher suites do not fit together.
    #[error("setting up TLS")]
    Setup(#[source] rustls::Error),
}

/// Names that a self-signed certificate holds besides those asked for.
pub fn default_names() -> Vec<String> {
    ["localhost", "127.0.0.1", "::1"]
        .into_iter()
        .map(str::to_owned)
        .collect()
}

/// Whether `name` can stand in a certificate.
pub fn is_valid_name(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok()
        || rustls::pki_types::DnsName::try_from(name.trim_start_matches("*.")).is_ok()
}

/// TLS settings of the server that hold for every address.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Kept over reloads, so that clients can still resume.
    pub resumption: Resumption,
    /// Offer HTTP/2 beside HTTP/1.1.
    pub http2: bool,
    /// Refuse TLS 1.2.
    pub only_tls13: bool,
    /// Take 0-RTT data on QUIC.
    pub early_data: bool,
    /// Answer authorities that check names by TLS over TCP (RFC 8737).
    pub tls_alpn_01: bool,
}

/// How clients resume sessions.
#[derive(Clone, Debug)]
pub struct Resumption {
    /// Stateless, so that no client costs memory after it has gone.
    tickets: Arc<Tickets>,
    /// For 0-RTT.
    sessions: Arc<dyn StoresServerSessions>,
}

impl Resumption {
    pub(crate) fn new(tickets: Arc<Tickets>) -> Self {
        /// Sessions kept for 0-RTT, of about 1 KiB each.
        const SESSIONS: usize = 16_384;
        Self {
            tickets,
            sessions: ServerSessionMemoryCache::new(SESSIONS),
        }
    }

    /// The keys of tickets.
    pub(crate) fn tickets(&self) -> &Arc<Tickets> {
        &self.tickets
    }
}

/// TLS for TCP: HTTP/2 and HTTP/1.1 by ALPN (RFC 7301).
///
/// # Errors
/// When the provider lacks what the protocol versions need.
pub fn tcp_config(
    certificates: Arc<dyn ResolvesServerCert>,
    provider: &Arc<CryptoProvider>,
    settings: &Settings,
) -> Result<rustls::ServerConfig, TlsError> {
    let versions: &[_] = if settings.only_tls13 {
        &[&rustls::version::TLS13]
    } else {
        &[&rustls::version::TLS13, &rustls::version::TLS12]
    };
    let mut config = base_config(certificates, provider, versions)?;
    config.ticketer = Arc::clone(&settings.resumption.tickets) as _;
    config.alpn_protocols = match settings.http2 {
        true => ["h2", "http/1.1", "http/1.0"].as_slice(),
        false => &["http/1.1", "http/1.0"],
    }
    .iter()
    .map(|name| name.as_bytes().to_vec())
    .collect();
    if settings.tls_alpn_01 {
        // The last, so that no client gets it that offers anything else.
        config.alpn_protocols.push(hikyaku_acme::ACME_TLS.to_vec());
    }
    Ok(config)
}

/// TLS for QUIC: HTTP/3 alone, TLS 1.3 alone (RFC 9001 §4.2).
///
/// # Errors
/// When the provider lacks what QUIC needs.
pub fn quic_config(
    certificates: Arc<dyn ResolvesServerCert>,
    provider: &Arc<CryptoProvider>,
    settings: &Settings,
) -> Result<rustls::ServerConfig, TlsError> {
    let mut config = base_config(certificates, provider, &[&rustls::version::TLS13])?;
    config.alpn_protocols = vec![b"h3".to_vec()];
    // A client opens one connection at a time, and gets the next ticket on that.
    config.send_tls13_tickets = 1;
    if settings.early_data {
        // Sessions that are kept here can be resumed once only, which takes most of the harm
        // out of replays (RFC 8446 §8.1). QUIC knows only all or nothing (RFC 9001 §4.6.1).
        config.session_storage = Arc::clone(&settings.resumption.sessions);
        config.max_early_data_size = u32::MAX;
    } else {
        config.ticketer = Arc::clone(&settings.resumption.tickets) as _;
    }
    Ok(config)
}

fn base_config(
    certificates: Arc<dyn ResolvesServerCert>,
    provider: &Arc<CryptoProvider>,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> Result<rustls::ServerConfig, TlsError> {
    Ok(
        rustls::ServerConfig::builder_with_provider(Arc::clone(provider))
            .with_protocol_versions(versions)
            .map_err(TlsError::Setup)?
            .with_no_client_auth()
            .with_cert_resolver(certificates),
    )
}

#[cfg(test)]
mod tests;
