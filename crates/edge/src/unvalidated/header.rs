//! The part of QUIC's long headers that all versions share (RFC 8999 §5.1).

/// Whether the datagram begins with a long header: all that belongs to a handshake does.
pub(crate) fn is_long(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first & 0x80 != 0)
}

/// Destination and source connection id of a datagram with a long header.
pub(crate) fn ids(datagram: &[u8]) -> Option<(&[u8], &[u8])> {
    let ids = datagram.get(5..).filter(|_| is_long(datagram))?;
    let (destination, rest) = id(ids)?;
    let (source, _) = id(rest)?;
    Some((destination, source))
}

/// A connection id behind its length, and what follows.
fn id(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    rest.split_at_checked(length.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found() {
        let long = [0xc3, 0, 0, 0, 1, 2, 10, 11, 3, 20, 21, 22, 99];
        let none: Option<(&[u8], &[u8])> = None;
        assert_eq!(ids(&long), Some((&[10, 11][..], &[20, 21, 22][..])));
        for length in 0..long.len() - 1 {
            assert_eq!(ids(&long[..length]), none, "{length} bytes");
        }
        assert_eq!(ids(&[&[0x43], &long[1..]].concat()), none, "a short header");
    }
}
