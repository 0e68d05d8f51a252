//! Simulation: whole QUIC connections over [`hikyaku_netsim`] links under virtual time.
//!
//! quinn's protocol, the server's congestion controllers and the lab's links run in one
//! thread without a socket, a clock or privileges. A [`Scenario`] of the same seed gives the
//! same [`Outcome`] bit for bit, on any machine. `docs/simulation.md` says what it leaves
//! out.

mod app;
mod handshake;
mod host;
mod keys;
mod lab;
mod observe;
mod running;
mod sampler;
mod scenario;
mod world;

pub use lab::{SimArgs, run};
pub use scenario::{Flow, FlowOutcome, FlowSample, Outcome, Sample, Scenario, Wait};
pub use world::simulate;
