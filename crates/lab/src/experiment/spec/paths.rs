//! What experiments over several paths have of their own.

use std::time::Duration;

use hikyaku_units::{ByteSize, Rate, duration};
use serde::Deserialize;

/// The links of the test bed `epe`: keys of [`Spec::link`](super::Spec), which hold where a pattern says
/// nothing else.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pattern {
    /// By transit A, which BGP prefers.
    pub a: toml::Table,
    /// By transit B.
    pub b: toml::Table,
    /// What changes in mid-transfer, at [`Traffic::change_at`].
    pub then: Then,
    /// What happens to transit A then.
    pub event: Option<Event>,
}

/// What happens in mid-transfer, to the path by transit A unless it says something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// Nothing comes to the client by it any more, and nobody is told.
    Blackhole,
    /// Its BGP session with the border ends.
    PeerDown,
    /// Its border drains it.
    Drain,
    /// Its border drains it and ends that, again and again.
    Flap,
    /// Nothing, but the operator has everybody use the path by transit B.
    Policy,
    /// Its link stops for 120 ms in both directions, again and again after so long, and keeps what it
    /// has: as radio links do that look for other cells.
    Pause,
    /// The same, together with the link by transit B: what pauses is the client's own.
    PauseAll,
}

/// How long links stop that [pause](Event::Pause).
pub(crate) const PAUSE: Duration = Duration::from_millis(120);

/// Keys of the links of a [`Pattern`] that change in mid-transfer, in both directions.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Then {
    /// By transit A.
    pub a: toml::Table,
    /// By transit B.
    pub b: toml::Table,
}

/// What a client of [`Kind::Paths`](super::Kind::Paths) loads: a file of a `size`, or a stream of a constant `rate`
/// for a `duration`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// Its name on the axis.
    pub name: String,
    /// Size of the file, or with the axis `connections` of all files together.
    pub size: Option<ByteSize>,
    /// Bytes of content in a time, as an encoder makes them: a client that has fallen behind
    /// gets what it missed as fast as it can.
    pub rate: Option<Rate>,
    /// How long the stream lasts.
    #[serde(default, with = "duration::option")]
    pub duration: Option<Duration>,
    /// When the links change as [`Pattern::then`] says, from the client's start on; and the time between
    /// the beginnings of two pauses.
    #[serde(default, with = "duration::option")]
    pub change_at: Option<Duration>,
}

/// What a session of the warm-up does, so that a server learns what it does of a network's visitors:
/// neighbours of the client load a file, one after the other and each for the first time.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// Size of the file.
    pub size: ByteSize,
    /// How many they are, at most 65,535.
    pub visits: u16,
}
