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
pub(super) struct RecentLines {
    hashes: [u32; REMEMBERED],
    next: usize,
}

impl RecentLines {
    pub(super) fn new() -> Self {
        Self {
            hashes: [0; REMEMBERED],
            next: 0,
        }
    }

    /// Remembers a line. Returns whether it was remembered already.
    pub(super) fn remember(&mut self, name: &[u8], value: &[u8]) -> bool {
        let hash = hash(name, value);
        if self.hashes.contains(&hash) {
            return true;
        }
        self.hashes[self.next] = hash;
        self.next = (self.next + 1) % REMEMBERED;
        false
    }
}

/// FNV-1a, over the name, a separator that no name contains, and the value.
fn hash(name: &[u8], value: &[u8]) -> u32 {
    let bytes = name.iter().chain(b":").chain(value);
    bytes.fold(0x811c_9dc5, |hash, &byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// The number of remembered lines: those of some ten responses.
const REMEMBERED: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_use_is_noticed() {
        let mut recent = RecentLines::new();
        assert!(!recent.remember(b"server", b"hikyaku"));
        assert!(!recent.remember(b"server", b"other"));
        assert!(!recent.remember(b"etag", b"hikyaku"));
        assert!(recent.remember(b"server", b"hikyaku"));
    }

    #[test]
    fn the_oldest_lines_are_forgotten() {
        let mut recent = RecentLines::new();
        recent.remember(b"server", b"hikyaku");
        for value in 0..REMEMBERED {
            recent.remember(b"etag", value.to_string().as_bytes());
        }
        assert!(!recent.remember(b"server", b"hikyaku"));
    }
}
