//! Properties with a notation of their own.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

use hikyaku_units::{ByteSize, LossRate, Rate, duration};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::config::{Ecn, Loss, QueueLimit, Reorder, UdpPolicy};

/// The error of reading a property's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("reading {what} from `{text}`: expected {expected}")]
pub struct ParseLinkError {
    what: &'static str,
    text: String,
    expected: &'static str,
}

impl FromStr for QueueLimit {
    type Err = ParseLinkError;

    fn from_str(text: &str) -> Result<Self, ParseLinkError> {
        let packets = text
            .strip_suffix("packets")
            .or_else(|| text.strip_suffix("packet"));
        let limit = if let Some(number) = packets {
            number.trim_end().parse().ok().map(Self::Packets)
        } else if let Ok(time) = duration::parse(text) {
            Some(Self::Time(time))
        } else if text.ends_with('B') {
            let size = text.parse::<ByteSize>().ok();
            size.map(|size| Self::Bytes(size.bytes()))
        } else {
            None
        };
        limit.ok_or_else(|| ParseLinkError {
            what: "a queue",
            text: text.chars().take(40).collect(),
            expected: "a time, a size or a number of packets, such as `50ms`, `150KiB` or `100 packets`",
        })
    }
}

impl fmt::Display for QueueLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Bytes(bytes) => ByteSize::from_bytes(bytes).fmt(f),
            Self::Packets(1) => f.write_str("1 packet"),
            Self::Packets(packets) => write!(f, "{packets} packets"),
            Self::Time(time) => duration::display(time).fmt(f),
        }
    }
}

impl Serialize for QueueLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for QueueLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

impl Serialize for Ecn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_str("off"),
            Self::Step(threshold) => duration::serialize(threshold, serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Ecn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match &*Cow::<'de, str>::deserialize(deserializer)? {
            "off" => Ok(Self::Off),
            threshold => duration::parse(threshold)
                .map(Self::Step)
                .map_err(D::Error::custom),
        }
    }
}

/// A property that is a text in its simple form and a table in its full form.
trait TextOrTable: Sized {
    /// The table form.
    type Table: for<'de> Deserialize<'de> + Into<Self>;
    /// The accepted forms, for messages.
    const EXPECTED: &'static str;

    fn from_text<E: Error>(text: &str) -> Result<Self, E>;
}

struct TextOrTableVisitor<T>(PhantomData<T>);

impl<'de, T: TextOrTable> Visitor<'de> for TextOrTableVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::from_text(text)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::Table::deserialize(MapAccessDeserializer::new(map)).map(Into::into)
    }
}

macro_rules! deserialize_text_or_table {
    ($($type:ty),*) => {$(
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(TextOrTableVisitor(PhantomData))
            }
        }
    )*};
}

deserialize_text_or_table!(Loss, Reorder, UdpPolicy);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GilbertElliottTable {
    p: LossRate,
    r: LossRate,
    #[serde(default)]
    good: LossRate,
    bad: LossRate,
}

impl From<GilbertElliottTable> for Loss {
    fn from(table: GilbertElliottTable) -> Self {
        Self::GilbertElliott {
            p_ppm: table.p.ppm(),
            r_ppm: table.r.ppm(),
            loss_good: table.good,
            loss_bad: table.bad,
        }
    }
}

impl TextOrTable for Loss {
    type Table = GilbertElliottTable;
    const EXPECTED: &'static str =
        "a loss rate such as `0.1%`, or a table of `p`, `r`, `good` and `bad`";

    fn from_text<E: Error>(text: &str) -> Result<Self, E> {
        match text.parse().map_err(E::custom)? {
            LossRate::ZERO => Ok(Self::None),
            rate => Ok(Self::Bernoulli(rate)),
        }
    }
}

impl Serialize for Loss {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::None => LossRate::ZERO.serialize(serializer),
            Self::Bernoulli(rate) => rate.serialize(serializer),
            Self::GilbertElliott {
                p_ppm,
                r_ppm,
                loss_good: good,
                loss_bad: bad,
            } => {
                let (p, r) = (chance(p_ppm), chance(r_ppm));
                GilbertElliottTable { p, r, good, bad }.serialize(serializer)
            }
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HoldBackTable {
    share: LossRate,
    #[serde(with = "duration")]
    extra_delay: Duration,
}

impl From<HoldBackTable> for Reorder {
    fn from(table: HoldBackTable) -> Self {
        Self::HoldBack {
            share_ppm: table.share.ppm(),
            extra_delay: table.extra_delay,
        }
    }
}

impl TextOrTable for Reorder {
    type Table = HoldBackTable;
    const EXPECTED: &'static str = "`off`, or a table of `share` and `extra_delay`";

    fn from_text<E: Error>(text: &str) -> Result<Self, E> {
        match text {
            "off" => Ok(Self::None),
            _ => Err(E::custom(ParseLinkError {
                what: "a reordering",
                text: text.chars().take(40).collect(),
                expected: Self::EXPECTED,
            })),
        }
    }
}

impl Serialize for Reorder {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::None => serializer.serialize_str("off"),
            Self::HoldBack {
                share_ppm,
                extra_delay,
            } => HoldBackTable {
                share: chance(share_ppm),
                extra_delay,
            }
            .serialize(serializer),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitTable {
    rate: Rate,
    queue: QueueLimit,
}

impl From<LimitTable> for UdpPolicy {
    fn from(table: LimitTable) -> Self {
        Self::Limit {
            rate: table.rate,
            queue: table.queue,
        }
    }
}

impl TextOrTable for UdpPolicy {
    type Table = LimitTable;
    const EXPECTED: &'static str =
        "`same`, `drop`, a rate such as `2Mbps`, or a table of `rate` and `queue`";

    fn from_text<E: Error>(text: &str) -> Result<Self, E> {
        match text {
            "same" => Ok(Self::Same),
            "drop" => Ok(Self::Drop),
            rate => Ok(Self::Limit {
                rate: rate.parse().map_err(|_| {
                    E::custom(ParseLinkError {
                        what: "a policy on UDP",
                        text: rate.chars().take(40).collect(),
                        expected: Self::EXPECTED,
                    })
                })?,
                queue: Self::LIMIT_QUEUE,
            }),
        }
    }
}

impl Serialize for UdpPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Same => serializer.serialize_str("same"),
            Self::Drop => serializer.serialize_str("drop"),
            Self::Limit { rate, queue } if queue == Self::LIMIT_QUEUE => rate.serialize(serializer),
            Self::Limit { rate, queue } => LimitTable { rate, queue }.serialize(serializer),
        }
    }
}

/// Probabilities are written as loss rates; values above 1 count as 1.
fn chance(ppm: u32) -> LossRate {
    LossRate::from_ppm(ppm).unwrap_or_else(|| LossRate::from_fraction(1.0))
}
