//! The Huffman code of strings (RFC 7541 Appendix B).
//!
//! The code is canonical: codes of one length are consecutive, in the order of their symbols, and
//! follow the codes of shorter lengths. So the lengths define all of it.

use bytes::BufMut;

use super::Malformed;

/// The bytes of `text` when encoded, padding included.
pub fn encoded_len(text: &[u8]) -> usize {
    let bits: usize = text
        .iter()
        .map(|&symbol| usize::from(LENGTHS[usize::from(symbol)]))
        .sum();
    bits.div_ceil(8)
}

/// Appends the code of `text`, padded with ones to a whole byte (RFC 7541 §5.2).
pub fn encode(text: &[u8], out: &mut impl BufMut) {
    // Most strings leave in one piece, so that `out` is asked for room once.
    let (mut piece, mut filled) = ([0; PIECE], 0);
    // The low `pending` bits are still to be written, at most 31 + 30 of them.
    let (mut bits, mut pending) = (0u64, 0u32);
    for &symbol in text {
        let length = u32::from(LENGTHS[usize::from(symbol)]);
        bits = bits << length | u64::from(CODE.codes[usize::from(symbol)]);
        pending += length;
        if pending >= 32 {
            pending -= 32;
            let word = (bits >> pending) as u32;
            piece[filled..filled + 4].copy_from_slice(&word.to_be_bytes());
            filled += 4;
            if filled == PIECE {
                out.put_slice(&piece);
                filled = 0;
            }
        }
    }
    if pending > 0 {
        let word = (bits << (32 - pending)) as u32 | u32::MAX >> pending;
        piece[filled..filled + 4].copy_from_slice(&word.to_be_bytes());
        filled += pending.div_ceil(8) as usize;
    }
    out.put_slice(&piece[..filled]);
}

/// Appends the text whose code is the whole of `input`.
///
/// # Errors
///
/// [`Malformed::Invalid`] if it contains EOS, or ends with more than 7 bits of padding or
/// with padding that is not all ones (RFC 7541 §5.2).
pub fn decode(input: &[u8], text: &mut Vec<u8>) -> Result<(), Malformed> {
    // The shortest code has 5 bits.
    text.reserve(input.len() * 8 / 5);
    let mut window = Window {
        input,
        bits: 0,
        available: 0,
    };
    loop {
        window.refill();
        let (symbol, length) = window.short_code();
        if length == 0 {
            let (symbol, length) = long_code(window.bits);
            if length > window.available {
                break;
            }
            let Ok(symbol) = u8::try_from(symbol) else {
                return Err(Malformed::Invalid("a Huffman string contains EOS"));
            };
            text.push(symbol);
            window.take(length);
            continue;
        }
        if length > window.available {
            break;
        }
        text.push(symbol);
        window.take(length);
        // Four more, if they are there whatever their lengths.
        if window.available < 4 * SHORT_BITS {
            continue;
        }
        for _ in 0..4 {
            let (symbol, length) = window.short_code();
            if length == 0 {
                break;
            }
            text.push(symbol);
            window.take(length);
        }
    }
    window.check_padding()
}

/// The bits of a Huffman string that are still to be decoded.
struct Window<'a> {
    /// The bytes after those in `bits`.
    input: &'a [u8],
    /// The next bits, from the highest on.
    bits: u64,
    /// The number of bits that count in `bits`. Those below are zero, or have their final value.
    available: usize,
}

impl Window<'_> {
    /// Fills `bits` up to 56 bits or more, unless the input ends before.
    fn refill(&mut self) {
        if let Some((word, _)) = self.input.split_first_chunk::<8>() {
            self.bits |= u64::from_be_bytes(*word) >> self.available;
            self.input = &self.input[(63 - self.available) / 8..];
            self.available |= 56;
            return;
        }
        while self.available <= 56
            && let Some((&byte, rest)) = self.input.split_first()
        {
            self.bits |= u64::from(byte) << (56 - self.available);
            self.available += 8;
            self.input = rest;
        }
    }

    /// The next symbol and the number of bits in its code; 0 if that is no short code.
    fn short_code(&self) -> (u8, usize) {
        let entry = SHORT[(self.bits >> (64 - SHORT_BITS)) as usize];
        ((entry >> 8) as u8, usize::from(entry as u8))
    }

    fn take(&mut self, length: usize) {
        self.bits <<= length;
        self.available -= length;
    }

    fn check_padding(&self) -> Result<(), Malformed> {
        let ones = !(u64::MAX >> self.available);
        if self.available > 7 || self.bits != ones {
            return Err(Malformed::Invalid(
                "the padding of a Huffman string is invalid",
            ));
        }
        Ok(())
    }
}

/// The symbol at the high end of `bits`, and the number of bits in its code.
fn long_code(bits: u64) -> (u16, usize) {
    let window = bits >> 32;
    let length = (MIN_LENGTH..MAX_LENGTH)
        .find(|&length| window < CODE.end[length])
        .unwrap_or(MAX_LENGTH);
    let code = (window >> (32 - length)) as usize;
    let symbol = CODE.symbols[code - CODE.first[length] + CODE.position[length]];
    (symbol, length)
}

/// The codes of up to [`SHORT_BITS`] bits, by the next bits of the input. The symbol is in the high
/// byte, and the number of its bits in the low one. Longer codes have zero.
static SHORT: [u16; 1 << SHORT_BITS] = short_codes();

/// Longer codes are those of control characters, bytes beyond ASCII and a few rare signs.
const SHORT_BITS: usize = 10;

const fn short_codes() -> [u16; 1 << SHORT_BITS] {
    let mut table = [0; 1 << SHORT_BITS];
    let mut symbol = 0;
    while symbol < 256 {
        let length = LENGTHS[symbol] as usize;
        if length <= SHORT_BITS {
            let first = (CODE.codes[symbol] as usize) << (SHORT_BITS - length);
            let mut rest = 0;
            while rest < 1 << (SHORT_BITS - length) {
                table[first + rest] = (symbol as u16) << 8 | length as u16;
                rest += 1;
            }
        }
        symbol += 1;
    }
    table
}

struct Code {
    /// The code of each symbol, in its low bits.
    codes: [u32; SYMBOLS],
    /// The symbols in the order of their codes.
    symbols: [u16; SYMBOLS],
    /// The first code of each length.
    first: [usize; MAX_LENGTH + 1],
    /// The position in `symbols` of the first code of each length.
    position: [usize; MAX_LENGTH + 1],
    /// The end of the codes of each length, aligned to the high end of 32 bits.
    end: [u64; MAX_LENGTH + 1],
}

const fn canonical_code() -> Code {
    let mut built = Code {
        codes: [0; SYMBOLS],
        symbols: [0; SYMBOLS],
        first: [0; MAX_LENGTH + 1],
        position: [0; MAX_LENGTH + 1],
        end: [0; MAX_LENGTH + 1],
    };
    let (mut code, mut position, mut length) = (0u32, 0, 1);
    while length <= MAX_LENGTH {
        code <<= 1;
        built.first[length] = code as usize;
        built.position[length] = position;
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == length {
                built.codes[symbol] = code;
                built.symbols[position] = symbol as u16;
                code += 1;
                position += 1;
            }
            symbol += 1;
        }
        built.end[length] = (code as u64) << (32 - length);
        length += 1;
    }
    built
}

static CODE: Code = canonical_code();

/// All bytes, and EOS.
const SYMBOLS: usize = 257;
const MIN_LENGTH: usize = 5;
const MAX_LENGTH: usize = 30;

/// The number of bits in the code of each symbol.
#[rustfmt::skip]
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// Bytes that are written at once, a multiple of four.
const PIECE: usize = 64;

#[cfg(test)]
mod tests;
