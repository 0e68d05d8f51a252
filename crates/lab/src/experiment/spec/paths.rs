//! Keys of experiments over several paths.

use std::time::Duration;

use hikyaku_units::{ByteSize, Rate, duration};
use serde::Deserialize;

use super::one;

/// The links of the test bed `epe`, as keys of a link. Keys of [`Spec::link`](super::Spec) apply
/// where a pattern has none.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pattern {
    /// Link by transit A, which BGP prefers.
    pub a: toml::Table,
    /// Link by transit B.
    pub b: toml::Table,
    /// Changes of the links in mid-transfer, at [`Traffic::change_at`].
    pub then: Then,
    /// Event of transit A at that time.
    pub event: Option<Event>,
    /// Whether the borders know the capacity of their ports: the rates of the links.
    pub ports: bool,
}

/// An event in mid-transfer, on the path by transit A unless noted otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The path no longer carries packets to the client, and no program is notified.
    Blackhole,
    /// The BGP session of transit A with the border ends.
    PeerDown,
    /// The border drains the path.
    Drain,
    /// The border drains the path and ends that, repeatedly.
    Flap,
    /// The operator moves all clients to the path by transit B; transit A is unchanged.
    Policy,
    /// The link by transit A stops for 120 ms in both directions, repeatedly at an interval, and
    /// keeps its packets. Radio links that look for other cells do the same.
    Pause,
    /// Both links pause together, as the client's own link would.
    PauseAll,
    /// The border forwards no packet of the content AS any more. Its BGP sessions stay up.
    DeadBorder,
    /// The cable between border 2 and the content AS is pulled, on the path by transit B.
    UnpluggedBorder,
}

/// The programs that choose BGP's best path on the borders of [`Kind::Paths`](super::Kind::Paths).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Borders {
    /// The egress agents themselves. All routes have the same LOCAL_PREF.
    #[default]
    Agents,
    /// FRR beside the agents, with sessions of its own. It gives the routes of transit A
    /// LOCAL_PREF 110, although their AS path is the longer one.
    Frr,
}

/// Length of a [pause](Event::Pause) of a link.
pub(crate) const PAUSE: Duration = Duration::from_millis(120);

/// Keys of the links of a [`Pattern`] that change in mid-transfer, in both directions.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Then {
    /// Keys of the link by transit A.
    pub a: toml::Table,
    /// Keys of the link by transit B.
    pub b: toml::Table,
}

/// The traffic of a client of [`Kind::Paths`](super::Kind::Paths). It is a file of a `size`, or a
/// stream of a constant `rate` for a `duration`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// Name of the traffic on the axis.
    pub name: String,
    /// Size of the file; with the axis `connections` that of all files together.
    pub size: Option<ByteSize>,
    /// Extension of the file's name, by which the server knows its class of content. Default `bin`.
    #[serde(default = "bin")]
    pub extension: String,
    /// Number of requests for the file, one after the other on one connection. Default 1.
    #[serde(default = "one")]
    pub requests: u32,
    /// Time between two of them.
    #[serde(default, with = "duration")]
    pub pause: Duration,
    /// Rate of the content, as an encoder makes it. A client that has fallen behind gets the missed
    /// content as fast as it can.
    pub rate: Option<Rate>,
    /// Duration of the stream.
    #[serde(default, with = "duration::option")]
    pub duration: Option<Duration>,
    /// Time of the changes by [`Pattern::then`], from the client's start on. It is also the time
    /// between the begins of two pauses.
    #[serde(default, with = "duration::option")]
    pub change_at: Option<Duration>,
}

fn bin() -> String {
    "bin".to_owned()
}

/// The training in a session of the warm-up, so that a server learns from a network's visitors.
/// Neighbours of the client load a file, one after the other and each for the first time.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// Size of the file.
    pub size: ByteSize,
    /// Number of neighbours, at most 65,535.
    pub visits: u16,
}

/// Clients that load the first traffic's file over and over, in place of one that loads it once.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Visitors {
    /// Number of clients, each a network of its own, 1 to 100.
    pub clients: u16,
    /// Time in which visits begin. The second half counts for the loads of the links.
    #[serde(with = "duration")]
    pub duration: Duration,
    /// Time between a client's visits.
    #[serde(default, with = "duration")]
    pub pause: Duration,
    /// Time over which the clients come, evenly. Default: that of a pause.
    #[serde(default, with = "duration::option")]
    pub arrive: Option<Duration>,
    /// Rates of the link by transit A, one after the other.
    #[serde(default)]
    pub decay: Vec<Rate>,
    /// Time between two of them.
    #[serde(default, with = "duration")]
    pub step: Duration,
}

impl Visitors {
    /// When the link by transit A becomes slower than `other`; `None` where it never does.
    pub(crate) fn worse_at(&self, other: Rate) -> Option<Duration> {
        let step = self.decay.iter().position(|rate| *rate < other)?;
        Some(self.step * (step as u32 + 1))
    }
}
