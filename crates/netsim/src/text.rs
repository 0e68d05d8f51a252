//! The text form of links, the same for TOML and JSON.

#[cfg(test)]
mod tests;
mod values;

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use hikyaku_units::{Rate, duration};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::config::{Capacity, Ecn, Loss, QueueLimit, Reorder, UdpPolicy};
use crate::patch::{Change, LinkPatch};
use crate::trace::Trace;

pub use values::ParseLinkError;

/// [`LinkPatch`] in its text form, where `rate` and `trace` are two keys.
#[derive(Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[derive(Default)]
pub(crate) struct PatchText {
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<RateText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<Trace>,
    #[serde(with = "duration::option", skip_serializing_if = "Option::is_none")]
    one_way_delay: Option<Duration>,
    #[serde(with = "duration::option", skip_serializing_if = "Option::is_none")]
    jitter: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<Loss>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reorder: Option<Reorder>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<QueueLimit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ecn: Option<Ecn>,
    #[serde(skip_serializing_if = "Option::is_none")]
    udp: Option<UdpPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    overhead: Option<u32>,
}

/// The error of a link with two capacities.
#[derive(Debug, thiserror::Error)]
#[error("`rate` and `trace` exclude each other: keep one of them")]
pub(crate) struct TwoCapacities;

impl TryFrom<PatchText> for LinkPatch {
    type Error = TwoCapacities;

    fn try_from(text: PatchText) -> Result<Self, TwoCapacities> {
        let rate = match (text.rate, text.trace) {
            (Some(_), Some(_)) => return Err(TwoCapacities),
            (Some(RateText::Unlimited), None) => Some(Capacity::Unlimited),
            (Some(RateText::Rate(rate)), None) => Some(Capacity::Rate(rate)),
            (None, trace) => trace.map(Capacity::Trace),
        };
        Ok(Self {
            rate,
            one_way_delay: text.one_way_delay,
            jitter: text.jitter,
            loss: text.loss,
            reorder: text.reorder,
            queue: text.queue,
            ecn: text.ecn,
            udp: text.udp,
            overhead: text.overhead,
        })
    }
}

impl From<LinkPatch> for PatchText {
    fn from(patch: LinkPatch) -> Self {
        let (rate, trace) = match patch.rate {
            None => (None, None),
            Some(Capacity::Unlimited) => (Some(RateText::Unlimited), None),
            Some(Capacity::Rate(rate)) => (Some(RateText::Rate(rate)), None),
            Some(Capacity::Trace(trace)) => (None, Some(trace)),
        };
        Self {
            rate,
            trace,
            one_way_delay: patch.one_way_delay,
            jitter: patch.jitter,
            loss: patch.loss,
            reorder: patch.reorder,
            queue: patch.queue,
            ecn: patch.ecn,
            udp: patch.udp,
            overhead: patch.overhead,
        }
    }
}

enum RateText {
    Unlimited,
    Rate(Rate),
}

impl Serialize for RateText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Unlimited => serializer.serialize_str("unlimited"),
            Self::Rate(rate) => rate.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for RateText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match &*Cow::<'de, str>::deserialize(deserializer)? {
            "unlimited" => Ok(Self::Unlimited),
            rate => rate.parse().map(Self::Rate).map_err(D::Error::custom),
        }
    }
}

impl Serialize for Trace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.opportunities_ms().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Trace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a list of times in ms, or the text of a trace")]
        enum Form {
            List(Vec<u64>),
            Text(String),
        }
        let trace = match Form::deserialize(deserializer)? {
            Form::List(opportunities_ms) => Self::new(opportunities_ms),
            Form::Text(text) => text.parse(),
        };
        trace.map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Change {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ChangeVisitor)
    }
}

/// Reads `at`, and hands all other keys to [`LinkPatch`], which rejects unknown
/// ones. Serde's own `flatten` would accept them.
struct ChangeVisitor;

impl<'de> Visitor<'de> for ChangeVisitor {
    type Value = Change;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of `at` and the properties to change")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Change, A::Error> {
        let mut at = None;
        let rest = WithoutAt { map, at: &mut at };
        let patch = LinkPatch::deserialize(MapAccessDeserializer::new(rest))?;
        let at = at.ok_or_else(|| A::Error::missing_field("at"))?;
        Ok(Change { at, patch })
    }
}

struct WithoutAt<'a, A> {
    map: A,
    at: &'a mut Option<Duration>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for WithoutAt<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(key) = self.map.next_key::<String>()? {
            if key != "at" {
                return seed.deserialize(key.into_deserializer()).map(Some);
            }
            let text = self.map.next_value::<Cow<'de, str>>()?;
            *self.at = Some(duration::parse(&text).map_err(A::Error::custom)?);
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}
