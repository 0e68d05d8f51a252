//! Certificates of an authority with an intermediate.

use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

const DAY: u64 = 24 * 3600;

/// A root and its intermediate.
pub(crate) struct Authority {
    root: CertifiedIssuer<'static, KeyPair>,
    intermediate: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key.
pub(crate) struct Leaf {
    pub(crate) pem: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = || KeyPair::generate().unwrap();
        let root = CertifiedIssuer::self_signed(authority("a root of nobody"), key()).unwrap();
        let params = authority("an intermediate of nobody");
        let intermediate = CertifiedIssuer::signed_by(params, key(), &root).unwrap();
        Self { root, intermediate }
    }

    /// Those that a server has to send behind its own, with the root at the end.
    pub(crate) fn chain(&self) -> String {
        self.intermediate.pem() + &self.root.pem()
    }

    /// A certificate that is valid from `from` to `until` days from now.
    pub(crate) fn leaf(&self, name: &str, from: i64, until: i64) -> Leaf {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = day(from).into();
        params.not_after = day(until).into();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.intermediate).unwrap();
        Leaf {
            pem: certificate.pem(),
            key: key.serialize_pem(),
        }
    }
}

/// A key that belongs to none of the certificates.
pub(crate) fn pem_of_other_key() -> String {
    KeyPair::generate().unwrap().serialize_pem()
}

fn authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

/// A time so many days from now.
fn day(days: i64) -> SystemTime {
    let distance = Duration::from_secs(days.unsigned_abs() * DAY);
    match days < 0 {
        true => SystemTime::now() - distance,
        false => SystemTime::now() + distance,
    }
}
