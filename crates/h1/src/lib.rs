#![doc = include_str!("../README.md")]

pub mod content;
pub mod request;
pub mod response;
