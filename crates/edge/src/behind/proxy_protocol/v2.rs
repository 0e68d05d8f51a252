//! Version 2: a signature, command, family and length; then addresses, and fields that are skipped.

use std::net::{IpAddr, SocketAddr};

use super::{Fault, Header, Progress, agree};

/// Reads a header, or a part of one.
pub(super) fn read(bytes: &[u8]) -> Result<Progress, Fault> {
    if !agree(bytes, &SIGNATURE) {
        return Err(Fault::Missing);
    }
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() else {
        return Ok(Progress::Needs(HEAD - bytes.len()));
    };
    let [.., version_and_command, family, high, low] = *head;
    let is_relayed = match version_and_command {
        0x20 => false,
        0x21 => true,
        0x22..=0x2f => return Err(Fault::Malformed("it has no command that is known")),
        _ => return Err(Fault::Malformed("its version is not 2")),
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > LONGEST_REST {
        return Err(Fault::Malformed("it is longer than 4112 bytes"));
    }
    match rest.get(..length) {
        None => Ok(Progress::Needs(length - rest.len())),
        // Family and addresses say nothing.
        Some(_) if !is_relayed => Ok(Progress::Whole(Header::Own)),
        Some(rest) => addresses(family, rest).map(Progress::Whole),
    }
}

/// The ends of a connection that is handed on.
fn addresses(family: u8, rest: &[u8]) -> Result<Header, Fault> {
    let (header, length) = match family {
        UNSPECIFIED => (Some(Header::Own), 0),
        TCP4 => (ends::<4>(rest), 0),
        TCP6 => (ends::<16>(rest), 0),
        UDP4 => (Some(Header::Own), 12),
        UDP6 => (Some(Header::Own), 36),
        UNIX_STREAM | UNIX_DATAGRAM => (Some(Header::Own), 216),
        _ => {
            return Err(Fault::Malformed(
                "it has no family of addresses that is known",
            ));
        }
    };
    let header = header.filter(|_| rest.len() >= length);
    header.ok_or(Fault::Malformed("it is too short for its addresses"))
}

/// Two addresses of so many bytes, and two ports.
fn ends<const BYTES: usize>(rest: &[u8]) -> Option<Header>
where
    IpAddr: From<[u8; BYTES]>,
{
    let (source, rest) = rest.split_first_chunk::<BYTES>()?;
    let (destination, rest) = rest.split_first_chunk::<BYTES>()?;
    let (source_port, rest) = rest.split_first_chunk()?;
    let (destination_port, _) = rest.split_first_chunk()?;
    let end = |address: &[u8; BYTES], port: &[u8; 2]| {
        SocketAddr::new(IpAddr::from(*address), u16::from_be_bytes(*port))
    };
    Some(Header::Client {
        source: end(source, source_port),
        destination: end(destination, destination_port),
    })
}

pub(super) const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// Bytes before the addresses.
const HEAD: usize = 16;

/// Bytes behind these that are read at most. Balancers add some hundred, with the certificate of a client
/// some thousand.
pub(super) const LONGEST_REST: usize = 4096;

// Family and protocol, as far as the specification has them.
const UNSPECIFIED: u8 = 0x00;
const TCP4: u8 = 0x11;
const UDP4: u8 = 0x12;
const TCP6: u8 = 0x21;
const UDP6: u8 = 0x22;
const UNIX_STREAM: u8 = 0x31;
const UNIX_DATAGRAM: u8 = 0x32;
