//! Network links under virtual time.
//!
//! A [`Link`] is one direction of a path: a drop-tail queue, which may mark, in
//! front of a transmitter of a given rate or a recorded trace, then a wire that
//! adds propagation delay and jitter, and loses and reorders packets. All of it may
//! change while it runs ([`LinkPatch`]), and UDP may fare worse than the rest
//! ([`UdpPolicy`]). It knows no clock, socket or thread: the caller
//! says what time it is, so the same link serves a simulation, where a gigabyte
//! takes seconds and repeats bit for bit, and a pump that moves real packets.
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

/// Durations beyond 584 years count as that.
fn nanos(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The example of the README, as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
