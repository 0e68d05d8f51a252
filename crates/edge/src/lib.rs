//! The edge server of hikyaku.

pub mod content;
