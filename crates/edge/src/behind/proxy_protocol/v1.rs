//! Version 1: `PROXY TCP4 192.0.2.1 198.51.100.1 50000 443` and a line's end.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use super::{Fault, Header, Progress, SHORTEST, agree};

/// Reads a line, or a part of one.
pub(super) fn read(bytes: &[u8]) -> Result<Progress, Fault> {
    if !agree(bytes, PREFIX) {
        return Err(Fault::Missing);
    }
    match bytes.iter().position(|&byte| byte == b'\n') {
        Some(end) if end + 1 < bytes.len() => Err(OTHER_END),
        Some(end) => {
            let line = bytes[..end].strip_suffix(b"\r").ok_or(OTHER_END)?;
            parse(line).map(Progress::Whole)
        }
        None if bytes.len() >= LONGEST => Err(Fault::Malformed("its line has no end")),
        None => Ok(Progress::Needs(missing(bytes))),
    }
}

/// Bytes that are missing of a line, at least.
fn missing(bytes: &[u8]) -> usize {
    let end = match bytes.ends_with(b"\r") {
        true => 1,
        false => 2,
    };
    let least = SHORTEST.saturating_sub(bytes.len()).max(end);
    least.min(LONGEST - bytes.len())
}

fn parse(line: &[u8]) -> Result<Header, Fault> {
    if line.contains(&b'\r') {
        return Err(OTHER_END);
    }
    let mut words = line.split(|&byte| byte == b' ').skip(1);
    let ends = match words.next() {
        // Whatever follows says nothing.
        Some(b"UNKNOWN") => return Ok(Header::Own),
        Some(b"TCP4") => ends::<Ipv4Addr>(words),
        Some(b"TCP6") => ends::<Ipv6Addr>(words),
        _ => return Err(Fault::Malformed("it has no protocol that is known")),
    };
    ends.ok_or(Fault::Malformed(
        "it has not two addresses of its protocol and two ports",
    ))
}

fn ends<'a, A: FromStr + Into<IpAddr>>(
    mut words: impl Iterator<Item = &'a [u8]>,
) -> Option<Header> {
    let mut next = || str::from_utf8(words.next()?).ok();
    let source: A = next()?.parse().ok()?;
    let destination: A = next()?.parse().ok()?;
    let (source_port, destination_port) = (port(next()?)?, port(next()?)?);
    let header = Header::Client {
        source: SocketAddr::new(source.into(), source_port),
        destination: SocketAddr::new(destination.into(), destination_port),
    };
    words.next().is_none().then_some(header)
}

/// A number without leading zeros.
fn port(text: &str) -> Option<u16> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let has_zeros = text.len() > 1 && text.starts_with('0');
    (is_plain && !has_zeros).then(|| text.parse().ok())?
}

const PREFIX: &[u8] = b"PROXY ";

/// Bytes of the longest line with its end.
pub(super) const LONGEST: usize = 107;

const OTHER_END: Fault = Fault::Malformed("its line does not end with CR LF");
