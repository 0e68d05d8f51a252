//! Reports on certificates, for the admin API.

use std::collections::HashMap;

use hikyaku_acme::Status as AcmeStatus;
use serde::{Deserialize, Serialize};

use super::OcspReport;
use super::certificate::{Certificate, Source};
use super::description::Description;

/// The certificates of one site, or of the server (`GET /v1/certificates`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateReport {
    /// First name of the site; `None` for the server's.
    pub site: Option<String>,
    /// Where they come from: `files`, `self-signed` or `acme`.
    pub source: String,
    /// Whether those in use were made by the server itself, which with `acme` means that there are none yet.
    pub self_signed: bool,
    /// The names and addresses that they are for.
    pub names: Vec<String>,
    /// At least one; each has another kind of key.
    pub certificates: Vec<ReportedCertificate>,
    /// With `acme`, how the orders fare.
    pub acme: Option<AcmeStatus>,
}

/// A certificate in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedCertificate {
    /// Kind of the key: `ecdsa`, `rsa` or `ed25519`.
    pub key: String,
    /// The authority's common name, or all of its name without one.
    pub issuer: String,
    /// Seconds since the Unix epoch.
    pub not_before: i64,
    /// Seconds since the Unix epoch.
    pub not_after: i64,
    /// SHA-256 of the certificate: colon-separated hex.
    pub fingerprint: String,
    /// Its standing by OCSP; `None` where nobody is asked.
    #[serde(default)]
    pub ocsp: Option<OcspReport>,
}

impl ReportedCertificate {
    fn of(one: Description, ocsp: &HashMap<String, OcspReport>) -> Self {
        Self {
            ocsp: ocsp.get(&one.fingerprint).cloned(),
            key: one.key.to_owned(),
            issuer: one.issuer,
            not_before: one.not_before,
            not_after: one.not_after,
            fingerprint: one.fingerprint,
        }
    }
}

impl CertificateReport {
    pub(super) fn of(
        site: Option<&String>,
        certificate: &Certificate,
        kept: &[AcmeStatus],
        ocsp: &HashMap<String, OcspReport>,
    ) -> Self {
        let (source, acme) = match certificate.source() {
            Source::Files(_) => ("files", None),
            Source::SelfSigned { .. } => ("self-signed", None),
            Source::Acme { names, .. } => {
                let status = kept.iter().find(|status| status.names == *names);
                ("acme", status.cloned())
            }
        };
        let descriptions = certificate.descriptions().into_iter();
        Self {
            site: site.cloned(),
            source: source.to_owned(),
            self_signed: certificate.is_self_signed(),
            names: certificate.names(),
            certificates: descriptions
                .map(|one| ReportedCertificate::of(one, ocsp))
                .collect(),
            acme,
        }
    }
}
