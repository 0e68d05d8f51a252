//! Encoders of the content codings, fed piece by piece.

use std::io::{self, Write as _};
use std::mem;

use brotli::enc::StandardAlloc;
use brotli::enc::encode::{
    BrotliEncoderOperation as Operation, BrotliEncoderParameter as Parameter,
    BrotliEncoderStateStruct,
};
use flate2::Compression as GzipLevel;
use flate2::write::GzEncoder;
use zstd::stream::write::Encoder as ZstdEncoder;

use crate::files::Coding;

/// An encoder at a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) coding: Coding,
    pub(crate) level: u8,
}

/// An encoder at work.
pub(crate) enum Encoder {
    Br(Box<Brotli>),
    Zstd(Box<ZstdEncoder<'static, Vec<u8>>>),
    Gzip(Box<GzEncoder<Vec<u8>>>),
}

impl Encoder {
    /// Begins a stream. `length` is that of the content, if it is known: small content takes less
    /// memory then.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(crate) fn new(settings: Settings, length: Option<u64>) -> io::Result<Self> {
        let level = settings.level;
        Ok(match settings.coding {
            Coding::Br => Self::Br(Box::new(Brotli::new(level, length))),
            Coding::Zstd => {
                let mut encoder = ZstdEncoder::new(Vec::new(), i32::from(level))?;
                encoder.window_log(ZSTD_WINDOW)?;
                encoder.set_pledged_src_size(length)?;
                Self::Zstd(Box::new(encoder))
            }
            Coding::Gzip => {
                let level = GzipLevel::new(u32::from(level));
                Self::Gzip(Box::new(GzEncoder::new(Vec::new(), level)))
            }
        })
    }

    /// Takes content, and returns the coded bytes that are ready; perhaps there are none.
    ///
    /// # Errors
    /// If the encoder fails.
    pub(crate) fn write(&mut self, content: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Br(encoder) => encoder.run(Operation::BROTLI_OPERATION_PROCESS, content),
            Self::Zstd(encoder) => {
                encoder.write_all(content)?;
                Ok(worth_sending(encoder.get_mut()))
            }
            Self::Gzip(encoder) => {
                encoder.write_all(content)?;
                Ok(worth_sending(encoder.get_mut()))
            }
        }
    }

    /// Returns coded bytes with which a decoder has all content so far.
    ///
    /// # Errors
    /// If the encoder fails.
    pub(crate) fn flush(&mut self) -> io::Result<Vec<u8>> {
        match self {
            Self::Br(encoder) => encoder.run(Operation::BROTLI_OPERATION_FLUSH, &[]),
            Self::Zstd(encoder) => {
                encoder.flush()?;
                Ok(mem::take(encoder.get_mut()))
            }
            Self::Gzip(encoder) => {
                encoder.flush()?;
                Ok(mem::take(encoder.get_mut()))
            }
        }
    }

    /// Ends the stream, and returns its last bytes.
    ///
    /// # Errors
    /// If the encoder fails, or the content has another length than was announced.
    pub(crate) fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Br(mut encoder) => encoder.run(Operation::BROTLI_OPERATION_FINISH, &[]),
            Self::Zstd(encoder) => encoder.finish(),
            Self::Gzip(encoder) => encoder.finish(),
        }
    }
}

/// Takes output that is worth a frame. The head of a stream alone is not.
fn worth_sending(output: &mut Vec<u8>) -> Vec<u8> {
    match output.len() {
        0..1024 => Vec::new(),
        _ => mem::take(output),
    }
}

impl Settings {
    /// Memory of an encoder for content of this length, in bytes: its tables, and the buffers that
    /// grow with the content up to the window.
    pub(super) fn memory(self, length: Option<u64>) -> u64 {
        let within = |window: u64| length.unwrap_or(window).min(window);
        let level = usize::from(self.level);
        match self.coding {
            Coding::Gzip => 400 * KIB,
            Coding::Zstd => match self.level {
                0..=4 => 512 * KIB + 3 * within(1 << ZSTD_WINDOW),
                _ => 512 * KIB + 20 * within(1 << ZSTD_WINDOW),
            },
            Coding::Br => {
                let tables = BR_TABLES_MIB.get(level).copied().unwrap_or(32);
                tables * 1024 * KIB + 8 * within(1 << BR_WINDOW)
            }
        }
    }
}

/// Brotli's encoder, without a buffer between it and the output.
///
/// The crate's own writer encodes all that it holds when it is dropped, also for a client that is
/// gone.
pub(crate) struct Brotli(BrotliEncoderStateStruct<StandardAlloc>);

impl Brotli {
    fn new(level: u8, length: Option<u64>) -> Self {
        let mut state = BrotliEncoderStateStruct::new(StandardAlloc::default());
        let hint = length.unwrap_or(0).min(u64::from(u32::MAX >> 2));
        let parameters = [
            (Parameter::BROTLI_PARAM_QUALITY, u32::from(level)),
            (Parameter::BROTLI_PARAM_LGWIN, BR_WINDOW),
            (
                Parameter::BROTLI_PARAM_SIZE_HINT,
                u32::try_from(hint).unwrap_or(0),
            ),
        ];
        for (parameter, value) in parameters {
            state.set_parameter(parameter, value);
        }
        Self(state)
    }

    fn run(&mut self, operation: Operation, content: &[u8]) -> io::Result<Vec<u8>> {
        let (mut left, mut taken, mut out) = (content.len(), 0, Vec::new());
        loop {
            // Without room for it here, the output stays in the encoder.
            let works = self.0.compress_stream(
                operation,
                &mut left,
                content,
                &mut taken,
                &mut 0,
                &mut [],
                &mut 0,
                &mut None,
                &mut |_, _, _, _| (),
            );
            if !works {
                return Err(io::Error::other("the encoder of br takes no more"));
            }
            while self.0.has_more_output() {
                let mut length = 0;
                let ready = self.0.take_output(&mut length);
                out.extend_from_slice(&ready[..length]);
            }
            let is_done = match operation {
                Operation::BROTLI_OPERATION_FINISH => self.0.is_finished(),
                _ => left == 0,
            };
            if is_done {
                return Ok(out);
            }
        }
    }
}

const KIB: u64 = 1024;

/// Base-2 logarithm of the window of zstd. RFC 9659 allows 23, and each client takes as much memory.
const ZSTD_WINDOW: u32 = 19;

/// Base-2 logarithm of the window of br. Its buffers are several times that.
const BR_WINDOW: u32 = 18;

/// Tables of br by its level, in MiB. Levels 0 and 1 have encoders of their own, which are not used.
const BR_TABLES_MIB: [u64; 12] = [1, 1, 1, 1, 1, 2, 3, 9, 17, 33, 33, 33];

#[cfg(test)]
pub(super) mod tests {
    use std::io::Read as _;

    use proptest::prelude::*;

    use super::*;

    /// Decodes a whole stream, or the part of one that a flush has ended.
    pub(crate) fn decode(coding: Coding, coded: &[u8]) -> Vec<u8> {
        let mut content = Vec::new();
        match coding {
            Coding::Br => {
                let mut decoder = brotli::Decompressor::new(coded, 4096);
                let mut buffer = [0; 4096];
                // The end of a part is an error, after all bytes before it.
                while let Ok(length @ 1..) = decoder.read(&mut buffer) {
                    content.extend_from_slice(&buffer[..length]);
                }
            }
            Coding::Zstd => {
                let mut decoder = zstd::stream::write::Decoder::new(&mut content).unwrap();
                decoder.write_all(coded).unwrap();
                decoder.flush().unwrap();
            }
            Coding::Gzip => {
                let mut decoder = flate2::write::GzDecoder::new(&mut content);
                decoder.write_all(coded).unwrap();
                decoder.flush().unwrap();
                drop(decoder);
            }
        }
        content
    }

    /// Decodes a stream by a decoder that knows whether it is complete.
    fn decode_whole(coding: Coding, coded: &[u8]) -> Vec<u8> {
        let mut content = Vec::new();
        match coding {
            Coding::Br => brotli::Decompressor::new(coded, 4096).read_to_end(&mut content),
            Coding::Zstd => zstd::stream::read::Decoder::new(coded)
                .unwrap()
                .read_to_end(&mut content),
            Coding::Gzip => flate2::read::GzDecoder::new(coded).read_to_end(&mut content),
        }
        .unwrap();
        content
    }

    fn settings() -> impl Strategy<Value = Settings> {
        let levels = prop_oneof![
            (2_u8..=9).prop_map(|level| (Coding::Br, level)),
            (1_u8..=12).prop_map(|level| (Coding::Zstd, level)),
            (1_u8..=9).prop_map(|level| (Coding::Gzip, level)),
        ];
        levels.prop_map(|(coding, level)| Settings { coding, level })
    }

    /// Text of few words, or bytes that do not compress.
    fn piece() -> impl Strategy<Value = Vec<u8>> {
        let words = prop::collection::vec(prop::sample::select(WORDS.to_vec()), 0..2000);
        prop_oneof![
            words.prop_map(|words| words.concat().into_bytes()),
            prop::collection::vec(any::<u8>(), 0..3000),
        ]
    }

    const WORDS: [&str; 5] = ["<div class=\"a\">", "hello ", "world", "</div>\n", "7"];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn content_comes_back_whole_and_after_each_flush(
            settings in settings(),
            pieces in prop::collection::vec((piece(), any::<bool>()), 0..12),
            knows_length in any::<bool>(),
        ) {
            let content: Vec<u8> = pieces.iter().flat_map(|(piece, _)| piece).copied().collect();
            let length = knows_length.then_some(content.len() as u64);
            let mut encoder = Encoder::new(settings, length).unwrap();
            let (mut coded, mut taken) = (Vec::new(), 0);
            for (piece, pauses) in &pieces {
                coded.extend(encoder.write(piece).unwrap());
                taken += piece.len();
                if *pauses {
                    coded.extend(encoder.flush().unwrap());
                    let so_far = decode(settings.coding, &coded);
                    prop_assert!(so_far == content[..taken], "{} of {taken}", so_far.len());
                }
            }
            coded.extend(encoder.finish().unwrap());
            prop_assert!(decode_whole(settings.coding, &coded) == content);
        }
    }

    #[test]
    fn windows_are_within_those_of_all_clients() {
        let content = b"0123456789abcdef".repeat(1 << 18);
        let settings = Settings {
            coding: Coding::Zstd,
            level: 19,
        };
        let mut encoder = Encoder::new(settings, None).unwrap();
        let mut coded = encoder.write(&content).unwrap();
        coded.extend(encoder.finish().unwrap());
        // RFC 8878 §3.1.1.1.2: exponent and mantissa of the window's size.
        let descriptor = u32::from(coded[5]);
        assert_eq!((descriptor >> 3) + 10, ZSTD_WINDOW);
        assert_eq!(descriptor & 7, 0);
        const { assert!(ZSTD_WINDOW <= 23, "RFC 9659 §3") };
    }

    #[test]
    fn a_wrong_length_is_no_success() {
        let settings = Settings {
            coding: Coding::Zstd,
            level: 3,
        };
        let mut encoder = Encoder::new(settings, Some(5)).unwrap();
        let written = encoder.write(b"123");
        assert!(written.is_err() || encoder.finish().is_err());
    }

    #[test]
    fn memory_grows_with_content_up_to_the_window() {
        for (coding, level) in [(Coding::Br, 5), (Coding::Zstd, 3), (Coding::Gzip, 6)] {
            let of = |length| Settings { coding, level }.memory(length);
            assert!(of(Some(1000)) <= of(Some(100_000)), "{coding:?}");
            assert_eq!(of(Some(1 << 40)), of(None), "{coding:?}");
            assert!(of(None) < 5 << 20, "{coding:?}: {}", of(None));
        }
    }
}
