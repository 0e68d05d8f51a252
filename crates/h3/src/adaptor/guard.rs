//! A bound on the frames that `h3` would buffer whole.

use std::fmt;

/// Largest content of a frame other than DATA, in bytes.
///
/// `h3` keeps such a frame in memory until its last byte is there, so without a bound
/// a peer could announce, and send, gigabytes of header section.
const MAX_BUFFERED_FRAME: u64 = 256 * 1024;

/// Frame type of DATA (RFC 9114 §7.2.1), the only one that is passed on as it comes.
const DATA: u64 = 0x00;

/// Follows the frames of a stream (RFC 9114 §7.1) and refuses the oversized ones.
#[derive(Debug)]
pub struct FrameGuard {
    state: State,
    varint: Varint,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The type of a unidirectional stream comes first (RFC 9114 §6.2).
    StreamType,
    FrameType,
    FrameLength {
        frame_type: u64,
    },
    Content {
        left: u64,
    },
    /// A stream that carries no frames, such as QPACK's.
    Unframed,
}

/// A frame that would have to be buffered is larger than 256 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameTooLarge {
    /// Type of the frame (RFC 9114 §11.2.1).
    pub frame_type: u64,
    /// Length that the peer announced, in bytes.
    pub length: u64,
}

impl fmt::Display for FrameTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { frame_type, length } = self;
        write!(
            f,
            "frame of type {frame_type:#x} announces {length} bytes, more than {MAX_BUFFERED_FRAME}"
        )
    }
}

impl std::error::Error for FrameTooLarge {}

impl FrameGuard {
    /// Guards a request stream.
    pub fn request() -> Self {
        Self::starting_with(State::FrameType)
    }

    /// Guards a unidirectional stream, whose first bytes tell its type.
    pub fn unidirectional() -> Self {
        Self::starting_with(State::StreamType)
    }

    fn starting_with(state: State) -> Self {
        Self {
            state,
            varint: Varint::default(),
        }
    }

    /// Takes note of the next bytes of the stream.
    ///
    /// # Errors
    /// When they announce a frame, other than DATA, of more than 256 KiB.
    pub fn observe(&mut self, mut bytes: &[u8]) -> Result<(), FrameTooLarge> {
        while let Some((&first, rest)) = bytes.split_first() {
            match self.state {
                State::Unframed => return Ok(()),
                State::Content { left } => {
                    let skipped = left.min(bytes.len() as u64);
                    bytes = &bytes[skipped as usize..];
                    self.enter_content(left - skipped);
                }
                _ => {
                    bytes = rest;
                    if let Some(value) = self.varint.push(first) {
                        self.on_varint(value)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn on_varint(&mut self, value: u64) -> Result<(), FrameTooLarge> {
        /// Stream types that carry frames: control and push (RFC 9114 §6.2).
        const CONTROL: u64 = 0x00;
        const PUSH: u64 = 0x01;
        match self.state {
            State::StreamType if matches!(value, CONTROL | PUSH) => self.state = State::FrameType,
            State::StreamType => self.state = State::Unframed,
            State::FrameType => self.state = State::FrameLength { frame_type: value },
            State::FrameLength { frame_type }
                if frame_type != DATA && value > MAX_BUFFERED_FRAME =>
            {
                return Err(FrameTooLarge {
                    frame_type,
                    length: value,
                });
            }
            State::FrameLength { .. } => self.enter_content(value),
            State::Content { .. } | State::Unframed => {}
        }
        Ok(())
    }

    fn enter_content(&mut self, left: u64) {
        self.state = match left {
            0 => State::FrameType,
            left => State::Content { left },
        };
    }
}

/// A variable-length integer (RFC 9000 §16) that may arrive byte by byte.
#[derive(Debug, Default)]
struct Varint {
    value: u64,
    missing: u8,
}

impl Varint {
    fn push(&mut self, byte: u8) -> Option<u64> {
        if self.missing == 0 {
            self.missing = (1 << (byte >> 6)) - 1;
            self.value = u64::from(byte & 0x3f);
        } else {
            self.missing -= 1;
            self.value = self.value << 8 | u64::from(byte);
        }
        (self.missing == 0).then_some(self.value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bounds_what_would_be_buffered() {
        let too_large = |frame_type, length| Err(FrameTooLarge { frame_type, length });
        type Case = (
            &'static str,
            FrameGuard,
            &'static [u8],
            Result<(), FrameTooLarge>,
        );
        let cases: &[Case] = &[
            ("nothing", FrameGuard::request(), &[], Ok(())),
            (
                "a small header section",
                FrameGuard::request(),
                &[1, 2, 0, 0],
                Ok(()),
            ),
            (
                "1 GiB - 1 of DATA",
                FrameGuard::request(),
                &[0, 0xbf, 0xff, 0xff, 0xff, 9],
                Ok(()),
            ),
            (
                "1 GiB - 1 of header section",
                FrameGuard::request(),
                &[1, 0xbf, 0xff, 0xff, 0xff],
                too_large(1, 0x3fff_ffff),
            ),
            (
                "trailers after data",
                FrameGuard::request(),
                &[0, 1, 7, 1, 0x80, 0x10, 0, 0],
                too_large(1, 0x10_0000),
            ),
            (
                "an empty frame, then a large unknown one",
                FrameGuard::request(),
                &[0, 0, 0x21, 0x80, 0x10, 0, 0],
                too_large(0x21, 0x10_0000),
            ),
            (
                "settings on the control stream",
                FrameGuard::unidirectional(),
                &[0, 4, 0x80, 0x10, 0, 0],
                too_large(4, 0x10_0000),
            ),
            (
                "the QPACK encoder's stream has no frames",
                FrameGuard::unidirectional(),
                &[2, 4, 0x80, 0x10, 0, 0],
                Ok(()),
            ),
        ];
        for (name, guard, bytes, want) in cases {
            let mut guard = FrameGuard::starting_with(guard.state);
            assert_eq!(&guard.observe(bytes), want, "{name}");
        }
    }

    proptest! {
        #[test]
        fn chunking_makes_no_difference(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            cuts in prop::collection::vec(1usize..20, 0..30),
        ) {
            let whole = FrameGuard::request().observe(&bytes);
            let mut guard = FrameGuard::request();
            let mut left = &bytes[..];
            let mut split = Ok(());
            for cut in cuts {
                let (now, later) = left.split_at(cut.min(left.len()));
                split = split.and_then(|()| guard.observe(now));
                left = later;
            }
            split = split.and_then(|()| guard.observe(left));
            prop_assert_eq!(whole, split);
        }
    }
}
