//! The values of fields: an envelope around opaque bytes.
//!
//! A version (1 byte), the store's time at the write (8 bytes, seconds since 1970, big endian), then the
//! payload. An edge ignores other versions, longer payloads, and more fields than a fleet has edges.
//! So nonsense of one edge costs no more than its own field.

/// Longest payload, in bytes.
pub const MAX_PAYLOAD: usize = 4096;
/// Most fields that are taken of one key.
pub const MAX_FIELDS: usize = 256;

const VERSION: u8 = 1;
const HEAD: usize = 9;

/// The field of one edge in one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name of the edge.
    pub edge: String,
    /// When it was written, by the store's clock, in seconds since 1970.
    pub written: u64,
    /// The bytes that were written.
    pub payload: Vec<u8>,
}

/// The value of a field. `None` if the payload is too long.
pub(crate) fn encode(written: u64, payload: &[u8]) -> Option<Vec<u8>> {
    (payload.len() <= MAX_PAYLOAD).then(|| {
        let mut value = Vec::with_capacity(HEAD + payload.len());
        value.push(VERSION);
        value.extend_from_slice(&written.to_be_bytes());
        value.extend_from_slice(payload);
        value
    })
}

/// Time and payload of a value. `None` if it is of another version, or nonsense.
pub(crate) fn decode(value: &[u8]) -> Option<(u64, &[u8])> {
    let (head, payload) = value.split_at_checked(HEAD)?;
    let (&version, written) = head.split_first()?;
    let written = u64::from_be_bytes(written.try_into().ok()?);
    (version == VERSION && payload.len() <= MAX_PAYLOAD).then_some((written, payload))
}

#[cfg(test)]
mod tests {
    use super::{MAX_PAYLOAD, decode, encode};
    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    #[test]
    fn other_versions_and_sizes_are_ignored() {
        let value = encode(7, b"x").expect("short");
        assert_eq!(decode(&value), Some((7, &b"x"[..])));
        let newer = [&[2], &value[1..]].concat();
        assert_eq!(decode(&newer), None);
        assert_eq!(decode(&value[..8]), None);
        assert_eq!(encode(7, &[0; MAX_PAYLOAD + 1]), None);
        assert_eq!(decode(&[1; MAX_PAYLOAD + 10]), None);
    }

    proptest! {
        #[test]
        fn fields_come_back(written in any::<u64>(), payload in vec(any::<u8>(), 0..1000)) {
            let value = encode(written, &payload).expect("short");
            prop_assert_eq!(decode(&value), Some((written, payload.as_slice())));
        }

        #[test]
        fn any_bytes_are_read_or_ignored(value in vec(any::<u8>(), 0..64)) {
            if let Some((written, payload)) = decode(&value) {
                prop_assert!(encode(written, payload) == Some(value));
            }
        }
    }
}
