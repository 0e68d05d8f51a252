//! Whether UDP works for a client, for people.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::client::key::Prefix;
use crate::client::udp::{FailureKind, UdpHealth, UdpState, Verdict};
use crate::client::view::ClientView;
use hikyaku_units::{Timestamp, duration};

/// Whether UDP works for a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Udp {
    /// A sentence.
    pub health: String,
    /// The prefix that this is known of; `None` when it is the client's own.
    pub prefix: Option<Prefix>,
    /// Time until the next probe, where UDP fails; zero when it is due.
    #[serde(with = "duration::option")]
    pub next_probe_in: Option<Duration>,
}

impl Udp {
    pub(super) fn of(view: &ClientView, now: Timestamp) -> Self {
        let failing = |next_probe: Timestamp| Some(next_probe.since(now));
        let (health, next_probe_in) = match view.udp {
            Verdict::Unproven => ("not seen to work yet".to_owned(), None),
            Verdict::Works { since } => {
                let since = hikyaku_units::human::time(now.since(since.timestamp()));
                (format!("has worked for {since}"), None)
            }
            Verdict::Doubtful => ("works, with trouble lately".to_owned(), None),
            Verdict::Probe(failure) => (
                format!("{}; being probed", kind(failure.kind)),
                Some(Duration::ZERO),
            ),
            Verdict::Failed(failure) => {
                (kind(failure.kind), failing(failure.next_probe.timestamp()))
            }
        };
        Self {
            health,
            prefix: view.udp_prefix,
            next_probe_in,
        }
    }
}

fn kind(kind: FailureKind) -> String {
    match kind {
        FailureKind::NeverCame { sessions } => {
            format!("QUIC never came in {sessions} advertised sessions")
        }
        FailureKind::Broken => "QUIC connections break".to_owned(),
        FailureKind::Throttled => "QUIC is throttled".to_owned(),
    }
}

/// The state of UDP, as a word or two.
pub(super) fn state(health: &UdpHealth) -> String {
    let name = match health.state() {
        UdpState::Unknown if health.unanswered > 0 => {
            return format!("unknown, {} unanswered", health.unanswered);
        }
        UdpState::Unknown => "unknown",
        UdpState::Working { .. } => "working",
        UdpState::Suspect { .. } => "suspect",
        UdpState::NeverCame { .. } => "never came",
        UdpState::Broken { .. } => "broken",
        UdpState::Throttled { .. } => "throttled",
    };
    name.to_owned()
}
