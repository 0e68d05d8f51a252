//! Whether UDP works between a client (or its prefix) and this server.
//!
//! A state machine under the caller's clock, at second precision. Clients are fed what the edge sees;
//! a prefix is fed its clients' verdicts, so that one client's bad evening does not move its neighbours.
//! The transitions are tabled in `docs/decisions.md`.

mod prefix;
mod throttling;

use std::time::Duration;

use crate::client::sample::UdpEvent;
use crate::policy::UdpPolicy;
use hikyaku_units::{Secs, Timestamp};

pub(crate) use throttling::{PROBED_WEIGHT, RateVerdict, Rates};

/// What is known of UDP, in 20 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpHealth {
    pub(crate) state: UdpState,
    /// Advertised sessions in which QUIC did not come, since it last did.
    pub(crate) unanswered: u8,
    /// Probes in a row that failed.
    pub(crate) failed_probes: u8,
    /// Of a prefix: clients found throttled since one was found not to be.
    pub(crate) throttled_clients: u8,
    /// When HTTP/3 was last advertised with no answer so far; 0 when it was answered or given up.
    pub(crate) offered: Secs,
}

/// The state of UDP. Times are those of the last transition and of the next probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UdpState {
    /// QUIC has not been seen.
    #[default]
    Unknown,
    /// QUIC connections arrive and last.
    Working {
        /// Since when.
        since: Secs,
        /// When QUIC was last seen to work.
        seen: Secs,
    },
    /// A QUIC connection broke lately, or a probe of what was broken has just arrived.
    Suspect {
        /// Since when.
        since: Secs,
        /// Meanwhile QUIC carried a response over another connection.
        delivered: bool,
    },
    /// Advertised in several sessions, QUIC never came.
    NeverCame {
        /// Time of the next probe.
        next_probe: Secs,
    },
    /// QUIC connections broke again and again, or the client went back to TCP.
    Broken {
        /// Since when.
        since: Secs,
        /// Time of the next probe.
        next_probe: Secs,
    },
    /// QUIC delivers far less than TCP.
    Throttled {
        /// Since when.
        since: Secs,
        /// Time of the next probe.
        next_probe: Secs,
    },
}

/// Whether HTTP/3 may be advertised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing speaks against it; not seen to work.
    Unproven,
    /// It has worked since then.
    Works {
        /// Since when.
        since: Secs,
    },
    /// It may, with the shortest `ma`.
    Doubtful,
    /// It failed, and the time for a probe has come (or its session is going on).
    Probe(Failure),
    /// It must not.
    Failed(Failure),
}

/// A failure of UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// How it failed.
    pub kind: FailureKind,
    /// When that was found; for `NeverCame` not kept, and then the next probe's time.
    pub since: Secs,
    /// Time of the next probe.
    pub next_probe: Secs,
}

/// How UDP fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// QUIC never came.
    NeverCame {
        /// In so many advertised sessions.
        sessions: u8,
    },
    /// QUIC broke.
    Broken,
    /// QUIC is slowed down.
    Throttled,
}

impl UdpHealth {
    /// The state, without counters.
    #[must_use]
    pub const fn state(&self) -> UdpState {
        self.state
    }

    /// Whether HTTP/3 may be advertised at `now`.
    #[must_use]
    pub fn verdict(&self, now: Timestamp) -> Verdict {
        let now = Secs::from(now);
        if let Some(failure) = self.failure() {
            let due = now >= failure.next_probe || self.offered_lately(now);
            return if due {
                Verdict::Probe(failure)
            } else {
                Verdict::Failed(failure)
            };
        }
        match self.state {
            UdpState::Working { since, .. } if self.unanswered == 0 => Verdict::Works { since },
            UdpState::Working { .. } | UdpState::Suspect { .. } => Verdict::Doubtful,
            _ => Verdict::Unproven,
        }
    }

    pub(crate) const fn is_throttled(&self) -> bool {
        matches!(self.state, UdpState::Throttled { .. })
    }

    /// Whether an event was ever taken, so that the client may have been advertised HTTP/3.
    pub(crate) fn is_touched(&self) -> bool {
        *self != Self::default()
    }

    /// Takes note that QUIC carried a response: as good as another connection that arrives.
    pub(crate) fn on_delivered(&mut self, now: Secs) {
        match &mut self.state {
            UdpState::Working { seen, .. } => {
                *seen = now.max(*seen);
                self.unanswered = 0;
            }
            UdpState::Suspect { delivered, .. } => *delivered = true,
            _ => {}
        }
    }

    /// Whether QUIC was seen to work so lately that who does not come over it is not kept from it.
    fn came_lately(&self, now: Secs) -> bool {
        matches!(self.state, UdpState::Working { seen, .. } if now.since(seen) < LATELY)
    }

    /// Whether HTTP/3 was advertised within the time of a probe's session.
    pub(crate) fn offered_lately(&self, now: Secs) -> bool {
        self.offered != Secs::default() && now.since(self.offered) < PROBE_SESSION
    }

    fn failure(&self) -> Option<Failure> {
        let (kind, since, next_probe) = match self.state {
            UdpState::NeverCame { next_probe } => (
                FailureKind::NeverCame {
                    sessions: self.unanswered,
                },
                next_probe,
                next_probe,
            ),
            UdpState::Broken { since, next_probe } => (FailureKind::Broken, since, next_probe),
            UdpState::Throttled { since, next_probe } => {
                (FailureKind::Throttled, since, next_probe)
            }
            UdpState::Unknown | UdpState::Working { .. } | UdpState::Suspect { .. } => return None,
        };
        Some(Failure {
            kind,
            since,
            next_probe,
        })
    }

    /// Takes an event of a client.
    pub fn on_event(&mut self, event: UdpEvent, now: Timestamp, policy: &UdpPolicy) {
        let now = Secs::from(now);
        match event {
            UdpEvent::Advertised => self.on_advertised(now, policy),
            UdpEvent::SessionEnded => self.on_session_ended(now, policy),
            UdpEvent::Arrived => self.on_arrived(now),
            UdpEvent::Broke => self.on_broke(now, policy),
            UdpEvent::BackOnTcp => self.on_back_on_tcp(now, policy),
        }
    }

    fn on_advertised(&mut self, now: Secs, policy: &UdpPolicy) {
        // While HTTP/3 is withheld, what a connection still says is no probe; nor does a second response of
        // a probe's session prolong it.
        if self
            .failure()
            .is_some_and(|failure| now < failure.next_probe)
        {
            return;
        }
        self.offered = now;
        self.plan_probe(now, policy);
    }

    fn on_session_ended(&mut self, now: Secs, policy: &UdpPolicy) {
        if self.offered != Secs::default() {
            self.count_unanswered(now, policy);
        }
    }

    fn count_unanswered(&mut self, now: Secs, policy: &UdpPolicy) {
        self.offered = Secs::default();
        if self.came_lately(now) {
            return;
        }
        self.unanswered = self.unanswered.saturating_add(1);
        if self.failure().is_some() {
            self.failed_probes = self.failed_probes.saturating_add(1);
            self.plan_probe(now, policy);
        } else if self.unanswered >= policy.never_came_sessions {
            self.failed_probes = 0;
            self.state = UdpState::NeverCame {
                next_probe: now.saturating_add(policy.probe_min),
            };
        }
    }

    fn on_arrived(&mut self, now: Secs) {
        self.unanswered = 0;
        self.state = match self.state {
            // Only its rate tells whether it is throttled still; the probe's session goes on.
            UdpState::Throttled { .. } => return,
            UdpState::Broken { .. } => UdpState::suspect(now, false),
            UdpState::Suspect { since, .. } if now.since(since) < TRIAL => self.state,
            UdpState::Working { since, .. } => UdpState::Working { since, seen: now },
            UdpState::Unknown | UdpState::Suspect { .. } | UdpState::NeverCame { .. } => {
                UdpState::works_since(now)
            }
        };
        self.offered = Secs::default();
        self.failed_probes = 0;
    }

    fn on_broke(&mut self, now: Secs, policy: &UdpPolicy) {
        let probed = self.offered_lately(now);
        self.offered = Secs::default();
        match self.state {
            UdpState::Unknown => self.state = UdpState::suspect(now, false),
            UdpState::Working { seen, .. } => {
                self.state = UdpState::suspect(now, now.since(seen) < ALIVE);
            }
            UdpState::Suspect { since, .. } if now.since(since) > SUSPICION => {
                self.state = UdpState::suspect(now, false);
            }
            UdpState::NeverCame { .. } if probed => {
                self.failed_probes = self.failed_probes.saturating_add(1);
                self.plan_probe(now, policy);
            }
            UdpState::NeverCame { .. } => {}
            UdpState::Suspect { .. } | UdpState::Broken { .. } | UdpState::Throttled { .. } => {
                self.fail(now, policy);
            }
        }
    }

    fn on_back_on_tcp(&mut self, now: Secs, policy: &UdpPolicy) {
        if let UdpState::Suspect { since, delivered } = self.state
            && now.since(since) < BACK_ON_TCP
            && !delivered
        {
            self.fail(now, policy);
        }
    }

    fn fail(&mut self, now: Secs, policy: &UdpPolicy) {
        let since = match self.state {
            UdpState::Broken { since, .. } => since,
            _ => now,
        };
        self.offered = Secs::default();
        self.state = UdpState::Broken {
            since,
            next_probe: now.saturating_add(policy.probe_min),
        };
    }

    /// The time of the next probe as if the present one failed.
    fn plan_probe(&mut self, now: Secs, policy: &UdpPolicy) {
        match &mut self.state {
            UdpState::NeverCame { next_probe } => {
                let doubled = policy
                    .probe_min
                    .saturating_mul(1 << self.failed_probes.min(16));
                *next_probe = now.saturating_add(doubled.min(policy.probe_max));
            }
            UdpState::Broken { next_probe, .. } | UdpState::Throttled { next_probe, .. } => {
                *next_probe = now.saturating_add(policy.probe_min);
            }
            UdpState::Unknown | UdpState::Working { .. } | UdpState::Suspect { .. } => {}
        }
    }
}

impl UdpState {
    /// QUIC was first seen to work at `now`.
    const fn works_since(now: Secs) -> Self {
        Self::Working {
            since: now,
            seen: now,
        }
    }

    const fn suspect(since: Secs, delivered: bool) -> Self {
        Self::Suspect { since, delivered }
    }
}

/// How long it tells against blocked UDP that QUIC was seen to work. Some of those behind one address
/// cannot speak it, have it switched off, or keep a connection that they have.
const LATELY: Duration = Duration::from_secs(3600);
/// How long a probe's session may last until HTTP/3 is withdrawn again.
const PROBE_SESSION: Duration = Duration::from_secs(15 * 60);
/// After a break QUIC must last this long to count as working again.
const TRIAL: Duration = Duration::from_secs(10 * 60);
/// A second break within this time means that UDP is broken.
const SUSPICION: Duration = Duration::from_secs(3600);
/// A client that is back on TCP within this time of a break left because of it. Chromium takes 6.6-7.4 s
/// when UDP dies; a laptop that slept takes much longer.
const BACK_ON_TCP: Duration = Duration::from_secs(60);
/// QUIC that carried a response this shortly before a connection broke did so while that one was silent
/// already: others behind the same address go on.
const ALIVE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
