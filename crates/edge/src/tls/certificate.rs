//! Certificates: given ones that are re-read while the server runs, or self-signed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use rustls::SignatureAlgorithm;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::load::{from_files, self_signed};
use super::names::Names;
use super::{Description, TlsError};

/// Where the certificates come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// PEM files, for the same names. Their keys are of different kinds, so that each client can
    /// be given one that it understands.
    Files(Vec<Pair>),
    /// Made at start for these names and addresses.
    SelfSigned {
        /// DNS names and IP addresses.
        names: Vec<String>,
    },
}

/// The files of a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Chain of certificates, leaf first.
    pub cert: PathBuf,
    /// The leaf's private key (PKCS #8, PKCS #1 or SEC 1).
    pub key: PathBuf,
}

/// The certificates in use; handshakes take the newest ones.
#[derive(Debug)]
pub struct Certificate {
    source: Source,
    current: ArcSwap<Current>,
    /// When the files were last changed, as far as that was looked at.
    seen: Mutex<Option<Vec<SystemTime>>>,
}

#[derive(Debug)]
struct Current {
    /// At least one, each for the same names, those that are signed with at the least cost first.
    keys: Vec<Arc<CertifiedKey>>,
    /// Of each key.
    descriptions: Vec<Description>,
    names: Names,
}

impl Certificate {
    /// Reads or makes the certificates.
    ///
    /// # Errors
    /// When a file can't be read or is unusable, or when the files do not belong together.
    pub fn load(source: Source, provider: &CryptoProvider) -> Result<Self, TlsError> {
        let seen = source.modified();
        let current = Current::load(&source, provider)?;
        Ok(Self {
            source,
            current: ArcSwap::from_pointee(current),
            seen: Mutex::new(seen),
        })
    }

    /// Reads the files again; a self-signed certificate is kept until it nears its end.
    ///
    /// # Errors
    /// As [`Certificate::load`]; the former certificates then stay in use.
    pub fn reload(&self, provider: &CryptoProvider) -> Result<(), TlsError> {
        let is_self_signed = matches!(self.source, Source::SelfSigned { .. });
        if is_self_signed && !self.is_half_over(SystemTime::now()) {
            return Ok(());
        }
        let renewed = Current::load(&self.source, provider)?;
        self.current.store(Arc::new(renewed));
        Ok(())
    }

    /// Where the certificates come from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Whether the certificates in use are for a name or an address (RFC 9525 §6).
    pub fn covers(&self, host: &str) -> bool {
        self.current.load().names.cover(host)
    }

    /// The names and addresses that the certificates in use are for.
    pub fn names(&self) -> Vec<String> {
        self.current.load().names.to_strings()
    }

    /// A description for people of the certificate that most clients are given.
    pub fn description(&self) -> Description {
        self.descriptions().swap_remove(0)
    }

    /// A description for people of each certificate in use; there is at least one.
    pub fn descriptions(&self) -> Vec<Description> {
        self.current.load().descriptions.clone()
    }

    /// Faults of the certificates' time, present or soon.
    pub(crate) fn concerns(&self, now: SystemTime) -> Vec<String> {
        let current = self.current.load();
        let descriptions = current.descriptions.iter();
        descriptions.filter_map(|one| one.concern(now)).collect()
    }

    /// Whether the certificates are for less than half of their time any more.
    fn is_half_over(&self, now: SystemTime) -> bool {
        let current = self.current.load();
        current.descriptions.iter().any(|one| one.half_over(now))
    }

    /// The chain that most clients are given, as PEM.
    pub fn pem(&self) -> String {
        let current = self.current.load();
        let mut pem = String::new();
        for certificate in current.keys.iter().take(1).flat_map(|key| &key.cert) {
            pem.push_str("-----BEGIN CERTIFICATE-----\n");
            for line in STANDARD.encode(certificate).as_bytes().chunks(64) {
                pem.push_str(&String::from_utf8_lossy(line));
                pem.push('\n');
            }
            pem.push_str("-----END CERTIFICATE-----\n");
        }
        pem
    }

    /// Whether the files have changed since the last look, or a self-signed certificate nears its end.
    pub(crate) fn is_outdated(&self) -> bool {
        if matches!(self.source, Source::SelfSigned { .. }) {
            return self.is_half_over(SystemTime::now());
        }
        let now = self.source.modified();
        let mut seen = self.seen.lock();
        let changed = *seen != now;
        *seen = now;
        changed
    }
}

impl Source {
    /// When the files were last changed; `None` for a self-signed certificate or when one of
    /// them is gone.
    fn modified(&self) -> Option<Vec<SystemTime>> {
        let Self::Files(pairs) = self else {
            return None;
        };
        let modified = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).ok();
        let paths = pairs.iter().flat_map(|pair| [&pair.cert, &pair.key]);
        paths.map(|path| modified(path)).collect()
    }
}

impl ResolvesServerCert for Certificate {
    /// The first certificate with a signature that the client understands. Schemes that do not go with the
    /// client's cipher suites of TLS 1.2 are left out already, by rustls. Where no certificate fits, the
    /// handshake fails with any.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.current.load();
        let schemes = hello.signature_schemes();
        let mut keys = current.keys.iter();
        let fitting = keys.find(|key| key.key.choose_scheme(schemes).is_some());
        fitting.or(current.keys.first()).cloned()
    }
}

impl Current {
    fn load(source: &Source, provider: &CryptoProvider) -> Result<Self, TlsError> {
        let mut keys = match source {
            Source::Files(pairs) => together(pairs, provider)?,
            Source::SelfSigned { names } => vec![self_signed(names, provider)?],
        };
        // An RSA signature costs twenty of the others.
        keys.sort_by_key(|key| key.key.algorithm() == SignatureAlgorithm::RSA);
        Ok(Self {
            names: keys.first().map(Names::of).unwrap_or_default(),
            descriptions: keys.iter().map(Description::of).collect(),
            keys: keys.into_iter().map(Arc::new).collect(),
        })
    }
}

/// Reads pairs, and checks that they belong together.
fn together(pairs: &[Pair], provider: &CryptoProvider) -> Result<Vec<CertifiedKey>, TlsError> {
    let mut keys: Vec<CertifiedKey> = Vec::new();
    for pair in pairs {
        let key = from_files(&pair.cert, &pair.key, provider)?;
        let unlike = |why| TlsError::Unlike {
            cert: pair.cert.clone(),
            beside: pairs[0].cert.clone(),
            why,
        };
        if let Some(first) = keys.first() {
            let (names, first) = (Names::of(&key), Names::of(first));
            if !names.are(&first) {
                return Err(unlike(format!(
                    "they must be for the same names, and are for {} and {}",
                    names.to_strings().join(", "),
                    first.to_strings().join(", "),
                )));
            }
        }
        let algorithm = key.key.algorithm();
        if keys.iter().any(|other| other.key.algorithm() == algorithm) {
            return Err(unlike(format!(
                "each key must be of another kind, and two are {algorithm:?}"
            )));
        }
        keys.push(key);
    }
    Ok(keys)
}

#[cfg(test)]
mod tests;
