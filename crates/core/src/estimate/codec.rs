//! Estimates as bytes, for the store.
//!
//! One version byte, the fields in the order of the structure as little-endian numbers, and a check
//! over both. The length is fixed. A record of another version is refused: knowledge is cheap to gain
//! again, and a wrong reading of it is not.

use super::{
    Choice, Congestion, Estimate, LossCount, MinRtt, Secs, Session, Stat, UdpHealth, Version,
};
use crate::mix::mix;
use crate::udp::UdpState;

/// Length of an encoded estimate in bytes.
pub const ENCODED_LEN: usize = 1 + FIELDS_LEN + CHECK_LEN;

/// Why bytes are no estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The record is shorter or longer than any of this version.
    #[error("decoding an estimate: {len} bytes instead of {ENCODED_LEN}")]
    Length {
        /// Length found.
        len: usize,
    },
    /// Another release wrote it.
    #[error("decoding an estimate: format version {version} instead of {VERSION}")]
    Version {
        /// Version found.
        version: u8,
    },
    /// The check differs: bytes were changed.
    #[error("decoding an estimate: check failed")]
    Check,
    /// A field has a value that is never written.
    #[error("decoding an estimate: impossible {field}")]
    Field {
        /// The field.
        field: &'static str,
    },
}

impl Estimate {
    /// The estimate as bytes; [`Estimate::decode`] reads them.
    #[must_use]
    pub fn encode(&self) -> [u8; ENCODED_LEN] {
        let mut bytes = [0; ENCODED_LEN];
        bytes[0] = VERSION;
        let mut writer = Writer {
            bytes: &mut bytes,
            at: 1,
        };
        self.write(&mut writer);
        let check = check(&bytes[..ENCODED_LEN - CHECK_LEN]);
        bytes[ENCODED_LEN - CHECK_LEN..].copy_from_slice(&check);
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
            to.f32(loss.sent);
            to.f32(loss.lost);
        }
        for stat in self.rate.iter().chain(&self.outcome) {
            to.f32(stat.mean);
            to.f32(stat.var);
            to.f32(stat.weight);
        }
        to.f32(self.best_rate);
        to.f32(self.size);
        to.f32(self.size_weight);
        let (kind, since, next_probe) = udp_parts(self.udp.state);
        to.u8(kind);
        to.u32(since.get());
        to.u32(next_probe.get());
        to.u8(self.udp.unanswered);
        to.u8(self.udp.failed_probes);
        to.u8(self.udp.throttled_clients);
        to.u32(self.udp.offered.get());
        to.u8(self.choice.map_or(
            0,
            |choice| if choice.version == Version::H3 { 3 } else { 2 },
        ));
        to.u32(self.choice.map_or(0, |choice| choice.since.get()));
        to.u8(match self.congestion {
            None => 0,
            Some(Congestion::Cubic) => 1,
            Some(Congestion::Bbr) => 2,
        });
    }

    /// Reads what [`Estimate::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes have another length or version, were changed, or hold impossible values.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let bytes: &[u8; ENCODED_LEN] = bytes
            .try_into()
            .map_err(|_| DecodeError::Length { len: bytes.len() })?;
        if bytes[0] != VERSION {
            return Err(DecodeError::Version { version: bytes[0] });
        }
        let (body, found) = bytes.split_at(ENCODED_LEN - CHECK_LEN);
        if check(body) != found {
            return Err(DecodeError::Check);
        }
        Self::read(&mut Reader { bytes: &body[1..] })
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
            loss: [read_loss(from)?, read_loss(from)?],
            rate: [read_stat(from, "rate")?, read_stat(from, "rate")?],
            outcome: [read_stat(from, "outcome")?, read_stat(from, "outcome")?],
            best_rate: from.count("best rate")?,
            size: from.finite("response size")?,
            size_weight: from.count("response count")?,
            udp: read_udp(from)?,
            choice: read_choice(from)?,
            congestion: match from.u8() {
                0 => None,
                1 => Some(Congestion::Cubic),
                2 => Some(Congestion::Bbr),
                _ => {
                    return Err(DecodeError::Field {
                        field: "congestion control",
                    });
                }
            },
        })
    }
}

fn read_loss(from: &mut Reader<'_>) -> Result<LossCount, DecodeError> {
    let (sent, lost) = (from.count("packet count")?, from.count("packet count")?);
    if lost > sent {
        return Err(DecodeError::Field {
            field: "packet count",
        });
    }
    Ok(LossCount { sent, lost })
}

fn read_stat(from: &mut Reader<'_>, field: &'static str) -> Result<Stat, DecodeError> {
    let (mean, var) = (from.finite(field)?, from.count(field)?);
    // Means are logarithms of rates in bit/s and of ratios.
    if mean.abs() > MAX_LOG {
        return Err(DecodeError::Field { field });
    }
    Ok(Stat {
        mean,
        var,
        weight: from.count(field)?,
    })
}

fn read_udp(from: &mut Reader<'_>) -> Result<UdpHealth, DecodeError> {
    let (kind, since, next_probe) = (from.u8(), from.secs(), from.secs());
    let state = match kind {
        0 => UdpState::Unknown,
        1 => UdpState::Working { since },
        2 => UdpState::Suspect { since },
        3 => UdpState::NeverCame { next_probe },
        4 => UdpState::Broken { since, next_probe },
        5 => UdpState::Throttled { since, next_probe },
        _ => {
            return Err(DecodeError::Field {
                field: "state of UDP",
            });
        }
    };
    Ok(UdpHealth {
        state,
        unanswered: from.u8(),
        failed_probes: from.u8(),
        throttled_clients: from.u8(),
        offered: from.secs(),
    })
}

fn udp_parts(state: UdpState) -> (u8, Secs, Secs) {
    let none = Secs::default();
    match state {
        UdpState::Unknown => (0, none, none),
        UdpState::Working { since } => (1, since, none),
        UdpState::Suspect { since } => (2, since, none),
        UdpState::NeverCame { next_probe } => (3, none, next_probe),
        UdpState::Broken { since, next_probe } => (4, since, next_probe),
        UdpState::Throttled { since, next_probe } => (5, since, next_probe),
    }
}

fn read_choice(from: &mut Reader<'_>) -> Result<Option<Choice>, DecodeError> {
    let (version, since) = (from.u8(), from.secs());
    Ok(match version {
        0 => None,
        2 => Some(Choice {
            version: Version::H2,
            since,
        }),
        3 => Some(Choice {
            version: Version::H3,
            since,
        }),
        _ => return Err(DecodeError::Field { field: "choice" }),
    })
}

/// A check against accidents, not against attackers: who can write the store owns the server.
fn check(bytes: &[u8]) -> [u8; CHECK_LEN] {
    let sum = bytes.chunks(8).fold(bytes.len() as u64, |sum, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(sum ^ u64::from_le_bytes(word))
    });
    let [a, b, c, d, ..] = sum.to_le_bytes();
    [a, b, c, d]
}

struct Writer<'a> {
    bytes: &'a mut [u8; ENCODED_LEN],
    at: usize,
}

impl Writer<'_> {
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes[self.at..self.at + N].copy_from_slice(&bytes);
        self.at += N;
    }

    fn u8(&mut self, value: u8) {
        self.put([value]);
    }

    fn u32(&mut self, value: u32) {
        self.put(value.to_le_bytes());
    }

    fn f32(&mut self, value: f32) {
        self.put(value.to_le_bytes());
    }
}

/// Reads fields one after the other; the record's length is already checked.
struct Reader<'a> {
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let Some((taken, rest)) = self.bytes.split_first_chunk() else {
            return [0; N];
        };
        self.bytes = rest;
        *taken
    }

    fn u8(&mut self) -> u8 {
        let [byte] = self.take();
        byte
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn secs(&mut self) -> Secs {
        Secs::new(self.u32())
    }

    fn finite(&mut self, field: &'static str) -> Result<f32, DecodeError> {
        let value = f32::from_le_bytes(self.take());
        if value.is_finite() {
            Ok(value)
        } else {
            Err(DecodeError::Field { field })
        }
    }

    fn count(&mut self, field: &'static str) -> Result<f32, DecodeError> {
        self.finite(field).and_then(|value| {
            if value >= 0.0 {
                Ok(value)
            } else {
                Err(DecodeError::Field { field })
            }
        })
    }
}

/// Raised with every change of the fields.
const VERSION: u8 = 1;
const FIELDS_LEN: usize = 28 + 16 + 48 + 12 + 16 + 5 + 1;
const CHECK_LEN: usize = 4;
/// Above the logarithm of any rate that a `Rate` can hold (44.4).
const MAX_LOG: f32 = 45.0;
