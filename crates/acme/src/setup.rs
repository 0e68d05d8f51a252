//! All that orders need from the configuration, checked.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde::Deserialize;

use crate::client::{self, Https};
use crate::config::{AcmeConfig, ChallengeKind, KeyType};
use crate::hook::{self, Hook};

/// Why certificates can't be ordered as configured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// A file could not be read.
    #[error("reading `acme.{key}` from {}", path.display())]
    Read {
        /// Its key in `[acme]`.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("reading `acme.{key}` from {}: {why}", path.display())]
    Parse {
        /// Its key in `[acme]`.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// The hook can't be called.
    #[error("checking the program `acme.hook` = {}", path.display())]
    Hook {
        /// The program.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// TLS towards authorities can't be had.
    #[error("setting up TLS towards certificate authorities")]
    Tls(#[source] rustls::Error),
}

/// The configuration of orders with the content of its files.
#[derive(Clone, Debug)]
pub struct Setup {
    pub(crate) contact: Vec<String>,
    pub(crate) directories: Vec<String>,
    pub(crate) client: Https,
    pub(crate) bindings: HashMap<String, Binding>,
    /// In order of preference.
    pub(crate) challenges: Vec<ChallengeKind>,
    pub(crate) hook: Option<Hook>,
    pub(crate) key_types: Vec<KeyType>,
}

/// A key that binds an account to one that the operator has with the authority (RFC 8555 §7.3.4).
#[derive(Clone)]
pub(crate) struct Binding {
    pub(crate) kid: String,
    pub(crate) key: Vec<u8>,
}

impl std::fmt::Debug for Binding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key is a secret.
        f.debug_tuple("Binding").field(&self.kid).finish()
    }
}

impl Setup {
    /// Reads the files of the configuration. `cleartext`: whether the server listens for HTTP in the clear.
    ///
    /// # Errors
    /// When a file can't be read or is unusable, or the hook is no program that may be called.
    pub fn new(config: &AcmeConfig, cleartext: bool) -> Result<Self, SetupError> {
        if let Some(path) = &config.hook {
            hook::check(path).map_err(|source| SetupError::Hook {
                path: path.clone(),
                source,
            })?;
        }
        let bindings = config.eab_file.as_deref().map(bindings).transpose()?;
        let mut directories = config.directory.clone();
        directories.dedup();
        Ok(Self {
            contact: config
                .email
                .iter()
                .map(|mail| format!("mailto:{mail}"))
                .collect(),
            directories,
            client: client::https(roots(config.ca_file.as_deref())?).map_err(SetupError::Tls)?,
            bindings: bindings.unwrap_or_default(),
            challenges: config.challenges(cleartext),
            hook: config.hook.clone().map(|program| Hook {
                program,
                timeout: config.hook_timeout,
            }),
            key_types: config.key_type.clone(),
        })
    }
}

/// The system's roots, with those of the file.
fn roots(file: Option<&Path>) -> Result<RootCertStore, SetupError> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let Some(path) = file else {
        return Ok(store);
    };
    let text = read("ca_file", path)?;
    let failed = |why: String| SetupError::Parse {
        key: "ca_file",
        path: path.to_owned(),
        why,
    };
    let certificates = CertificateDer::pem_slice_iter(text.as_bytes());
    let certificates = certificates.collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| failed(error.to_string()))?;
    if certificates.is_empty() {
        return Err(failed("no `BEGIN CERTIFICATE` in it".to_owned()));
    }
    for certificate in certificates {
        let added = store.add(certificate);
        added.map_err(|error| failed(error.to_string()))?;
    }
    Ok(store)
}

fn bindings(path: &Path) -> Result<HashMap<String, Binding>, SetupError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Entry {
        kid: String,
        hmac_key: String,
    }
    let text = read("eab_file", path)?;
    let failed = |why: String| SetupError::Parse {
        key: "eab_file",
        path: path.to_owned(),
        why,
    };
    let entries: HashMap<String, Entry> =
        toml::from_str(&text).map_err(|error| failed(error.message().to_owned()))?;
    let decode = |(directory, entry): (String, Entry)| {
        let key = URL_SAFE_NO_PAD.decode(entry.hmac_key.trim_end_matches('='));
        let key = key.map_err(|_| {
            failed(format!(
                "the `hmac_key` of {directory} is not in Base64 for URLs (RFC 4648 §5)"
            ))
        })?;
        Ok((
            directory,
            Binding {
                kid: entry.kid,
                key,
            },
        ))
    };
    entries.into_iter().map(decode).collect()
}

fn read(key: &'static str, path: &Path) -> Result<String, SetupError> {
    fs::read_to_string(path).map_err(|source| SetupError::Read {
        key,
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::chain;

    #[test]
    fn files_that_are_of_no_use_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &str| {
            let path = dir.path().join(name);
            fs::write(&path, content).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let text = file("text", "no certificate");
        let binding = |name: &str, more: &str| {
            let content = format!("[\"https://ca.example/dir\"]\nkid = \"k\"\n{more}\n");
            file(name, &content)
        };
        let (fine, odd) = (
            binding("fine", "hmac_key = \"zWND_-8\""),
            binding("odd", "hmac_key = \"++\""),
        );
        let (less, more) = (binding("less", ""), binding("more", "hmac = 1"));
        let cases = [
            ("", None),
            ("eab_file = FINE", None),
            (
                "ca_file = \"/nonexistent\"",
                Some("`acme.ca_file` from /nonexistent: No such"),
            ),
            ("ca_file = TEXT", Some("no `BEGIN CERTIFICATE`")),
            (
                "hook = \"/nonexistent\"",
                Some("`acme.hook` = /nonexistent: No such"),
            ),
            ("hook = TEXT", Some("Permission denied")),
            (
                "eab_file = ODD",
                Some("`hmac_key` of https://ca.example/dir is not in Base64"),
            ),
            ("eab_file = LESS", Some("missing field `hmac_key`")),
            ("eab_file = MORE", Some("unknown field `hmac`")),
        ];
        for (line, want) in cases {
            let mut line = line.to_owned();
            for (word, path) in [
                ("TEXT", &text),
                ("FINE", &fine),
                ("ODD", &odd),
                ("LESS", &less),
                ("MORE", &more),
            ] {
                line = line.replace(word, &format!("{path:?}"));
            }
            let config: AcmeConfig = toml::from_str(&line).unwrap();
            match (
                Setup::new(&config, false).map_err(|error| chain(&error)),
                want,
            ) {
                (Ok(_), None) => {}
                (Err(why), Some(want)) => assert!(why.contains(want), "{line}: {why}"),
                (got, _) => panic!("{line}: {got:?}"),
            }
        }
    }
}
