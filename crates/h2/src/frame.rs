//! Frames (RFC 9113 §4, §6; RFC 9218 §7.1).

/// Types of frames.
pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0x0;
    pub(crate) const HEADERS: u8 = 0x1;
    pub(crate) const PRIORITY: u8 = 0x2;
    pub(crate) const RST_STREAM: u8 = 0x3;
    pub(crate) const SETTINGS: u8 = 0x4;
    pub(crate) const PUSH_PROMISE: u8 = 0x5;
    pub(crate) const PING: u8 = 0x6;
    pub(crate) const GOAWAY: u8 = 0x7;
    pub(crate) const WINDOW_UPDATE: u8 = 0x8;
    pub(crate) const CONTINUATION: u8 = 0x9;
    pub(crate) const PRIORITY_UPDATE: u8 = 0x10;
}

/// Flags of frames.
pub(crate) mod flag {
    /// Of SETTINGS and PING.
    pub(crate) const ACK: u8 = 0x1;
    pub(crate) const END_STREAM: u8 = 0x1;
    pub(crate) const END_HEADERS: u8 = 0x4;
    pub(crate) const PADDED: u8 = 0x8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

/// The first bytes of a client's connection (RFC 9113 §3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The largest window and stream identifier: 31 bits.
pub(crate) const MAX_31_BITS: u32 = 0x7fff_ffff;

/// The header of a frame (RFC 9113 §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Bytes of the payload: at most 24 bits.
    pub(crate) length: u32,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    /// The stream identifier, without the reserved bit.
    pub(crate) stream: u32,
}

impl Header {
    /// Bytes of an encoded header.
    pub(crate) const LEN: usize = 9;

    pub(crate) const fn read(bytes: [u8; Self::LEN]) -> Self {
        let [a, b, c, kind, flags, stream @ ..] = bytes;
        Self {
            length: u32::from_be_bytes([0, a, b, c]),
            kind,
            flags,
            // "The value of the reserved bit MUST be ignored when receiving".
            stream: u32::from_be_bytes(stream) & MAX_31_BITS,
        }
    }

    pub(crate) const fn bytes(self) -> [u8; Self::LEN] {
        let [_, a, b, c] = self.length.to_be_bytes();
        let [d, e, f, g] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, d, e, f, g]
    }

    pub(crate) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes());
    }

    pub(crate) const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame of a few bytes.
pub(crate) fn write(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    let header = Header {
        length: payload.len() as u32,
        kind,
        flags,
        stream,
    };
    header.write(out);
    out.extend_from_slice(payload);
}

/// Appends the HEADERS frame of a field block that `encode` appends, and CONTINUATION frames for
/// what exceeds `max_frame` bytes (RFC 9113 §6.10).
pub(crate) fn write_block(
    stream: u32,
    end_stream: bool,
    max_frame: usize,
    out: &mut Vec<u8>,
    encode: impl FnOnce(&mut Vec<u8>),
) {
    let at = out.len();
    out.extend_from_slice(&[0; Header::LEN]);
    encode(out);
    let length = out.len() - at - Header::LEN;
    let flags = if end_stream { flag::END_STREAM } else { 0 };
    let mut header = Header {
        length: length.min(max_frame) as u32,
        kind: kind::HEADERS,
        flags: flags | flag::END_HEADERS,
        stream,
    };
    if length <= max_frame {
        out[at..at + Header::LEN].copy_from_slice(&header.bytes());
        return;
    }
    header.flags = flags;
    out[at..at + Header::LEN].copy_from_slice(&header.bytes());
    let rest = out.split_off(at + Header::LEN + max_frame);
    let mut chunks = rest.chunks(max_frame).peekable();
    while let Some(chunk) = chunks.next() {
        let is_last = chunks.peek().is_none();
        let flags = if is_last { flag::END_HEADERS } else { 0 };
        write(kind::CONTINUATION, flags, stream, chunk, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back() {
        let header = Header {
            length: 0x01_0203,
            kind: kind::GOAWAY,
            flags: 0x25,
            stream: MAX_31_BITS,
        };
        let mut bytes = header.bytes();
        assert_eq!(bytes, [1, 2, 3, 7, 0x25, 0x7f, 0xff, 0xff, 0xff]);
        assert_eq!(Header::read(bytes), header);
        bytes[5] |= 0x80;
        assert_eq!(Header::read(bytes), header, "§4.1: the reserved bit");
    }

    #[test]
    fn blocks_are_cut_into_frames() {
        // (bytes of the block, the lengths, types and flags of the frames)
        let cases: &[(usize, &[(u32, u8, u8)])] = &[
            (0, &[(0, kind::HEADERS, 0x5)]),
            (10, &[(10, kind::HEADERS, 0x5)]),
            (
                11,
                &[(10, kind::HEADERS, 0x1), (1, kind::CONTINUATION, 0x4)],
            ),
            (
                30,
                &[
                    (10, kind::HEADERS, 0x1),
                    (10, kind::CONTINUATION, 0x0),
                    (10, kind::CONTINUATION, 0x4),
                ],
            ),
        ];
        for (length, want) in cases {
            let block: Vec<u8> = (0..*length as u8).collect();
            let mut out = vec![9];
            write_block(5, true, 10, &mut out, |out| out.extend_from_slice(&block));
            let (mut left, mut got, mut content) = (&out[1..], Vec::new(), Vec::new());
            while let Some((header, rest)) = left.split_first_chunk() {
                let header = Header::read(*header);
                assert_eq!(header.stream, 5);
                got.push((header.length, header.kind, header.flags));
                let (payload, rest) = rest.split_at(header.length as usize);
                content.extend_from_slice(payload);
                left = rest;
            }
            assert_eq!(got, *want, "{length} bytes");
            assert_eq!(content, block, "{length} bytes");
        }
    }
}
