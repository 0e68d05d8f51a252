//! The cost of the gain: of a counted response, and of a report on the last seven days.
//!
//! `cargo bench -p hikyaku-core --bench gain` prints one JSON line and one for people.
#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::disallowed_types
)]

use std::hint::black_box;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use hikyaku_core::gain::{CLIENTS, Question, REPORTED, Response, Sample, Site, Subject, report};
use hikyaku_core::policy::PolicyConfig;
use hikyaku_units::Timestamp;
use hikyaku_units::arm::Version;

const VISITORS: u32 = 100_000;
const DAYS: usize = 7;

fn main() {
    let policy = PolicyConfig {
        holdback: 0.1,
        ..PolicyConfig::default()
    };
    let (mut sample, site) = (Sample::default(), Site::named("a.example"));
    let now = Timestamp::from_secs(1_800_000_000);
    let mut visit = |n: u32| {
        let client = IpAddr::from((0x0a00_0000 + n).to_be_bytes());
        let subject = Subject::of(client, &policy, 1);
        let response = Response {
            version: Version::H3,
            bytes: u64::from(n),
            time: Duration::from_micros(u64::from(n) + 1000),
            complete: true,
        };
        sample.record(&subject, site, &response, now, CLIENTS);
    };
    (0..VISITORS).for_each(&mut visit);
    let started = Instant::now();
    (0..VISITORS).for_each(&mut visit);
    let record = started.elapsed().as_secs_f64() * 1e9 / f64::from(VISITORS);
    let bytes = sample.encode();
    let question = Question {
        since: now,
        until: now,
        by: None,
        holdback: 0.1,
        edges: 1,
    };
    let started = Instant::now();
    let mut all = Sample::default();
    for _ in 0..DAYS {
        let day = Sample::decode(&bytes).expect("what was written is read");
        all.merge(&day, REPORTED);
    }
    black_box(report(&all, &question, &|_| None));
    let report = started.elapsed().as_secs_f64() * 1e3;
    let len = bytes.len();
    println!(
        "{{\"bench\":\"gain\",\"record_ns\":{record:.0},\"bytes\":{len},\"report_ms\":{report:.1}}}"
    );
    println!(
        "a response {record:.0} ns; a day of two samples {len} bytes; a report on {DAYS} days {report:.0} ms"
    );
}
