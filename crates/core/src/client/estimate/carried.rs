//! An estimate in as few bytes as a client carries in a session ticket.
//!
//! It has what a server needs to begin with: the path, the state of UDP, and the session with its choices.
//! How far the model is off is left out: it would take more room than all the rest.

use std::time::Duration;

use super::codec::{Udp, choice_bits, choice_of};
use super::{Estimate, LossCount, MinRtt, OpenRate};
use crate::choice::Session;
use crate::client::udp::{UdpHealth, UdpState};
use crate::codec::{DecodeError, Reader, Writer};
use crate::stat::Stat;
use hikyaku_units::Secs;
use hikyaku_units::arm::Transport;

/// Bytes of an estimate that a client carries.
pub const CARRIED_LEN: usize = 1 + FIELDS_LEN;

impl Estimate {
    /// The estimate as a client carries it; `None` where it says nothing of a path.
    #[must_use]
    pub fn carry(&self) -> Option<[u8; CARRIED_LEN]> {
        if self.samples < LEAST_SAMPLES {
            return None;
        }
        let mut bytes = [0; CARRIED_LEN];
        let to = &mut Writer::new(&mut bytes);
        to.u8(VERSION);
        to.u32(self.at.get());
        to.u32(self.session.0);
        to.fixed(self.samples.min(MOST_SAMPLES), COUNT_SCALE);
        to.u32(micros(self.min_rtt.get()));
        to.u32(self.srtt);
        for transport in Transport::ALL.map(Transport::index) {
            let loss = LossCount::default().joined(&self.loss[transport], MOST_PACKETS);
            to.fixed(loss.sent, COUNT_SCALE);
            to.fixed(loss.lost, COUNT_SCALE);
            let rate = &self.rate[transport];
            to.fixed(rate.mean, LOG_SCALE);
            to.u8((rate.var.sqrt() * SD_SCALE).round() as u8);
            to.fixed(rate.weight.min(MOST_RATES), RATES_SCALE);
            to.fixed(self.open_rate[transport].0, LOG_SCALE);
        }
        to.fixed(self.best_rate, LOG_SCALE);
        to.fixed(self.size, LOG_SCALE);
        to.u8((self.size_weight.min(MOST_RESPONSES) * RESPONSES_SCALE).round() as u8);
        self.carry_udp(to);
        to.u8(choice_bits(self.choice, &self.congestion));
        Some(bytes)
    }

    fn carry_udp(&self, to: &mut Writer<'_>) {
        let Udp { kind, since, then } = Udp::of(self.udp.state);
        to.u8(kind);
        to.u16(minutes(self.at.since(since)));
        // A probe is never made earlier than it was planned.
        let ahead = then.since(self.at).as_secs().div_ceil(60);
        let behind = u64::from(minutes(self.at.since(then)));
        let minutes = (u64::from(NOW) + ahead).saturating_sub(behind);
        to.u16(u16::try_from(minutes).unwrap_or(u16::MAX));
        to.u8(self.udp.unanswered);
        to.u8(self.udp.failed_probes);
    }

    /// Reads the output of [`Estimate::carry`]. Counts are bounded, so that what a client has carried is
    /// soon outweighed.
    ///
    /// # Errors
    /// When the bytes have another length or version.
    pub fn carried(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() != CARRIED_LEN {
            return Err(DecodeError::Length { len: bytes.len() });
        }
        let from = &mut Reader::new(bytes);
        let version = from.u8();
        if version != VERSION {
            return Err(DecodeError::Version { version });
        }
        let at = from.secs();
        let mut estimate = Self {
            at,
            session: Session(from.u32()),
            samples: from.fixed(COUNT_SCALE).min(MOST_SAMPLES),
            min_rtt: MinRtt {
                current: from.u32(),
                previous: 0,
                begun: at,
            },
            srtt: from.u32(),
            ..Self::default()
        };
        for transport in Transport::ALL.map(Transport::index) {
            let sent = from.fixed(COUNT_SCALE).min(MOST_PACKETS);
            let lost = from.fixed(COUNT_SCALE).min(sent);
            estimate.loss[transport] = LossCount { sent, lost };
            let (mean, sd) = (from.fixed(LOG_SCALE), f32::from(from.u8()) / SD_SCALE);
            estimate.rate[transport] = Stat {
                mean: mean.min(MAX_LOG),
                var: sd * sd,
                weight: from.fixed(RATES_SCALE).min(MOST_RATES),
            };
            estimate.open_rate[transport] = OpenRate(from.fixed(LOG_SCALE).min(MAX_LOG));
        }
        estimate.best_rate = from.fixed(LOG_SCALE).min(MAX_LOG);
        estimate.size = from.fixed(LOG_SCALE).min(MAX_LOG);
        estimate.size_weight = (f32::from(from.u8()) / RESPONSES_SCALE).min(MOST_RESPONSES);
        estimate.udp = carried_udp(from, at);
        // Choices that can't be read are not known.
        let (choice, congestion) = choice_of(from.u8(), at).unwrap_or_default();
        Ok(Self {
            choice,
            congestion,
            ..estimate
        })
    }

    /// This estimate of a client, with the parts of a `carried` one that it lacks.
    pub(crate) fn with_carried(&self, carried: &Self) -> Self {
        let or = |known: u32, other: u32| if known == 0 { other } else { known };
        let mut both = *self;
        both.samples += carried.samples;
        if self.min_rtt.get().is_none() {
            both.min_rtt = carried.min_rtt;
        }
        both.srtt = or(self.srtt, carried.srtt);
        for transport in Transport::ALL {
            let index = transport.index();
            both.loss[index] = self.loss[index].joined(&carried.loss[index], MOST_PACKETS);
            both.rate[index] = self.rate[index].joined(&carried.rate[index], MOST_RATES);
            if self.open_rate[index].get().is_none() {
                both.open_rate[index] = carried.open_rate[index];
            }
            let congestion = both.congestion.get_mut(transport);
            *congestion = congestion.or(*carried.congestion.get(transport));
        }
        both.best_rate = self.best_rate.max(carried.best_rate);
        if self.size_weight <= 0.0 {
            (both.size, both.size_weight) = (carried.size, carried.size_weight);
        }
        if self.udp.state == UdpState::Unknown {
            both.udp = UdpHealth {
                offered: self.udp.offered,
                ..carried.udp
            };
        }
        both.choice = self.choice.or(carried.choice);
        both
    }
}

fn carried_udp(from: &mut Reader<'_>, at: Secs) -> UdpHealth {
    let kind = from.u8();
    let since = ago(at, from.u16());
    let then = match from.u16() {
        ahead @ NOW.. => at.saturating_add(Duration::from_secs(u64::from(ahead - NOW) * 60)),
        behind => ago(at, NOW - behind),
    };
    let (unanswered, failed_probes) = (from.u8(), from.u8());
    let state = Udp { kind, since, then }.state();
    state.map_or_else(UdpHealth::default, |state| UdpHealth {
        state,
        unanswered,
        failed_probes,
        ..UdpHealth::default()
    })
}

fn ago(at: Secs, minutes: u16) -> Secs {
    Secs::new(at.get().saturating_sub(u32::from(minutes) * 60))
}

/// Whole minutes, at most 45 days.
fn minutes(time: Duration) -> u16 {
    u16::try_from(time.as_secs() / 60).unwrap_or(u16::MAX)
}

fn micros(time: Option<Duration>) -> u32 {
    let micros = time.unwrap_or_default().as_micros();
    u32::try_from(micros).unwrap_or(u32::MAX)
}

/// Raised with every change of the fields.
const VERSION: u8 = 1;
const FIELDS_LEN: usize = 4 + 4 + 2 + 4 + 4 + 2 * (2 + 2 + 2 + 1 + 2 + 2) + 2 + 2 + 1 + 7 + 1;
/// With the client's prefix, it takes at most 64 bytes of a ticket.
const _: () = assert!(CARRIED_LEN <= 56);
/// Fewer samples say nothing.
const LEAST_SAMPLES: f32 = 0.5;
/// A client's carried counts are worth as much at most: a session's.
const MOST_SAMPLES: f32 = 64.0;
const MOST_PACKETS: f32 = 1000.0;
const MOST_RATES: f32 = 4.0;
const MOST_RESPONSES: f32 = 8.0;
const COUNT_SCALE: f32 = 64.0;
const RATES_SCALE: f32 = 4096.0;
const RESPONSES_SCALE: f32 = 16.0;
/// Logarithms of rates and sizes, to 0.04 %.
const LOG_SCALE: f32 = 1400.0;
/// Above the logarithm of any rate that a `Rate` can hold (44.4).
const MAX_LOG: f32 = 45.0;
/// Standard deviations of logarithms, up to 5.
const SD_SCALE: f32 = 50.0;
/// Times after the last observation are above it, in minutes, and those before it below.
const NOW: u16 = 1 << 15;

#[cfg(test)]
mod tests;
