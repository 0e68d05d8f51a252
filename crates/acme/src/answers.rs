//! Answers to authorities that check the control of a name.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::CertifiedKey;
use serde::{Deserialize, Serialize};

use crate::peers::{Common, Peers};

/// The protocol of ALPN by which an authority asks for the certificate of a challenge (RFC 8737 §6.2).
pub const ACME_TLS: &[u8] = b"acme-tls/1";

/// The answers to the challenges under way. They are in memory alone.
#[derive(Default)]
pub struct Answers {
    /// Key authorizations by their tokens.
    http: RwLock<HashMap<String, String>>,
    /// Certificates by their names, in lower case.
    tls: RwLock<HashMap<String, Arc<CertifiedKey>>>,
    /// Other servers, whose orders this one answers for, too.
    peers: OnceLock<Arc<dyn Peers>>,
}

/// Answers as servers give them to each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct CommonAnswers {
    /// Tokens and key authorizations.
    pub(crate) http: Vec<(String, String)>,
    /// Names in lower case, and digests of key authorizations.
    pub(crate) tls: Vec<(String, Vec<u8>)>,
}

impl CommonAnswers {
    pub(crate) fn is_empty(&self) -> bool {
        self.http.is_empty() && self.tls.is_empty()
    }
}

impl Answers {
    /// The content of `/.well-known/acme-challenge/TOKEN` (RFC 8555 §8.3).
    pub fn http(&self, token: &str) -> Option<String> {
        let own = self.http.read().get(token).cloned();
        own.or_else(|| {
            let mut all = self.of_peers().flat_map(|answers| answers.http);
            all.find_map(|(of, authorization)| (of == token).then_some(authorization))
        })
    }

    /// The certificate for a client that asks for `name` by [`ACME_TLS`] (RFC 8737 §3).
    pub fn tls(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let name = name.to_ascii_lowercase();
        let own = self.tls.read().get(&name).cloned();
        own.or_else(|| {
            let mut all = self.of_peers().flat_map(|answers| answers.tls);
            let digest = all.find_map(|(of, digest)| (of == name).then_some(digest))?;
            certificate(&name, &digest).ok().map(Arc::new)
        })
    }

    /// Answers for orders of other servers, too.
    pub fn share(&self, peers: Arc<dyn Peers>) {
        // They are the same ones for as long as this lives.
        let _ = self.peers.set(peers);
    }

    /// The answers to orders of other servers.
    fn of_peers(&self) -> impl Iterator<Item = CommonAnswers> {
        let peers = self.peers.get();
        let contents = peers.map(|peers| peers.contents(Common::Challenge));
        let contents = contents.into_iter().flatten();
        contents.filter_map(|content| serde_json::from_slice(&content).ok())
    }

    /// Answers by HTTP until the answer is dropped.
    pub(crate) fn answer_http(self: &Arc<Self>, token: &str, authorization: &str) -> Answer {
        let token = token.to_owned();
        let mut answers = self.http.write();
        answers.insert(token.clone(), authorization.to_owned());
        Answer {
            answers: Arc::clone(self),
            at: At::Http(token),
        }
    }

    /// Answers by TLS until the answer is dropped.
    ///
    /// # Errors
    /// When no certificate can be made for `name`.
    pub(crate) fn answer_tls(
        self: &Arc<Self>,
        name: &str,
        digest: &[u8],
    ) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
        let answer = Arc::new(certificate(name, digest)?);
        let name = name.to_ascii_lowercase();
        self.tls.write().insert(name.clone(), Arc::clone(&answer));
        Ok(Answer {
            answers: Arc::clone(self),
            at: At::Tls(name, digest.to_vec(), answer),
        })
    }
}

impl std::fmt::Debug for Answers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Those under way are nobody else's business.
        f.debug_struct("Answers").finish_non_exhaustive()
    }
}

/// An answer that is given for as long as this lives.
#[derive(Debug)]
pub(crate) struct Answer {
    answers: Arc<Answers>,
    at: At,
}

#[derive(Debug)]
enum At {
    Http(String),
    Tls(String, Vec<u8>, Arc<CertifiedKey>),
}

impl Answer {
    /// Adds it to those that other servers are to give.
    pub(crate) fn add_to(&self, common: &mut CommonAnswers) {
        match &self.at {
            At::Http(token) => {
                let authorization = self.answers.http.read().get(token).cloned();
                let answer = authorization.map(|authorization| (token.clone(), authorization));
                common.http.extend(answer);
            }
            At::Tls(name, digest, _) => common.tls.push((name.clone(), digest.clone())),
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        match &self.at {
            At::Http(token) => drop(self.answers.http.write().remove(token)),
            At::Tls(name, _, own) => {
                let mut answers = self.answers.tls.write();
                // A later order for the name may have put its own there.
                if answers.get(name).is_some_and(|now| Arc::ptr_eq(now, own)) {
                    answers.remove(name);
                }
            }
        }
    }
}

/// A self-signed certificate for one name, with the digest of the key authorization.
fn certificate(
    name: &str,
    digest: &[u8],
) -> Result<CertifiedKey, Box<dyn std::error::Error + Send + Sync>> {
    let mut params = rcgen::CertificateParams::new([name.to_owned()])?;
    params.custom_extensions = vec![rcgen::CustomExtension::new_acme_identifier(digest)];
    let key = rcgen::KeyPair::generate()?;
    let made = params.self_signed(&key)?;
    let private = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let key = provider.key_provider.load_private_key(private)?;
    // `from_der` would refuse the critical extension.
    Ok(CertifiedKey::new(vec![made.der().clone()], key))
}

#[cfg(test)]
mod tests {
    use x509_parser::prelude::{FromDer, X509Certificate};

    use super::*;

    #[test]
    fn answers_are_given_while_they_live() {
        let answers = Arc::new(Answers::default());
        let token = answers.answer_http("token", "token.thumb");
        assert_eq!(answers.http("token").as_deref(), Some("token.thumb"));
        assert_eq!(answers.http("other"), None);
        drop(token);
        assert_eq!(answers.http("token"), None);

        let first = answers.answer_tls("a.example", &[1; 32]).unwrap();
        let second = answers.answer_tls("A.example", &[2; 32]).unwrap();
        drop(first);
        assert!(answers.tls("a.Example").is_some(), "of the second order");
        drop(second);
        assert!(answers.tls("a.example").is_none());
    }

    /// RFC 8737 §3: one name, and the digest in a critical extension.
    #[test]
    fn the_certificate_holds_the_digest_for_one_name() {
        let made = certificate("a.example", &[7; 32]).unwrap();
        let (_, leaf) = X509Certificate::from_der(&made.cert[0]).unwrap();
        let names = &leaf.subject_alternative_name().unwrap().unwrap().value;
        assert_eq!(names.general_names.len(), 1);
        let mut extensions = leaf.extensions().iter();
        let identifier = extensions.find(|one| one.oid.to_id_string() == "1.3.6.1.5.5.7.1.31");
        let identifier = identifier.unwrap();
        assert!(identifier.critical);
        assert_eq!(identifier.value, [&[4, 32][..], &[7; 32]].concat());
    }
}
