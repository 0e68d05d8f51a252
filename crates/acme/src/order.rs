//! One order: from names to a certificate.

use std::sync::Arc;
use std::time::Duration;

use instant_acme::{
    Account, AuthorizationHandle, AuthorizationStatus, CertificateIdentifier, ChallengeHandle,
    ChallengeType, Error, Identifier, NewOrder, Order, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair, PKCS_RSA_SHA256, RsaKeySize};
use rustls::pki_types::CertificateDer;
use time::OffsetDateTime;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::answers::{Answer, Answers, CommonAnswers};
use crate::client::Http;
use crate::config::{ChallengeKind, KeyType};
use crate::failure::{Failure, Whose, said};
use crate::hook::{Call, Hook, TxtRecord};
use crate::peers::{Common, Given, Peers};
use crate::record::StoredPair;
use crate::setup::Setup;

/// The time in which the authority must have checked the names, or made the certificate.
const PATIENCE: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(250))
    .backoff(1.5)
    .timeout(Duration::from_secs(180));

/// Seconds for which other servers answer for this one, at most.
const ANSWER_LIFE: i64 = 600;

/// All that orders of one certificate have in common.
pub(crate) struct Orders<'a> {
    pub(crate) account: &'a Account,
    pub(crate) http: &'a Http,
    pub(crate) setup: &'a Setup,
    pub(crate) answers: &'a Arc<Answers>,
    pub(crate) names: &'a [String],
    /// Failures in a row. Each takes the next of the challenges that fit.
    pub(crate) failures: u32,
    /// Other servers that an authority may ask, with the certificate's name among them.
    pub(crate) peers: Option<(&'a dyn Peers, &'a str)>,
}

impl Orders<'_> {
    /// Orders a certificate with a key of a kind, in place of another if there is one.
    ///
    /// # Errors
    /// When the authority refuses, does not find what it looks for, or makes something else.
    pub(crate) async fn obtain(
        &self,
        key_type: KeyType,
        replaces: Option<CertificateIdentifier<'static>>,
    ) -> Result<StoredPair, Failure> {
        let names = self.names.iter().cloned().map(Identifier::Dns);
        let names: Vec<_> = names.collect();
        let mut new = NewOrder::new(&names);
        if let Some(replaced) = replaces {
            new = new.replaces(replaced);
        }
        let order = self.account.new_order(&new).await;
        let mut order = order.map_err(|error| self.failed("ordering", &error))?;
        if order.state().status != OrderStatus::Ready {
            let mut presented = Vec::new();
            let proved = self.prove(&mut order, &mut presented).await;
            for one in presented {
                one.take_back().await;
            }
            proved?;
        }
        self.finish(order, key_type).await
    }

    /// Proves the control of all names. The answers for that are in `presented` afterwards.
    async fn prove(
        &self,
        order: &mut Order,
        presented: &mut Vec<Presented>,
    ) -> Result<(), Failure> {
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let attempt = "reading an authorization";
            let mut authorization = authorization.map_err(|error| self.failed(attempt, &error))?;
            match authorization.status {
                AuthorizationStatus::Valid => continue,
                AuthorizationStatus::Pending => {}
                status => {
                    let name = authorization.identifier();
                    let text = format!("the authorization of {name} is {status:?}");
                    return Err(of_authority(text));
                }
            }
            let kind = self.choose(&authorization)?;
            let Some(challenge) = authorization.challenge(protocol(kind)) else {
                continue;
            };
            presented.push(self.present(kind, &challenge).await?);
        }
        // An authority may ask any server of a fleet.
        let _given = self.give(presented).await;
        let mut refused = None;
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let attempt = "reading an authorization";
            let mut authorization = authorization.map_err(|error| self.failed(attempt, &error))?;
            if authorization.status != AuthorizationStatus::Pending {
                continue;
            }
            let kind = self.choose(&authorization)?;
            if let Some(mut challenge) = authorization.challenge(protocol(kind)) {
                match challenge.set_ready().await {
                    Ok(()) => {}
                    // An authority that checks at once answers with the fault that it has found.
                    Err(error @ Error::Api(_)) => {
                        refused = Some(error);
                        break;
                    }
                    Err(error) => {
                        return Err(self.failed("asking for the check of a name", &error));
                    }
                }
            }
        }
        if let Some(error) = refused {
            return Err(self.unproved(order, Some(&error)).await);
        }
        match order.poll_ready(&PATIENCE).await {
            Ok(OrderStatus::Ready) => Ok(()),
            Ok(_) => Err(self.unproved(order, None).await),
            Err(error) => Err(self.unproved(order, Some(&error)).await),
        }
    }

    /// The challenge for a name: of those that fit and that the authority offers, another after each
    /// failure.
    fn choose(&self, authorization: &AuthorizationHandle<'_>) -> Result<ChallengeKind, Failure> {
        let name = authorization.identifier().to_string();
        let offered: Vec<_> = authorization
            .challenges
            .iter()
            .map(|one| &one.r#type)
            .collect();
        let kinds = self.setup.challenges.iter().copied();
        let fitting = kinds.filter(|kind| kind.fits(&name) && offered.contains(&&protocol(*kind)));
        let fitting: Vec<_> = fitting.collect();
        let turn = usize::try_from(self.failures).unwrap_or(0);
        let count = fitting.len().max(1);
        fitting.get(turn % count).copied().ok_or_else(|| {
            let offered: Vec<_> = offered.into_iter().map(shown).collect();
            let offered = offered.join(", ");
            of_authority(format!(
                "for {name} the authority offers {offered}, and none of them is configured (`acme.challenge`)"
            ))
        })
    }

    /// Gives the answers to the other servers, and waits until they have them.
    async fn give(&self, presented: &[Presented]) -> Option<GivenAnswers<'_>> {
        let (peers, name) = self.peers?;
        let mut answers = CommonAnswers::default();
        for one in presented {
            if let Presented::Answer(answer) = one {
                answer.add_to(&mut answers);
            }
        }
        if answers.is_empty() {
            return None;
        }
        let now = OffsetDateTime::now_utc().unix_timestamp();
        let given = Given {
            stamp: (now, 0),
            until: now.saturating_add(ANSWER_LIFE),
            title: self.names.join(", "),
            content: serde_json::to_vec(&answers).ok()?,
        };
        peers.give(Common::Challenge, name, given);
        let guard = GivenAnswers { peers, name };
        peers.acknowledged(name).await;
        Some(guard)
    }

    async fn present(
        &self,
        kind: ChallengeKind,
        challenge: &ChallengeHandle<'_>,
    ) -> Result<Presented, Failure> {
        let authorization = challenge.key_authorization();
        let Identifier::Dns(name) = challenge.identifier().identifier else {
            return Err(of_authority(
                "the authority asks for the control of no name".to_owned(),
            ));
        };
        match (kind, &self.setup.hook) {
            (ChallengeKind::Http01, _) => Ok(Presented::Answer(
                self.answers
                    .answer_http(&challenge.token, authorization.as_str()),
            )),
            (ChallengeKind::TlsAlpn01, _) => {
                let answer = self
                    .answers
                    .answer_tls(name, authorization.digest().as_ref());
                let failed = |error| Failure::own(format!("making the answer for {name}: {error}"));
                answer.map(Presented::Answer).map_err(failed)
            }
            (ChallengeKind::Dns01, Some(hook)) => {
                let record = TxtRecord {
                    domain: name.clone(),
                    value: authorization.dns_value(),
                };
                let set = SetRecord::new(hook.clone(), record);
                set.hook.call(Call::Present, &set.record).await?;
                Ok(Presented::Record(set))
            }
            (ChallengeKind::Dns01, None) => Err(Failure::own("dns-01 without `acme.hook`")),
        }
    }

    /// Why the authority is not convinced: what it says of each name.
    async fn unproved(&self, order: &mut Order, error: Option<&Error>) -> Failure {
        let mut reasons = Vec::new();
        let mut authorizations = order.authorizations();
        while let Some(Ok(mut authorization)) = authorizations.next().await {
            if authorization.refresh().await.is_err() {
                continue;
            }
            let name = authorization.identifier().to_string();
            let challenges = authorization.challenges.iter();
            reasons.extend(challenges.filter_map(|challenge| {
                let why = said(challenge.error.as_ref()?);
                Some(format!("{name} by {}: {why}", shown(&challenge.r#type)))
            }));
        }
        match (reasons.is_empty(), error) {
            (true, Some(error)) => self.failed("waiting for the check of the names", error),
            (true, None) => of_authority("the order became invalid, without a reason".to_owned()),
            (false, _) => Failure {
                text: format!("proving the control of {}", reasons.join("; ")),
                whose: Whose::Name,
            },
        }
    }

    async fn finish(&self, mut order: Order, key_type: KeyType) -> Result<StoredPair, Failure> {
        let names = self.names.to_vec();
        let made = tokio::task::spawn_blocking(move || request(key_type, names)).await;
        let made = made.map_err(|error| Failure::own(error.to_string()))?;
        let failed = |error| Failure::own(format!("making a key: {error}"));
        let (key, request) = made.map_err(failed)?;
        let attempt = "asking for the certificate";
        let sent = order.finalize_csr(&request).await;
        sent.map_err(|error| self.failed(attempt, &error))?;
        let chain = order.poll_certificate(&PATIENCE).await;
        let pair = StoredPair {
            key_type,
            key,
            chain: chain.map_err(|error| self.failed(attempt, &error))?,
        };
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let certified = pair.certified(&provider).map_err(of_authority)?;
        match certified
            .cert
            .first()
            .and_then(|leaf| missing(leaf, self.names))
        {
            None => Ok(pair),
            Some(name) => Err(of_authority(format!("the certificate is not for {name}"))),
        }
    }

    fn failed(&self, attempt: &str, error: &Error) -> Failure {
        Failure::of(attempt, error, self.http.retry_after())
    }
}

/// Answers that other servers give, until this is dropped.
struct GivenAnswers<'a> {
    peers: &'a dyn Peers,
    name: &'a str,
}

impl Drop for GivenAnswers<'_> {
    fn drop(&mut self) {
        self.peers.take_back(Common::Challenge, self.name);
    }
}

/// An answer that an authority is to find.
enum Presented {
    Answer(Answer),
    Record(SetRecord),
}

impl Presented {
    async fn take_back(self) {
        match self {
            Self::Answer(answer) => drop(answer),
            Self::Record(set) => set.remove().await,
        }
    }
}

/// A record that is removed, at the latest when this is dropped.
struct SetRecord {
    hook: Hook,
    record: TxtRecord,
    is_set: bool,
}

impl SetRecord {
    const fn new(hook: Hook, record: TxtRecord) -> Self {
        Self {
            hook,
            record,
            is_set: true,
        }
    }

    async fn remove(mut self) {
        self.is_set = false;
        remove(&self.hook, &self.record).await;
    }
}

impl Drop for SetRecord {
    fn drop(&mut self) {
        if let (true, Ok(runtime)) = (self.is_set, tokio::runtime::Handle::try_current()) {
            let (hook, record) = (self.hook.clone(), self.record.clone());
            runtime.spawn(async move { remove(&hook, &record).await });
        }
    }
}

async fn remove(hook: &Hook, record: &TxtRecord) {
    if let Err(failure) = hook.call(Call::Cleanup, record).await {
        tracing::warn!("the record of a challenge stays: {failure}");
    }
}

fn of_authority(text: String) -> Failure {
    Failure {
        text,
        whose: Whose::Authority,
    }
}

const fn protocol(kind: ChallengeKind) -> ChallengeType {
    match kind {
        ChallengeKind::Http01 => ChallengeType::Http01,
        ChallengeKind::TlsAlpn01 => ChallengeType::TlsAlpn01,
        ChallengeKind::Dns01 => ChallengeType::Dns01,
    }
}

fn shown(kind: &ChallengeType) -> &str {
    match kind {
        ChallengeType::Http01 => "http-01",
        ChallengeType::TlsAlpn01 => "tls-alpn-01",
        ChallengeType::Dns01 => "dns-01",
        ChallengeType::Unknown(name) => name,
        _ => "another challenge",
    }
}

/// A new key as PEM, and the request for its certificate (RFC 2986) as DER.
fn request(key_type: KeyType, names: Vec<String>) -> Result<(String, Vec<u8>), rcgen::Error> {
    let key = match key_type {
        KeyType::EcdsaP256 => KeyPair::generate()?,
        KeyType::Rsa2048 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)?,
    };
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    let request = params.serialize_request(&key)?;
    Ok((key.serialize_pem(), request.der().to_vec()))
}

/// A name that the certificate is not for.
pub(crate) fn missing<'a>(leaf: &CertificateDer<'_>, names: &'a [String]) -> Option<&'a String> {
    let parsed = X509Certificate::from_der(leaf).ok();
    let parsed = parsed.as_ref().map(|(_, leaf)| leaf);
    let extension = parsed.and_then(|leaf| leaf.subject_alternative_name().ok().flatten());
    let held = extension.map(|extension| &extension.value.general_names);
    let holds = |name: &String| {
        let mut held = held.into_iter().flatten();
        held.any(|one| matches!(one, GeneralName::DNSName(held) if held.eq_ignore_ascii_case(name)))
    };
    names.iter().find(|name| !holds(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::pair;

    #[test]
    fn requests_are_for_all_names_with_a_key_of_the_kind() {
        let names = vec!["a.example".to_owned(), "*.a.example".to_owned()];
        for (kind, begin) in [
            (KeyType::EcdsaP256, 64..300),
            (KeyType::Rsa2048, 1500..2000),
        ] {
            let (key, request) = request(kind, names.clone()).unwrap();
            assert!(begin.contains(&key.len()), "{kind:?}: {}", key.len());
            let wildcard = request.windows(11).any(|part| part == b"*.a.example");
            assert!(wildcard, "{kind:?}");
        }
    }

    #[test]
    fn a_certificate_for_other_names_is_noticed() {
        let chain = pair(KeyType::EcdsaP256, 1).chain().unwrap();
        let names = |list: &[&str]| list.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(missing(&chain[0], &names(&["A.example"])), None);
        let two = names(&["a.example", "b.example"]);
        assert_eq!(missing(&chain[0], &two).unwrap(), "b.example");
    }
}
