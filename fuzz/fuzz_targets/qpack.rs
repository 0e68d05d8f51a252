//! QPACK of a peer that keeps no rule. Instructions on both of its streams and sections come in any
//! order and in pieces of any size.
#![no_main]

use bytes::Bytes;
use hikyaku_h3::qpack::{
    Decoded, Decoder, DecoderConfig, Encoder, EncoderConfig, FieldRef, QpackError,
};
use libfuzzer_sys::fuzz_target;

const MAX_SECTION: u64 = 1000;

fuzz_target!(|data: &[u8]| {
    let Some((&[capacity, blocked, size], events)) = data.split_first_chunk() else {
        return;
    };
    let config = DecoderConfig {
        max_table_capacity: 2 * u64::from(capacity),
        max_blocked_streams: u64::from(blocked % 4),
        max_section_size: MAX_SECTION,
    };
    let size = usize::from(size).max(1);
    let whole = decode(config, events, usize::MAX);
    assert_eq!(
        decode(config, events, size),
        whole,
        "pieces of {size} bytes change the verdict"
    );
    encode(config, events);
});

/// Decodes the events of a peer's encoder: each has a kind, a length, and as many bytes.
fn decode(
    config: DecoderConfig,
    events: &[u8],
    size: usize,
) -> Vec<(u64, Result<Decoded, QpackError>)> {
    let mut decoder = Decoder::new(config);
    let mut seen = Vec::new();
    for (kind, stream_id, bytes) in Events(events) {
        match kind {
            0 => {
                let mut pieces = bytes.chunks(size);
                if let Err(error) = pieces.try_for_each(|piece| decoder.on_encoder_stream(piece)) {
                    seen.push((0, Err(error)));
                    return seen;
                }
                seen.extend(std::iter::from_fn(|| decoder.poll_unblocked()));
            }
            1 => {
                let decoded = decoder.decode(stream_id, Bytes::copy_from_slice(bytes));
                seen.push((stream_id, decoded));
            }
            _ => decoder.cancel(stream_id),
        }
        for (_, decoded) in &seen {
            match decoded {
                Ok(Decoded::Fields(fields)) => {
                    assert!(fields.iter().map(line_size).sum::<u64>() <= MAX_SECTION);
                }
                Ok(_) => {}
                Err(_) => return seen,
            }
        }
    }
    seen
}

/// Checks that lines decode to themselves, whatever arrives on the peer's decoder stream.
fn encode(config: DecoderConfig, events: &[u8]) {
    let mut encoder = Encoder::new(EncoderConfig {
        max_table_capacity: 300,
        max_blocked_streams: u64::MAX,
    });
    encoder.set_peer_settings(config.max_table_capacity, config.max_blocked_streams);
    let mut decoder = Decoder::new(DecoderConfig {
        max_section_size: u64::MAX,
        ..config
    });
    let mut in_step = true;
    for (kind, stream_id, bytes) in Events(events) {
        if kind == 0 {
            // From here on the encoder may evict entries that the decoder still needs.
            in_step = false;
            if encoder.on_decoder_stream(bytes).is_err() {
                return;
            }
            continue;
        }
        let (name, value) = bytes.split_at(bytes.len() / 4);
        let mut section = Vec::new();
        encoder.encode(
            stream_id,
            [FieldRef {
                name,
                value,
                sensitive: kind == 2,
            }],
            &mut section,
        );
        if !in_step {
            continue;
        }
        decoder.on_encoder_stream(&encoder.take_output()).unwrap();
        let decoded = decoder.decode(stream_id, section.into()).unwrap();
        let Decoded::Fields(fields) = decoded else {
            panic!("{decoded:?}");
        };
        let first = fields.iter().next().unwrap();
        assert_eq!((first.name, first.value), (name, value));
        encoder.on_decoder_stream(&decoder.take_output()).unwrap();
    }
}

/// The size of a line for the limit of a section (RFC 9114 §4.2.2).
fn line_size(field: FieldRef<'_>) -> u64 {
    (field.name.len() + field.value.len() + 32) as u64
}

struct Events<'a>(&'a [u8]);

impl<'a> Iterator for Events<'a> {
    type Item = (u8, u64, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&[kind, length], rest) = self.0.split_first_chunk()?;
        let (bytes, rest) = rest.split_at(usize::from(length).min(rest.len()));
        self.0 = rest;
        Some((kind % 3, 4 * u64::from(kind / 3 % 8), bytes))
    }
}
