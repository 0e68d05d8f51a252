//! Counts without a server.

use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;

use hikyaku_core::gain::{Response, Site, Subject};
use hikyaku_core::policy::PolicyConfig;
use hikyaku_units::Timestamp;
use hikyaku_units::arm::Version;

use super::{Countries, Gain, GainConfig, GainTerms, USUAL};
use crate::clock::Clock;
use crate::fakes::{in_force, part};

pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// Counts of a server with one site and a share of a half. They are kept for three days.
pub(crate) fn gain(clock: Clock, clients: usize) -> Gain {
    let terms = in_force(GainTerms {
        config: GainConfig {
            clients,
            keep: 3 * DAY,
            ..GainConfig::default()
        },
        countries: Countries::default(),
        holdback: 0.5,
        sites: vec![(Site::named("a.example"), "a.example".to_owned())],
    });
    Gain::new(part(&terms), clock)
}

/// Counts a response of each client.
pub(crate) fn count(gain: &Gain, clients: Range<u32>) {
    let policy = PolicyConfig {
        holdback: 0.5,
        ..PolicyConfig::default()
    };
    for client in clients {
        let address = IpAddr::from((0x0a00_0000 + client).to_be_bytes());
        let subject = Subject::of(address, &policy, 1);
        let response = Response {
            version: Version::H2,
            bytes: 1000,
            time: Duration::from_millis(100 + u64::from(client % 100)),
            complete: true,
        };
        gain.count(&subject, Site::named("a.example"), &response);
    }
}

/// Responses, clients and edges of the usual report.
pub(crate) fn totals(gain: &Gain) -> (u64, u64, usize) {
    let report = gain.report(USUAL, None, Duration::ZERO);
    let sum = |both: hikyaku_core::gain::ByAssignment<u64>| both.hikyaku + both.hold_back;
    (sum(report.responses), sum(report.clients), report.edges)
}

/// A clock at noon.
pub(crate) fn noon() -> Clock {
    Clock::starting_at(Timestamp::from_secs(20_000 * 86_400 + 43_200))
}
