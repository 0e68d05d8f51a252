//! Values of DER (X.690 §10), as far as OCSP needs them.

use x509_parser::asn1_rs::{Any, FromDer};

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OID: u8 = 0x06;
pub(super) const ENUMERATED: u8 = 0x0a;
pub(super) const GENERALIZED_TIME: u8 = 0x18;
pub(super) const SEQUENCE: u8 = 0x30;

/// The tag of a value with a number of its own that holds others.
pub(super) const fn holding(number: u8) -> u8 {
    0xa0 | number
}

/// The tag of a value with a number of its own that holds no others.
pub(super) const fn plain(number: u8) -> u8 {
    0x80 | number
}

/// Bytes are no DER, or not that of the expected value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// A value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value<'a> {
    pub(super) content: &'a [u8],
    /// With tag and length.
    pub(super) whole: &'a [u8],
}

impl<'a> Value<'a> {
    /// The values that it holds.
    pub(super) const fn values(self) -> Values<'a> {
        Values(self.content)
    }
}

/// Values, one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values<'a>(&'a [u8]);

impl<'a> Values<'a> {
    pub(super) const fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The tag of the next value; `None` at the end.
    pub(super) fn tag(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// Takes the next value, whatever its tag is.
    pub(super) fn any(&mut self) -> Result<Value<'a>, Malformed> {
        let (rest, any) = Any::from_der(self.0).map_err(|_| Malformed)?;
        let (whole, _) = self.0.split_at(self.0.len() - rest.len());
        self.0 = rest;
        Ok(Value {
            content: any.data,
            whole,
        })
    }

    /// Takes the next value, which has this tag.
    pub(super) fn next(&mut self, tag: u8) -> Result<Value<'a>, Malformed> {
        match self.tag() == Some(tag) {
            true => self.any(),
            false => Err(Malformed),
        }
    }

    /// Takes the next value, if it has this tag.
    pub(super) fn optional(&mut self, tag: u8) -> Result<Option<Value<'a>>, Malformed> {
        match self.tag() == Some(tag) {
            true => self.any().map(Some),
            false => Ok(None),
        }
    }
}

/// The value with this tag that holds these parts.
pub(super) fn encode(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = vec![tag];
    let bytes = length.to_be_bytes();
    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
    let bytes = &bytes[zeros..];
    match bytes {
        [] => out.push(0),
        [short] if *short < 0x80 => out.push(*short),
        // At most eight.
        long => {
            out.push(0x80 | long.len() as u8);
            out.extend_from_slice(long);
        }
    }
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_encoded_is_read(first in prop::collection::vec(any::<u8>(), 0..400), rest in any::<u8>()) {
            let (head, tail) = first.split_at(first.len() / 2);
            let encoded = encode(OCTET_STRING, &[head, tail]);
            let all = [&encoded[..], &encode(INTEGER, &[&[rest]])].concat();
            let mut values = Values::of(&all);
            prop_assert!(values.optional(SEQUENCE).unwrap().is_none());
            let value = values.next(OCTET_STRING).unwrap();
            prop_assert_eq!(value.content, &first[..]);
            prop_assert_eq!(value.whole, &encoded[..]);
            prop_assert_eq!(values.next(INTEGER).unwrap().content, &[rest]);
            prop_assert_eq!(values.tag(), None);
            prop_assert_eq!(values.any().unwrap_err(), Malformed);
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut values = Values::of(&bytes);
            while values.any().is_ok() {}
        }
    }
}
