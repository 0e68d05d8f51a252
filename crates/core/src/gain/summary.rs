//! Makes a report of a sample.

use hikyaku_units::Timestamp;

use super::MIN_CLIENTS;
use super::calendar::rfc3339;
use super::effect::{Effect, effect};
use super::groups::{Country, extremes, groups, networks, responses};
use super::interval::{ALPHA, TARGET, variance_at};
use super::quantile::load_times;
use super::report::{ByAssignment, Question, Report, Until, Verdict, VersionShares};
use super::sample::Sample;
use super::sentence::sentence;
use super::units::{Pick, clients, units};
use crate::choice::Assignment;

/// Compares the groups of a sample. `country` finds the country of an address.
#[must_use]
pub fn report(sample: &Sample, question: &Question, country: Country<'_>) -> Report {
    let all = units(sample, Pick::All);
    let effect = effect(&all);
    let ratio = effect.map(|effect| effect.ratio(ALPHA));
    let population = ByAssignment::from_fn(|of| sample.group(of).population());
    let since = begin(sample, question);
    let [best, worst] = extremes(&networks(&all));
    let mut report = Report {
        since: rfc3339(since),
        until: rfc3339(question.until),
        holdback: question.holdback,
        clients: population,
        sampled: ByAssignment::from_fn(|of| clients(&all, of)),
        responses: ByAssignment::from_fn(|of| sample.group(of).responses),
        incomplete: ByAssignment::from_fn(|of| incomplete(sample, of)),
        verdict: match ratio {
            Some(ratio) => ratio.verdict(),
            None if question.holdback <= 0.0 && population.hold_back < MIN_CLIENTS as u64 => {
                Verdict::NoHoldBack
            }
            None => Verdict::TooFew,
        },
        sentence: String::new(),
        ratio,
        load_time_s: load_times(&all),
        until_5_percent: effect.and_then(|effect| {
            let elapsed = question.until.since(since).as_secs_f64();
            until(&effect, population.hikyaku + population.hold_back, elapsed)
        }),
        versions: ByAssignment::from_fn(|of| {
            let [h1, h2, h3] = responses(sample, of);
            VersionShares { h1, h2, h3 }
        }),
        best,
        worst,
        by: question.by,
        groups: match question.by {
            Some(by) => groups(sample, &all, by, country),
            None => Vec::new(),
        },
        edges: question.edges,
    };
    report.sentence = sentence(&report);
    report
}

/// The beginning of the time with responses.
fn begin(sample: &Sample, question: &Question) -> Timestamp {
    let first = sample
        .seen
        .map(|(first, _)| Timestamp::from_secs(first.into()));
    first.map_or(question.since, |first| first.max(question.since))
}

fn incomplete(sample: &Sample, of: Assignment) -> f64 {
    let group = sample.group(of);
    let all = group.responses + group.incomplete;
    group.incomplete as f64 / all.max(1) as f64
}

/// The clients and the time that are missing until the interval reaches 5 % to either side, where both groups
/// grow as they did.
fn until(effect: &Effect, clients: u64, elapsed_secs: f64) -> Option<Until> {
    let more = effect.variance / variance_at(TARGET, ALPHA) - 1.0;
    if more <= 0.0 || elapsed_secs <= 0.0 {
        return None;
    }
    Some(Until {
        clients: (clients as f64 * more).ceil() as u64,
        seconds: (elapsed_secs * more).ceil() as u64,
    })
}
