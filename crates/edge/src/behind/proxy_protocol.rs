//! The header of the PROXY protocol, by which a balancer names the client of a TCP connection before the
//! client's first byte. Version 1 is a line of text, and version 2 is binary (HAProxy, "The PROXY protocol",
//! sections 2.1 and 2.2).

mod v1;
mod v2;

use std::net::SocketAddr;

/// The result of reading a connection's first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// At least so many bytes follow that are of the header, too.
    Needs(usize),
    /// They are the whole header.
    Whole(Header),
}

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// The balancer hands on a connection.
    Client {
        /// The client's end.
        source: SocketAddr,
        /// The end to which the client has connected.
        destination: SocketAddr,
    },
    /// No client with an address is behind the connection, so that its own ends count. The balancer asks for
    /// its own sake, as for a health check, or its client has not come over TCP.
    Own,
}

/// Bytes that are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// They begin like none.
    #[error("no PROXY header comes first")]
    Missing,
    /// They begin like one.
    #[error("the PROXY header is malformed: {0}")]
    Malformed(
        /// The rule that they break.
        &'static str,
    ),
}

/// Reads a header from a connection's first bytes. Whoever reads no more bytes than [`Progress::Needs`] asks
/// for reads none behind the header.
///
/// # Errors
/// When they do not begin with a header.
pub fn read(bytes: &[u8]) -> Result<Progress, Fault> {
    match bytes.first() {
        None => Ok(Progress::Needs(SHORTEST)),
        Some(b'P') => v1::read(bytes),
        Some(b'\r') => v2::read(bytes),
        Some(_) => Err(Fault::Missing),
    }
}

/// Whether bytes begin like a header.
pub(crate) fn begins(bytes: &[u8]) -> bool {
    bytes.len() >= TELLING && read(bytes) != Err(Fault::Missing)
}

/// Whether `bytes` are the beginning of `whole`, or begin with it.
fn agree(bytes: &[u8], whole: &[u8]) -> bool {
    bytes.iter().zip(whole).all(|(byte, want)| byte == want)
}

/// The length of the shortest header, `PROXY UNKNOWN` and a line's end.
const SHORTEST: usize = 15;

/// Bytes that distinguish a header from anything else, `PROXY` and a space.
const TELLING: usize = 6;

#[cfg(test)]
mod tests;
