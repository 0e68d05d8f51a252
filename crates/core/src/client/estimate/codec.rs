//! Estimates as bytes, for tables and the store.
//!
//! The fields in the order of the structure as little-endian numbers of a fixed length. A fading number is a
//! `f32`; the rest is kept in as few bits as it is known to.

use super::{
    ByTransport, Choice, Congestion, Estimate, MinRtt, OpenRate, Outcomes, Secs, Session, Stat,
    UdpHealth, Version,
};
use crate::client::estimate::LossCount;
use crate::client::udp::UdpState;
use crate::codec::{CHECK_LEN, DecodeError, Reader, Writer, seal, unsealed};
use hikyaku_units::arm::ARMS;

/// Length of an encoded estimate in bytes.
pub const ENCODED_LEN: usize = 1 + FIELDS_LEN + CHECK_LEN;

/// An estimate's fields as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed([u8; FIELDS_LEN]);

impl Packed {
    pub(crate) fn new(estimate: &Estimate) -> Self {
        let mut packed = Self([0; FIELDS_LEN]);
        estimate.write(&mut Writer::new(&mut packed.0));
        packed
    }

    /// The estimate; an empty one if these bytes were never one.
    pub(crate) fn estimate(&self) -> Estimate {
        Estimate::read(&mut Reader::new(&self.0)).unwrap_or_default()
    }
}

impl Estimate {
    /// The estimate as bytes; [`Estimate::decode`] reads them.
    #[must_use]
    pub fn encode(&self) -> [u8; ENCODED_LEN] {
        let mut bytes = [0; ENCODED_LEN];
        bytes[0] = VERSION;
        bytes[1..=FIELDS_LEN].copy_from_slice(&Packed::new(self).0);
        seal(&mut bytes);
        bytes
    }

    fn write(&self, to: &mut Writer<'_>) {
        to.u32(self.at.get());
        to.u32(self.session.0);
        to.f32(self.samples);
        to.u32(self.min_rtt.current);
        to.u32(self.min_rtt.previous);
        to.u32(self.min_rtt.begun.get());
        to.u32(self.srtt);
        for loss in &self.loss {
            loss.encode(to);
        }
        for rate in &self.rate {
            to.f32(rate.mean);
            to.fixed(rate.var.sqrt(), SD_SCALE);
            to.f32(rate.weight);
        }
        to.f32(self.best_rate);
        for rate in &self.open_rate {
            to.fixed(rate.0, LOG_SCALE);
        }
        for (mean, weight) in self.outcome.mean.iter().zip(self.outcome.weight) {
            to.fixed(mean + RATIO_OFFSET, RATIO_SCALE);
            to.f32(weight);
        }
        to.fixed(self.outcome.var.sqrt(), SD_SCALE);
        to.fixed(self.size, LOG_SCALE);
        to.f32(self.size_weight);
        let Udp { kind, since, then } = Udp::of(self.udp.state);
        to.u8(kind);
        to.u32(since.get());
        to.u32(then.get());
        to.u8(self.udp.unanswered);
        to.u8(self.udp.failed_probes);
        to.u8(self.udp.throttled_clients);
        to.u32(self.udp.offered.get());
        to.u8(choice_bits(self.choice, &self.congestion));
        to.u32(self.choice.map_or(0, |choice| choice.since.get()));
    }

    /// Reads the output of [`Estimate::encode`].
    ///
    /// # Errors
    /// When the bytes have another length or version, were changed, or hold impossible values.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let bytes: &[u8; ENCODED_LEN] = bytes
            .try_into()
            .map_err(|_| DecodeError::Length { len: bytes.len() })?;
        Self::read(&mut Reader::new(unsealed(bytes, VERSION)?))
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            at: from.secs(),
            session: Session(from.u32()),
            samples: from.count("sample count")?,
            min_rtt: MinRtt {
                current: from.u32(),
                previous: from.u32(),
                begun: from.secs(),
            },
            srtt: from.u32(),
            loss: [LossCount::decode(from)?, LossCount::decode(from)?],
            rate: [read_stat(from, "rate")?, read_stat(from, "rate")?],
            best_rate: from.count("best rate")?,
            open_rate: [
                OpenRate(from.fixed(LOG_SCALE)),
                OpenRate(from.fixed(LOG_SCALE)),
            ],
            outcome: read_outcomes(from)?,
            size: from.fixed(LOG_SCALE),
            size_weight: from.count("response count")?,
            udp: read_udp(from)?,
            ..read_choice(from)?
        })
    }
}

fn read_stat(from: &mut Reader<'_>, field: &'static str) -> Result<Stat, DecodeError> {
    let (mean, sd) = (from.finite(field)?, from.fixed(SD_SCALE));
    // Means are logarithms of rates in bit/s.
    if mean.abs() > MAX_LOG {
        return Err(DecodeError::Field { field });
    }
    Ok(Stat {
        mean,
        var: sd * sd,
        weight: from.count(field)?,
    })
}

fn read_outcomes(from: &mut Reader<'_>) -> Result<Outcomes, DecodeError> {
    let mut outcomes = Outcomes::default();
    for index in 0..ARMS {
        outcomes.mean[index] = from.fixed(RATIO_SCALE) - RATIO_OFFSET;
        outcomes.weight[index] = from.count("outcome")?;
    }
    outcomes.var = from.fixed(SD_SCALE).powi(2);
    Ok(outcomes)
}

fn read_udp(from: &mut Reader<'_>) -> Result<UdpHealth, DecodeError> {
    let udp = Udp {
        kind: from.u8(),
        since: from.secs(),
        then: from.secs(),
    };
    let field = "state of UDP";
    Ok(UdpHealth {
        state: udp.state().ok_or(DecodeError::Field { field })?,
        unanswered: from.u8(),
        failed_probes: from.u8(),
        throttled_clients: from.u8(),
        offered: from.secs(),
    })
}

/// A state of UDP in parts.
pub(super) struct Udp {
    /// A number for the state.
    pub(super) kind: u8,
    /// Since when it holds.
    pub(super) since: Secs,
    /// When it is probed next, or was last seen. For a suspicion that others speak against, once more since
    /// when.
    pub(super) then: Secs,
}

impl Udp {
    pub(super) fn of(state: UdpState) -> Self {
        let none = Secs::default();
        let (kind, since, then) = match state {
            UdpState::Unknown => (0, none, none),
            UdpState::Working { since, seen } => (1, since, seen),
            UdpState::Suspect { since, delivered } => {
                (2, since, if delivered { since } else { none })
            }
            UdpState::NeverCame { next_probe } => (3, none, next_probe),
            UdpState::Broken { since, next_probe } => (4, since, next_probe),
            UdpState::Throttled { since, next_probe } => (5, since, next_probe),
        };
        Self { kind, since, then }
    }

    /// The state; `None` if the number is of none.
    pub(super) fn state(&self) -> Option<UdpState> {
        let &Self { kind, since, then } = self;
        let next_probe = then;
        Some(match kind {
            0 => UdpState::Unknown,
            // Older records have no second time there.
            1 => UdpState::Working {
                since,
                seen: then.max(since),
            },
            2 => UdpState::Suspect {
                since,
                delivered: then != Secs::default(),
            },
            3 => UdpState::NeverCame { next_probe },
            4 => UdpState::Broken { since, next_probe },
            5 => UdpState::Throttled { since, next_probe },
            _ => return None,
        })
    }
}

/// Two bits each: the version, TCP's congestion control, QUIC's; 0 for none.
pub(super) fn choice_bits(
    choice: Option<Choice>,
    congestion: &ByTransport<Option<Congestion>>,
) -> u8 {
    let version = match choice.map(|choice| choice.version) {
        None => 0,
        Some(Version::H1 | Version::H2) => 1,
        Some(Version::H3) => 2,
    };
    let bits = |of: Option<Congestion>| of.map_or(0, |of| of as u8 + 1);
    version | bits(congestion.tcp) << 2 | bits(congestion.quic) << 4
}

/// An estimate of which only the choices are known.
fn read_choice(from: &mut Reader<'_>) -> Result<Estimate, DecodeError> {
    let (choice, congestion) = choice_of(from.u8(), from.secs())?;
    Ok(Estimate {
        choice,
        congestion,
        ..Estimate::default()
    })
}

/// The choices that [`choice_bits`] has written.
pub(super) fn choice_of(
    bits: u8,
    since: Secs,
) -> Result<(Option<Choice>, ByTransport<Option<Congestion>>), DecodeError> {
    let version = match bits & 3 {
        0 => None,
        1 => Some(Version::H2),
        2 => Some(Version::H3),
        _ => return Err(DecodeError::Field { field: "choice" }),
    };
    let congestion = |bits: u8| (bits > 0).then(|| Congestion::ALL[usize::from(bits) - 1]);
    let congestion = ByTransport {
        tcp: congestion(bits >> 2 & 3),
        quic: congestion(bits >> 4 & 3),
    };
    Ok((version.map(|version| Choice { version, since }), congestion))
}

/// Raised with every change of the fields.
const VERSION: u8 = 2;
const FIELDS_LEN: usize = 28 + 16 + 20 + 4 + 4 + 6 * ARMS + 2 + 6 + 16 + 5;
/// Above the logarithm of any rate that a `Rate` can hold (44.4).
const MAX_LOG: f32 = 45.0;
/// Logarithms of rates and sizes, to 0.04 %.
const LOG_SCALE: f32 = 1400.0;
/// Standard deviations of logarithms, half of whose range they can be at most.
const SD_SCALE: f32 = 2900.0;
/// Logarithms of ratios, from -2 to 2.
const RATIO_OFFSET: f32 = 2.0;
const RATIO_SCALE: f32 = 16_000.0;
