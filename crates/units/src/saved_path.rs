//! What is kept of a path for the next connection over it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{ByteSize, duration};

/// What connections of a client, or of its neighbours, have lately shown of the path: where a new one may
/// begin after it has validated it (Careful Resume, draft-ietf-tsvwg-careful-resume).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedPath {
    /// Bytes in flight that filled the path: delivery rate x `min_rtt`, halved for each `half_life.rate`
    /// since the client, or its prefix, was last seen.
    pub bdp: ByteSize,
    /// Smallest round-trip time.
    #[serde(with = "duration")]
    pub min_rtt: Duration,
}

impl SavedPath {
    /// The packets with which a connection may begin: a quarter of those that filled the path, at least the
    /// usual 10 (RFC 6928 §2, RFC 9002 §7.2), at most 32.
    ///
    /// The bound is what a path that has become another one gets at worst, spread over a round trip: a
    /// third of it would be the usual, and it is within what content delivery networks give anybody (most
    /// below 50; Rüth and Hohlfeld, Demystifying TCP Initial Window Configurations of Content Distribution
    /// Networks, TMA 2018).
    #[must_use]
    pub fn initial_window(&self) -> u32 {
        let packets = self.bdp.bytes() / 4 / MSS;
        let within = packets.clamp(DEFAULT_PACKETS.into(), MAX_PACKETS.into());
        u32::try_from(within).unwrap_or(MAX_PACKETS)
    }
}

/// Bytes of a segment: `kDefaultTCPMSS` in FLOOR §5.
const MSS: u64 = 1460;
/// Packets with which any connection may begin, and at most one whose path is known.
const DEFAULT_PACKETS: u32 = 10;
const MAX_PACKETS: u32 = 32;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::SavedPath;
    use crate::ByteSize;

    #[test]
    fn a_connection_begins_with_a_quarter_within_bounds() {
        let cases = [
            ("hardly more than anybody's", 14_600, 10),
            ("a little", 4 * 10 * 1460, 10),
            ("a quarter", 4 * 20 * 1460, 20),
            ("part of a packet does not count", 4 * 21 * 1460 - 1, 20),
            ("the most", 4 * 32 * 1460, 32),
            ("1 Gbit/s", 12_500_000, 32),
            ("all there can be", u64::MAX, 32),
        ];
        for (name, bytes, want) in cases {
            let known = SavedPath {
                bdp: ByteSize::from_bytes(bytes),
                min_rtt: Duration::from_millis(40),
            };
            assert_eq!(known.initial_window(), want, "{name}");
        }
    }
}
