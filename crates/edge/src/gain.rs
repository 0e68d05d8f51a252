//! The gain of hikyaku, by assignment: counts every response, keeps the counts by day, and reports.
//!
//! Stripes by the client's hash count the present day, each behind a lock that is held for a look-up. Days
//! that are over are kept as bytes. The store gets the days that have changed each minute.

mod config;
mod counted;
mod countries;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hikyaku_core::gain::{
    By, Day, Edges, Question, REPORTED, Report, Response, Sample, Site, Subject, report,
};
use hikyaku_units::Timestamp;
use parking_lot::Mutex;

use crate::clock::{self, Clock};
use crate::part::Part;
pub use config::GainConfig;
pub(crate) use counted::Counted;
pub(crate) use countries::Countries;
pub use countries::CountriesError;

/// Stripes of the present day.
const STRIPES: usize = 16;
/// Between two writes to the store.
const WRITE_INTERVAL: Duration = Duration::from_secs(60);
/// For so long a report is given again.
pub(crate) const FRESH: Duration = Duration::from_secs(2);
/// The same for metrics.
pub(crate) const SCRAPED: Duration = Duration::from_secs(10);
/// Questions whose reports are kept.
const MAX_REPORTS: usize = 32;
/// The days that metrics cover, and reports without a time.
pub(crate) const USUAL: Duration = Duration::from_secs(7 * 86_400);

/// Settings that a reload replaces.
#[derive(Debug)]
pub(crate) struct GainTerms {
    pub(crate) config: GainConfig,
    pub(crate) countries: Countries,
    /// The largest share of hold-back.
    pub(crate) holdback: f64,
    /// The name of each site.
    pub(crate) sites: Vec<(Site, String)>,
}

/// Counts of all responses.
#[derive(Debug)]
pub(crate) struct Gain {
    clock: Clock,
    terms: Part<GainTerms>,
    stripes: Box<[Mutex<Stripe>]>,
    days: Mutex<Days>,
    /// The next look for changes is a last one.
    due: AtomicBool,
    reports: Mutex<Vec<Kept>>,
    /// Samples of the other edges of a fleet.
    others: Mutex<Heard>,
}

/// The present day of some clients.
#[derive(Debug)]
struct Stripe {
    day: Day,
    sample: Sample,
    /// Days that are over. They stay with the stripe until the parts of all are taken at once.
    ended: Vec<(Day, Sample)>,
}

/// Days of which the stripes have nothing, and the present one as it was written last.
#[derive(Debug, Default)]
struct Days {
    /// Encoded samples, with a note of those that the store has to get.
    kept: BTreeMap<Day, (Arc<[u8]>, bool)>,
    /// Days that the store is to remove.
    removed: Vec<Day>,
    written: Option<Instant>,
}

/// A report that was made.
#[derive(Debug)]
struct Kept {
    question: (Day, Option<By>),
    made: Instant,
    report: Arc<Report>,
}

/// Encoded samples of other edges, by edge and day.
pub(crate) type Heard = BTreeMap<(String, Day), Vec<u8>>;

/// A change for the store: a day with its sample, or `None` where it has become too old.
pub(crate) type DayChange = (Day, Option<Arc<[u8]>>);

impl Gain {
    pub(crate) fn new(terms: Part<GainTerms>, clock: Clock) -> Self {
        let day = Day::of(clock.now());
        let stripe = || {
            Mutex::new(Stripe {
                day,
                sample: Sample::default(),
                ended: Vec::new(),
            })
        };
        Self {
            clock,
            terms,
            stripes: std::iter::repeat_with(stripe).take(STRIPES).collect(),
            days: Mutex::default(),
            due: AtomicBool::new(false),
            reports: Mutex::default(),
            others: Mutex::default(),
        }
    }

    /// Counts a response of a client at a site.
    pub(crate) fn count(&self, subject: &Subject, site: Site, response: &Response) {
        let now = self.clock.now();
        let max = of_stripe(self.terms.load().config.clients);
        let mut stripe = self.stripe(subject).lock();
        stripe.turn(Day::of(now));
        stripe.sample.record(subject, site, response, now, max);
    }

    /// Keeps a day that is over as bytes. To be called now and then, also where nobody asks for days.
    pub(crate) fn end_days(&self) {
        let today = Day::of(self.clock.now());
        let is_over = |stripe: &Mutex<Stripe>| stripe.lock().has_former(today);
        if self.stripes.iter().any(is_over) {
            self.gather(&mut self.days.lock());
        }
    }

    /// Takes a day of the store; `false` if it can't be read.
    pub(crate) fn insert(&self, day: Day, encoded: &[u8]) -> bool {
        let Ok(sample) = Sample::decode(encoded) else {
            return false;
        };
        let today = Day::of(self.clock.now());
        if day == today {
            let parts = sample.split(STRIPES);
            for (stripe, part) in self.stripes.iter().zip(&parts) {
                stripe.lock().sample.merge(part, REPORTED);
            }
        } else if day < today {
            self.days.lock().kept.insert(day, (encoded.into(), false));
        }
        true
    }

    /// Has the next look for changes find all that there are.
    pub(crate) fn hurry(&self) {
        self.due.store(true, Ordering::Relaxed);
    }

    /// Notes everything as changed, for a store that has lost it.
    pub(crate) fn mark_all_changed(&self) {
        let mut days = self.days.lock();
        for (_, changed) in days.kept.values_mut() {
            *changed = true;
        }
        drop(days);
        self.hurry();
    }

    /// Days that have changed since the last call, each minute, or after [`Gain::hurry`].
    pub(crate) fn changes(&self) -> Vec<DayChange> {
        let now = clock::now();
        let mut days = self.days.lock();
        let written = *days.written.get_or_insert(now);
        if !self.due.swap(false, Ordering::Relaxed)
            && now.saturating_duration_since(written) < WRITE_INTERVAL
        {
            return Vec::new();
        }
        days.written = Some(now);
        self.gather(&mut days);
        let removed = std::mem::take(&mut days.removed);
        let removed = removed.into_iter().map(|day| (day, None));
        let changed = days.kept.iter_mut().filter(|(_, (_, changed))| *changed);
        let changed = changed.map(|(day, (bytes, changed))| {
            *changed = false;
            (*day, Some(Arc::clone(bytes)))
        });
        removed.chain(changed).collect()
    }

    /// The days of this edge from `day` on, encoded.
    pub(crate) fn own(&self, day: Day) -> Vec<(Day, Arc<[u8]>)> {
        let mut days = self.days.lock();
        self.gather(&mut days);
        let own = days.kept.range(day..);
        own.map(|(day, (bytes, _))| (*day, Arc::clone(bytes)))
            .collect()
    }

    /// Takes the samples of the other edges of the fleet, in place of those before.
    pub(crate) fn hear(&self, others: Heard) {
        *self.others.lock() = others;
    }

    /// The report on the time since `since`, which is at most `max_age` old.
    pub(crate) fn report(&self, since: Duration, by: Option<By>, max_age: Duration) -> Arc<Report> {
        let until = self.clock.now();
        let terms = self.terms.load();
        let since = since.min(terms.config.keep);
        let first = Day::of(until.saturating_sub(since));
        drop(terms);
        // Who asks at the same time waits for the same report.
        let mut reports = self.reports.lock();
        let now = clock::now();
        let question = (first, by);
        let is_fresh =
            |kept: &&Kept| kept.question == question && clock::since(kept.made) < max_age;
        if let Some(kept) = reports.iter().find(is_fresh) {
            return Arc::clone(&kept.report);
        }
        let report = Arc::new(self.make(first, until, by));
        reports.retain(|kept| kept.question != question);
        if reports.len() >= MAX_REPORTS {
            reports.remove(0);
        }
        reports.push(Kept {
            question,
            made: now,
            report: Arc::clone(&report),
        });
        report
    }

    /// Whether addresses lead to countries.
    pub(crate) fn knows_countries(&self) -> bool {
        self.terms.load().countries.is_known()
    }

    fn make(&self, first: Day, until: Timestamp, by: Option<By>) -> Report {
        let terms = self.terms.load_full();
        let mut all = Sample::default();
        for (_, bytes) in self.own(first) {
            // It is what this process has encoded, or has read before.
            if let Ok(sample) = Sample::decode(&bytes) {
                all.merge(&sample, REPORTED);
            }
        }
        let others = self.others(first);
        all.merge(&others.merged(first, REPORTED), REPORTED);
        let edges = 1 + others.count(first);
        for (site, name) in &terms.sites {
            all.name(*site, name);
        }
        let question = Question {
            since: first.start(),
            until,
            by,
            holdback: terms.holdback,
            edges,
        };
        report(&all, &question, &|address| terms.countries.of(address))
    }

    /// The samples of other edges from `day` on, as far as they can be read.
    fn others(&self, day: Day) -> Edges {
        let mut edges = Edges::default();
        for ((edge, of), encoded) in &*self.others.lock() {
            if *of < day {
                continue;
            }
            match Sample::decode(encoded) {
                Ok(sample) => edges.put(edge, *of, sample),
                Err(error) => tracing::debug!("a day of another edge's gain: {error}"),
            }
        }
        edges
    }

    /// Brings the days up to date with the stripes.
    fn gather(&self, days: &mut Days) {
        let terms = self.terms.load_full();
        let (max, today) = (terms.config.clients, Day::of(self.clock.now()));
        let mut samples: BTreeMap<Day, Sample> = BTreeMap::new();
        for stripe in &self.stripes {
            let mut stripe = stripe.lock();
            // All stripes turn here, so that each day's parts come together.
            stripe.turn(today);
            let mut parts = std::mem::take(&mut stripe.ended);
            parts.push((stripe.day, stripe.sample.clone()));
            drop(stripe);
            for (day, part) in parts {
                samples.entry(day).or_default().merge(&part, max);
            }
        }
        for (day, mut sample) in samples {
            if sample.is_empty() {
                continue;
            }
            for (site, name) in &terms.sites {
                sample.name(*site, name);
            }
            days.put(day, sample.encode());
        }
        let first = today.earlier(days_of(terms.config.keep));
        days.forget_before(first);
    }

    fn stripe(&self, subject: &Subject) -> &Mutex<Stripe> {
        &self.stripes[(subject.hash % STRIPES as u64) as usize]
    }
}

impl Stripe {
    /// Begins another day, and leaves the one that is over.
    fn turn(&mut self, today: Day) {
        if today <= self.day {
            return;
        }
        let day = std::mem::replace(&mut self.day, today);
        let sample = std::mem::take(&mut self.sample);
        if !sample.is_empty() {
            self.ended.push((day, sample));
        }
    }

    /// Whether something of a former day is in it.
    fn has_former(&self, today: Day) -> bool {
        !self.ended.is_empty() || (self.day < today && !self.sample.is_empty())
    }
}

impl Days {
    fn put(&mut self, day: Day, encoded: Vec<u8>) {
        let kept = self.kept.get(&day);
        if kept.is_none_or(|(bytes, _)| **bytes != *encoded) {
            self.kept.insert(day, (encoded.into(), true));
        }
    }

    fn forget_before(&mut self, first: Day) {
        let kept = self.kept.split_off(&first);
        let old = std::mem::replace(&mut self.kept, kept);
        self.removed.extend(old.into_keys());
    }
}

/// Whole days of a duration, at least one.
fn days_of(time: Duration) -> u32 {
    u32::try_from(time.as_secs() / 86_400)
        .unwrap_or(u32::MAX)
        .max(1)
}

/// The clients that a stripe keeps of each group. They are unevenly spread, so that a part of a sample of
/// `clients` is a little more than a sixteenth.
fn of_stripe(clients: usize) -> usize {
    let even = clients.div_ceil(STRIPES);
    even + 4 * even.isqrt()
}

#[cfg(test)]
pub(crate) mod fakes;
#[cfg(test)]
mod tests;
