//! Network links under virtual time.
//!
//! A [`Link`] is one direction of a path: a drop-tail queue in front of a
//! transmitter of a given rate, then a delay line that adds propagation delay
//! and jitter and loses packets. It knows no clock, socket or thread: the caller
//! says what time it is, so the same link serves a simulation, where a gigabyte
//! takes seconds and repeats bit for bit, and a pump that moves real packets.
//!
//! ```
//! use std::time::Duration;
//! use hikyaku_core::units::{Rate, Timestamp};
//! use hikyaku_netsim::{Link, LinkConfig, Verdict};
//!
//! let config = LinkConfig {
//!     rate: Some(Rate::from_bits_per_sec(12_000_000)),
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

mod config;
mod link;
mod loss;
mod rng;
mod transmitter;

pub use config::{LinkConfig, Loss, QueueLimit};
pub use link::{Counters, Delivery, Link, Tally, Verdict};
pub use rng::derive_seed;
