//! The observations of a prefix's routes by one edge.

use std::collections::BTreeMap;
use std::time::Duration;

use super::parts::{self, Part, Parts};
use crate::codec::{CHECK_LEN, DecodeError, Reader, Writer, seal, unsealed};
use crate::egress::record::Record;
use crate::egress::{Carrier, EgressNames};
use crate::fleet::{Codes, Head, Pop, Register};
use hikyaku_units::{Secs, Timestamp};

/// The observations of a prefix's routes by one edge, without all that it has learnt from others.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteContribution {
    pub(super) head: Head,
    pub(super) carriers: BTreeMap<Named, Parts>,
}

/// A carrier by a name that all edges know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Named {
    /// Plain, where that is no egress route or not known which.
    Plain,
    /// Several egress routes together.
    Aggregate,
    /// An egress route.
    Egress(Box<str>),
}

impl Named {
    fn of(carrier: Carrier, names: &EgressNames) -> Option<Self> {
        match carrier {
            Carrier::PLAIN => Some(Self::Plain),
            Carrier::AGGREGATE => Some(Self::Aggregate),
            _ => {
                let name = names.name(carrier.as_egress()?)?;
                let is_short = (1..=usize::from(u8::MAX)).contains(&name.len());
                is_short.then(|| Self::Egress(name.into()))
            }
        }
    }

    /// The carrier at this edge; `None` for an egress route that it does not have.
    pub(super) fn carrier(&self, names: &EgressNames) -> Option<Carrier> {
        match self {
            Self::Plain => Some(Carrier::PLAIN),
            Self::Aggregate => Some(Carrier::AGGREGATE),
            Self::Egress(name) => names.id(name).map(Carrier::egress),
        }
    }

    /// Empty for carriers that are no egress route.
    fn name(&self) -> &str {
        match self {
            Self::Plain | Self::Aggregate => "",
            Self::Egress(name) => name,
        }
    }

    fn write(&self, to: &mut Writer<'_>) {
        to.u8(match self {
            Self::Plain => 0,
            Self::Aggregate => 1,
            Self::Egress(_) => 2,
        });
        to.u8(self.name().len() as u8);
        to.put(self.name().as_bytes());
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let (kind, len) = (from.u8(), from.u8().into());
        let name = std::str::from_utf8(from.bytes(len)?).ok()?;
        match (kind, name) {
            (0, "") => Some(Self::Plain),
            (1, "") => Some(Self::Aggregate),
            (2, name) if !name.is_empty() => Some(Self::Egress(name.into())),
            _ => None,
        }
    }
}

impl RouteContribution {
    /// The contribution of an edge of `pop` whose own observations made this record of a prefix; `None`
    /// where it has no carrier with a name.
    pub(in crate::egress) fn of(
        own: &Record,
        pop: Pop,
        names: &EgressNames,
        half_life: Duration,
    ) -> Option<Self> {
        let at = own.newest()?;
        let carriers = own.carriers().iter().filter_map(|stats| {
            let mut stats = *stats;
            stats.fade_to(at, half_life);
            Some((Named::of(stats.carrier, names)?, parts::of(&stats)))
        });
        let carriers: BTreeMap<_, _> = carriers.collect();
        let head = Head { pop, at };
        (!carriers.is_empty() && at != Secs::default()).then_some(Self { head, carriers })
    }
}

impl Register for RouteContribution {
    /// A version, the PoP, the time, each carrier with its name and the parts that are there, and a check.
    fn encode(&self) -> Box<[u8]> {
        let coded: Vec<(&Named, [Codes; Part::ALL.len()])> = self
            .carriers
            .iter()
            .map(|(name, parts)| {
                let codes =
                    Part::ALL.map(|part| Codes::of(&parts[part as usize], &part.bounds(), 0.0));
                (name, codes)
            })
            .collect();
        let present = |codes: &[Codes]| {
            let present = Part::ALL.into_iter().zip(codes);
            let present = present.filter(|(_, codes)| !codes.is_empty());
            present.map(|(part, _)| part).collect::<Vec<_>>()
        };
        let len = |(name, codes): &(&Named, [Codes; Part::ALL.len()])| {
            let parts = present(codes).into_iter();
            let parts = parts.map(|part| part.bounds().encoded_len());
            CARRIER_LEN + name.name().len() + parts.sum::<usize>()
        };
        let carriers: usize = coded.iter().map(len).sum();
        let mut bytes = vec![0; 2 + Head::LEN + carriers + CHECK_LEN];
        let mut to = Writer::new(&mut bytes);
        to.u8(VERSION);
        self.head.write(&mut to);
        to.u8(coded.len() as u8);
        for (name, codes) in &coded {
            let present = present(codes);
            name.write(&mut to);
            to.u8(present.iter().fold(0, |bits, part| bits | 1 << *part as u8));
            for part in present {
                codes[part as usize].write(&part.bounds(), &mut to);
            }
        }
        seal(&mut bytes);
        bytes.into()
    }

    fn decode(bytes: &[u8], now: Timestamp) -> Result<Self, DecodeError> {
        let mut from = Reader::new(unsealed(bytes, VERSION)?);
        let head = Head::read(&mut from, now)?;
        let length = DecodeError::Length { len: bytes.len() };
        let count = usize::from(from.u8());
        let mut carriers = BTreeMap::new();
        for _ in 0..count.min(Carrier::COUNT) {
            let name = Named::read(&mut from).ok_or(NAME)?;
            let bits = from.u8();
            let mut parts = Parts::default();
            for part in Part::ALL {
                let bounds = part.bounds();
                if bits & 1 << part as u8 == 0 {
                    continue;
                }
                if from.left() < bounds.encoded_len() {
                    return Err(length);
                }
                parts[part as usize] = Codes::read(&bounds, &mut from).moments(&bounds, 0.0);
            }
            if bits >> Part::ALL.len() != 0 || carriers.insert(name, parts).is_some() {
                return Err(NAME);
            }
        }
        if from.left() > 0 || count > Carrier::COUNT {
            return Err(length);
        }
        Ok(Self { head, carriers })
    }

    fn at(&self) -> Secs {
        self.head.at
    }
}

/// Raised with every change of the parts or their bounds.
const VERSION: u8 = 1;
/// Length of a carrier without its name and parts: its kind, the length of the name, and the parts' bits.
const CARRIER_LEN: usize = 3;
const NAME: DecodeError = DecodeError::Field { field: "carrier" };
