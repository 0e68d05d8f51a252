//! OCSP stapling (RFC 6066 §8): the authority's word that a certificate is good, sent with the certificate.
//!
//! The responder is asked in the background, and a handshake takes the response that is there.

mod der;
mod fetch;
mod keep;
mod response;
mod status;
mod subject;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Certificate;
use super::certificates::Certificates;
use crate::part::Part;
use keep::Kept;
use response::{Answer, Standing};
pub use status::OcspReport;
use status::{Entry, now};
use subject::{Algorithms, Subject};

/// Between looks at the certificates.
const INTERVAL: Duration = Duration::from_secs(2);
/// Requests to responders at once.
const AT_ONCE: usize = 16;

/// Staples responses to certificates, and renews them.
#[derive(Debug)]
pub(crate) struct Stapler {
    certificates: Part<Certificates>,
    algorithms: Algorithms,
    /// `None` without `state.dir`.
    kept: Option<Kept>,
    /// By the certificates' fingerprints.
    known: Mutex<HashMap<String, Entry>>,
    /// Certificates have come into force.
    changed: Notify,
    counts: Counts,
}

/// Responses by their kind.
#[derive(Debug, Default)]
struct Counts {
    good: AtomicU64,
    revoked: AtomicU64,
    unknown: AtomicU64,
    failed: AtomicU64,
}

/// A certificate whose responder is to be asked.
struct Due {
    fingerprint: String,
    subject: Subject,
}

impl Stapler {
    pub(crate) fn new(
        certificates: Part<Certificates>,
        state: Option<&Path>,
        provider: &CryptoProvider,
    ) -> Self {
        Self {
            certificates,
            algorithms: provider.signature_verification_algorithms.all,
            kept: state.map(Kept::of),
            known: Mutex::default(),
            changed: Notify::new(),
            counts: Counts::default(),
        }
    }

    /// Looks at certificates at once that have come into force.
    pub(crate) fn reloaded(&self) {
        self.changed.notify_one();
    }

    /// Keeps all certificates with current responses, until the end.
    pub(crate) async fn run(self: Arc<Self>, end: CancellationToken) {
        let running = async {
            self.restore().await;
            loop {
                let due = self.look();
                let asking = stream::iter(due).for_each_concurrent(AT_ONCE, |due| self.ask(due));
                asking.await;
                self.look();
                let waited = tokio::time::timeout(INTERVAL, self.changed.notified());
                // Either is a reason to look again.
                let _ = waited.await;
            }
        };
        end.run_until_cancelled(running).await;
    }

    /// Staples the responses that are there, and reports faults. Returns the certificates whose responders are
    /// to be asked.
    fn look(&self) -> Vec<Due> {
        let certificates = self.certificates.load_full();
        let (now, is_on) = (now(), certificates.staples());
        let mut known = self.known.lock();
        let mut seen = HashSet::new();
        let mut due = Vec::new();
        for certificate in certificates.all() {
            for (fingerprint, key) in certificate.keys() {
                let entry = known
                    .entry(fingerprint.clone())
                    .or_insert_with(|| Entry::of(&key.cert));
                let staple = entry.staple(now).filter(|_| is_on);
                certificate.staple(&fingerprint, staple);
                if is_on && seen.insert(fingerprint.clone()) {
                    warn(certificate, entry.news(now));
                    due.extend(entry.due(now).cloned().map(|subject| Due {
                        fingerprint,
                        subject,
                    }));
                }
            }
        }
        known.retain(|fingerprint, _| seen.contains(fingerprint));
        due
    }

    /// Takes the responses that a former process has kept.
    async fn restore(&self) {
        let Some(kept) = self.kept.clone() else {
            return;
        };
        let due = self.look();
        let fingerprints: Vec<_> = due.iter().map(|one| one.fingerprint.clone()).collect();
        let reading = move || {
            kept.retain(&fingerprints);
            let read = fingerprints.iter().map(|one| kept.read(one));
            read.collect::<Vec<_>>()
        };
        let read = tokio::task::spawn_blocking(reading).await;
        let now = now();
        for (due, der) in due.iter().zip(read.unwrap_or_default()) {
            let answer = der.map(|der| Answer::check(&der, &due.subject, self.algorithms, now));
            // One that is of no use any more is asked for anew.
            if let (Some(Ok(answer)), Some(entry)) =
                (answer, self.known.lock().get_mut(&due.fingerprint))
            {
                entry.answered(answer, now);
            }
        }
    }

    /// Asks a responder, and takes note of its answer.
    async fn ask(&self, due: Due) {
        let Due {
            fingerprint,
            subject,
        } = due;
        let fetched = fetch::fetch(&subject.url, subject.request()).await;
        let now = now();
        let answer = fetched.map_err(|error| error.to_string()).and_then(|der| {
            let checked = Answer::check(&der, &subject, self.algorithms, now);
            checked.map_err(|fault| fault.to_string())
        });
        match answer {
            Ok(answer) => {
                self.counts.of(answer.standing).fetch_add(1, Relaxed);
                let der = answer.der.clone();
                if let Some(entry) = self.known.lock().get_mut(&fingerprint) {
                    entry.answered(answer, now);
                }
                self.keep(fingerprint, der).await;
            }
            Err(why) => {
                self.counts.failed.fetch_add(1, Relaxed);
                tracing::debug!("asking {} by OCSP: {why}", subject.url);
                if let Some(entry) = self.known.lock().get_mut(&fingerprint) {
                    entry.failed(why, now);
                }
            }
        }
    }

    /// Keeps a response for the next process.
    async fn keep(&self, fingerprint: String, der: Vec<u8>) {
        let Some(kept) = self.kept.clone() else {
            return;
        };
        let writing = move || kept.write(&fingerprint, &der);
        if let Ok(Err(error)) = tokio::task::spawn_blocking(writing).await {
            tracing::debug!("keeping an OCSP response: {error}");
        }
    }

    /// Reports on the certificates whose standing is known, by their fingerprints.
    pub(crate) fn reports(&self) -> HashMap<String, OcspReport> {
        let now = now();
        let known = self.known.lock();
        let reports = known
            .iter()
            .map(|(name, entry)| (name.clone(), entry.report(now)));
        reports.collect()
    }

    /// The numbers of requests by their result.
    pub(crate) fn counts(&self) -> [(&'static str, u64); 4] {
        let counts = &self.counts;
        [
            ("good", &counts.good),
            ("revoked", &counts.revoked),
            ("unknown", &counts.unknown),
            ("failed", &counts.failed),
        ]
        .map(|(result, count)| (result, count.load(Relaxed)))
    }
}

impl Counts {
    const fn of(&self, standing: Standing) -> &AtomicU64 {
        match standing {
            Standing::Good => &self.good,
            Standing::Revoked => &self.revoked,
            Standing::Unknown => &self.unknown,
        }
    }
}

fn warn(certificate: &Certificate, news: Option<String>) {
    if let Some(news) = news {
        let names = certificate.names().join(", ");
        tracing::warn!("the certificate for {names} {news}");
    }
}

/// A doubt about a certificate whose clients may refuse it without a response, where none can ever be had.
pub(crate) fn concern(chain: &[CertificateDer<'_>], is_on: bool) -> Option<String> {
    if !chain.first().is_some_and(subject::must_staple) {
        return None;
    }
    let why = match (is_on, Subject::of(chain)) {
        (false, _) => "`tls.ocsp` is false".to_owned(),
        (true, Err(why)) => why.to_string(),
        (true, Ok(_)) => return None,
    };
    Some(format!(
        "must come with an OCSP response, and never has one: clients may refuse it ({why})"
    ))
}

#[cfg(test)]
mod tests;
