//! The properties of a path that later connections over it use.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{ByteSize, duration};

/// Recent measurements of a path, by connections of one client or of its neighbours.
///
/// A new connection may begin at them after it has validated the path (Careful Resume, RFC 9959).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedPath {
    /// Bytes in flight that filled the path: delivery rate × `min_rtt`. Halved for each
    /// `half_life.rate` since a connection of the client, or of its prefix.
    pub bdp: ByteSize,
    /// Smallest round-trip time.
    #[serde(with = "duration")]
    pub min_rtt: Duration,
}

impl SavedPath {
    /// The packets with which a connection may begin: a quarter of those that filled the path, from
    /// 10 to 32.
    ///
    /// Every connection gets the minimum (RFC 6928 §2, RFC 9002 §7.2). The maximum bounds the burst
    /// at a path that has changed meanwhile: three times the usual one, spread over a round trip.
    ///
    /// Most content delivery networks begin below 50 packets (TMA 2018: Rüth and Hohlfeld,
    /// "Demystifying TCP Initial Window Configurations of Content Distribution Networks").
    #[must_use]
    pub fn initial_window(&self) -> u32 {
        let packets = self.bdp.bytes() / 4 / MSS;
        let within = packets.clamp(DEFAULT_PACKETS.into(), MAX_PACKETS.into());
        u32::try_from(within).unwrap_or(MAX_PACKETS)
    }
}

/// The bytes of a segment: `kDefaultTCPMSS` in FLOOR §5.
const MSS: u64 = 1460;
/// The packets with which every connection may begin.
const DEFAULT_PACKETS: u32 = 10;
/// The largest number of packets with which a connection over a known path may begin.
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
