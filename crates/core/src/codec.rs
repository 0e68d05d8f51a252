//! Records of the store as bytes: little-endian fields, before them a version byte, and a check over both
//! behind.
//!
//! A record of another version is refused: knowledge is cheap to gain again, and a wrong reading of it is
//! not.

use hikyaku_units::Secs;
use hikyaku_units::mix::mix;

/// Why bytes are no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The record is shorter or longer than any of this version.
    #[error("decoding a record: {len} bytes are no whole one")]
    Length {
        /// Length found.
        len: usize,
    },
    /// Another release wrote it.
    #[error("decoding a record: this release does not read format version {version}")]
    Version {
        /// Version found.
        version: u8,
    },
    /// The check differs: bytes were changed.
    #[error("decoding a record: check failed")]
    Check,
    /// A field has a value that is never written.
    #[error("decoding a record: impossible {field}")]
    Field {
        /// The field.
        field: &'static str,
    },
}

/// Length of the check behind a record.
pub(crate) const CHECK_LEN: usize = 4;

/// Puts the check into the last bytes of a record that is written otherwise.
pub(crate) fn seal(record: &mut [u8]) {
    let (body, place) = record.split_at_mut(record.len() - CHECK_LEN);
    place.copy_from_slice(&check(body));
}

/// The fields of a record of a version.
pub(crate) fn unsealed(record: &[u8], version: u8) -> Result<&[u8], DecodeError> {
    let whole = record.split_last_chunk::<CHECK_LEN>();
    let Some((body @ [found, fields @ ..], sum)) = whole else {
        return Err(DecodeError::Length { len: record.len() });
    };
    if *found != version {
        return Err(DecodeError::Version { version: *found });
    }
    if check(body) != *sum {
        return Err(DecodeError::Check);
    }
    Ok(fields)
}

/// A check against accidents, not against attackers: who can write the store owns the server.
fn check(bytes: &[u8]) -> [u8; CHECK_LEN] {
    let sum = bytes.chunks(8).fold(bytes.len() as u64, |sum, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(sum ^ u64::from_le_bytes(word))
    });
    let [a, b, c, d, ..] = sum.to_le_bytes();
    [a, b, c, d]
}

/// Writes fields one after the other into as many bytes as they take.
pub(crate) struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    pub(crate) const fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.put(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    pub(crate) fn f32(&mut self, value: f32) {
        self.put(&value.to_le_bytes());
    }

    /// A number from 0 to 65535 steps of 1 / `scale`; the nearer end if it lies outside.
    pub(crate) fn fixed(&mut self, value: f32, scale: f32) {
        self.u16((value * scale).round() as u16);
    }
}

/// Reads fields one after the other. Beyond the end there are zeros: a record's length is for its reader to
/// check.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Bytes that were not read.
    pub(crate) const fn left(&self) -> usize {
        self.bytes.len()
    }

    /// The next `len` bytes; `None` if there are fewer.
    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(taken)
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let Some((taken, rest)) = self.bytes.split_first_chunk() else {
            return [0; N];
        };
        self.bytes = rest;
        *taken
    }

    pub(crate) fn u8(&mut self) -> u8 {
        let [byte] = self.take();
        byte
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    pub(crate) fn fixed(&mut self, scale: f32) -> f32 {
        f32::from(self.u16()) / scale
    }

    pub(crate) fn secs(&mut self) -> Secs {
        Secs::new(self.u32())
    }

    pub(crate) fn finite(&mut self, field: &'static str) -> Result<f32, DecodeError> {
        let value = f32::from_le_bytes(self.take());
        if value.is_finite() {
            Ok(value)
        } else {
            Err(DecodeError::Field { field })
        }
    }

    /// A number that is not negative.
    pub(crate) fn count(&mut self, field: &'static str) -> Result<f32, DecodeError> {
        self.finite(field).and_then(|value| {
            if value >= 0.0 {
                Ok(value)
            } else {
                Err(DecodeError::Field { field })
            }
        })
    }
}
