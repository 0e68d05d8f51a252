//! The limits of an endpoint.

use crate::qpack::{DecoderConfig, EncoderConfig};
use crate::settings::Settings;

/// The limits that an endpoint sets its peer on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Largest header or trailer section that is taken. Default 65,536 bytes.
    ///
    /// Bytes count as in RFC 9114 §4.2.2: each field has 32 beside its name and value. A section
    /// takes up to twice as many in memory while it arrives.
    pub max_field_section_size: u64,
    /// Dynamic table that the peer's encoder may use, in bytes (RFC 9204 §3.2.3). Default 4,096; 0
    /// turns it off.
    pub max_table_capacity: u64,
    /// Streams whose sections may wait for the peer's encoder (RFC 9204 §2.1.2). Default 16.
    pub max_blocked_streams: u64,
    /// Largest dynamic table for encoding, in bytes, if the peer allows it. Default 4,096; 0 turns
    /// it off.
    pub encoder_table_capacity: u64,
    /// Server: whether extended CONNECT is offered (RFC 9220). Default false.
    pub connect_protocol: bool,
    /// Server: requests that the client may have open at a time, as QUIC allows them.
    /// PRIORITY_UPDATE may concern no others (RFC 9218 §7.1). Default 128.
    pub max_requests: u64,
    /// Server: requests that the client may cancel at once. Each answered request and each tenth of
    /// a second allows one more. Default 256.
    pub max_cancelled: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_field_section_size: 65_536,
            max_table_capacity: 4_096,
            max_blocked_streams: 16,
            encoder_table_capacity: 4_096,
            connect_protocol: false,
            max_requests: 128,
            max_cancelled: 256,
        }
    }
}

impl Config {
    pub(super) fn settings(&self, is_server: bool) -> Settings {
        Settings {
            max_field_section_size: Some(self.max_field_section_size),
            qpack_max_table_capacity: self.max_table_capacity,
            qpack_blocked_streams: self.max_blocked_streams,
            // Only servers offer extended CONNECT (RFC 9220 §3).
            connect_protocol: self.connect_protocol && is_server,
        }
    }

    pub(super) fn decoder(&self) -> DecoderConfig {
        DecoderConfig {
            max_table_capacity: self.max_table_capacity,
            max_blocked_streams: self.max_blocked_streams,
            max_section_size: self.max_field_section_size,
        }
    }

    pub(super) fn encoder(&self) -> EncoderConfig {
        EncoderConfig {
            max_table_capacity: self.encoder_table_capacity,
            // A response's content may use up the connection's flow control before the insertions
            // that its head needs have left. The peer then waits for them, and gives no more credit:
            // the deadlock of RFC 9204 §2.1.3.
            max_blocked_streams: 0,
        }
    }
}
