//! The task of one certificate: it waits, orders, and asks for renewal information.

mod together;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::sync::Notify;

use crate::account::{Authority, host};
use crate::failure::{Failure, Whose};
use crate::keeper::Shared;
use crate::order::Orders;
use crate::record::{Record, StoredPair};
use crate::renewal_info;
use crate::schedule::{self, Known, LOOK};
use crate::setup::Setup;
use crate::status::{State, Status};

/// Between looks at the clock, which may jump.
const LOOK_AT_CLOCK: Duration = Duration::from_secs(60);

/// One certificate.
pub(crate) struct Task {
    pub(crate) names: Vec<String>,
    pub(crate) path: PathBuf,
    pub(crate) record: Record,
    pub(crate) shared: Arc<Shared>,
    pub(crate) setup: Arc<Setup>,
    pub(crate) authorities: Arc<Vec<Authority>>,
    pub(crate) status: Arc<Mutex<Status>>,
    pub(crate) wake: Arc<Notify>,
    /// Whether the next order waits for no failure before: somebody has changed something.
    pub(crate) forgiven: bool,
    /// Its name among the servers of a fleet.
    pub(crate) common: String,
    /// Since when another server has had the turn to order.
    pub(crate) waited: Option<Instant>,
}

/// The next thing to do.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Order,
    /// Ask for renewal information.
    Ask,
    /// Seconds.
    Wait(u64),
}

impl Task {
    /// The record of a certificate, as far as it is of use.
    pub(crate) fn recorded(path: &Path) -> Record {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let read = Record::read(path).map_err(|error| error.to_string());
        let usable = read.and_then(|record| record.certified(&provider).map(|_| record));
        usable.unwrap_or_else(|why| {
            tracing::warn!(
                "reading {}: {why}; the certificate is ordered anew",
                path.display()
            );
            Record::default()
        })
    }

    /// Keeps the certificate. Never ends.
    pub(crate) async fn run(mut self) {
        self.give();
        loop {
            self.adopt();
            match self.step() {
                Step::Order => self.order_in_turn().await,
                Step::Ask => self.ask().await,
                Step::Wait(seconds) => {
                    let wait = Duration::from_secs(seconds).min(LOOK_AT_CLOCK);
                    // Either may have moved the time on.
                    let _ = tokio::time::timeout(wait, self.wake.notified()).await;
                }
            }
        }
    }

    fn step(&self) -> Step {
        let now = self.now();
        let due = schedule::due(&self.known(now), now);
        self.show(due, false);
        if due <= now {
            return Step::Order;
        }
        if !self.record.pairs.is_empty() && schedule::is_look_due(self.record.look, now) {
            return Step::Ask;
        }
        let next = match self.record.pairs.is_empty() {
            true => due,
            false => due.min(self.record.look),
        };
        Step::Wait(u64::try_from(next - now).unwrap_or(0))
    }

    fn known(&self, now: i64) -> Known {
        let record = &self.record;
        let limits = self.authorities.iter().map(|authority| {
            let until = record.limited.get(&authority.directory).copied();
            until.filter(|until| schedule::is_limited(*until, now))
        });
        // Only if all are limited, the first that ends counts.
        let limited = limits.collect::<Option<Vec<_>>>();
        Known {
            validity: record.validity(&self.setup.key_types),
            issued: record.issued,
            window: record.window,
            failures: if self.forgiven { 0 } else { record.failures },
            failed: record.failed,
            limited: limited.and_then(|limits| limits.into_iter().min()),
            draw: record.draw(),
        }
    }

    fn now(&self) -> i64 {
        let since_epoch = (self.shared.clock)().duration_since(SystemTime::UNIX_EPOCH);
        since_epoch.map_or(0, |time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
    }

    fn show(&self, due: i64, ordering: bool) {
        let record = &self.record;
        *self.status.lock() = Status {
            names: self.names.clone(),
            state: match (ordering, record.failures, record.pairs.is_empty()) {
                (true, ..) => State::Ordering,
                (false, 1.., _) => State::Failing,
                (false, 0, true) => State::Waiting,
                (false, 0, false) => State::Valid,
            },
            directory: record.directory.clone(),
            next_order: due,
            failures: record.failures,
            error: record.error.clone(),
        };
    }

    /// Orders by itself.
    async fn order(&mut self) {
        let shared = Arc::clone(&self.shared);
        let Ok(_permit) = shared.permits.acquire().await else {
            return;
        };
        self.forgiven = false;
        self.show(self.now(), true);
        self.record.names.clone_from(&self.names);
        // Where nothing can be stored, nothing is ordered.
        let ordered = match self.save() {
            Ok(()) => self.order_somewhere().await,
            Err(failure) => Err(failure.text),
        };
        match ordered {
            Ok(()) => {
                shared.issued.fetch_add(1, Ordering::Relaxed);
                (shared.on_issued)(&self.path);
                let from = self.record.directory.as_deref().map_or("", host);
                let next = schedule::due(&self.known(self.now()), self.now());
                tracing::info!(
                    "certificate for {} issued by {from}; the next order is at {}",
                    self.title(),
                    date(next)
                );
            }
            Err(why) => {
                shared.failed.fetch_add(1, Ordering::Relaxed);
                self.note_failure(why);
            }
        }
    }

    fn note_failure(&mut self, why: String) {
        let now = self.now();
        let record = &mut self.record;
        record.failures = record.failures.saturating_add(1);
        record.failed = now;
        record.error = Some(why);
        // The failure itself is what matters; without a place for it, it is still in memory.
        let _ = self.save();
        let next = date(schedule::due(&self.known(now), now));
        let why = self.record.error.as_deref().unwrap_or_default();
        tracing::warn!(
            "no certificate for {}: {why}; the next try is at {next}",
            self.title()
        );
    }

    /// Asks the authorities in turn. The error is what each of them said.
    async fn order_somewhere(&mut self) -> Result<(), String> {
        let authorities = Arc::clone(&self.authorities);
        let mut failures = Vec::new();
        for place in schedule::preference(authorities.len(), self.record.failures) {
            let authority = &authorities[place];
            let limited = self.record.limited.get(&authority.directory);
            if limited.is_some_and(|until| schedule::is_limited(*until, self.now())) {
                continue;
            }
            let failure = match self.order_at(authority).await {
                Ok(pairs) => return self.take(pairs, authority),
                Err(failure) => failure,
            };
            authority.forget().await;
            if let Whose::Limited(wait) = failure.whose {
                let wait = i64::try_from(wait.as_secs()).unwrap_or(i64::MAX);
                let until = self.now().saturating_add(wait.max(1));
                self.record
                    .limited
                    .insert(authority.directory.clone(), until);
            }
            failures.push(format!("{}: {failure}", authority.host()));
            if matches!(failure.whose, Whose::Name | Whose::Own) {
                break;
            }
        }
        match failures.is_empty() {
            true => Err("all authorities take no orders now, for their rate limits".to_owned()),
            false => Err(failures.join("; ")),
        }
    }

    /// Orders all certificates of one authority.
    async fn order_at(&self, authority: &Authority) -> Result<Vec<StoredPair>, Failure> {
        let mut again = true;
        loop {
            let pairs = self.try_order_at(authority).await;
            match pairs {
                Err(failure) if failure.whose == Whose::Account && again => {
                    again = false;
                    authority.lost().await;
                }
                pairs => return pairs,
            }
        }
    }

    async fn try_order_at(&self, authority: &Authority) -> Result<Vec<StoredPair>, Failure> {
        let account = authority.account().await?;
        let orders = Orders {
            account: &account,
            http: &authority.http,
            setup: &self.setup,
            answers: &self.shared.answers,
            names: &self.names,
            failures: self.record.failures,
            peers: self.peers().map(|peers| (peers, self.common.as_str())),
        };
        let mut pairs = Vec::new();
        for key_type in &self.setup.key_types {
            let replaced = self.replaced(authority, |pair| pair.key_type == *key_type);
            pairs.push(orders.obtain(*key_type, replaced).await?);
        }
        Ok(pairs)
    }

    /// The certificate that an order takes the place of (RFC 9773 §5), where the authority wants to know.
    /// It is not named again after a failure, which that may have been the reason of.
    fn replaced(
        &self,
        authority: &Authority,
        is_it: impl Fn(&StoredPair) -> bool,
    ) -> Option<instant_acme::CertificateIdentifier<'static>> {
        let record = &self.record;
        let is_from_there = record.directory.as_ref() == Some(&authority.directory);
        if !is_from_there || record.window.is_none() || record.failures > 0 {
            return None;
        }
        let pair = record.pairs.iter().find(|pair| is_it(pair))?;
        renewal_info::identifier(pair).ok()
    }

    /// Puts new certificates in the place of the former.
    fn take(&mut self, pairs: Vec<StoredPair>, authority: &Authority) -> Result<(), String> {
        let now = self.now();
        let mut limited = std::mem::take(&mut self.record.limited);
        limited.retain(|_, until| schedule::is_limited(*until, now));
        self.record = Record {
            names: self.names.clone(),
            pairs,
            directory: Some(authority.directory.clone()),
            issued: now,
            limited,
            ..Record::default()
        };
        self.save().map_err(|failure| failure.text)
    }

    /// Asks the authority for the time of the next order.
    async fn ask(&mut self) {
        let answer = self.ask_authority().await;
        let now = self.now();
        self.record.look = match answer {
            Ok(Some(answer)) => {
                if self.record.window != answer.window && answer.window.is_some() {
                    tracing::debug!("renewal information for {}: {answer:?}", self.title());
                }
                self.record.window = answer.window;
                schedule::next_look(now, answer.again)
            }
            Ok(None) => schedule::next_look(now, i64::MAX),
            Err(why) => {
                tracing::debug!("asking for renewal information for {}: {why}", self.title());
                schedule::next_look(now, LOOK)
            }
        };
        if let Err(failure) = self.save() {
            tracing::warn!("{failure}");
        }
    }

    /// The answer for the certificate that is to be renewed first; `None` where nobody is asked.
    async fn ask_authority(&self) -> Result<Option<renewal_info::Answer>, String> {
        let directory = self.record.directory.as_ref();
        let mut authorities = self.authorities.iter();
        let authority = authorities.find(|one| Some(&one.directory) == directory);
        let Some(authority) = authority else {
            return Ok(None);
        };
        let account = authority.account().await.map_err(|failure| failure.text)?;
        let mut first: Option<renewal_info::Answer> = None;
        for pair in &self.record.pairs {
            let answer = renewal_info::ask(&account, pair).await?;
            let begin = |answer: &renewal_info::Answer| answer.window.map(|window| window.from);
            match &first {
                Some(known) if begin(known) <= begin(&answer) => {}
                _ => first = Some(answer),
            }
        }
        Ok(first)
    }

    fn save(&self) -> Result<(), Failure> {
        let path = self.path.display();
        let failed = |error| {
            Failure::own(format!(
                "writing the certificate's state to {path}: {error}"
            ))
        };
        self.record.write(&self.path).map_err(failed)
    }

    fn title(&self) -> String {
        self.names.join(", ")
    }
}

fn date(seconds: i64) -> String {
    let date = OffsetDateTime::from_unix_timestamp(seconds).ok();
    let text = date.and_then(|date| date.format(&Rfc3339).ok());
    text.unwrap_or_else(|| format!("{seconds} s after 1970"))
}
