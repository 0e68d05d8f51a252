//! Cases of HTTP caching against hikyaku and other caches.
//!
//! `make cache-cases` writes the results as a document.
#![allow(clippy::unwrap_used, reason = "tests")]

mod arms;
mod case;
mod client;
mod origin;
mod report;
mod runner;
mod table;
mod wire;

use std::collections::HashSet;
use std::{env, fs};

use futures_util::future::join_all;
use hikyaku_testkit::client::block_on;

use arms::Arm;
use case::{Case, Kind};
use origin::Origin;
use report::Results;
use runner::Outcome;

/// Names the document that [`the_results_are_written`] writes.
const REPORT: &str = "HIKYAKU_CACHE_REPORT";

/// The setting that turns the cache on.
const CACHE: &str = "cache.enabled=true";

fn cases() -> Vec<Case> {
    let subjects = table::subjects();
    subjects.into_iter().flat_map(|(_, cases)| cases).collect()
}

/// Runs all cases against arms, side by side.
async fn results(origin: &Origin, arms: &[Arm]) -> Vec<Results> {
    let cases = cases();
    let running = arms.iter().map(|arm| async {
        let run = arm.name.replace(' ', "-");
        Results::new(arm, runner::run(&cases, origin, arm.place, &run).await)
    });
    join_all(running).await
}

#[test]
fn each_case_has_an_id_of_its_own_and_a_section() {
    let cases = cases();
    assert!(cases.len() >= 200, "{} cases", cases.len());
    let mut ids = HashSet::new();
    for case in &cases {
        assert!(ids.insert(&case.id), "{} twice", case.id);
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(case.id.chars().all(is_plain), "{}", case.id);
        let section = case.section.strip_prefix("RFC ").unwrap();
        assert!(section.contains(" §"), "{}", case.section);
        assert!(!case.steps.is_empty(), "{}", case.id);
    }
}

/// Without a cache, nothing is reused, and whatever needs a stored response is not judged.
#[test]
fn no_cache_spares_nothing_and_breaks_nothing() {
    let cases = cases();
    let results = block_on(async {
        let origin = Origin::start().await;
        let arm = Arm::none(origin.address);
        results(&origin, &[arm]).await.remove(0)
    });
    let expect = [
        ("no-store", true),
        ("max-age-0", true),
        ("partial-not-whole", true),
        ("post-not-get", true),
        ("max-age", false),
        ("head-by-get", false),
        ("vary-same", false),
    ];
    for (id, passes) in expect {
        let outcome = results.outcome(&cases, id);
        assert_eq!(*outcome == Outcome::Passed, passes, "{id}: {outcome:?}");
    }
    for id in [
        "age-sent",
        "stale-s-maxage-end",
        "range-first",
        "field-etag",
    ] {
        let outcome = results.outcome(&cases, id);
        assert!(matches!(outcome, Outcome::Untried(_)), "{id}: {outcome:?}");
    }
    let broken: Vec<&str> = cases
        .iter()
        .zip(&results.outcomes)
        .filter(|(case, outcome)| {
            case.kind == Kind::Required && matches!(outcome, Outcome::Failed(_))
        })
        .map(|(case, _)| case.id.as_str())
        .collect();
    // The origin is no proxy: it says what it says.
    assert_eq!(broken, ["hop-named-first", "hop-request"]);
}

#[test]
fn other_caches_are_told_apart() {
    let cases = cases();
    let results = block_on(async {
        let origin = Origin::start().await;
        let peers = [Arm::nginx(origin.address), Arm::varnish(origin.address)];
        let peers: Vec<Arm> = peers.into_iter().flatten().collect();
        results(&origin, &peers).await
    });
    for peer in &results {
        for id in ["max-age", "no-store", "max-age-over", "validate-tag-strong"] {
            let outcome = peer.outcome(&cases, id);
            assert_eq!(*outcome, Outcome::Passed, "{id} by {}", peer.name);
        }
    }
    if let [nginx, varnish] = &results[..] {
        for id in ["age-within", "age-sent", "cookie"] {
            let both = [nginx, varnish].map(|peer| peer.outcome(&cases, id) == &Outcome::Passed);
            let want = [id != "age-sent", id != "cookie"];
            assert_eq!(both, want, "{id}");
        }
    }
}

/// Each requirement, and as many origin requests spared as by Varnish; from memory, and with a disk behind
/// it.
#[test]
fn hikyaku_keeps_to_the_specifications() {
    let cases = cases();
    let dir = tempfile::tempdir().unwrap();
    let on_disk = format!("cache.dir={}", dir.path().display());
    let (own, others) = block_on(async {
        let origin = Origin::start().await;
        let own = [
            Arm::hikyaku("hikyaku", origin.address, &[CACHE]),
            Arm::hikyaku("hikyaku with a disk", origin.address, &[CACHE, &on_disk]),
        ];
        let others = Vec::from_iter(Arm::varnish(origin.address));
        tokio::join!(results(&origin, &own), results(&origin, &others))
    });
    for arm in &own {
        let broken: Vec<String> = cases
            .iter()
            .zip(&arm.outcomes)
            .filter(|(case, outcome)| case.kind == Kind::Required && **outcome != Outcome::Passed)
            .map(|(case, outcome)| format!("{}: {outcome:?}", case.id))
            .collect();
        assert!(broken.is_empty(), "{}: {}", arm.name, broken.join("\n"));
        let spared = arm.passed(&cases, Kind::Optimal);
        for other in &others {
            let spared_by_other = other.passed(&cases, Kind::Optimal);
            assert!(spared >= spared_by_other, "{}: {spared}", arm.name);
        }
    }
}

#[test]
fn the_results_are_written() {
    let Some(path) = env::var_os(REPORT) else {
        return;
    };
    let results = block_on(async {
        let origin = Origin::start().await;
        let peers = [Arm::nginx(origin.address), Arm::varnish(origin.address)];
        let mut arms = vec![
            Arm::hikyaku("hikyaku", origin.address, &[CACHE]),
            Arm::hikyaku("hikyaku without cache", origin.address, &[]),
        ];
        arms.extend(peers.into_iter().flatten());
        results(&origin, &arms).await
    });
    fs::write(path, report::document(&table::subjects(), &results)).unwrap();
}
