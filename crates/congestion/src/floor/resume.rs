//! Careful Resume (RFC 9959): what a connection over a known path may send before it has measured it.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use hikyaku_units::SavedPath;

/// The phase of a connection that may resume a known path.
///
/// Congestion is what the floor takes for congestion: a mark, or a loss with a queue.
#[derive(Clone, Copy, Debug)]
pub(super) enum Resume {
    /// Usual congestion control.
    Off,
    /// "Reconnaissance", before the first RTT.
    Unconfirmed(SavedPath),
    /// "Reconnaissance": the RTT agrees. The jump is deferred until more data is to be sent than the
    /// window permits (§3.2).
    Confirmed(SavedPath),
    /// "Unvalidated": a round trip since the jump.
    Unvalidated {
        /// The time of the jump.
        since: Instant,
        /// `PipeSize`: bytes in flight at the jump, and those acknowledged since.
        pipe: f64,
    },
    /// "Validating": until the last packet of the former phase is acknowledged.
    Validating {
        /// The time until which unvalidated packets were sent.
        until: Instant,
        /// As before.
        pipe: f64,
    },
    /// "Safe Retreat": until packets sent after the congestion are acknowledged.
    Retreat {
        /// The time of the congestion.
        since: Instant,
        /// As before.
        pipe: f64,
    },
}

/// The effect of acknowledgements on the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Validated {
    /// None.
    Nothing,
    /// "CWND MUST be set to the flight_size", or to `PipeSize` if that is not less.
    Window(f64),
    /// "ssthresh MUST be set to no larger than the most recently measured PipeSize * Beta".
    Threshold(f64),
}

impl Resume {
    /// Begins with the knowledge of a path.
    pub(super) fn new(known: Option<SavedPath>) -> Self {
        known.map_or(Self::Off, Self::Unconfirmed)
    }

    /// Takes in the first RTT. Returns whether it shows another path than the known one.
    ///
    /// RFC 9959 takes an RTT of at most half the known one for another path, and suspects one of
    /// more than ten times of it. This allows the double at most.
    pub(super) fn confirm(&mut self, rtt: Duration) -> bool {
        let Self::Unconfirmed(known) = *self else {
            return false;
        };
        let same = rtt > known.min_rtt / 2 && rtt <= known.min_rtt * 2;
        *self = if same {
            Self::Confirmed(known)
        } else {
            Self::Off
        };
        !same
    }

    /// Jumps, with `in_flight` bytes that fill the window. Returns the window: half of the known
    /// BDP.
    pub(super) fn jump(&mut self, now: Instant, in_flight: u64) -> Option<f64> {
        let Self::Confirmed(known) = *self else {
            return None;
        };
        *self = Self::Unvalidated {
            since: now,
            pipe: in_flight as f64,
        };
        Some(known.bdp.bytes() as f64 / 2.0)
    }

    /// Takes in `acked` bytes, the last of which were sent at `sent`. `flight` bytes were in flight
    /// before.
    pub(super) fn acked(
        &mut self,
        now: Instant,
        sent: Instant,
        acked: u64,
        flight: f64,
    ) -> Validated {
        let more = acked as f64;
        match self {
            Self::Off | Self::Unconfirmed(_) | Self::Confirmed(_) => {}
            Self::Unvalidated { since, pipe } if sent < *since => *pipe += more,
            Self::Unvalidated { pipe, .. } => {
                let pipe = *pipe + more;
                *self = if flight <= pipe {
                    Self::Off
                } else {
                    Self::Validating { until: now, pipe }
                };
                return Validated::Window(flight.max(pipe));
            }
            Self::Validating { until, pipe } => {
                *pipe += more;
                if sent >= *until {
                    *self = Self::Off;
                }
            }
            Self::Retreat { since, pipe } if sent <= *since => *pipe += more,
            Self::Retreat { pipe, .. } => {
                let threshold = *pipe * BETA;
                *self = Self::Off;
                return Validated::Threshold(threshold);
            }
        }
        Validated::Nothing
    }

    /// Retreats at congestion. Returns the window where a jump caused it: "CWND MUST be reduced to
    /// no more than (PipeSize/2)".
    pub(super) fn retreat(&mut self, now: Instant) -> Option<f64> {
        match *self {
            Self::Unvalidated { pipe, .. } | Self::Validating { pipe, .. } => {
                *self = Self::Retreat { since: now, pipe };
                Some(pipe / 2.0)
            }
            Self::Off | Self::Unconfirmed(_) | Self::Confirmed(_) => {
                *self = Self::Off;
                None
            }
            Self::Retreat { .. } => None,
        }
    }

    /// Whether the initial window is still the known path's.
    pub(super) const fn is_unconfirmed(&self) -> bool {
        matches!(self, Self::Unconfirmed(_))
    }
}

/// `Beta`: that of CUBIC, within the RFC's 0.5 to 1.
const BETA: f64 = 0.7;
