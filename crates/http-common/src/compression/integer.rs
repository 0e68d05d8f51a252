//! Prefixed integers (RFC 9204 §4.1.1, RFC 7541 §5.1).

use bytes::BufMut;

use super::Malformed;

/// Appends `value` with a prefix of `bits` (1 to 8) bits; `pattern` fills the bits above.
pub fn write(out: &mut impl BufMut, pattern: u8, bits: u8, value: u64) {
    let max = u64::from(prefix_mask(bits));
    if value < max {
        out.put_u8(pattern | value as u8);
        return;
    }
    out.put_u8(pattern | prefix_mask(bits));
    let mut rest = value - max;
    while rest >= 0x80 {
        out.put_u8(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.put_u8(rest as u8);
}

/// Takes an integer with a prefix of `bits` (1 to 8) bits off `input`.
///
/// # Errors
///
/// [`Malformed::Incomplete`], or [`Malformed::Invalid`] if the value exceeds 62 bits or
/// takes more bytes than 62 bits need.
pub fn read(input: &mut &[u8], bits: u8) -> Result<u64, Malformed> {
    let first = take_byte(input)? & prefix_mask(bits);
    let mut value = u64::from(first);
    if first < prefix_mask(bits) {
        return Ok(value);
    }
    for shift in (0..MAX_BITS).step_by(7) {
        let byte = take_byte(input)?;
        // No overflow: 9 bytes carry 63 bits, and the prefix adds at most 255.
        value += u64::from(byte & 0x7f) << shift;
        if value >> MAX_BITS != 0 {
            return Err(TOO_LARGE);
        }
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(TOO_LARGE)
}

const fn prefix_mask(bits: u8) -> u8 {
    0xff >> (8 - bits)
}

fn take_byte(input: &mut &[u8]) -> Result<u8, Malformed> {
    let (&byte, rest) = input.split_first().ok_or(Malformed::Incomplete)?;
    *input = rest;
    Ok(byte)
}

/// Bits that an integer may have (RFC 9204 §4.1.1).
const MAX_BITS: u32 = 62;

const TOO_LARGE: Malformed = Malformed::Invalid("an integer exceeds 62 bits");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_those_of_the_rfc() {
        let cases: &[(&str, u8, u64, &[u8])] = &[
            ("RFC 7541 §C.1.1: 10 with a 5-bit prefix", 5, 10, &[0x0a]),
            (
                "RFC 7541 §C.1.2: 1337 with a 5-bit prefix",
                5,
                1337,
                &[0x1f, 0x9a, 0x0a],
            ),
            ("RFC 7541 §C.1.3: 42 from an octet boundary", 8, 42, &[0x2a]),
            ("the largest that fits the prefix", 3, 6, &[0x06]),
            ("the smallest that does not", 3, 7, &[0x07, 0x00]),
            (
                "RFC 9204 §4.1.1: integers up to and including 62 bits",
                8,
                (1 << 62) - 1,
                &[0xff, 0x80, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f],
            ),
        ];
        for &(name, bits, value, bytes) in cases {
            let mut out = Vec::new();
            write(&mut out, 0, bits, value);
            assert_eq!(out, bytes, "{name}: written");
            let mut input = bytes;
            assert_eq!(read(&mut input, bits), Ok(value), "{name}: read");
            assert!(input.is_empty(), "{name}: all of it");
            for end in 0..bytes.len() {
                let truncated = read(&mut &bytes[..end], bits);
                assert_eq!(truncated, Err(Malformed::Incomplete), "{name}: {end} bytes");
            }
        }
    }

    #[test]
    fn integers_beyond_62_bits_are_refused() {
        let cases: &[(&str, &[u8])] = &[
            (
                "2^62",
                &[0xff, 0x81, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f],
            ),
            (
                "63 bits",
                &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
            ),
            (
                "a tenth byte",
                &[
                    0xff, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01,
                ],
            ),
            (
                "zeros without end",
                &[0xff, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80],
            ),
        ];
        for &(name, bytes) in cases {
            assert_eq!(read(&mut &bytes[..], 8), Err(TOO_LARGE), "{name}");
        }
    }

    #[test]
    fn bits_above_the_prefix_are_the_pattern() {
        let mut out = Vec::new();
        write(&mut out, 0b1010_0000, 4, 3);
        assert_eq!(out, [0b1010_0011]);
        assert_eq!(read(&mut &out[..], 4), Ok(3));
    }
}
