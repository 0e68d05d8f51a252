//! The encoder's choice of lines to insert: those that are sent for the second time.

/// Remembers the latest lines that were sent as literals.
///
/// Lines that recur, such as `server`, `alt-svc` or `cache-control`, enter the table when they come
/// back. Those that differ each time, such as `etag`, never do. No list of recurring names is
/// needed.
///
/// Hashes are compared, so that a line seldom enters the table early. That costs some bytes and
/// changes nothing else.
#[derive(Debug)]
pub struct RecentLines {
    hashes: [u32; REMEMBERED],
    next: usize,
}

impl RecentLines {
    /// Remembers no line.
    pub fn new() -> Self {
        Self {
            hashes: [0; REMEMBERED],
            next: 0,
        }
    }

    /// Remembers the line with this [`hash`]. Returns whether it was remembered already.
    pub fn remember(&mut self, hash: u32) -> bool {
        if self.hashes.contains(&hash) {
            return true;
        }
        self.hashes[self.next] = hash;
        self.next = (self.next + 1) % REMEMBERED;
        false
    }
}

impl Default for RecentLines {
    fn default() -> Self {
        Self::new()
    }
}

/// A hash of a line, for tables of one process.
pub fn hash(name: &[u8], value: &[u8]) -> u32 {
    let lengths = (name.len() as u64) << 32 | value.len() as u64;
    let hash = mix(mix(mix_word(SEED, lengths), name), value);
    (hash >> 32) as u32
}

fn mix(mut hash: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        hash = mix_word(hash, u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix_word(hash, u64::from_le_bytes(last))
}

fn mix_word(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word) * u128::from(MULTIPLIER);
    (product >> 64) as u64 ^ product as u64 ^ SEED
}

const SEED: u64 = 0x243f_6a88_85a3_08d3;
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number of remembered lines: those of some ten responses.
const REMEMBERED: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_use_is_noticed() {
        let mut recent = RecentLines::new();
        assert!(!recent.remember(hash(b"server", b"hikyaku")));
        assert!(!recent.remember(hash(b"server", b"other")));
        assert!(!recent.remember(hash(b"etag", b"hikyaku")));
        assert!(recent.remember(hash(b"server", b"hikyaku")));
    }

    #[test]
    fn the_oldest_lines_are_forgotten() {
        let mut recent = RecentLines::new();
        recent.remember(hash(b"server", b"hikyaku"));
        for value in 0..REMEMBERED {
            recent.remember(hash(b"etag", value.to_string().as_bytes()));
        }
        assert!(!recent.remember(hash(b"server", b"hikyaku")));
    }
}
