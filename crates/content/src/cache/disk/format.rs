//! The bytes of a stored response: one file, numbers in little-endian order.
//!
//! ```text
//! front   magic, key, id, length and checksum of the body, room of a slot,
//!         length and checksum of `about`, checksum of the front
//! about   URL and tags, each as length and text
//! slot    serial, length, checksum, head; padded to its room
//! slot    the same
//! body
//! ```
//!
//! The front is written last, and a new head goes to the slot that is not in use. So a write that
//! was cut off leaves a file without a valid front, or with the head of before.
//!
//! Checksums are CRC-32, as in gzip: they find damage, not malice.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use bytes::Bytes;
use flate2::Crc;

/// Name and version of the format. Files of another one are removed when they are met.
const MAGIC: &[u8; 8] = b"hikyaku\x01";
/// The length of an encoded front.
pub(super) const FRONT: usize = 76;
/// The length of a slot's beginning, before the head.
pub(super) const SLOT: usize = 16;
/// The largest head, and the longest URL with its tags, in bytes.
pub(super) const LARGEST_PART: usize = 1 << 20;
/// Bytes that the first read of a file asks for. Most files have all but the body in them.
const FIRST_READ: usize = 4096;

/// The fixed beginning of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Front {
    pub(super) key: [u8; 32],
    /// Distinguishes this body from others of the same key.
    pub(super) id: u64,
    pub(super) length: u64,
    pub(super) checksum: u32,
    /// Bytes of a head for which each slot has space.
    pub(super) room: u32,
    pub(super) about: u32,
    pub(super) about_checksum: u32,
}

impl Front {
    fn encode(&self) -> [u8; FRONT] {
        let mut bytes = [0; FRONT];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..40].copy_from_slice(&self.key);
        bytes[40..48].copy_from_slice(&self.id.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.length.to_le_bytes());
        let words = [self.checksum, self.room, self.about, self.about_checksum];
        for (at, word) in bytes[56..72].chunks_exact_mut(4).zip(words) {
            at.copy_from_slice(&word.to_le_bytes());
        }
        let sum = checksum(&[&bytes[..72]]);
        bytes[72..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; FRONT] = bytes.first_chunk()?;
        if bytes[..8] != *MAGIC || checksum(&[&bytes[..72]]) != u32_at(bytes, 72)? {
            return None;
        }
        let front = Self {
            key: *bytes[8..].first_chunk()?,
            id: u64_at(bytes, 40)?,
            length: u64_at(bytes, 48)?,
            checksum: u32_at(bytes, 56)?,
            room: u32_at(bytes, 60)?,
            about: u32_at(bytes, 64)?,
            about_checksum: u32_at(bytes, 68)?,
        };
        let most = u32::try_from(2 * LARGEST_PART).unwrap_or(u32::MAX);
        (front.room <= most && front.about <= most).then_some(front)
    }

    /// Where a slot begins.
    pub(super) fn slot(&self, which: usize) -> u64 {
        let slot = SLOT as u64 + u64::from(self.room);
        FRONT as u64 + u64::from(self.about) + slot * which as u64
    }

    /// Where the body begins.
    pub(super) fn body(&self) -> u64 {
        self.slot(2)
    }

    /// The length of the whole file.
    pub(super) fn file(&self) -> u64 {
        self.body().saturating_add(self.length)
    }
}

/// Encodes all that stands before the body, with one head.
pub(super) fn encode(front: &Front, about: &[u8], head: &[u8]) -> Vec<u8> {
    let mut bytes = front.encode().to_vec();
    bytes.extend_from_slice(about);
    bytes.extend_from_slice(&slot(1, head));
    bytes.resize(usize::try_from(front.body()).unwrap_or(0), 0);
    bytes
}

/// Encodes a slot without its padding.
pub(super) fn slot(serial: u64, head: &[u8]) -> Vec<u8> {
    let length = u32::try_from(head.len()).unwrap_or(u32::MAX).to_le_bytes();
    let serial = serial.to_le_bytes();
    let sum = checksum(&[&serial, &length, head]).to_le_bytes();
    [&serial[..], &length, &sum, head].concat()
}

/// Encodes URL and tags.
pub(super) fn about(url: &str, tags: &[String]) -> Vec<u8> {
    let texts = [url].into_iter().chain(tags.iter().map(String::as_str));
    let mut bytes = Vec::new();
    for text in texts {
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

/// Decodes URL and tags, in this order; `None` if they are no text.
pub(super) fn texts(mut about: &[u8]) -> Option<Vec<&str>> {
    let mut texts = Vec::new();
    while !about.is_empty() {
        let length = usize::try_from(u32_at(about, 0)?).ok()?;
        let (text, rest) = about[4..].split_at_checked(length)?;
        texts.push(str::from_utf8(text).ok()?);
        about = rest;
    }
    Some(texts)
}

/// All of a file but its body, with a valid front.
#[derive(Debug)]
pub(super) struct Beginning {
    pub(super) front: Front,
    bytes: Bytes,
}

impl Beginning {
    /// Reads the beginning of a file. `None` if it is damaged, or the file has not the length that it says.
    pub(super) fn read(file: &File) -> io::Result<Option<Self>> {
        let mut bytes = vec![0; FIRST_READ];
        let read = read_at(file, &mut bytes, 0)?;
        bytes.truncate(read);
        let Some(front) = Front::decode(&bytes) else {
            return Ok(None);
        };
        if file.metadata()?.len() != front.file() {
            return Ok(None);
        }
        let wanted = usize::try_from(front.body()).unwrap_or(usize::MAX);
        bytes.resize(wanted, 0);
        if wanted > read && read_at(file, &mut bytes[read..], read as u64)? < wanted - read {
            return Ok(None);
        }
        let this = Self {
            front,
            bytes: bytes.into(),
        };
        let is_whole = checksum(&[this.about()]) == this.front.about_checksum;
        Ok(is_whole.then_some(this))
    }

    pub(super) fn about(&self) -> &[u8] {
        let length = usize::try_from(self.front.about).unwrap_or(0);
        &self.bytes[FRONT..FRONT + length]
    }

    /// URL and tags; `None` if they are no text.
    pub(super) fn url_and_tags(&self) -> Option<(&str, Vec<&str>)> {
        let texts = texts(self.about())?;
        let (url, tags) = texts.split_first()?;
        Some((url, tags.to_vec()))
    }

    /// The newest valid head, with its slot and its serial number.
    pub(super) fn head(&self) -> Option<(usize, u64, Bytes)> {
        let heads = [0, 1].into_iter().filter_map(|which| {
            let (serial, head) = self.slot(which)?;
            Some((which, serial, head))
        });
        heads.max_by_key(|&(_, serial, _)| serial)
    }

    fn slot(&self, which: usize) -> Option<(u64, Bytes)> {
        let at = usize::try_from(self.front.slot(which)).ok()?;
        let bytes = self.bytes.get(at..)?;
        let length = u32_at(bytes, 8)?;
        if length > self.front.room {
            return None;
        }
        let head = bytes.get(SLOT..)?.get(..usize::try_from(length).ok()?)?;
        let sum = checksum(&[&bytes[..12], head]);
        let serial = u64_at(bytes, 0)?;
        (serial > 0 && sum == u32_at(bytes, 12)?).then(|| (serial, self.bytes.slice_ref(head)))
    }
}

/// Reads until the buffer is full or the file ends; returns the bytes read.
pub(super) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match file.read_at(&mut buffer[read..], offset + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

pub(super) fn checksum(parts: &[&[u8]]) -> u32 {
    let mut crc = Crc::new();
    for part in parts {
        crc.update(part);
    }
    crc.sum()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    fn file_of(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            head in prop::collection::vec(any::<u8>(), 0..6000),
            url in ".{0,40}",
            tags in prop::collection::vec(".{0,9}", 0..4),
            spare in 0_u32..3000,
            body in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let texts = about(&url, &tags);
            let front = Front {
                key: [7; 32],
                id: 9,
                length: body.len() as u64,
                checksum: checksum(&[&body]),
                room: head.len() as u32 + spare,
                about: texts.len() as u32,
                about_checksum: checksum(&[&texts]),
            };
            let file = file_of(&[encode(&front, &texts, &head), body].concat());
            let read = Beginning::read(&file).unwrap().unwrap();
            prop_assert_eq!(&read.front, &front);
            let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
            prop_assert_eq!(read.url_and_tags(), Some((url.as_str(), tags)));
            prop_assert_eq!(read.head(), Some((0, 1, Bytes::from(head))));
        }

        #[test]
        fn noise_is_no_file(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(Beginning::read(&file_of(&bytes)).unwrap().is_none());
        }
    }
}
