//! A decision in some 50 characters, for the access log: what it was made from, and what it gave. So it can
//! be made again by other settings.
//!
//! Only what decides about arms is kept. Times of UDP's failures and of the last choice set no more than
//! how long an advertisement holds, and are left out.

use std::time::Duration;

use super::{Decision, Treatment};
use crate::choice::{Assignment, Session};
use crate::client::estimate::{Choice, LossBounds};
use crate::client::udp::{Failure, FailureKind, Verdict};
use crate::client::view::{ClientView, client_number};
use crate::stat::Stat;
use hikyaku_units::arm::{ARMS, ByTransport, Congestion, CongestionSet, Version};
use hikyaku_units::{ByteSize, LossRate, Rate, Secs};

use std::net::IpAddr;

/// Why a text is no state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// It has a character that is not in the alphabet of base64url (RFC 4648 §5).
    #[error("reading a client's state: no base64url")]
    Alphabet,
    /// It is of another release.
    #[error("reading a client's state: of another release")]
    Release,
    /// It ends too early, or late, or holds a value that none is.
    #[error("reading a client's state: damaged")]
    Damaged,
}

/// The knowledge that a decision was made from, and its treatment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// The knowledge of the client, as far as it decides about arms.
    pub view: ClientView,
    /// The treatment that it gave.
    pub treatment: Treatment,
    /// The congestion controls that each transport had.
    pub available: ByTransport<CongestionSet>,
}

impl State {
    /// That of a decision.
    #[must_use]
    pub fn of(decision: &Decision) -> Self {
        Self {
            view: *decision.view(),
            treatment: Treatment::of(decision),
            available: decision.available,
        }
    }

    /// It as text, in base64url. Figures have two to three significant digits.
    #[must_use]
    pub fn code(&self) -> String {
        let view = &self.view;
        let available = self.available.tcp.bits() | self.available.quic.bits() << 3;
        let mut out = vec![RELEASE, treatment_number(&self.treatment), available];
        out.extend(view.session.0.to_be_bytes());
        out.extend(flags(view).to_be_bytes());
        let own_is_same = view.own_outcome == view.outcome;
        let known = |outcomes: &[Stat; ARMS]| {
            let bit = |(at, stat): (usize, &Stat)| u8::from(stat.weight > 0.0) << at;
            outcomes.iter().enumerate().map(bit).sum::<u8>()
        };
        let own = if own_is_same {
            OWN_IS_SAME
        } else {
            known(&view.own_outcome)
        };
        out.extend([known(&view.outcome), own]);
        put(&mut out, view.samples);
        let times = [view.min_rtt.map(|rtt| rtt.as_micros() as f32)];
        let rates = [view.rate, view.open_rate].map(|rate| rate.map(|r| r.bits_per_sec() as f32));
        let size = [view.size.map(|size| size.bytes() as f32)];
        let figures = times.into_iter().chain(rates).chain(size);
        figures.flatten().for_each(|figure| put(&mut out, figure));
        for loss in view.loss.iter().flatten() {
            for rate in [loss.mean, loss.low, loss.high] {
                put(&mut out, rate.ppm() as f32);
            }
        }
        let own = view.own_outcome.iter().filter(|_| !own_is_same);
        for stat in view
            .outcome
            .iter()
            .chain(own)
            .filter(|stat| stat.weight > 0.0)
        {
            for figure in [stat.mean, stat.var, stat.weight] {
                put(&mut out, figure);
            }
        }
        to_base64(&out)
    }

    /// That of a client which [`State::code`] has written.
    ///
    /// # Errors
    /// When the text is none of this release.
    pub fn parse(client: IpAddr, text: &str) -> Result<Self, StateError> {
        let bytes = from_base64(text).ok_or(StateError::Alphabet)?;
        let mut rest = bytes.as_slice();
        if take::<1>(&mut rest)? != [RELEASE] {
            return Err(StateError::Release);
        }
        let [treatment, available] = take(&mut rest)?;
        let session = Session(u32::from_be_bytes(take(&mut rest)?));
        let flags = u16::from_be_bytes(take(&mut rest)?);
        let [known, own] = take(&mut rest)?;
        let samples = figure(&mut rest)?;
        let mut optional = |bit: u16| match flags & bit {
            0 => Ok(None),
            _ => figure(&mut rest).map(Some),
        };
        let min_rtt = optional(HAS_RTT)?;
        let [rate, open_rate, size] = [
            optional(HAS_RATE)?,
            optional(HAS_OPEN_RATE)?,
            optional(HAS_SIZE)?,
        ];
        let loss = [
            loss(&mut rest, flags & HAS_LOSS_TCP)?,
            loss(&mut rest, flags & HAS_LOSS_QUIC)?,
        ];
        let outcome = outcomes(&mut rest, known)?;
        let own_outcome = match own {
            OWN_IS_SAME => outcome,
            known => outcomes(&mut rest, known)?,
        };
        if !rest.is_empty() {
            return Err(StateError::Damaged);
        }
        let rate_of = |bits: f32| Rate::from_bits_per_sec(bits as u64);
        let view = ClientView {
            client: client_number(client.to_canonical()),
            session,
            samples,
            min_rtt: min_rtt.map(|us| Duration::from_micros(us as u64)),
            srtt: None,
            loss,
            rate: rate.map(rate_of),
            open_rate: open_rate.map(rate_of),
            size: size.map(|bytes| ByteSize::from_bytes(bytes as u64)),
            udp: verdict(flags >> UDP & 7)?,
            udp_prefix: None,
            advertised: true,
            tcp_is_hidden: flags & TCP_IS_HIDDEN != 0,
            choice: version(flags >> CHOICE & 3).map(|version| Choice {
                version,
                since: Secs::default(),
            }),
            congestion: ByTransport {
                tcp: congestion(flags >> KEPT_TCP & 3),
                quic: congestion(flags >> KEPT_QUIC & 3),
            },
            outcome,
            own_outcome,
        };
        let treatment = treatment_of(treatment).ok_or(StateError::Damaged)?;
        Ok(Self {
            view,
            treatment,
            available: ByTransport {
                tcp: CongestionSet::from_bits(available),
                quic: CongestionSet::from_bits(available >> 3),
            },
        })
    }
}

fn flags(view: &ClientView) -> u16 {
    let has = |is_there: bool, bit: u16| if is_there { bit } else { 0 };
    let kept = |congestion: Option<Congestion>| congestion.map_or(0, |c| c.index() as u16 + 1);
    let chosen = view
        .choice
        .map_or(0, |choice| choice.version.index() as u16 + 1);
    has(view.min_rtt.is_some(), HAS_RTT)
        | has(view.rate.is_some(), HAS_RATE)
        | has(view.open_rate.is_some(), HAS_OPEN_RATE)
        | has(view.size.is_some(), HAS_SIZE)
        | has(view.loss[0].is_some(), HAS_LOSS_TCP)
        | has(view.loss[1].is_some(), HAS_LOSS_QUIC)
        | has(view.tcp_is_hidden, TCP_IS_HIDDEN)
        | verdict_number(&view.udp) << UDP
        | chosen << CHOICE
        | kept(view.congestion.tcp) << KEPT_TCP
        | kept(view.congestion.quic) << KEPT_QUIC
}

/// A bit for the assignment, two for the version and each congestion control.
const fn treatment_number(treatment: &Treatment) -> u8 {
    let Treatment {
        assignment,
        version,
        congestion,
    } = treatment;
    let number = assignment.index()
        | version.index() << 1
        | congestion.tcp.index() << 3
        | congestion.quic.index() << 5;
    number as u8
}

fn treatment_of(number: u8) -> Option<Treatment> {
    let at = |place: u8, mask: u8| usize::from(number >> place & mask);
    Some(Treatment {
        assignment: *Assignment::ALL.get(at(0, 1))?,
        version: *Version::ALL.get(at(1, 3))?,
        congestion: ByTransport {
            tcp: *Congestion::ALL.get(at(3, 3))?,
            quic: *Congestion::ALL.get(at(5, 3))?,
        },
    })
}

/// The upper half of a number in the format of IEEE 754: seven binary digits behind the first.
fn put(out: &mut Vec<u8>, figure: f32) {
    let rounded = figure.to_bits().saturating_add(0x8000);
    out.extend(((rounded >> 16) as u16).to_be_bytes());
}

fn figure(rest: &mut &[u8]) -> Result<f32, StateError> {
    let figure = f32::from_bits(u32::from(u16::from_be_bytes(take(rest)?)) << 16);
    if figure.is_finite() {
        Ok(figure)
    } else {
        Err(StateError::Damaged)
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], StateError> {
    let (first, others) = rest.split_first_chunk().ok_or(StateError::Damaged)?;
    *rest = others;
    Ok(*first)
}

fn loss(rest: &mut &[u8], is_there: u16) -> Result<Option<LossBounds>, StateError> {
    if is_there == 0 {
        return Ok(None);
    }
    let mut rate = || {
        let ppm = figure(rest)? as u32;
        LossRate::from_ppm(ppm.min(1_000_000)).ok_or(StateError::Damaged)
    };
    Ok(Some(LossBounds {
        mean: rate()?,
        low: rate()?,
        high: rate()?,
    }))
}

fn outcomes(rest: &mut &[u8], known: u8) -> Result<[Stat; ARMS], StateError> {
    let mut outcomes = [Stat::default(); ARMS];
    for (at, stat) in outcomes.iter_mut().enumerate() {
        if known >> at & 1 == 1 {
            let [mean, var, weight] = [figure(rest)?, figure(rest)?, figure(rest)?];
            if weight <= 0.0 || var < 0.0 {
                return Err(StateError::Damaged);
            }
            *stat = Stat { mean, var, weight };
        }
    }
    Ok(outcomes)
}

const fn verdict_number(verdict: &Verdict) -> u16 {
    match verdict {
        Verdict::Unproven => 0,
        Verdict::Works { .. } => 1,
        Verdict::Doubtful => 2,
        Verdict::Probe(failure) => match failure.kind {
            FailureKind::Throttled => 3,
            FailureKind::NeverCame { .. } | FailureKind::Broken => 4,
        },
        Verdict::Failed(_) => 5,
    }
}

fn verdict(number: u16) -> Result<Verdict, StateError> {
    let (since, next_probe) = (Secs::new(0), Secs::new(0));
    let failure = |kind| Failure {
        kind,
        since,
        next_probe,
    };
    Ok(match number {
        0 => Verdict::Unproven,
        1 => Verdict::Works { since },
        2 => Verdict::Doubtful,
        3 => Verdict::Probe(failure(FailureKind::Throttled)),
        4 => Verdict::Probe(failure(FailureKind::Broken)),
        5 => Verdict::Failed(failure(FailureKind::Broken)),
        _ => return Err(StateError::Damaged),
    })
}

/// The version by its place, from one; `None` for none.
fn version(number: u16) -> Option<Version> {
    Version::ALL
        .get(usize::from(number).checked_sub(1)?)
        .copied()
}

fn congestion(number: u16) -> Option<Congestion> {
    Congestion::ALL
        .get(usize::from(number).checked_sub(1)?)
        .copied()
}

fn to_base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk
            .iter()
            .fold(0u32, |sum, byte| sum << 8 | u32::from(*byte));
        let group = group << (8 * (3 - chunk.len()));
        for at in 0..=chunk.len() {
            let digit = group >> (18 - 6 * at) & 63;
            text.push(char::from(ALPHABET[digit as usize]));
        }
    }
    text
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut group, mut bits) = (0u32, 0);
    for letter in text.bytes() {
        let digit = ALPHABET.iter().position(|other| *other == letter)?;
        group = group << 6 | digit as u32;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((group >> bits & 255) as u8);
        }
    }
    Some(bytes)
}

/// The format, which changes with the fields.
const RELEASE: u8 = 1;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// The client's own outcomes are all that there are.
const OWN_IS_SAME: u8 = 255;

const HAS_RTT: u16 = 1;
const HAS_RATE: u16 = 1 << 1;
const HAS_OPEN_RATE: u16 = 1 << 2;
const HAS_SIZE: u16 = 1 << 3;
const HAS_LOSS_TCP: u16 = 1 << 4;
const HAS_LOSS_QUIC: u16 = 1 << 5;
const TCP_IS_HIDDEN: u16 = 1 << 6;
/// Places of numbers.
const UDP: u16 = 7;
const CHOICE: u16 = 10;
const KEPT_TCP: u16 = 12;
const KEPT_QUIC: u16 = 14;

#[cfg(test)]
mod tests;
