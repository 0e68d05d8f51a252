//! Reports of whole samples: through the days, the sampling and the strata.

use std::net::IpAddr;
use std::time::Duration;

use hikyaku_units::Timestamp;
use hikyaku_units::arm::Version;

use super::simulated::{HOURS, Random, Visitor};
use crate::choice::Assignment;
use crate::gain::{
    By, Day, Edges, Question, Report, Response, Sample, Site, Subject, Verdict, report,
};
use crate::policy::PolicyConfig;

const SEED: u64 = 11;
const START: u64 = 1_800_000_000 / 86_400 * 86_400;

fn policy(holdback: f64) -> PolicyConfig {
    PolicyConfig {
        holdback,
        ..PolicyConfig::default()
    }
}

fn question(by: Option<By>, holdback: f64) -> Question {
    Question {
        since: Timestamp::from_secs(START),
        until: Timestamp::from_secs(START + 7 * 86_400),
        by,
        holdback,
        edges: 1,
    }
}

fn ask(sample: &Sample, by: Option<By>, holdback: f64) -> Report {
    report(sample, &question(by, holdback), &|_| None)
}

fn address(network: usize, client: u32) -> IpAddr {
    let [high, low] = [(client >> 16) as u16, client as u16];
    IpAddr::from([0x2001, 0xdb8, network as u16, 0, 0, 0, high, low])
}

/// A week of clients of which each is drawn by the policy, over the samples of its days.
fn week(seed: u64, clients: u32, holdback: f64, truth: f64, max: usize) -> Sample {
    let random = &mut Random(seed << 32);
    let mut days = Edges::default();
    let mut samples = vec![Sample::default(); 7];
    for client in 0..clients {
        let visitor = Visitor::new(random, 0.0);
        let client = client.wrapping_add(seed as u32 * 100_003);
        let subject = Subject::of(address(visitor.network, client), &policy(holdback), SEED);
        let factor = match subject.assignment {
            Assignment::Hikyaku => truth,
            Assignment::HoldBack => 1.0,
        };
        for &hour in &visitor.visits {
            let response = visitor.response(random, factor);
            let at = Timestamp::from_secs(START + hour as u64 * 3600);
            let site = Site::named("a.example");
            samples[hour * 7 / HOURS].record(&subject, site, &response, at, max);
        }
    }
    for (day, mut sample) in samples.into_iter().enumerate() {
        sample.name(Site::named("a.example"), "a.example");
        let written = Sample::decode(&sample.encode()).unwrap();
        days.put("edge", Day(day as u32), written);
    }
    days.merged(Day(0), 65_536)
}

#[test]
fn a_known_effect_is_found_in_a_sample_of_the_clients() {
    for (seed, max) in [(1, 8192), (2, 700)] {
        let sample = week(seed, 20_000, 0.2, 0.8, max);
        let report = ask(&sample, Some(By::Site), 0.2);
        let ratio = report.ratio.unwrap();
        assert!(ratio.low < 0.8 && 0.8 < ratio.high, "{max}: {ratio:?}");
        assert_eq!(report.verdict, Verdict::Sooner, "{max}");
        let all = (report.clients.hikyaku + report.clients.hold_back) as f64;
        assert!((all / 20_000.0 - 1.0).abs() < 0.08, "{max}: {all} clients");
        let p50 = report.load_time_s.p50;
        let p50 = p50.ratio.unwrap();
        assert!(p50.low < 0.8 && 0.8 < p50.high, "{max}: {p50:?}");
        assert_eq!(report.groups.len(), 1);
        assert_eq!(report.groups[0].name, "a.example");
        let (site, all) = (report.groups[0].ratio.unwrap(), ratio);
        assert!((site.mean - all.mean).abs() < 1e-9, "one site is all");
        assert!(
            report.sentence.starts_with("Responses arrive 2")
                || report.sentence.starts_with("Responses arrive 1"),
            "{}",
            report.sentence
        );
    }
}

#[test]
fn quantiles_of_equal_groups_seldom_differ() {
    let weeks = 60;
    let mut missed = [0; 3];
    for seed in 0..weeks {
        let sample = week(100 + seed, 3000, 0.5, 1.0, 8192);
        let times = ask(&sample, None, 0.5).load_time_s;
        for (missed, quantile) in missed.iter_mut().zip([times.p50, times.p75, times.p95]) {
            let ratio = quantile.ratio.unwrap();
            *missed += usize::from(ratio.low > 1.0 || ratio.high < 1.0);
        }
    }
    assert!(
        missed.iter().all(|&missed| missed <= 3),
        "{missed:?} of {weeks}"
    );
}

/// Two sites with unlike clients and shares: most of those held back are of the fast one.
fn unlike_sites(seed: u64) -> Sample {
    let random = &mut Random(seed << 32);
    let mut sample = Sample::default();
    for client in 0..4000_u32 {
        let (name, holdback, base) = match client % 2 {
            0 => ("fast.example", 0.5, 50.0),
            _ => ("slow.example", 0.05, 500.0),
        };
        let address = address(
            client as usize % 5,
            client.wrapping_add(seed as u32 * 100_003),
        );
        let millis = base * (0.5 + random.unit());
        for name in [name, "both.example"] {
            // A client at two sites has a draw with each share.
            let holdback = if name == "both.example" {
                0.2
            } else {
                holdback
            };
            let subject = Subject::of(address, &policy(holdback), SEED);
            let response = Response {
                version: Version::H3,
                bytes: 10_000,
                time: Duration::from_secs_f64(millis / 1e3),
                complete: true,
            };
            let site = Site::named(name);
            sample.name(site, name);
            let at = Timestamp::from_secs(START + 60);
            sample.record(&subject, site, &response, at, 8192);
        }
    }
    sample
}

#[test]
fn unlike_shares_do_not_compare_unlike_clients() {
    let weeks = 40;
    let mut alarms = 0;
    for seed in 0..weeks {
        let report = ask(&unlike_sites(seed), Some(By::Site), 0.5);
        let ratio = report.ratio.unwrap();
        alarms += usize::from(ratio.verdict() != Verdict::Undecided);
        // Together, those held back would seem to be much faster.
        assert!((ratio.mean - 1.0).abs() < 0.15, "{ratio:?}");
        let p50 = report.load_time_s.p50.ratio.unwrap();
        assert!(p50.low < 1.0 && 1.0 < p50.high, "{p50:?}");
    }
    assert!(alarms <= 2, "{alarms} of {weeks}");
}

#[test]
fn groups_have_intervals_that_hold_together() {
    let sample = week(7, 30_000, 0.5, 0.7, 65_536);
    let report = ask(&sample, Some(By::Network), 0.5);
    assert_eq!(report.by, Some(By::Network));
    assert_eq!(report.groups.len(), 12);
    let (best, worst) = (report.best.unwrap(), report.worst.unwrap());
    assert!(best.ratio.unwrap().high <= worst.ratio.unwrap().high);
    for group in &report.groups {
        let few = group.clients.hikyaku.min(group.clients.hold_back) < 20;
        assert_eq!(group.ratio.is_none(), few, "{group:?}");
    }
    let sizes = ask(&sample, Some(By::Size), 0.5).groups;
    let names: Vec<_> = sizes.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "up to 16 KiB",
            "up to 128 KiB",
            "up to 1 MiB",
            "above 1 MiB"
        ]
    );
    let small = sizes[0].ratio.unwrap();
    assert!(small.low < 0.7 && 0.7 < small.high, "{small:?}");
    let versions = ask(&sample, Some(By::Version), 0.5).groups;
    assert!(
        versions
            .iter()
            .all(|group| group.verdict == Verdict::NotCompared && group.ratio.is_none())
    );
    let shares: f64 = versions
        .iter()
        .filter_map(|group| Some(group.share?.hikyaku))
        .sum();
    assert!((shares - 1.0).abs() < 1e-9);
    let country = |address: IpAddr| match address {
        IpAddr::V6(address) if address.segments()[2] < 6 => Some("Near".to_owned()),
        _ => None,
    };
    let countries =
        super::super::report(&sample, &question(Some(By::Country), 0.5), &country).groups;
    let mut names: Vec<_> = countries.iter().map(|group| group.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["Near", "unknown"]);
}

#[test]
fn a_report_says_what_is_missing() {
    // clients, share, truth, verdict, part of the sentence
    let cases = [
        (
            0,
            0.01,
            1.0,
            Verdict::TooFew,
            "0 with hikyaku and 0 held back",
        ),
        (0, 0.0, 1.0, Verdict::NoHoldBack, "No client is held back"),
        (500, 0.0, 1.0, Verdict::NoHoldBack, "`policy.holdback` is 0"),
        (300, 0.01, 1.0, Verdict::TooFew, "each group needs 20"),
        (400, 0.2, 1.0, Verdict::Undecided, "more will show 5 %"),
        (6000, 0.5, 1.5, Verdict::Later, "% later ("),
    ];
    for (clients, holdback, truth, want, part) in cases {
        let sample = week(3, clients, holdback, truth, 8192);
        let report = ask(&sample, None, holdback);
        assert_eq!(report.verdict, want, "{clients}: {}", report.sentence);
        assert!(report.sentence.contains(part), "{}", report.sentence);
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    }
}
