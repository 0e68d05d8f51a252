//! String literals (RFC 7541 §5.2, RFC 9204 §4.1.2).

use bytes::{BufMut, Bytes};

use super::{Malformed, huffman, integer};

/// A string in the input, not yet decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Literal<'a> {
    huffman: bool,
    bytes: &'a [u8],
}

impl<'a> Literal<'a> {
    /// Takes an N-bit prefix string off `input`, with N = `bits` (2 to 8), the Huffman flag
    /// included. It is not decoded yet.
    ///
    /// # Errors
    ///
    /// [`Malformed::Incomplete`], or [`Malformed::Invalid`] as soon as the length announces more
    /// than `max_len` bytes.
    pub fn read(input: &mut &'a [u8], bits: u8, max_len: u64) -> Result<Self, Malformed> {
        let first = *input.first().ok_or(Malformed::Incomplete)?;
        let huffman = first & huffman_flag(bits) != 0;
        let length = integer::read(input, bits - 1)?;
        // The longest code has 30 bits a byte.
        let shortest = if huffman {
            length.saturating_mul(8) / 30
        } else {
            length
        };
        if shortest > max_len {
            return Err(Malformed::Invalid("a string is longer than may be stored"));
        }
        let length = usize::try_from(length).map_err(|_| Malformed::Incomplete)?;
        let (bytes, rest) = input
            .split_at_checked(length)
            .ok_or(Malformed::Incomplete)?;
        *input = rest;
        Ok(Self { huffman, bytes })
    }

    /// Appends the string to `out`.
    ///
    /// # Errors
    ///
    /// [`Malformed::Invalid`] for an invalid Huffman code. `out` may then have a part of it.
    pub fn append_to(self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        if self.huffman {
            return huffman::decode(self.bytes, out);
        }
        out.extend_from_slice(self.bytes);
        Ok(())
    }

    /// Copies the string from the input.
    ///
    /// # Errors
    ///
    /// [`Malformed::Invalid`] for an invalid Huffman code.
    pub fn to_bytes(self) -> Result<Bytes, Malformed> {
        if self.huffman {
            let mut text = Vec::new();
            huffman::decode(self.bytes, &mut text)?;
            Ok(Bytes::from(text))
        } else {
            Ok(Bytes::copy_from_slice(self.bytes))
        }
    }

    /// The string, as a part of `source` if its bytes stand there unencoded. The literal must have
    /// been read from `source`.
    ///
    /// # Errors
    ///
    /// [`Malformed::Invalid`] for an invalid Huffman code.
    pub fn to_part_of(self, source: &Bytes) -> Result<Bytes, Malformed> {
        if self.huffman {
            self.to_bytes()
        } else {
            Ok(source.slice_ref(self.bytes))
        }
    }
}

/// Appends an N-bit prefix string with N = `bits` (2 to 8), in the shorter encoding;
/// `pattern` fills the bits above.
pub fn write(out: &mut impl BufMut, pattern: u8, bits: u8, text: &[u8]) {
    let encoded_len = huffman::encoded_len(text);
    if encoded_len < text.len() {
        integer::write(
            out,
            pattern | huffman_flag(bits),
            bits - 1,
            encoded_len as u64,
        );
        huffman::encode(text, out);
    } else {
        integer::write(out, pattern, bits - 1, text.len() as u64);
        out.put_slice(text);
    }
}

const fn huffman_flag(bits: u8) -> u8 {
    1 << (bits - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_encoding_is_written() {
        let cases: &[(&str, &[u8], &[u8])] = &[
            ("empty", b"", &[0x00]),
            (
                "shorter as Huffman code",
                b"no-cache",
                &[0x86, 0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf],
            ),
            ("no shorter as Huffman code", b"<>", &[0x02, b'<', b'>']),
        ];
        for &(name, text, want) in cases {
            let mut out = Vec::new();
            write(&mut out, 0, 8, text);
            assert_eq!(out, want, "{name}");
            let literal = Literal::read(&mut &out[..], 8, u64::MAX).unwrap();
            assert_eq!(literal.to_bytes().unwrap(), text, "{name}");
        }
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_the_bytes_come() {
        let cases: &[(&str, &[u8], Result<(), Malformed>)] = &[
            ("as long as permitted", &[0x0a], Err(Malformed::Incomplete)),
            ("one byte longer", &[0x0b], Err(TOO_LONG)),
            (
                "a Huffman code that may be short enough",
                &[0xa8],
                Err(Malformed::Incomplete),
            ),
            ("a Huffman code that cannot be", &[0xac], Err(TOO_LONG)),
        ];
        for &(name, input, want) in cases {
            let got = Literal::read(&mut &input[..], 8, 10).map(|_| ());
            assert_eq!(got, want, "{name}");
        }
    }

    const TOO_LONG: Malformed = Malformed::Invalid("a string is longer than may be stored");
}
