//! The knowledge of routes as bytes, for the store.
//!
//! Paths are written by their names: their places are those of one run of the server. A record consists
//! of its version, the names, each after its length, and the kept state of each choice. Then come the
//! time until which stalls are the client's own, the carriers, and a check.

use super::record::{CarrierStats, Kept, Record, StallCount, StalledBy};
use super::{Carrier, EgressId, EgressNames, EgressSet, MAX_EGRESSES, Wants};
use crate::client::estimate::LossCount;
use crate::codec::{CHECK_LEN, DecodeError, Reader, Writer, seal, unsealed};
use crate::stat::Stat;
use hikyaku_units::Secs;

impl Record {
    /// The record as bytes; [`Record::decode`] reads them. Paths without a name are left out.
    pub(super) fn encode(&self, names: &EgressNames) -> Box<[u8]> {
        let named: EgressSet = self
            .egresses()
            .filter(|egress| written(names, *egress))
            .collect();
        let names: Vec<&str> = named
            .iter()
            .filter_map(|egress| names.name(egress))
            .collect();
        let carriers: Vec<_> = self
            .carriers()
            .iter()
            .filter_map(|stats| Some((code(stats.carrier, named)?, stats)))
            .collect();
        let names_len: usize = names.iter().map(|name| 1 + name.len()).sum();
        let mut bytes = vec![0; FIXED_LEN + names_len + CARRIER_LEN * carriers.len()];
        let mut to = Writer::new(&mut bytes);
        to.u8(VERSION);
        to.u8(names.len() as u8);
        for name in names {
            to.u8(name.len() as u8);
            to.put(name.as_bytes());
        }
        for kept in self.kept {
            let egress = kept.egress.and_then(|egress| place_in(named, egress));
            to.u8(egress.map_or(0, |place| place + 1) | u8::from(kept.aggregated) << 7);
        }
        to.u32(self.blameless_until.get());
        for (code, stats) in carriers {
            to.u8(code);
            stats.write(&mut to);
        }
        seal(&mut bytes);
        bytes.into()
    }

    /// Reads the output of [`Record::encode`], without the carriers for which `keep` does not hold. Their egress routes
    /// get places in `names`; those for which there is none left are left out.
    pub(super) fn decode(
        bytes: &[u8],
        names: &mut EgressNames,
        keep: impl Fn(&CarrierStats) -> bool,
    ) -> Result<Self, DecodeError> {
        let mut from = Reader::new(unsealed(bytes, VERSION)?);
        let listed = read_names(&mut from)?;
        let mut kept = [(0, false); Wants::KEPT];
        for kept in &mut kept {
            let bits = from.u8();
            *kept = (usize::from(bits & 0x7f), bits & 0x80 != 0);
        }
        let blameless_until = from.secs();
        let mut read = Vec::new();
        while from.left() > 0 {
            if from.left() < CARRIER_LEN {
                return Err(DecodeError::Length { len: bytes.len() });
            }
            let (code, stats) = (from.u8(), CarrierStats::read(&mut from)?);
            if keep(&stats) {
                read.push((code, stats));
            }
        }
        let mut record = Self::default();
        record.blameless_until = blameless_until;
        for (code, stats) in read {
            if let Some(carrier) = carrier(code, &listed, names)? {
                record.put(CarrierStats { carrier, ..stats });
            }
        }
        if record.carriers().is_empty() {
            // A route that is kept to without knowledge is no reason to give an egress route a place.
            return Ok(record);
        }
        for (kept, (egress, aggregated)) in record.kept.iter_mut().zip(kept) {
            let place = egress.checked_sub(1);
            let name = place.map(|place| listed.get(place).copied().ok_or(NAME));
            let egress = name.transpose()?.and_then(|name| names.add(name));
            *kept = Kept { egress, aggregated };
        }
        Ok(record)
    }
}

impl CarrierStats {
    fn write(&self, to: &mut Writer<'_>) {
        to.u8(self.strikes);
        to.u16(self.stalled_by.0);
        to.u32(self.at.get());
        to.u32(self.avoided_until.get());
        for stat in self.goodput.iter().chain([&self.rtt]) {
            to.f32(stat.mean);
            to.f32(stat.var);
            to.f32(stat.weight);
        }
        self.loss.encode(to);
        let StallCount {
            stalls,
            stalled,
            observed,
        } = self.stalls;
        for count in [stalls, stalled, observed] {
            to.f32(count);
        }
    }

    /// Reads a carrier's record, without its carrier yet.
    fn read(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            strikes: from.u8(),
            stalled_by: StalledBy(from.u16()),
            at: from.secs(),
            avoided_until: from.secs(),
            stalled_at: Secs::default(),
            goodput: [
                read_stat(from, "goodput")?,
                read_stat(from, "sustained goodput")?,
            ],
            rtt: read_stat(from, "round-trip time")?,
            loss: LossCount::decode(from)?,
            stalls: StallCount {
                stalls: from.count("stall count")?,
                stalled: from.count("stalled time")?,
                observed: from.count("sending time")?,
            },
            ..Self::none(Carrier::PLAIN)
        })
    }
}

fn read_names<'a>(from: &mut Reader<'a>) -> Result<Vec<&'a str>, DecodeError> {
    let count = usize::from(from.u8());
    if count > MAX_EGRESSES {
        return Err(NAME);
    }
    let names = (0..count).map(|_| {
        let len = from.u8().into();
        let name = from.bytes(len).ok_or(NAME)?;
        std::str::from_utf8(name).map_err(|_| NAME)
    });
    names.collect()
}

fn read_stat(from: &mut Reader<'_>, field: &'static str) -> Result<Stat, DecodeError> {
    let mean = from.finite(field)?;
    if mean.abs() > MAX_LOG {
        return Err(DecodeError::Field { field });
    }
    Ok(Stat {
        mean,
        var: from.count(field)?,
        weight: from.count(field)?,
    })
}

fn written(names: &EgressNames, egress: EgressId) -> bool {
    let name = names.name(egress);
    name.is_some_and(|name| (1..=usize::from(u8::MAX)).contains(&name.len()))
}

/// An egress route's place among those that a record names.
fn place_in(named: EgressSet, egress: EgressId) -> Option<u8> {
    let place = named.iter().position(|other| other == egress)?;
    u8::try_from(place).ok()
}

/// A carrier as it is written: its route's place among those named, or its own number.
fn code(carrier: Carrier, named: EgressSet) -> Option<u8> {
    match carrier.as_egress() {
        Some(egress) => place_in(named, egress),
        None => Some(carrier.0),
    }
}

/// The carrier that was written so; `None` if there is no place for its egress route.
fn carrier(
    code: u8,
    listed: &[&str],
    names: &mut EgressNames,
) -> Result<Option<Carrier>, DecodeError> {
    if [Carrier::PLAIN, Carrier::AGGREGATE].contains(&Carrier(code)) {
        return Ok(Some(Carrier(code)));
    }
    let name = listed.get(usize::from(code)).ok_or(NAME)?;
    Ok(names.add(name).map(Carrier::egress))
}

/// Raised with every change of the fields.
const VERSION: u8 = 2;
const FIXED_LEN: usize = 1 + 1 + Wants::KEPT + 4 + CHECK_LEN;
const CARRIER_LEN: usize = 1 + 1 + 2 + 4 + 4 + 3 * 12 + 8 + 12;
/// Above the logarithm of any rate that a `Rate` can hold (44.4), and of any time.
const MAX_LOG: f32 = 45.0;
const NAME: DecodeError = DecodeError::Field { field: "path name" };
