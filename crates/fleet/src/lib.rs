#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod beat;
mod board;
mod breaker;
mod clock;
mod config;
mod connect;
mod driver;
mod fault;
mod field;
mod fleet;
mod key;
mod lease;
mod link;
mod member;
mod purges;
mod reader;
mod seal;
mod shared;
mod status;
mod store_url;
mod writer;

pub use board::{Board, Content, Entry, Topic, Wanted};
pub use breaker::{Breaker, Phase};
pub use config::FleetConfig;
pub use fault::{Fault, FaultKind};
pub use field::{Field, MAX_FIELDS, MAX_PAYLOAD};
pub use fleet::{Fleet, Identity, StartError};
pub use key::Key;
pub use lease::Lease;
pub use member::Member;
pub use reader::Missed;
pub use seal::MAX_CONTENT;
pub use shared::Host;
pub use status::{Counts, Status};
pub use store_url::{ParseStoreUrlError, StoreUrl};
pub use writer::Change;
