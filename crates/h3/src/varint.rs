//! Variable-length integers (RFC 9000 §16).

use bytes::{Buf, BufMut, BytesMut};

/// The largest value, 2^62 - 1.
pub(crate) const MAX: u64 = (1 << 62) - 1;

/// The largest encoding, in bytes.
pub(crate) const MAX_LEN: usize = 8;

/// Decodes an integer that may arrive byte by byte.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    value: u64,
    missing: u8,
}

impl Decoder {
    /// Takes the integer's bytes from `input`, and returns the integer once it is complete.
    pub(crate) fn decode(&mut self, input: &mut impl Buf) -> Option<u64> {
        while input.has_remaining() {
            let byte = input.get_u8();
            if self.missing == 0 {
                self.missing = (1 << (byte >> 6)) - 1;
                self.value = u64::from(byte & 0x3f);
            } else {
                self.missing -= 1;
                self.value = self.value << 8 | u64::from(byte);
            }
            if self.missing == 0 {
                return Some(self.value);
            }
        }
        None
    }

    /// Whether the decoder is between integers.
    pub(crate) fn is_idle(&self) -> bool {
        self.missing == 0
    }
}

/// Decodes an integer that is wholly in `input`; `None` if it is truncated.
pub(crate) fn decode(input: &mut impl Buf) -> Option<u64> {
    Decoder::default().decode(input)
}

/// Appends `value` in its shortest form. A value above [`MAX`] is taken for [`MAX`].
pub(crate) fn encode(value: u64, out: &mut BytesMut) {
    match value {
        0..0x40 => out.put_u8(value as u8),
        0x40..0x4000 => out.put_u16(0x4000 | value as u16),
        0x4000..0x4000_0000 => out.put_u32(0x8000_0000 | value as u32),
        _ => out.put_u64(0xc000_0000_0000_0000 | value.min(MAX)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn knows_the_examples() {
        let cases: &[(&str, &[u8], Option<u64>)] = &[
            (
                "RFC 9000 §A.1: eight bytes",
                &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c],
                Some(151_288_809_941_952_652),
            ),
            (
                "RFC 9000 §A.1: four bytes",
                &[0x9d, 0x7f, 0x3e, 0x7d],
                Some(494_878_333),
            ),
            ("RFC 9000 §A.1: two bytes", &[0x7b, 0xbd], Some(15_293)),
            ("RFC 9000 §A.1: one byte", &[0x25], Some(37)),
            ("RFC 9000 §A.1: 37 in two bytes", &[0x40, 0x25], Some(37)),
            ("nothing", &[], None),
            ("one of two bytes", &[0x7b], None),
        ];
        for (name, bytes, want) in cases {
            assert_eq!(decode(&mut &bytes[..]), *want, "{name}");
        }
    }

    proptest! {
        #[test]
        fn decoding_reverses_encoding(value in 0..=MAX, size in 1usize..9) {
            let mut out = BytesMut::new();
            encode(value, &mut out);
            let mut decoder = Decoder::default();
            let mut decoded = None;
            for mut piece in out.chunks(size) {
                prop_assert_eq!(decoded, None);
                decoded = decoder.decode(&mut piece);
            }
            prop_assert_eq!(decoded, Some(value));
            prop_assert!(decoder.is_idle() && out.len() <= MAX_LEN);
        }
    }
}
