//! The limits of a server.

use std::time::Duration;

use crate::settings::{INITIAL_WINDOW, id};

/// The limits that a server sets its client on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Requests that the client may have open at a time. Default 100.
    pub max_streams: u32,
    /// Window of new streams for the client's content, in bytes, up to 2^31 - 1. Default 65,535.
    pub stream_window: u32,
    /// Window of the connection for the client's content, in bytes, up to 2^31 - 1. Default and
    /// minimum 65,535 (RFC 9113 §6.9.2).
    pub connection_window: u32,
    /// Largest header or trailer section that is taken. Default 65,536 bytes.
    ///
    /// Bytes count as in RFC 9113 §6.5.2: each field has 32 beside its name and value. An encoded
    /// section may have as many bytes while it arrives.
    pub max_section_size: u32,
    /// Dynamic table that the client's encoder may use, in bytes (RFC 7541 §4.2). Default 4,096; 0
    /// turns it off.
    pub header_table_size: u32,
    /// Largest dynamic table for encoding, in bytes, if the client allows it. Default 4,096; 0 turns
    /// it off.
    pub encoder_table_size: u32,
    /// Whether extended CONNECT is offered (RFC 8441). Default false.
    pub connect_protocol: bool,
    /// Requests that the client may cancel at once, or have reset by its faults. Each answered
    /// request and each tenth of a second allows one more. Default 256.
    pub max_cancelled: u32,
    /// Largest content of a DATA frame, in bytes, if the client takes as much. The default of 16,375
    /// fills a TLS record together with the frame's header.
    pub max_data: u32,
    /// Time for the acknowledgement of settings. Default 30 s.
    pub settings_timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_streams: 100,
            stream_window: INITIAL_WINDOW,
            connection_window: INITIAL_WINDOW,
            max_section_size: 65_536,
            header_table_size: 4_096,
            encoder_table_size: 4_096,
            connect_protocol: false,
            max_cancelled: 256,
            max_data: 16_375,
            settings_timeout: Duration::from_secs(30),
        }
    }
}

impl Config {
    /// The first SETTINGS frame.
    pub(super) fn settings(&self) -> Vec<(u16, u32)> {
        let mut settings = vec![
            (id::HEADER_TABLE_SIZE, self.header_table_size),
            (id::MAX_CONCURRENT_STREAMS, self.max_streams),
            (id::INITIAL_WINDOW_SIZE, self.stream_window),
            (id::MAX_HEADER_LIST_SIZE, self.max_section_size),
            (id::NO_RFC7540_PRIORITIES, 1),
        ];
        if self.connect_protocol {
            settings.push((id::ENABLE_CONNECT_PROTOCOL, 1));
        }
        settings
    }
}
