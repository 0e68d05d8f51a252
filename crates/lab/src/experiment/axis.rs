//! The axes of a sweep, and the cells that it gives.

use std::collections::BTreeMap;
use std::fmt;

use hikyaku_netsim::derive_seed;
use hikyaku_units::{ByteSize, LossRate, Rate, duration};
use serde::{Deserialize, Serialize};

use super::crowd::MAX_CLIENTS;
use super::link;

/// An axis of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// The link's rate, such as `50Mbps`.
    Rate,
    /// Share of packets that the link loses, such as `0.5%`.
    Loss,
    /// The link's delay in each direction, such as `25ms`.
    OneWayDelay,
    /// Round-trip time: twice the link's delay in each direction.
    Rtt,
    /// The link's jitter, such as `2ms`.
    Jitter,
    /// The link's queue: `50ms`, `64KiB`, `100 packets`, or `1bdp`, which is once rate × RTT.
    Queue,
    /// The link's treatment of UDP: `same`, `drop`, or a rate.
    Udp,
    /// Size of the workload's last file, such as `10MB`.
    Size,
    /// Number of copies of the workload's last file.
    Images,
    /// `get --connections`.
    Connections,
    /// Number of clients of a [`Kind::Crowd`](super::spec::Kind::Crowd).
    Clients,
    /// Name of one of [`Spec::networks`](super::spec::Spec::networks).
    Network,
    /// Name of a [`Pattern`](super::spec::Pattern).
    Pattern,
    /// Name of a [`Traffic`](super::spec::Traffic).
    Traffic,
    /// `policy.congestion` of the servers.
    Congestion,
    /// `policy.min_cwnd` of the servers.
    MinCwnd,
}

impl Axis {
    /// Name of the axis in files and records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Loss => "loss",
            Self::OneWayDelay => "one_way_delay",
            Self::Rtt => "rtt",
            Self::Jitter => "jitter",
            Self::Queue => "queue",
            Self::Udp => "udp",
            Self::Size => "size",
            Self::Images => "images",
            Self::Connections => "connections",
            Self::Clients => "clients",
            Self::Network => "network",
            Self::Pattern => "pattern",
            Self::Traffic => "traffic",
            Self::Congestion => "congestion",
            Self::MinCwnd => "min_cwnd",
        }
    }

    /// Checks a value and returns its fault.
    pub(super) fn check(self, value: &str) -> Result<(), String> {
        let text = |error: &dyn fmt::Display| error.to_string();
        match self {
            Self::Rate => value
                .parse::<Rate>()
                .map(drop)
                .map_err(|error| text(&error)),
            Self::Loss => value
                .parse::<LossRate>()
                .map(drop)
                .map_err(|error| text(&error)),
            Self::OneWayDelay | Self::Rtt | Self::Jitter => duration::parse(value)
                .map(drop)
                .map_err(|error| text(&error)),
            Self::Size => value
                .parse::<ByteSize>()
                .map(drop)
                .map_err(|error| text(&error)),
            Self::Queue => link::check_queue(value),
            Self::Udp => link::check_udp(value),
            Self::Clients => match value.parse() {
                Ok(1..=MAX_CLIENTS) => Ok(()),
                _ => Err(format!("`{value}` is not a number from 1 to {MAX_CLIENTS}")),
            },
            Self::Images | Self::Connections => match value.parse::<u16>() {
                Ok(1..) => Ok(()),
                _ => Err(format!("`{value}` is not a number from 1 to 65535")),
            },
            Self::Congestion | Self::MinCwnd if value.is_empty() => {
                Err("the value is empty".to_owned())
            }
            // The check of the whole experiment knows the names.
            Self::Network | Self::Congestion | Self::MinCwnd | Self::Pattern | Self::Traffic => {
                Ok(())
            }
        }
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A point of the sweep: one value of each axis, in the texts of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cell(pub BTreeMap<Axis, String>);

impl Cell {
    /// The value of an axis; `None` if the experiment does not sweep it.
    pub fn get(&self, axis: Axis) -> Option<&str> {
        self.0.get(&axis).map(String::as_str)
    }

    pub(super) fn with(&self, axis: Axis, value: &str) -> Self {
        let mut values = self.0.clone();
        values.insert(axis, value.to_owned());
        Self(values)
    }

    /// Returns the cell's number for seeds: the same values give the same number.
    pub(super) fn number(&self) -> u64 {
        let text = self.to_string();
        // The seed's own mixing makes a number of any sequence of words.
        let words: Vec<u64> = text.bytes().map(u64::from).collect();
        derive_seed(0, &words)
    }
}

/// Formats a cell as `loss 1%, rate 50Mbps`, or `-` without axes.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("-");
        }
        for (i, (axis, value)) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{axis} {value}")?;
        }
        Ok(())
    }
}

/// Returns `count` of the `cells`, chosen by `seed`, in their order.
pub(super) fn choose(cells: Vec<Cell>, count: Option<usize>, seed: u64) -> Vec<Cell> {
    let Some(count) = count else {
        return cells;
    };
    let mut order: Vec<usize> = (0..cells.len()).collect();
    order.sort_by_cached_key(|&i| derive_seed(seed, &[cells[i].number()]));
    order.truncate(count);
    order.sort_unstable();
    order.into_iter().map(|i| cells[i].clone()).collect()
}
