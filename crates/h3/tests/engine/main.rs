//! The engine from outside: streams built byte by byte, and both sides against each other.

mod control;
mod floods;
mod pair;
mod properties;
mod requests;
mod responses;
mod wire;
mod writing;
