#![doc = include_str!("../README.md")]

pub mod compression;
pub mod content;
pub mod floods;
pub mod message;
pub mod priority;
