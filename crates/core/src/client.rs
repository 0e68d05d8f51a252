//! The knowledge of a client: estimates by address and prefix, the health of UDP, and the view that
//! choices look at.

pub mod estimate;
pub mod key;
pub mod sample;
mod saved_path;
pub mod shared;
pub mod table;
pub mod udp;
pub mod view;
