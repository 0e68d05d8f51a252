//! SETTINGS (RFC 9113 §6.5, RFC 8441 §3, RFC 9218 §2.1).

use crate::error::{Code, Violation};
use crate::frame::{self, MAX_31_BITS, kind};
use crate::hpack::INITIAL_CAPACITY;

/// The settings of a client.
///
/// [`Settings::default`] holds before its first SETTINGS frame has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `SETTINGS_HEADER_TABLE_SIZE`: the largest dynamic table of the client's decoder, in bytes.
    pub header_table_size: u32,
    /// `SETTINGS_INITIAL_WINDOW_SIZE`: the window of new streams towards the client, in bytes.
    pub initial_window_size: u32,
    /// `SETTINGS_MAX_FRAME_SIZE`: the largest payload of a frame that the client takes, in bytes.
    pub max_frame_size: u32,
    /// `SETTINGS_MAX_HEADER_LIST_SIZE`: the largest section that the client takes, in bytes. `None`
    /// stands for no limit.
    pub max_header_list_size: Option<u32>,
    /// `SETTINGS_NO_RFC7540_PRIORITIES`: whether the client uses none of RFC 7540's priorities.
    pub no_rfc7540_priorities: bool,
}

/// Identifiers of settings.
pub(crate) mod id {
    pub(crate) const HEADER_TABLE_SIZE: u16 = 0x1;
    pub(crate) const ENABLE_PUSH: u16 = 0x2;
    pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 0x3;
    pub(crate) const INITIAL_WINDOW_SIZE: u16 = 0x4;
    pub(crate) const MAX_FRAME_SIZE: u16 = 0x5;
    pub(crate) const MAX_HEADER_LIST_SIZE: u16 = 0x6;
    pub(crate) const ENABLE_CONNECT_PROTOCOL: u16 = 0x8;
    pub(crate) const NO_RFC7540_PRIORITIES: u16 = 0x9;
}

/// The window of a stream and of a connection before any setting, in bytes (RFC 9113 §6.9.2).
pub(crate) const INITIAL_WINDOW: u32 = 65_535;

/// The payload of a frame that every endpoint takes, in bytes (RFC 9113 §4.2).
pub(crate) const INITIAL_FRAME_SIZE: u32 = 16_384;

impl Default for Settings {
    fn default() -> Self {
        Self {
            header_table_size: INITIAL_CAPACITY,
            initial_window_size: INITIAL_WINDOW,
            max_frame_size: INITIAL_FRAME_SIZE,
            max_header_list_size: None,
            no_rfc7540_priorities: false,
        }
    }
}

impl Settings {
    /// Takes the settings of a frame's payload, in their order.
    ///
    /// # Errors
    /// Of the connection: `FRAME_SIZE_ERROR` for a truncated setting, `PROTOCOL_ERROR` or
    /// `FLOW_CONTROL_ERROR` for a forbidden value.
    pub(crate) fn update(&mut self, payload: &[u8], is_first: bool) -> Result<(), Violation> {
        let (settings, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() {
            return Err(Violation::frame_size("SETTINGS is truncated"));
        }
        let before = self.no_rfc7540_priorities;
        for &[a, b, c, d, e, f] in settings {
            let id = u16::from_be_bytes([a, b]);
            self.set(id, u32::from_be_bytes([c, d, e, f]))?;
        }
        // "Senders MUST NOT change the SETTINGS_NO_RFC7540_PRIORITIES value after the first SETTINGS
        // frame" (RFC 9218 §2.1).
        if !is_first && before != self.no_rfc7540_priorities {
            return Err(wrong("SETTINGS_NO_RFC7540_PRIORITIES has changed"));
        }
        Ok(())
    }

    fn set(&mut self, id: u16, value: u32) -> Result<(), Violation> {
        match id {
            id::HEADER_TABLE_SIZE => self.header_table_size = value,
            id::ENABLE_PUSH if value > 1 => {
                return Err(wrong("SETTINGS_ENABLE_PUSH is neither 0 nor 1"));
            }
            id::INITIAL_WINDOW_SIZE if value > MAX_31_BITS => {
                let reason = "SETTINGS_INITIAL_WINDOW_SIZE exceeds 31 bits";
                return Err(Violation::connection(Code::FLOW_CONTROL_ERROR, reason));
            }
            id::INITIAL_WINDOW_SIZE => self.initial_window_size = value,
            id::MAX_FRAME_SIZE if !(INITIAL_FRAME_SIZE..1 << 24).contains(&value) => {
                return Err(wrong("SETTINGS_MAX_FRAME_SIZE is out of its range"));
            }
            id::MAX_FRAME_SIZE => self.max_frame_size = value,
            id::MAX_HEADER_LIST_SIZE => self.max_header_list_size = Some(value),
            id::ENABLE_CONNECT_PROTOCOL if value > 1 => {
                return Err(wrong("SETTINGS_ENABLE_CONNECT_PROTOCOL is neither 0 nor 1"));
            }
            id::NO_RFC7540_PRIORITIES if value > 1 => {
                return Err(wrong("SETTINGS_NO_RFC7540_PRIORITIES is neither 0 nor 1"));
            }
            id::NO_RFC7540_PRIORITIES => self.no_rfc7540_priorities = value == 1,
            // "An endpoint that receives a SETTINGS frame with any unknown or unsupported identifier
            // MUST ignore that setting" (RFC 9113 §6.5.2). The others concern pushes.
            _ => {}
        }
        Ok(())
    }
}

/// Appends a SETTINGS frame.
pub(crate) fn write(settings: &[(u16, u32)], out: &mut Vec<u8>) {
    let mut payload = Vec::with_capacity(6 * settings.len());
    for (id, value) in settings {
        payload.extend_from_slice(&id.to_be_bytes());
        payload.extend_from_slice(&value.to_be_bytes());
    }
    frame::write(kind::SETTINGS, 0, 0, &payload, out);
}

const fn wrong(reason: &'static str) -> Violation {
    Violation::protocol(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(settings: &mut Settings, pairs: &[(u16, u32)], is_first: bool) -> Option<Code> {
        let mut frame = Vec::new();
        write(pairs, &mut frame);
        match settings.update(&frame[9..], is_first) {
            Ok(()) => None,
            Err(Violation::Connection(error)) => Some(error.code),
            Err(Violation::Stream(_)) => panic!("an error of a stream"),
        }
    }

    #[test]
    fn values_have_the_ranges_of_the_rfcs() {
        let protocol = Some(Code::PROTOCOL_ERROR);
        let cases: &[(&str, &[(u16, u32)], Option<Code>)] = &[
            ("nothing", &[], None),
            ("§6.5.2: ENABLE_PUSH of 0", &[(2, 0)], None),
            ("§6.5.2: any other value than 0 or 1", &[(2, 2)], protocol),
            ("§6.5.2: the largest window", &[(4, MAX_31_BITS)], None),
            (
                "§6.5.2: above the maximum flow-control window",
                &[(4, 1 << 31)],
                Some(Code::FLOW_CONTROL_ERROR),
            ),
            ("§6.5.2: the smallest frame size", &[(5, 16_384)], None),
            ("§6.5.2: below it", &[(5, 16_383)], protocol),
            ("§6.5.2: the largest", &[(5, 16_777_215)], None),
            ("§6.5.2: above it", &[(5, 16_777_216)], protocol),
            ("RFC 8441 §3: 0 or 1", &[(8, 1)], None),
            ("RFC 8441 §3: another value", &[(8, 2)], protocol),
            (
                "RFC 9218 §2.1: another value than 0 or 1",
                &[(9, 2)],
                protocol,
            ),
            ("§6.5.2: unknown identifiers", &[(0, 1), (0xffff, 1)], None),
            (
                "§6.5.3: in the order of their appearance",
                &[(5, 1), (5, 16_384)],
                protocol,
            ),
        ];
        for (name, pairs, want) in cases {
            let got = update(&mut Settings::default(), pairs, true);
            assert_eq!(got, *want, "{name}");
        }
    }

    #[test]
    fn the_last_value_counts() {
        let mut settings = Settings::default();
        let pairs = [(1, 0), (4, 5), (4, 6), (6, 7), (9, 1)];
        assert_eq!(update(&mut settings, &pairs, true), None);
        let want = Settings {
            header_table_size: 0,
            initial_window_size: 6,
            max_frame_size: 16_384,
            max_header_list_size: Some(7),
            no_rfc7540_priorities: true,
        };
        assert_eq!(settings, want);
        assert_eq!(update(&mut settings, &[(9, 1)], false), None);
        let changed = update(&mut settings, &[(9, 0)], false);
        assert_eq!(changed, Some(Code::PROTOCOL_ERROR), "RFC 9218 §2.1");
    }
}
