#![doc = include_str!("../README.md")]

mod account;
mod answers;
mod client;
mod config;
mod failure;
mod hook;
mod keeper;
mod order;
mod peers;
mod record;
mod renewal_info;
mod schedule;
mod setup;
mod status;
mod task;

pub use answers::{ACME_TLS, Answers};
pub use config::{AcmeConfig, ChallengeKind, KeyType};
pub use keeper::{Clock, Keeper, system_clock};
pub use peers::{Common, Given, Peers, Pending, Turn};
pub use record::{Record, common_name, file_of, replace_file};
pub use setup::{Setup, SetupError};
pub use status::{State, Status};
