#![doc = include_str!("../README.md")]

mod accept;
mod access_log;
mod admin;
mod beacon;
mod behind;
mod bpf;
mod budget;
mod causes;
mod clients;
mod clock;
pub mod config;
mod conn;
mod connection_ids;
mod egress;
mod events;
mod experiments;
#[cfg(test)]
mod fakes;
mod fleet;
mod gain;
mod handover;
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
mod packed;
mod pages;
mod part;
mod policies;
mod qlog;
mod secrets;
mod sections;
mod seed;
mod seldom;
mod serve;
mod server;
mod shards;
mod shared;
mod spans;
mod store;
pub mod syn_ack;
mod sys;
pub mod tcp_cc;
pub mod tls;
mod transport;
mod unvalidated;
mod uploads;

pub use access_log::AccessLogError;
pub use admin::{AdminError, Demand, Order};
pub use behind::{
    Advertise, BehindConfig, ClientField, ParseAdvertiseError, QuicLb, proxy_protocol,
};
pub use config::{Config, ConfigError};
pub use egress::{ClassConfig, EgressConfig, MptcpFor, Steer};
pub use gain::{CountriesError, GainConfig};
pub use handover::{HandoverError, Origin, Reporter, Successor, SuccessorEvent, UpgradeError};
pub use hikyaku_fleet::{
    Entry as FleetEntry, FleetConfig, Member as FleetMember, Status as FleetStatus, StoreUrl,
};
pub use listen::{BACKLOG, ListenError, UDP_BUFFER, try_tcp, try_udp};
pub use metrics::set_commit;
pub use packed::built_in_model;
pub use secrets::{KeyFileError, NoRandomness};
pub use serve::QuicError;
pub use server::{Findings, Prepared, Pulse, Server, ServerError, load_model};
pub use shards::{Kind, ShardHost, ShardsConfig, ShardsError};
pub use spans::{Collector, ParseCollectorError, TracingConfig};
pub use store::StoreError;
