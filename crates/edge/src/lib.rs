//! The edge server of hikyaku: real content over HTTP/1.1, 2 and 3, every client measured,
//! and its transport chosen from what was measured.
//!
//! [`Server::start`] takes a [`Config`]; `ARCHITECTURE.md` follows one request through
//! the modules.

mod accept;
mod access_log;
mod admin;
mod bpf;
mod budget;
mod causes;
mod clients;
mod clock;
pub mod config;
mod conn;
mod egress;
mod events;
#[cfg(test)]
mod fakes;
mod ledger;
mod limits;
pub mod lines;
mod listen;
mod live;
mod marked;
mod measure;
mod metrics;
mod mptcp;
mod pace;
mod qlog;
mod secrets;
mod sections;
mod seed;
mod seldom;
mod serve;
mod server;
mod shards;
mod shared;
mod store;
mod sys;
pub mod tcp_cc;
pub mod tls;
mod transport;
mod unvalidated;
mod uploads;

pub use access_log::AccessLogError;
pub use admin::{AdminError, ReloadRequest};
pub use config::{Config, ConfigError};
pub use egress::{ClassConfig, EgressConfig, MptcpFor, Steer};
pub use listen::ListenError;
pub use secrets::NoRandomness;
pub use serve::QuicError;
pub use server::{Server, ServerError};
pub use shards::{Kind, ShardHost, ShardsConfig, ShardsError};
pub use store::StoreError;
