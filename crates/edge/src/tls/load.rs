//! Reading certificates from files, and making self-signed ones.

use std::path::Path;
use std::time::{Duration, SystemTime};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::TlsError;

/// How long a self-signed certificate is valid.
///
/// Short, as Chromium asks of certificates that are trusted by their hash.
const SELF_SIGNED_VALIDITY: Duration = Duration::from_secs(14 * 24 * 3600);

pub(super) fn from_files(
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

pub(super) fn self_signed(
    names: &[String],
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
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
