//! Network links under virtual time.
//!
//! A [`Link`] is one direction of a network path. It is a drop-tail queue, which
//! may mark, in front of a transmitter with a given rate or a recorded trace. The
//! wire behind it adds propagation delay and jitter, and loses and reorders
//! packets. All properties may change while the link runs ([`LinkPatch`]), and
//! UDP may fare worse than the rest ([`UdpPolicy`]).
//!
//! The link knows no clock, socket or thread: the caller passes the time. So the
//! same link serves a simulation and a pump that moves real packets. In a
//! simulation a gigabyte takes seconds, and runs repeat bit for bit.
//!
//! ```
//! use std::time::Duration;
//! use hikyaku_units::{Rate, Timestamp};
//! use hikyaku_netsim::{Link, LinkConfig, Verdict};
//!
//! let config = LinkConfig {
//!     rate: Rate::from_mbps(12).into(),
//!     one_way_delay: Duration::from_millis(10),
//!     overhead: 0,
//!     ..LinkConfig::default()
//! };
//! let mut link = Link::new(&config, 1);
//! let sent = Timestamp::from_micros(0);
//! assert_eq!(link.enqueue(sent, 1500, "packet"), Verdict::Queued);
//!
//! // 1500 B take 1 ms at 12 Mbit/s, and then travel for 10 ms.
//! let due = Timestamp::from_micros(11_000);
//! assert_eq!(link.next_due(), Some(due));
//! assert_eq!(link.poll(due).unwrap().payload, "packet");
//! ```

#![forbid(unsafe_code)]

mod bottleneck;
mod config;
mod link;
mod loss;
mod packet;
mod patch;
mod rng;
mod text;
mod trace;
mod transmitter;
mod wire;

pub use config::{Capacity, Ecn, LinkConfig, Loss, QueueLimit, Reorder, UdpPolicy};
pub use link::Link;
pub use packet::{Counters, Delivery, Discard, Discarded, PacketInfo, Tally, Verdict};
pub use patch::{Change, LinkPatch};
pub use rng::derive_seed;
pub use text::ParseLinkError;
pub use trace::{Trace, TraceError};

/// Nanoseconds of a duration; beyond 584 years the largest value.
fn nanos(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The example of the README, as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
