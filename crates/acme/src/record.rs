//! The file of a certificate, which survives restarts and is replaced as a whole.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::config::KeyType;
use crate::schedule::{Validity, Window};

/// A certificate's keys and chains, and what its next order depends on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    pub(crate) names: Vec<String>,
    /// One for each kind of key.
    pub(crate) pairs: Vec<StoredPair>,
    /// URL of the directory that they are from.
    pub(crate) directory: Option<String>,
    pub(crate) issued: i64,
    pub(crate) window: Option<Window>,
    /// When the authority is asked for the window next.
    pub(crate) look: i64,
    /// Since the last success.
    pub(crate) failures: u32,
    pub(crate) failed: i64,
    pub(crate) error: Option<String>,
    /// When directories that refused orders for a rate limit take them again.
    pub(crate) limited: BTreeMap<String, i64>,
}

/// A key with its certificate, as PEM.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredPair {
    pub(crate) key_type: KeyType,
    pub(crate) key: String,
    /// The leaf first.
    pub(crate) chain: String,
}

impl std::fmt::Debug for StoredPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key is a secret.
        f.debug_tuple("StoredPair").field(&self.key_type).finish()
    }
}

/// The file of the certificate for `names`, in the server's directory of state. Other names have another.
pub fn file_of(state: &Path, names: &[String]) -> PathBuf {
    let sorted = sorted(names);
    let first = names.first().map_or("none", String::as_str);
    let first = first.to_ascii_lowercase().replace('*', "_");
    directory(state).join(format!("{first}-{}.json", digest(&sorted.join("\n"))))
}

/// The name by which the servers of a fleet know the certificate for `names`, which does not show them.
pub fn common_name(names: &[String]) -> String {
    long_digest(&sorted(names).join("\n"))
}

fn sorted(names: &[String]) -> Vec<String> {
    let mut sorted: Vec<_> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
    sorted.sort_unstable();
    sorted.dedup();
    sorted
}

/// The directory of accounts and certificates.
pub(crate) fn directory(state: &Path) -> PathBuf {
    state.join("acme")
}

/// Eight digits that stand for a text in the name of a file.
pub(crate) fn digest(text: &str) -> String {
    long_digest(text).chars().take(8).collect()
}

/// Of 32 digits.
pub(crate) fn long_digest(text: &str) -> String {
    let digest = Sha256::digest(text);
    let bytes = digest.iter().take(16);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

impl Record {
    /// The content of the file; nothing where it is not there.
    ///
    /// # Errors
    /// When it can't be read, or holds something else.
    pub fn read(path: &Path) -> io::Result<Self> {
        match fs::read(path) {
            Ok(text) => serde_json::from_slice(&text).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    /// The keys with their certificates; none where there are none yet.
    ///
    /// # Errors
    /// When a pair is of no use, with the reason.
    pub fn certified(&self, provider: &CryptoProvider) -> Result<Vec<CertifiedKey>, String> {
        let pairs = self.pairs.iter();
        pairs.map(|pair| pair.certified(provider)).collect()
    }

    /// Replaces the file, which is whole or not there at any time.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        replace_file(path, &serde_json::to_vec_pretty(self)?)
    }

    /// The time for which all certificates are valid; `None` without one for each of `kinds`.
    pub(crate) fn validity(&self, kinds: &[KeyType]) -> Option<Validity> {
        let is_there = |kind: &KeyType| self.pairs.iter().any(|pair| pair.key_type == *kind);
        if !kinds.iter().all(is_there) {
            return None;
        }
        let validities = self.pairs.iter().map(StoredPair::validity);
        let validities = validities.collect::<Option<Vec<_>>>()?;
        Some(Validity {
            from: validities.iter().map(|one| one.from).max()?,
            to: validities.iter().map(|one| one.to).min()?,
        })
    }

    /// A number in [0, 1) that changes with each certificate and each failure.
    pub(crate) fn draw(&self) -> f64 {
        let chains = self.pairs.iter().map(|pair| pair.chain.as_str());
        let mut hash = Sha256::new();
        for text in chains.chain(self.names.iter().map(String::as_str)) {
            hash.update(text);
        }
        hash.update(self.failures.to_be_bytes());
        let bytes = hash.finalize();
        let number = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        f64::from(number) / (f64::from(u32::MAX) + 1.0)
    }
}

impl StoredPair {
    /// # Errors
    /// When the chain or the key can't be read, or they do not belong together.
    pub(crate) fn certified(&self, provider: &CryptoProvider) -> Result<CertifiedKey, String> {
        let chain = self.chain()?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes());
        let key = key.map_err(|error| format!("reading the key: {error}"))?;
        CertifiedKey::from_der(chain, key, provider)
            .map_err(|error| format!("using the key with its certificate: {error}"))
    }

    /// The certificates, the leaf first.
    pub(crate) fn chain(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let chain = CertificateDer::pem_slice_iter(self.chain.as_bytes());
        let chain = chain.collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|error| format!("reading the chain: {error}"))?;
        match chain.is_empty() {
            true => Err("the chain is empty".to_owned()),
            false => Ok(chain),
        }
    }

    fn validity(&self) -> Option<Validity> {
        let chain = self.chain().ok()?;
        let (_, leaf) = X509Certificate::from_der(chain.first()?).ok()?;
        Some(Validity {
            from: leaf.validity().not_before.timestamp(),
            to: leaf.validity().not_after.timestamp(),
        })
    }
}

/// Replaces a file of secrets, for its owner alone. It has the former content or the new one at any time,
/// through crashes, too. Its directory is made, if need be.
///
/// # Errors
/// When the directory can't be made, or the file can't be written. It is as before then.
pub fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let new = path.with_extension("json.new");
    // One that a crash has left may have another mode.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    File::open(dir)?.sync_all()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A self-signed pair from 1970 on.
    pub(crate) fn pair(key_type: KeyType, days: i64) -> StoredPair {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(["a.example".to_owned()]).unwrap();
        params.not_before = time::OffsetDateTime::UNIX_EPOCH;
        params.not_after = time::OffsetDateTime::UNIX_EPOCH + time::Duration::days(days);
        StoredPair {
            key_type,
            key: key.serialize_pem(),
            chain: params.self_signed(&key).unwrap().pem(),
        }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_record_survives_and_is_for_its_owner_alone() {
        let state = tempfile::tempdir().unwrap();
        let names = names(&["*.a.example", "a.example"]);
        let path = file_of(state.path(), &names);
        assert_eq!(Record::read(&path).unwrap(), Record::default());
        let record = Record {
            names,
            pairs: vec![pair(KeyType::EcdsaP256, 90)],
            directory: Some("https://ca.example/dir".to_owned()),
            window: Some(Window { from: 1, to: 2 }),
            failures: 3,
            limited: BTreeMap::from([("https://ca.example/dir".to_owned(), 7)]),
            ..Record::default()
        };
        record.write(&path).unwrap();
        assert_eq!(Record::read(&path).unwrap(), record);
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        assert_eq!(record.certified(&provider).unwrap().len(), 1);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert!(!format!("{record:?}").contains("PRIVATE"));
    }

    #[test]
    fn a_file_belongs_to_a_set_of_names() {
        let file = |list: &[&str]| file_of(Path::new("/s"), &names(list));
        assert_eq!(
            file(&["a.example", "b.example"]).parent(),
            Some(Path::new("/s/acme"))
        );
        let name = file(&["*.A.example"]);
        let name = name.file_name().unwrap().to_str().unwrap();
        assert!(
            name.starts_with("_.a.example-") && name.ends_with(".json"),
            "{name}"
        );
        assert_eq!(file(&["A.example"]), file(&["a.example"]));
        assert_ne!(file(&["a.example"]), file(&["a.example", "b.example"]));
    }

    #[test]
    fn half_written_files_are_refused_and_leftovers_do_no_harm() {
        let state = tempfile::tempdir().unwrap();
        let path = file_of(state.path(), &names(&["a.example"]));
        let record = Record {
            pairs: vec![pair(KeyType::EcdsaP256, 90)],
            ..Record::default()
        };
        record.write(&path).unwrap();
        let whole = fs::read(&path).unwrap();
        fs::write(path.with_extension("json.new"), &whole[..whole.len() / 2]).unwrap();
        record.write(&path).unwrap();
        assert_eq!(Record::read(&path).unwrap(), record);
        for length in [0, 1, whole.len() / 2, whole.len() - 1] {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(Record::read(&path).is_err(), "{length}");
        }
    }

    #[test]
    fn pairs_that_do_not_belong_together_are_refused() {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let [one, other] = [(); 2].map(|()| pair(KeyType::EcdsaP256, 90));
        let mixed = StoredPair {
            key: other.key.clone(),
            ..one.clone()
        };
        let cases = [
            (mixed, "with its certificate"),
            (
                StoredPair {
                    chain: String::new(),
                    ..one.clone()
                },
                "the chain is empty",
            ),
            (
                StoredPair {
                    key: String::new(),
                    ..one
                },
                "reading the key",
            ),
        ];
        for (pair, want) in cases {
            let why = pair.certified(&provider).unwrap_err();
            assert!(why.contains(want), "{why}");
        }
    }

    #[test]
    fn a_record_is_valid_while_all_its_kinds_are() {
        const DAY: i64 = 24 * 3600;
        let record = Record {
            pairs: vec![pair(KeyType::EcdsaP256, 90), pair(KeyType::Rsa2048, 60)],
            ..Record::default()
        };
        let both = [KeyType::EcdsaP256, KeyType::Rsa2048];
        assert_eq!(
            record.validity(&both),
            Some(Validity {
                from: 0,
                to: 60 * DAY
            })
        );
        let one = Record {
            pairs: record.pairs[..1].to_vec(),
            ..Record::default()
        };
        assert_eq!(one.validity(&both), None);
        assert_eq!(Record::default().validity(&both), None);
        assert_ne!(record.draw(), one.draw());
        assert_ne!(
            one.draw(),
            Record {
                failures: 1,
                ..one.clone()
            }
            .draw()
        );
    }
}
