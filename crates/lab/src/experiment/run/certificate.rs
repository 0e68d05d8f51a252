//! The certificate of a measurement's servers.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, KeyPair, PublicKeyData};
use sha2::{Digest, Sha256};

use super::error::{Attempt, RunError};
use hikyaku_emulator::link::SERVER_V4;

/// One self-signed certificate for all servers, so that their handshakes have the same length.
#[derive(Clone, Debug)]
pub(super) struct Certificate {
    pub(super) cert: PathBuf,
    pub(super) key: PathBuf,
    /// Certificate and key in one file.
    pub(super) both: PathBuf,
    /// SHA-256 of the public key in Base64, as Chromium needs it.
    pub(super) spki: String,
}

/// The name by which a browser requests the server.
pub(super) const HOST: &str = "lab.test";

impl Certificate {
    /// Writes the certificate to files in `directory`.
    pub(super) fn create(directory: &Path) -> Result<Self, RunError> {
        let made = || -> Result<_, rcgen::Error> {
            let key = KeyPair::generate()?;
            let names = vec![HOST.to_owned(), SERVER_V4.to_string()];
            let cert = CertificateParams::new(names)?.self_signed(&key)?;
            Ok((
                cert.pem(),
                key.serialize_pem(),
                key.subject_public_key_info(),
            ))
        };
        let (cert_pem, key_pem, public) = made()
            .map_err(std::io::Error::other)
            .attempt(|| "making a certificate".to_owned())?;
        let write = |name: &str, text: &str| {
            let path = directory.join(name);
            let written = fs::write(&path, text);
            let written = written.attempt(|| format!("writing {}", path.display()));
            written.map(|()| path)
        };
        Ok(Self {
            cert: write("cert.pem", &cert_pem)?,
            key: write("key.pem", &key_pem)?,
            both: write("both.pem", &format!("{cert_pem}{key_pem}"))?,
            spki: STANDARD.encode(Sha256::digest(public)),
        })
    }
}
