//! Simulation: whole QUIC connections over [`hikyaku_netsim`] links under virtual time.
//!
//! quinn's protocol, the server's congestion controllers and the lab's links run in one thread
//! without a socket, a clock or privileges. A [`Scenario`] of the same seed gives the same
//! [`Outcome`] bit for bit, on any machine. `docs/simulation.md` lists its limits.
//!
//! ```
//! use std::time::Duration;
//!
//! use hikyaku_congestion::Settings;
//! use hikyaku_units::Rate;
//! use hikyaku_lab::sim::{Flow, Scenario, simulate};
//! use hikyaku_netsim::LinkConfig;
//!
//! let link = LinkConfig {
//!     rate: Rate::from_mbps(50).into(),
//!     one_way_delay: Duration::from_millis(20),
//!     ..LinkConfig::default()
//! };
//! let outcome = simulate(&Scenario {
//!     up: link.clone(),
//!     down: link,
//!     flows: vec![Flow {
//!         name: "download".to_owned(),
//!         settings: Settings::default(),
//!         start: Duration::ZERO,
//!         sizes: vec![1_000_000],
//!         page: false,
//!     }],
//!     until: Duration::from_secs(60),
//!     seed: 1,
//! });
//! let load = outcome.flows[0].complete.expect("a minute is enough");
//! // Two round trips until the first byte, and 1 MB at 50 Mbit/s at best.
//! assert!(load > Duration::from_millis(240));
//! ```

mod app;
mod handshake;
mod host;
mod keys;
mod lab;
mod running;
mod sampler;
mod scenario;
mod world;

pub use lab::{SimArgs, run};
pub use scenario::{Flow, FlowOutcome, FlowSample, Outcome, Sample, Scenario, Wait};
pub use world::simulate;
