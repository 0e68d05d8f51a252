//! Changes of a link while it runs.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::{Capacity, Ecn, LinkConfig, Loss, QueueLimit, Reorder, UdpPolicy};
use crate::text::PatchText;

/// Changes of a link's properties. `None` keeps a property.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "PatchText", into = "PatchText")]
pub struct LinkPatch {
    /// New [`LinkConfig::rate`].
    pub rate: Option<Capacity>,
    /// New [`LinkConfig::one_way_delay`].
    pub one_way_delay: Option<Duration>,
    /// New [`LinkConfig::jitter`].
    pub jitter: Option<Duration>,
    /// New [`LinkConfig::loss`].
    pub loss: Option<Loss>,
    /// New [`LinkConfig::reorder`].
    pub reorder: Option<Reorder>,
    /// New [`LinkConfig::queue`].
    pub queue: Option<QueueLimit>,
    /// New [`LinkConfig::ecn`].
    pub ecn: Option<Ecn>,
    /// New [`LinkConfig::udp`].
    pub udp: Option<UdpPolicy>,
    /// New [`LinkConfig::overhead`].
    pub overhead: Option<u32>,
}

/// A change at some time after a start that is known later, such as the moment of
/// a request.
///
/// TOML and JSON use one table: `{ at = "4s", rate = "15Mbps" }`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Time after the start.
    #[serde(with = "hikyaku_units::duration")]
    pub at: Duration,
    /// The properties that change then.
    #[serde(flatten)]
    pub patch: LinkPatch,
}

impl LinkConfig {
    /// Changes the properties that the patch contains.
    pub fn apply(&mut self, patch: &LinkPatch) {
        set(&mut self.rate, &patch.rate);
        set(&mut self.one_way_delay, &patch.one_way_delay);
        set(&mut self.jitter, &patch.jitter);
        set(&mut self.loss, &patch.loss);
        set(&mut self.reorder, &patch.reorder);
        set(&mut self.queue, &patch.queue);
        set(&mut self.ecn, &patch.ecn);
        set(&mut self.udp, &patch.udp);
        set(&mut self.overhead, &patch.overhead);
    }
}

fn set<T: Clone>(field: &mut T, change: &Option<T>) {
    if let Some(value) = change {
        field.clone_from(value);
    }
}

/// Applies the patch to the default link.
impl From<LinkPatch> for LinkConfig {
    fn from(patch: LinkPatch) -> Self {
        let mut config = Self::default();
        config.apply(&patch);
        config
    }
}

/// Sets every property of the link.
impl From<LinkConfig> for LinkPatch {
    fn from(config: LinkConfig) -> Self {
        Self {
            rate: Some(config.rate),
            one_way_delay: Some(config.one_way_delay),
            jitter: Some(config.jitter),
            loss: Some(config.loss),
            reorder: Some(config.reorder),
            queue: Some(config.queue),
            ecn: Some(config.ecn),
            udp: Some(config.udp),
            overhead: Some(config.overhead),
        }
    }
}
