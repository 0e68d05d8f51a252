//! Certificates: given ones that are re-read while the server runs, or self-signed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hikyaku_acme::Record;
use parking_lot::Mutex;
use rustls::SignatureAlgorithm;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::load::{from_files, self_signed};
use super::names::Names;
use super::{Description, TlsError, ocsp};

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
    /// Got by ACME. A self-signed certificate takes its place until there is one.
    Acme {
        /// DNS names.
        names: Vec<String>,
        /// Where it is kept.
        file: PathBuf,
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

#[derive(Clone, Debug)]
struct Current {
    /// At least one, each for the same names, those that are signed with at the least cost first.
    keys: Vec<Arc<CertifiedKey>>,
    /// Of each key.
    descriptions: Vec<Description>,
    names: Names,
    /// Made here, until there is a better one.
    is_self_signed: bool,
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
        let is_fine = !self.is_half_over(SystemTime::now());
        if is_fine && matches!(self.source, Source::SelfSigned { .. }) {
            return Ok(());
        }
        let renewed = Current::load(&self.source, provider)?;
        if renewed.is_self_signed && (is_fine || !self.is_self_signed()) {
            // One that was got by ACME stays, too, if its file is of no use any more.
            return Ok(());
        }
        let renewed = renewed.with_staples_of(&self.current.load());
        self.current.store(Arc::new(renewed));
        Ok(())
    }

    /// The certificates in use with their keys, by their fingerprints.
    pub(super) fn keys(&self) -> Vec<(String, Arc<CertifiedKey>)> {
        let current = self.current.load();
        let names = current.descriptions.iter().map(|one| &one.fingerprint);
        names.cloned().zip(current.keys.iter().cloned()).collect()
    }

    /// Sends an OCSP response with a certificate, or none any more.
    pub(super) fn staple(&self, fingerprint: &str, response: Option<&[u8]>) {
        let stapled = |key: &CertifiedKey| key.ocsp.as_deref() == response;
        if self.current.load().key(fingerprint).is_none_or(stapled) {
            return;
        }
        self.current.rcu(|current| {
            let mut changed = Current::clone(current);
            changed.staple(fingerprint, response);
            changed
        });
    }

    /// Doubts about certificates that clients may refuse without an OCSP response. `is_on` says whether any is
    /// asked for.
    pub(crate) fn concerns_of_ocsp(&self, is_on: bool) -> Vec<String> {
        let current = self.current.load();
        let keys = current.keys.iter();
        let concerns = keys.filter_map(|key| ocsp::concern(&key.cert, is_on));
        let names = || current.names.to_strings().join(", ");
        concerns
            .map(|text| format!("the certificate for {} {text}", names()))
            .collect()
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

    /// Whether the certificate in use was made here.
    pub fn is_self_signed(&self) -> bool {
        self.current.load().is_self_signed
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
        let concerns = current.descriptions.iter();
        let concerns = concerns.filter_map(|one| one.concern(now));
        let names = || current.names.to_strings().join(", ");
        concerns
            .map(|text| format!("{text} (for {})", names()))
            .collect()
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
        if self.is_self_signed() && self.is_half_over(SystemTime::now()) {
            return true;
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
        let modified = |path: &PathBuf| fs::metadata(path).and_then(|m| m.modified()).ok();
        match self {
            Self::Files(pairs) => {
                let paths = pairs.iter().flat_map(|pair| [&pair.cert, &pair.key]);
                paths.map(modified).collect()
            }
            Self::SelfSigned { .. } => None,
            Self::Acme { file, .. } => Some(vec![modified(file)?]),
        }
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
        let (mut keys, own) = match source {
            Source::Files(pairs) => (together(pairs, provider)?, None),
            Source::SelfSigned { names } => (Vec::new(), Some(names)),
            Source::Acme { names, file } => (kept(file, provider), Some(names)),
        };
        let own = own.filter(|_| keys.is_empty());
        if let Some(names) = own {
            keys.push(self_signed(names, provider)?);
        }
        // An RSA signature costs twenty of the others.
        keys.sort_by_key(|key| key.key.algorithm() == SignatureAlgorithm::RSA);
        Ok(Self {
            names: keys.first().map(Names::of).unwrap_or_default(),
            descriptions: keys.iter().map(Description::of).collect(),
            keys: keys.into_iter().map(Arc::new).collect(),
            is_self_signed: own.is_some(),
        })
    }

    /// The key of a certificate.
    fn key(&self, fingerprint: &str) -> Option<&CertifiedKey> {
        let mut names = self.descriptions.iter();
        let place = names.position(|one| one.fingerprint == fingerprint)?;
        self.keys.get(place).map(|key| &**key)
    }

    fn staple(&mut self, fingerprint: &str, response: Option<&[u8]>) {
        let names = self.descriptions.iter();
        let keys = names.zip(&mut self.keys);
        for (_, key) in keys.filter(|(one, _)| one.fingerprint == fingerprint) {
            Arc::make_mut(key).ocsp = response.map(<[u8]>::to_vec);
        }
    }

    /// With the OCSP responses of the certificates that stay.
    fn with_staples_of(mut self, former: &Self) -> Self {
        let own: Vec<_> = self
            .descriptions
            .iter()
            .map(|one| one.fingerprint.clone())
            .collect();
        for fingerprint in own {
            if let Some(key) = former.key(&fingerprint) {
                self.staple(&fingerprint, key.ocsp.as_deref());
            }
        }
        self
    }
}

/// The certificates that were got by ACME; none where there is none of use.
fn kept(file: &Path, provider: &CryptoProvider) -> Vec<CertifiedKey> {
    let read = Record::read(file).map_err(|error| error.to_string());
    let keys = read.and_then(|record| record.certified(provider));
    // The keeper of the file warns of it, and orders anew.
    keys.unwrap_or_default()
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
