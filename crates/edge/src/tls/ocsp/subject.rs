//! A certificate, as far as its authority can be asked about it.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use rustls::pki_types::{CertificateDer, SignatureVerificationAlgorithm};
use x509_parser::extensions::{AuthorityInfoAccess, GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::der::{BIT_STRING, INTEGER, Malformed, OCTET_STRING, SEQUENCE, Value, Values, encode};

/// The place of responders in `authorityInfoAccess` (RFC 5280 §4.2.2.1).
const ID_AD_OCSP: &str = "1.3.6.1.5.5.7.48.1";
/// The TLS feature extension (RFC 7633 §4).
const TLS_FEATURE: &str = "1.3.6.1.5.5.7.1.24";
/// `status_request`, the feature of a certificate that is never to come without a response (RFC 6066 §8).
const STATUS_REQUEST: &[u8] = &[5];
/// SHA-1, by which every responder knows certificates (RFC 5019 §2.1.1). Nothing is signed by it.
pub(super) const SHA1: &[u8] = &[0x06, 0x05, 0x2b, 0x0e, 0x03, 0x02, 0x1a];

/// A certificate that its authority can be asked about.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    /// URL of the responder.
    pub(super) url: String,
    pub(super) id: CertId,
    /// The authority's name and key.
    pub(super) issuer: Vec<u8>,
    pub(super) key: PublicKey,
}

/// The names by which a responder knows a certificate (RFC 6960 §4.1.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CertId {
    pub(super) issuer_name: Vec<u8>,
    pub(super) issuer_key: Vec<u8>,
    pub(super) serial: Vec<u8>,
}

/// A public key.
#[derive(Clone, Debug)]
pub(super) struct PublicKey {
    algorithm: Vec<u8>,
    bits: Vec<u8>,
}

/// A value with its signature (RFC 5280 §4.1.1).
pub(super) struct Signed<'a> {
    pub(super) message: Value<'a>,
    algorithm: &'a [u8],
    signature: &'a [u8],
}

/// Why an authority can't be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unasked {
    /// The certificate names no responder.
    #[error("the certificate names no OCSP responder")]
    NoResponder,
    /// The responder can't be asked about it.
    #[error("its file has no certificate of the issuer: the chain needs it")]
    NoIssuer,
}

impl Subject {
    /// The first certificate of a chain, whose second is its issuer's.
    pub(super) fn of(chain: &[CertificateDer<'_>]) -> Result<Self, Unasked> {
        let leaf = chain.first().ok_or(Unasked::NoResponder)?;
        let (_, leaf) = X509Certificate::from_der(leaf).map_err(|_| Unasked::NoResponder)?;
        let url = responder(&leaf).ok_or(Unasked::NoResponder)?;
        let issuer = chain.get(1).ok_or(Unasked::NoIssuer)?;
        let (_, issuer) = X509Certificate::from_der(issuer).map_err(|_| Unasked::NoIssuer)?;
        let name = issuer.subject().as_raw();
        if name != leaf.issuer().as_raw() {
            return Err(Unasked::NoIssuer);
        }
        let key = PublicKey::of(issuer.public_key().raw).map_err(|Malformed| Unasked::NoIssuer)?;
        let sha1 = |bytes: &[u8]| digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref().to_vec();
        Ok(Self {
            url,
            id: CertId {
                issuer_name: sha1(name),
                issuer_key: sha1(&key.bits),
                serial: leaf.raw_serial().to_vec(),
            },
            issuer: name.to_vec(),
            key,
        })
    }

    /// The request for the responder, without a nonce, so that it can answer from a cache (RFC 5019 §2.1).
    pub(super) fn request(&self) -> Vec<u8> {
        let id = self.id.encode();
        let request = encode(SEQUENCE, &[&id]);
        let list = encode(SEQUENCE, &[&request]);
        let to_be_signed = encode(SEQUENCE, &[&list]);
        encode(SEQUENCE, &[&to_be_signed])
    }
}

impl CertId {
    fn encode(&self) -> Vec<u8> {
        let null = encode(0x05, &[]);
        let algorithm = encode(SEQUENCE, &[SHA1, &null]);
        let name = encode(OCTET_STRING, &[&self.issuer_name]);
        let key = encode(OCTET_STRING, &[&self.issuer_key]);
        let serial = encode(INTEGER, &[&self.serial]);
        encode(SEQUENCE, &[&algorithm, &name, &key, &serial])
    }
}

impl PublicKey {
    /// The key of a `SubjectPublicKeyInfo` (RFC 5280 §4.1.2.7).
    pub(super) fn of(info: &[u8]) -> Result<Self, Malformed> {
        let mut parts = Values::of(info).next(SEQUENCE)?.values();
        let algorithm = parts.next(SEQUENCE)?.content.to_vec();
        let bits = bits(parts.next(BIT_STRING)?)?.to_vec();
        Ok(Self { algorithm, bits })
    }

    /// Whether the key has signed a value.
    pub(super) fn has_signed(&self, signed: &Signed<'_>, algorithms: Algorithms) -> bool {
        let (message, signature) = (signed.message.whole, signed.signature);
        algorithms.iter().any(|one| {
            one.signature_alg_id().as_ref() == signed.algorithm
                && one.public_key_alg_id().as_ref() == self.algorithm
                && one.verify_signature(&self.bits, message, signature).is_ok()
        })
    }
}

/// The signatures that can be checked.
pub(super) type Algorithms = &'static [&'static dyn SignatureVerificationAlgorithm];

impl<'a> Signed<'a> {
    /// Takes a value, the algorithm of its signature, and the signature.
    pub(super) fn take(parts: &mut Values<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            message: parts.next(SEQUENCE)?,
            algorithm: parts.next(SEQUENCE)?.content,
            signature: bits(parts.next(BIT_STRING)?)?,
        })
    }
}

/// The whole bytes of a bit string.
fn bits(value: Value<'_>) -> Result<&[u8], Malformed> {
    match value.content {
        [0, bytes @ ..] => Ok(bytes),
        _ => Err(Malformed),
    }
}

/// The first responder that is asked over HTTP.
fn responder(leaf: &X509Certificate<'_>) -> Option<String> {
    let extensions = leaf.extensions().iter();
    let access = extensions.filter_map(|extension| match extension.parsed_extension() {
        ParsedExtension::AuthorityInfoAccess(access) => Some(access),
        _ => None,
    });
    let mut urls = access
        .flat_map(AuthorityInfoAccess::iter)
        .filter_map(|one| {
            let is_ocsp = one.access_method.to_id_string() == ID_AD_OCSP;
            match one.access_location {
                GeneralName::URI(url) if is_ocsp => Some(url),
                _ => None,
            }
        });
    urls.find(|url| url.starts_with("http://"))
        .map(str::to_owned)
}

/// Whether clients may refuse a certificate that comes without a response ("must-staple", RFC 7633).
pub(super) fn must_staple(leaf: &CertificateDer<'_>) -> bool {
    let Ok((_, leaf)) = X509Certificate::from_der(leaf) else {
        return false;
    };
    let mut extensions = leaf.extensions().iter();
    let feature = extensions.find(|extension| extension.oid.to_id_string() == TLS_FEATURE);
    feature.is_some_and(|feature| {
        let Ok(list) = Values::of(feature.value).next(SEQUENCE) else {
            return false;
        };
        let mut features = list.values();
        std::iter::from_fn(|| features.next(INTEGER).ok()).any(|one| one.content == STATUS_REQUEST)
    })
}
