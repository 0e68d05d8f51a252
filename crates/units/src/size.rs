use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
use serde::{Serialize, Serializer};

use super::decimal::{Notation, ParseUnitError};

/// A number of bytes. `1MB` is 10^6, `1MiB` is 2^20.
///
/// As text a plain number of bytes or one with a unit: `64KiB`, `1MiB`, `10GB`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize {
    bytes: u64,
}

impl ByteSize {
    /// A size of `bytes` bytes.
    #[must_use]
    pub const fn from_bytes(bytes: u64) -> Self {
        Self { bytes }
    }

    /// A size of `kib` KiB (1,024 B); saturates.
    #[must_use]
    pub const fn from_kib(kib: u64) -> Self {
        Self {
            bytes: kib.saturating_mul(1 << 10),
        }
    }

    /// A size of `mib` MiB (1,048,576 B); saturates.
    #[must_use]
    pub const fn from_mib(mib: u64) -> Self {
        Self {
            bytes: mib.saturating_mul(1 << 20),
        }
    }

    /// The number of bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.bytes
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        NOTATION.write(self.bytes.into(), f)
    }
}

impl FromStr for ByteSize {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        NOTATION.parse(text).map(Self::from_bytes)
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrNumber)
    }
}

struct TextOrNumber;

impl Visitor<'_> for TextOrNumber {
    type Value = ByteSize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NOTATION.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<ByteSize, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, bytes: u64) -> Result<ByteSize, E> {
        Ok(ByteSize { bytes })
    }

    fn visit_i64<E: Error>(self, bytes: i64) -> Result<ByteSize, E> {
        let wrong = |_| E::invalid_value(Unexpected::Signed(bytes), &self);
        u64::try_from(bytes)
            .map(ByteSize::from_bytes)
            .map_err(wrong)
    }
}

const NOTATION: Notation = Notation {
    what: "a size",
    expected: "a number of bytes, or one with B, kB, KiB, MB, MiB, GB, GiB, TB or TiB, such as `64KiB`",
    units: &[
        ("B", 1),
        ("kB", 1_000),
        ("KiB", 1 << 10),
        ("MB", 1_000_000),
        ("MiB", 1 << 20),
        ("GB", 1_000_000_000),
        ("GiB", 1 << 30),
        ("TB", 1_000_000_000_000),
        ("TiB", 1 << 40),
    ],
    bare: true,
    max: u64::MAX,
};
