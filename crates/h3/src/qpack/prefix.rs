//! The prefix of an encoded field section (RFC 9204 §4.5.1).

use bytes::BufMut;

use super::{ENTRY_OVERHEAD, Malformed, integer};

/// The state of the dynamic table to which a section refers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prefix {
    /// Insertions that must have happened before the section can be decoded.
    pub(super) required_insert_count: u64,
    /// The position to which the section's indices are relative.
    pub(super) base: u64,
}

impl Prefix {
    /// Appends the prefix; `max_table_capacity` is the decoder's setting, in bytes.
    pub(super) fn write(self, out: &mut impl BufMut, max_table_capacity: u64) {
        let Self {
            required_insert_count: required,
            base,
        } = self;
        if required == 0 {
            out.put_slice(&[0, 0]);
            return;
        }
        let full_range = 2 * max_entries(max_table_capacity);
        integer::write(out, 0, 8, required % full_range + 1);
        if base >= required {
            integer::write(out, 0, 7, base - required);
        } else {
            integer::write(out, SIGN, 7, required - base - 1);
        }
    }

    /// Takes a prefix off `input`.
    ///
    /// `max_table_capacity` is the decoder's setting, in bytes, and `inserted` the number of its
    /// insertions since the connection began.
    ///
    /// # Errors
    ///
    /// [`Malformed`] for a prefix that no conforming encoder produces.
    pub(super) fn read(
        input: &mut &[u8],
        max_table_capacity: u64,
        inserted: u64,
    ) -> Result<Self, Malformed> {
        let encoded = integer::read(input, 8)?;
        let required_insert_count = required_insert_count(encoded, max_table_capacity, inserted)?;
        let negative = input.first().ok_or(Malformed::Incomplete)? & SIGN != 0;
        let delta = integer::read(input, 7)?;
        let base = if negative {
            required_insert_count
                .checked_sub(delta)
                .and_then(|base| base.checked_sub(1))
                .ok_or(Malformed::Invalid("the Base is negative"))?
        } else {
            // No overflow: neither exceeds 63 bits.
            required_insert_count + delta
        };
        Ok(Self {
            required_insert_count,
            base,
        })
    }
}

/// Undoes the wrapping of the Required Insert Count (RFC 9204 §4.5.1.1).
fn required_insert_count(
    encoded: u64,
    max_table_capacity: u64,
    inserted: u64,
) -> Result<u64, Malformed> {
    if encoded == 0 {
        return Ok(0);
    }
    let max_entries = max_entries(max_table_capacity);
    let full_range = 2 * max_entries;
    if encoded > full_range {
        return Err(IMPOSSIBLE);
    }
    let max_value = inserted + max_entries;
    let required = max_value / full_range * full_range + encoded - 1;
    let required = if required <= max_value {
        required
    } else {
        // The encoder's value has wrapped one time less.
        required.checked_sub(full_range).ok_or(IMPOSSIBLE)?
    };
    if required == 0 {
        Err(IMPOSSIBLE)
    } else {
        Ok(required)
    }
}

/// The largest number of entries in a table of `max_table_capacity` bytes.
const fn max_entries(max_table_capacity: u64) -> u64 {
    max_table_capacity / ENTRY_OVERHEAD
}

const IMPOSSIBLE: Malformed = Malformed::Invalid("the Required Insert Count is impossible");

/// The bit that makes the Delta Base negative.
const SIGN: u8 = 0x80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_insert_counts_unwrap() {
        let cases: &[(&str, u64, u64, u64, Option<u64>)] = &[
            // name, encoded, capacity, inserted, wanted
            (
                "RFC 9204 §4.5.1.1: 100 bytes, 10 inserts, encoded 4 is 9",
                4,
                100,
                10,
                Some(9),
            ),
            ("0 is 0", 0, 100, 10, Some(0)),
            (
                "RFC 9204 §4.5.1.1: EncodedInsertCount > FullRange",
                7,
                100,
                10,
                None,
            ),
            ("the largest value", 2, 100, 10, Some(13)),
            (
                "beyond the largest is the range before",
                3,
                100,
                10,
                Some(8),
            ),
            (
                "RFC 9204 §4.5.1.1: ReqInsertCount <= FullRange",
                6,
                100,
                0,
                None,
            ),
            (
                "RFC 9204 §4.5.1.1: value of 0 must be encoded as 0",
                1,
                100,
                0,
                None,
            ),
            ("one ahead of an empty table", 2, 100, 0, Some(1)),
            ("a table that may have no entries", 1, 31, 0, None),
            ("no table", 1, 0, 0, None),
        ];
        for &(name, encoded, capacity, inserted, want) in cases {
            let got = required_insert_count(encoded, capacity, inserted);
            assert_eq!(got.ok(), want, "{name}");
        }
    }

    #[test]
    fn prefixes_come_back_over_the_whole_window() {
        for capacity in [32, 64, 100, 220] {
            let max_entries = max_entries(capacity);
            for inserted in 0..50u64 {
                let least = (inserted + 1).saturating_sub(max_entries).max(1);
                for required_insert_count in least..=inserted + max_entries {
                    for base in [0, required_insert_count - 1, required_insert_count, 99] {
                        let prefix = Prefix {
                            required_insert_count,
                            base,
                        };
                        let mut out = Vec::new();
                        prefix.write(&mut out, capacity);
                        let read = Prefix::read(&mut &out[..], capacity, inserted);
                        assert_eq!(read, Ok(prefix), "{capacity} bytes, {inserted} inserts");
                    }
                }
            }
        }
    }

    #[test]
    fn bases_are_relative_to_the_required_insert_count() {
        let cases: &[(&str, &[u8], Result<u64, Malformed>)] = &[
            (
                "RFC 9204 §4.5.1.2: count 9, Sign 1, Delta Base 2 is 6",
                &[0x04, 0x82],
                Ok(6),
            ),
            ("Sign 0 adds", &[0x04, 0x02], Ok(11)),
            ("the least", &[0x04, 0x88], Ok(0)),
            (
                "RFC 9204 §4.5.1.2: invalid if the count is less than or equal to Delta Base",
                &[0x04, 0x89],
                Err(Malformed::Invalid("the Base is negative")),
            ),
            (
                "no table",
                &[0x00, 0x80],
                Err(Malformed::Invalid("the Base is negative")),
            ),
            ("no Base", &[0x04], Err(Malformed::Incomplete)),
            ("nothing", &[], Err(Malformed::Incomplete)),
        ];
        for &(name, input, want) in cases {
            let got = Prefix::read(&mut &input[..], 100, 10).map(|prefix| prefix.base);
            assert_eq!(got, want, "{name}");
        }
    }
}
