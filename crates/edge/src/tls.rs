//! Certificates: given ones that are re-read while the server runs, or self-signed.

mod names;

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use names::Names;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{
    ClientHello, ProducesTickets, ResolvesServerCert, ServerSessionMemoryCache,
    StoresServerSessions,
};
use rustls::sign::CertifiedKey;
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};

/// How long a self-signed certificate is valid.
///
/// Short, as Chromium asks of certificates that are trusted by their hash.
const SELF_SIGNED_VALIDITY: Duration = Duration::from_secs(14 * 24 * 3600);

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
        /// What is wrong with it.
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

/// Where the certificate comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// PEM files: the chain, leaf first, and the leaf's private key.
    Files {
        /// Chain of certificates.
        cert: PathBuf,
        /// Private key (PKCS #8, PKCS #1 or SEC 1).
        key: PathBuf,
    },
    /// Made at start for these names and addresses.
    SelfSigned {
        /// DNS names and IP addresses.
        names: Vec<String>,
    },
}

/// The certificate in use; handshakes take the newest one.
#[derive(Debug)]
pub struct Certificate {
    source: Source,
    current: ArcSwap<CertifiedKey>,
    names: ArcSwap<Names>,
}

impl Certificate {
    /// Reads or makes the certificate.
    ///
    /// # Errors
    /// When a file can't be read or is unusable.
    pub fn load(source: Source, provider: &CryptoProvider) -> Result<Self, TlsError> {
        let key = match &source {
            Source::Files { cert, key } => from_files(cert, key, provider)?,
            Source::SelfSigned { names } => self_signed(names, provider)?,
        };
        Ok(Self {
            source,
            names: ArcSwap::from_pointee(Names::of(&key)),
            current: ArcSwap::from_pointee(key),
        })
    }

    /// Reads the files again; a self-signed certificate is kept until it nears its end.
    ///
    /// # Errors
    /// As [`Certificate::load`]; the former certificate then stays in use.
    pub fn reload(&self, provider: &CryptoProvider) -> Result<(), TlsError> {
        let renewed = match &self.source {
            Source::Files { cert, key } => from_files(cert, key, provider)?,
            Source::SelfSigned { names } if self.description().half_over() => {
                self_signed(names, provider)?
            }
            Source::SelfSigned { .. } => return Ok(()),
        };
        self.names.store(Arc::new(Names::of(&renewed)));
        self.current.store(Arc::new(renewed));
        Ok(())
    }

    /// Where the certificate comes from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Whether the certificate in use is for a name or an address (RFC 9525 §6).
    pub fn covers(&self, host: &str) -> bool {
        self.names.load().cover(host)
    }

    /// The names and addresses that the certificate in use is for.
    pub fn names(&self) -> Vec<String> {
        self.names.load().to_strings()
    }

    /// What to tell people of the certificate in use.
    pub fn description(&self) -> Description {
        let key = self.current.load();
        key.cert.first().map(Description::of).unwrap_or_default()
    }

    /// The chain in use, as PEM.
    pub fn pem(&self) -> String {
        let key = self.current.load();
        let mut pem = String::new();
        for certificate in &key.cert {
            pem.push_str("-----BEGIN CERTIFICATE-----\n");
            for line in STANDARD.encode(certificate).as_bytes().chunks(64) {
                pem.push_str(&String::from_utf8_lossy(line));
                pem.push('\n');
            }
            pem.push_str("-----END CERTIFICATE-----\n");
        }
        pem
    }

    /// When the files were last changed; `None` for a self-signed certificate or when
    /// they are gone.
    pub fn modified(&self) -> Option<(SystemTime, SystemTime)> {
        let Source::Files { cert, key } = &self.source else {
            return None;
        };
        let modified = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).ok();
        Some((modified(cert)?, modified(key)?))
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

/// What to tell people of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// SHA-256 of the certificate, as browsers show it: colon-separated hex.
    pub fingerprint: String,
    /// SHA-256 of the public key (SubjectPublicKeyInfo), Base64: what Chromium's
    /// `--ignore-certificate-errors-spki-list` and curl's `--pinnedpubkey` take.
    pub spki: String,
    /// Seconds since the Unix epoch.
    pub not_before: i64,
    /// Seconds since the Unix epoch.
    pub not_after: i64,
}

impl Description {
    fn of(certificate: &CertificateDer<'_>) -> Self {
        let fingerprint =
            Sha256::digest(certificate)
                .iter()
                .fold(String::new(), |mut text, byte| {
                    let colon = if text.is_empty() { "" } else { ":" };
                    let _ = write!(text, "{colon}{byte:02X}");
                    text
                });
        let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
            return Self {
                fingerprint,
                ..Self::default()
            };
        };
        Self {
            fingerprint,
            spki: STANDARD.encode(Sha256::digest(parsed.public_key().raw)),
            not_before: parsed.validity().not_before.timestamp(),
            not_after: parsed.validity().not_after.timestamp(),
        }
    }

    fn half_over(&self) -> bool {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |now| now.as_secs());
        u64::try_from(i64::midpoint(self.not_before, self.not_after)).is_ok_and(|half| now > half)
    }
}

fn from_files(
    cert: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| pem_error("certificate", cert, error))?;
    if chain.is_empty() {
        return Err(TlsError::Parse {
            what: "certificate",
            path: cert.to_owned(),
            why: "no `BEGIN CERTIFICATE` in it".to_owned(),
        });
    }
    let private =
        PrivateKeyDer::from_pem_file(key).map_err(|error| pem_error("private key", key, error))?;
    CertifiedKey::from_der(chain, private, provider).map_err(|source| TlsError::Unusable {
        path: key.to_owned(),
        source,
    })
}

fn pem_error(what: &'static str, path: &Path, error: rustls::pki_types::pem::Error) -> TlsError {
    let path = path.to_owned();
    match error {
        rustls::pki_types::pem::Error::Io(source) => TlsError::Read { what, path, source },
        other => TlsError::Parse {
            what,
            path,
            why: other.to_string(),
        },
    }
}

fn self_signed(names: &[String], provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let failed = |source| TlsError::SelfSigned {
        names: names.join(", "),
        source,
    };
    let mut params = rcgen::CertificateParams::new(names.to_vec()).map_err(failed)?;
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, "hikyaku, self-signed");
    let now = SystemTime::now();
    params.not_before = (now - Duration::from_secs(3600)).into();
    params.not_after = (now + SELF_SIGNED_VALIDITY).into();
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let key = rcgen::KeyPair::generate().map_err(failed)?;
    let certificate = params.self_signed(&key).map_err(failed)?;
    let private = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    CertifiedKey::from_der(vec![certificate.der().clone()], private, provider)
        .map_err(TlsError::Setup)
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
}

/// How clients resume sessions.
#[derive(Clone, Debug)]
pub struct Resumption {
    /// Stateless, so that no client costs memory after it has gone.
    ticketer: Arc<dyn ProducesTickets>,
    /// For 0-RTT.
    sessions: Arc<dyn StoresServerSessions>,
}

impl Resumption {
    /// # Errors
    /// When there is no randomness to be had.
    pub fn new() -> Result<Self, TlsError> {
        /// Sessions kept for 0-RTT, of about 1 KiB each.
        const SESSIONS: usize = 16_384;
        Ok(Self {
            ticketer: rustls::crypto::ring::Ticketer::new().map_err(TlsError::Setup)?,
            sessions: ServerSessionMemoryCache::new(SESSIONS),
        })
    }
}

/// TLS for TCP: HTTP/2 and HTTP/1.1 by ALPN (RFC 7301).
///
/// # Errors
/// When the provider lacks what the protocol versions need.
pub fn tcp_config(
    certificate: Arc<Certificate>,
    provider: &Arc<CryptoProvider>,
    settings: &Settings,
) -> Result<rustls::ServerConfig, TlsError> {
    let versions: &[_] = if settings.only_tls13 {
        &[&rustls::version::TLS13]
    } else {
        &[&rustls::version::TLS13, &rustls::version::TLS12]
    };
    let mut config = base_config(certificate, provider, versions)?;
    config.ticketer = Arc::clone(&settings.resumption.ticketer);
    config.alpn_protocols = match settings.http2 {
        true => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        false => vec![b"http/1.1".to_vec()],
    };
    Ok(config)
}

/// TLS for QUIC: HTTP/3 alone, TLS 1.3 alone (RFC 9001 §4.2).
///
/// # Errors
/// When the provider lacks what QUIC needs.
pub fn quic_config(
    certificate: Arc<Certificate>,
    provider: &Arc<CryptoProvider>,
    settings: &Settings,
) -> Result<rustls::ServerConfig, TlsError> {
    let mut config = base_config(certificate, provider, &[&rustls::version::TLS13])?;
    config.alpn_protocols = vec![b"h3".to_vec()];
    if settings.early_data {
        // Sessions that are kept here can be resumed once only, which takes most of the harm
        // out of replays (RFC 8446 §8.1). QUIC knows only all or nothing (RFC 9001 §4.6.1).
        config.session_storage = Arc::clone(&settings.resumption.sessions);
        config.max_early_data_size = u32::MAX;
    } else {
        config.ticketer = Arc::clone(&settings.resumption.ticketer);
    }
    Ok(config)
}

fn base_config(
    certificate: Arc<Certificate>,
    provider: &Arc<CryptoProvider>,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> Result<rustls::ServerConfig, TlsError> {
    Ok(
        rustls::ServerConfig::builder_with_provider(Arc::clone(provider))
            .with_protocol_versions(versions)
            .map_err(TlsError::Setup)?
            .with_no_client_auth()
            .with_cert_resolver(certificate),
    )
}
