//! The network lab of hikyaku: everything that measures.

pub mod client;
pub mod experiment;
pub mod link;
