//! SETTINGS (RFC 9114 §7.2.4).

use bytes::{Buf, Bytes, BytesMut};

use crate::error::{Code, Error};
use crate::frame::{Header, kind};
use crate::varint;

/// The properties of an endpoint in its SETTINGS frame.
///
/// [`Settings::default`] holds before the frame has arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `SETTINGS_MAX_FIELD_SECTION_SIZE`: the largest field section that the endpoint takes, in
    /// bytes as in RFC 9114 §4.2.2. `None` stands for no limit.
    pub max_field_section_size: Option<u64>,
    /// `SETTINGS_QPACK_MAX_TABLE_CAPACITY`: the largest dynamic table of the endpoint's decoder, in
    /// bytes (RFC 9204 §5).
    pub qpack_max_table_capacity: u64,
    /// `SETTINGS_QPACK_BLOCKED_STREAMS`: the number of streams that may wait for the endpoint's
    /// decoder (RFC 9204 §5).
    pub qpack_blocked_streams: u64,
    /// `SETTINGS_ENABLE_CONNECT_PROTOCOL`: whether the endpoint takes extended CONNECT (RFC 9220
    /// §3).
    pub connect_protocol: bool,
}

mod id {
    pub(super) const QPACK_MAX_TABLE_CAPACITY: u64 = 0x01;
    pub(super) const MAX_FIELD_SECTION_SIZE: u64 = 0x06;
    pub(super) const QPACK_BLOCKED_STREAMS: u64 = 0x07;
    pub(super) const ENABLE_CONNECT_PROTOCOL: u64 = 0x08;
}

impl Settings {
    /// Largest content of a frame that is decoded, in bytes.
    pub(crate) const MAX_LENGTH: u64 = 4096;

    /// Appends the frame to `out`; settings at their defaults are left out.
    pub(crate) fn encode(&self, out: &mut BytesMut) {
        let mut content = BytesMut::new();
        let mut put = |id, value| {
            varint::encode(id, &mut content);
            varint::encode(value, &mut content);
        };
        if let Some(size) = self.max_field_section_size {
            put(id::MAX_FIELD_SECTION_SIZE, size);
        }
        if self.qpack_max_table_capacity > 0 {
            put(id::QPACK_MAX_TABLE_CAPACITY, self.qpack_max_table_capacity);
        }
        if self.qpack_blocked_streams > 0 {
            put(id::QPACK_BLOCKED_STREAMS, self.qpack_blocked_streams);
        }
        if self.connect_protocol {
            put(id::ENABLE_CONNECT_PROTOCOL, 1);
        }
        let header = Header {
            kind: kind::SETTINGS,
            length: content.len() as u64,
        };
        header.encode(out);
        out.extend_from_slice(&content);
    }

    /// Reads a frame's content.
    ///
    /// # Errors
    /// `H3_SETTINGS_ERROR` for a setting that occurs twice, was HTTP/2's, or has a forbidden value.
    /// `H3_FRAME_ERROR` if the last one is truncated.
    pub(crate) fn decode(mut content: Bytes) -> Result<Self, Error> {
        let mut settings = Self::default();
        let mut seen = Vec::new();
        while content.has_remaining() {
            let setting = varint::decode(&mut content).zip(varint::decode(&mut content));
            let Some((id, value)) = setting else {
                return Err(Error::connection(Code::FrameError, "SETTINGS is truncated"));
            };
            seen.push(id);
            settings.set(id, value)?;
        }
        seen.sort_unstable();
        if seen.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(wrong("a setting is there twice"));
        }
        Ok(settings)
    }

    fn set(&mut self, id: u64, value: u64) -> Result<(), Error> {
        match id {
            id::QPACK_MAX_TABLE_CAPACITY => self.qpack_max_table_capacity = value,
            id::MAX_FIELD_SECTION_SIZE => self.max_field_section_size = Some(value),
            id::QPACK_BLOCKED_STREAMS => self.qpack_blocked_streams = value,
            id::ENABLE_CONNECT_PROTOCOL if value > 1 => {
                return Err(wrong("SETTINGS_ENABLE_CONNECT_PROTOCOL is neither 0 nor 1"));
            }
            id::ENABLE_CONNECT_PROTOCOL => self.connect_protocol = value == 1,
            // RFC 9114 §7.2.4.1, §11.2.2: HTTP/2's settings without a counterpart.
            0x00 | 0x02..=0x05 => return Err(wrong("a setting of HTTP/2 is reserved")),
            // "An implementation MUST ignore any parameter with an identifier it does not
            // understand" (RFC 9114 §7.2.4).
            _ => {}
        }
        Ok(())
    }
}

fn wrong(reason: &'static str) -> Error {
    Error::connection(Code::SettingsError, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_as_the_rfcs_say() {
        let cases: &[(&str, &[u8], Result<Settings, Code>)] = &[
            (
                "RFC 9114 §7.2.4: none is needed",
                &[],
                Ok(Settings::default()),
            ),
            (
                "RFC 9114 §7.2.4.1: a field section size",
                &[6, 0x40, 0x64],
                Ok(Settings {
                    max_field_section_size: Some(100),
                    ..Settings::default()
                }),
            ),
            (
                "RFC 9204 §5: both of QPACK",
                &[1, 0x50, 0, 7, 16],
                Ok(Settings {
                    qpack_max_table_capacity: 4096,
                    qpack_blocked_streams: 16,
                    ..Settings::default()
                }),
            ),
            (
                "RFC 9220 §3: extended CONNECT",
                &[8, 1],
                Ok(Settings {
                    connect_protocol: true,
                    ..Settings::default()
                }),
            ),
            (
                "RFC 8441 §3: its value is 0 or 1",
                &[8, 2],
                Err(Code::SettingsError),
            ),
            (
                "RFC 9114 §7.2.4: the same identifier twice",
                &[6, 1, 6, 1],
                Err(Code::SettingsError),
            ),
            (
                "RFC 9114 §7.2.4: an unknown one twice",
                &[0x21, 1, 0x21, 2],
                Err(Code::SettingsError),
            ),
            (
                "RFC 9114 §7.2.4.1: reserved ones are ignored",
                &[0x21, 1, 0x40, 0x40, 2],
                Ok(Settings::default()),
            ),
            (
                "RFC 9114 §7.2.4.1: HTTP/2's ENABLE_PUSH",
                &[2, 0],
                Err(Code::SettingsError),
            ),
            (
                "RFC 9114 §7.2.4.1: HTTP/2's MAX_CONCURRENT_STREAMS",
                &[3, 9],
                Err(Code::SettingsError),
            ),
            (
                "RFC 9114 §7.2.4.1: HTTP/2's INITIAL_WINDOW_SIZE",
                &[4, 9],
                Err(Code::SettingsError),
            ),
            (
                "RFC 9114 §7.2.4.1: HTTP/2's MAX_FRAME_SIZE",
                &[5, 9],
                Err(Code::SettingsError),
            ),
            ("RFC 9114 §11.2.2: 0x00", &[0, 0], Err(Code::SettingsError)),
            (
                "RFC 9114 §7.1: an identifier without its value",
                &[6],
                Err(Code::FrameError),
            ),
            (
                "RFC 9114 §7.1: half a value",
                &[6, 0x40],
                Err(Code::FrameError),
            ),
        ];
        for (name, content, want) in cases {
            let got = Settings::decode(Bytes::from_static(content));
            assert_eq!(got.map_err(|error| error.code()), *want, "{name}");
        }
    }

    #[test]
    fn decoding_reverses_encoding() {
        let settings = Settings {
            max_field_section_size: Some(65_536),
            qpack_max_table_capacity: 4096,
            qpack_blocked_streams: 16,
            connect_protocol: true,
        };
        let mut out = BytesMut::new();
        settings.encode(&mut out);
        let content = out.freeze().split_off(2);
        assert_eq!(Settings::decode(content), Ok(settings));
    }
}
