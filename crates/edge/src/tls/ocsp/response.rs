//! The responses of OCSP responders (RFC 6960 §4.2), and whether they can be believed.

use x509_parser::asn1_rs::FromDer as _;
use x509_parser::prelude::X509Certificate;
use x509_parser::time::ASN1Time;

use super::der::{
    ENUMERATED, GENERALIZED_TIME, INTEGER, Malformed, OCTET_STRING, OID, SEQUENCE, Value, Values,
    holding, plain,
};
use super::subject::{Algorithms, CertId, PublicKey, SHA1, Signed, Subject};

/// `id-pkix-ocsp-basic`.
const BASIC: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x30, 0x01, 0x01];
/// Seconds by which the responder's clock may be ahead.
const SKEW: i64 = 300;

/// The state of a certificate, as its authority has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Good,
    Revoked,
    /// The responder does not know it.
    Unknown,
}

/// A response that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// As it came.
    pub(super) der: Vec<u8>,
    pub(super) standing: Standing,
    /// Seconds since the Unix epoch.
    pub(super) this_update: i64,
    /// Seconds since the Unix epoch.
    pub(super) next_update: i64,
}

/// Why a response is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    #[error("the response is no DER of OCSP")]
    Malformed,
    #[error("the responder refuses: {0}")]
    Refused(&'static str),
    #[error("the response is about another certificate")]
    Other,
    #[error(
        "the response is signed neither by the certificate's issuer nor by a responder of the issuer"
    )]
    Signature,
    #[error("the response is for the future: look at the clock of this machine")]
    Early,
    #[error("the response has expired")]
    Expired,
    #[error("the response does not say when the next one comes (`nextUpdate`)")]
    Endless,
}

impl From<Malformed> for Fault {
    fn from(Malformed: Malformed) -> Self {
        Self::Malformed
    }
}

impl Answer {
    /// Checks a response about `subject` at a time, in seconds since the Unix epoch.
    pub(super) fn check(
        der: &[u8],
        subject: &Subject,
        algorithms: Algorithms,
        now: i64,
    ) -> Result<Self, Fault> {
        let basic = basic(der)?;
        let mut parts = Values::of(basic).next(SEQUENCE)?.values();
        let signed = Signed::take(&mut parts)?;
        let certificates = parts.optional(holding(0))?;
        if !is_believed(&signed, certificates, subject, algorithms, now)? {
            return Err(Fault::Signature);
        }
        let single = single(signed.message, &subject.id)?;
        if single.this_update > now + SKEW {
            return Err(Fault::Early);
        }
        let next_update = single.next_update.ok_or(Fault::Endless)?;
        if next_update <= now {
            return Err(Fault::Expired);
        }
        Ok(Self {
            der: der.to_vec(),
            standing: single.standing,
            this_update: single.this_update,
            next_update,
        })
    }
}

/// The basic response in a response.
fn basic(der: &[u8]) -> Result<&[u8], Fault> {
    let mut parts = Values::of(der).next(SEQUENCE)?.values();
    match parts.next(ENUMERATED)?.content {
        [0] => {}
        [1] => return Err(Fault::Refused("it finds the request malformed")),
        [2] => return Err(Fault::Refused("an error of its own (internalError)")),
        [3] => return Err(Fault::Refused("try again later (tryLater)")),
        [5] => return Err(Fault::Refused("it wants a signed request (sigRequired)")),
        [6] => return Err(Fault::Refused("it does not know the issuer (unauthorized)")),
        _ => return Err(Fault::Malformed),
    }
    let mut bytes = parts.next(holding(0))?.values().next(SEQUENCE)?.values();
    if bytes.next(OID)?.content != BASIC {
        return Err(Fault::Malformed);
    }
    Ok(bytes.next(OCTET_STRING)?.content)
}

/// Whether the issuer has signed the response, or a responder to which it has given that right (RFC 6960
/// §4.2.2.2).
fn is_believed(
    signed: &Signed<'_>,
    certificates: Option<Value<'_>>,
    subject: &Subject,
    algorithms: Algorithms,
    now: i64,
) -> Result<bool, Fault> {
    if subject.key.has_signed(signed, algorithms) {
        return Ok(true);
    }
    let Some(certificates) = certificates else {
        return Ok(false);
    };
    let mut certificates = certificates.values().next(SEQUENCE)?.values();
    while certificates.tag().is_some() {
        let certificate = certificates.next(SEQUENCE)?;
        if let Some(key) = responder_key(certificate, subject, algorithms, now)
            && key.has_signed(signed, algorithms)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The key of a responder that the issuer has named.
fn responder_key(
    certificate: Value<'_>,
    subject: &Subject,
    algorithms: Algorithms,
    now: i64,
) -> Option<PublicKey> {
    let (_, parsed) = X509Certificate::from_der(certificate.whole).ok()?;
    let usage = parsed.extended_key_usage().ok()??;
    let validity = parsed.validity();
    let is_named = usage.value.ocsp_signing
        && parsed.issuer().as_raw() == subject.issuer
        && validity.not_before.timestamp() <= now
        && now <= validity.not_after.timestamp();
    let signed = Signed::take(&mut certificate.values()).ok()?;
    if !is_named || !subject.key.has_signed(&signed, algorithms) {
        return None;
    }
    PublicKey::of(parsed.public_key().raw).ok()
}

/// The part of a response about one certificate.
struct Single {
    standing: Standing,
    this_update: i64,
    next_update: Option<i64>,
}

/// Finds what the data of a response say of a certificate.
fn single(data: Value<'_>, id: &CertId) -> Result<Single, Fault> {
    let mut parts = data.values();
    parts.optional(holding(0))?;
    // The responder's name or key, which the signature shows already.
    parts.any()?;
    parts.next(GENERALIZED_TIME)?;
    let mut all = parts.next(SEQUENCE)?.values();
    while all.tag().is_some() {
        let mut one = all.next(SEQUENCE)?.values();
        let asked = one.next(SEQUENCE)?;
        if !is_of(asked, id)? {
            continue;
        }
        let standing = match one.tag() {
            Some(tag) if tag == plain(0) => Standing::Good,
            Some(tag) if tag == holding(1) => Standing::Revoked,
            Some(tag) if tag == plain(2) => Standing::Unknown,
            _ => return Err(Fault::Malformed),
        };
        one.any()?;
        let this_update = time(one.next(GENERALIZED_TIME)?)?;
        let next_update = match one.optional(holding(0))? {
            Some(next) => Some(time(next.values().next(GENERALIZED_TIME)?)?),
            None => None,
        };
        return Ok(Single {
            standing,
            this_update,
            next_update,
        });
    }
    Err(Fault::Other)
}

/// Whether a `CertID` is this one.
fn is_of(asked: Value<'_>, id: &CertId) -> Result<bool, Malformed> {
    let mut parts = asked.values();
    let algorithm = parts.next(SEQUENCE)?.values().next(OID)?;
    let name = parts.next(OCTET_STRING)?.content;
    let key = parts.next(OCTET_STRING)?.content;
    let serial = parts.next(INTEGER)?.content;
    Ok(algorithm.whole == SHA1
        && name == id.issuer_name
        && key == id.issuer_key
        && serial == id.serial)
}

/// Seconds since the Unix epoch.
fn time(value: Value<'_>) -> Result<i64, Malformed> {
    let (_, time) = ASN1Time::from_der(value.whole).map_err(|_| Malformed)?;
    Ok(time.timestamp())
}
