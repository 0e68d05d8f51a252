//! An encoder and a decoder with three streams between them that overtake one another.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

/// The next step. Numbers are reduced to those that exist.
#[derive(Clone, Debug)]
enum Event {
    /// A stream gets a section of these lines of [`LINES`], of which the first ones may be prepared.
    Encode {
        stream: usize,
        prepared: Option<usize>,
        lines: Vec<(usize, bool)>,
    },
    /// Bytes of the encoder stream arrive.
    EncoderStream(usize),
    /// Bytes of the decoder stream arrive.
    DecoderStream(usize),
    /// The first section under way on a stream arrives.
    Section(usize),
    /// A stream is reset, and another takes its place.
    Reset(usize),
}

#[derive(Debug)]
struct Connection {
    encoder: Encoder,
    decoder: Decoder,
    encoder_stream: VecDeque<u8>,
    decoder_stream: VecDeque<u8>,
    streams: [Stream; STREAMS],
    next_stream_id: u64,
    /// Sections that arrived and are blocked, by stream.
    blocked: BTreeMap<u64, VecDeque<Vec<Field>>>,
    max_blocked_streams: u64,
    decoded: usize,
}

#[derive(Debug, Default)]
struct Stream {
    id: u64,
    /// Sections under way, with their lines.
    sections: VecDeque<(Bytes, Vec<Field>)>,
}

impl Connection {
    fn new(own_capacity: u64, peer_capacity: u64, max_blocked_streams: u64) -> Self {
        let mut encoder = Encoder::new(EncoderConfig {
            max_table_capacity: own_capacity,
            max_blocked_streams: u64::MAX,
        });
        encoder.set_peer_settings(peer_capacity, max_blocked_streams);
        Self {
            encoder,
            decoder: Decoder::new(DecoderConfig {
                max_table_capacity: peer_capacity,
                max_blocked_streams,
                max_section_size: 100_000,
            }),
            encoder_stream: VecDeque::new(),
            decoder_stream: VecDeque::new(),
            streams: std::array::from_fn(|i| Stream {
                id: 4 * i as u64,
                ..Stream::default()
            }),
            next_stream_id: 4 * STREAMS as u64,
            blocked: BTreeMap::new(),
            max_blocked_streams,
            decoded: 0,
        }
    }

    fn on(&mut self, event: &Event) {
        match event {
            Event::Encode {
                stream,
                prepared,
                lines,
            } => self.encode(*stream, *prepared, lines),
            Event::EncoderStream(bytes) => self.deliver_to_decoder(*bytes),
            Event::DecoderStream(bytes) => self.deliver_to_encoder(*bytes),
            Event::Section(stream) => self.deliver_section(*stream),
            Event::Reset(stream) => self.reset(*stream),
        }
        self.encoder_stream.extend(self.encoder.take_output());
        self.decoder_stream.extend(self.decoder.take_output());
    }

    fn encode(&mut self, stream: usize, prepared: Option<usize>, lines: &[(usize, bool)]) {
        let fields = lines.iter().map(|&(line, sensitive)| {
            let (name, value) = LINES[line % LINES.len()];
            FieldRef {
                name: name.as_bytes(),
                value: value.as_bytes(),
                sensitive,
            }
        });
        let stream = &mut self.streams[stream];
        let mut out = Vec::new();
        match prepared {
            None => self.encoder.encode(stream.id, fields.clone(), &mut out),
            Some(count) => {
                let mut prepared = PreparedLines::default();
                fields
                    .clone()
                    .take(count)
                    .for_each(|line| prepared.push(line));
                let more = fields.clone().skip(count);
                let encoder = &mut self.encoder;
                encoder.encode_prepared(stream.id, &prepared, more, &mut out);
                let size = fields
                    .clone()
                    .take(count)
                    .map(|line| field_size(line.name, line.value));
                assert_eq!(prepared.size(), size.sum::<u64>());
            }
        }
        let fields = fields.map(|field| Field {
            name: Bytes::copy_from_slice(field.name),
            value: Bytes::copy_from_slice(field.value),
            never_indexed: field.sensitive || field.name == b"cookie",
        });
        stream.sections.push_back((out.into(), fields.collect()));
    }

    fn deliver_to_decoder(&mut self, bytes: usize) {
        let bytes: Vec<u8> = drain(&mut self.encoder_stream, bytes);
        assert_eq!(self.decoder.on_encoder_stream(&bytes), Ok(()));
        while let Some((stream_id, decoded)) = self.decoder.poll_unblocked() {
            let waiting = self.blocked.get_mut(&stream_id).expect("it was blocked");
            let fields = waiting.pop_front().expect("it was blocked");
            assert_eq!(decoded, Ok(Decoded::Fields(fields.into_iter().collect())));
            self.decoded += 1;
            if waiting.is_empty() {
                self.blocked.remove(&stream_id);
            }
        }
    }

    fn deliver_to_encoder(&mut self, bytes: usize) {
        let bytes: Vec<u8> = drain(&mut self.decoder_stream, bytes);
        assert_eq!(self.encoder.on_decoder_stream(&bytes), Ok(()));
    }

    fn deliver_section(&mut self, stream: usize) {
        let stream = &mut self.streams[stream];
        let Some((section, fields)) = stream.sections.pop_front() else {
            return;
        };
        match self.decoder.decode(stream.id, section) {
            Ok(Decoded::Blocked) => {
                self.blocked.entry(stream.id).or_default().push_back(fields);
                assert!(self.blocked.len() as u64 <= self.max_blocked_streams);
            }
            decoded => {
                assert_eq!(decoded, Ok(Decoded::Fields(fields.into_iter().collect())));
                self.decoded += 1;
            }
        }
    }

    fn reset(&mut self, stream: usize) {
        let stream = &mut self.streams[stream];
        self.decoder.cancel(stream.id);
        self.blocked.remove(&stream.id);
        *stream = Stream {
            id: self.next_stream_id,
            ..Stream::default()
        };
        self.next_stream_id += 4;
    }

    fn deliver_all(&mut self) {
        for stream in 0..STREAMS {
            while !self.streams[stream].sections.is_empty() {
                self.on(&Event::Section(stream));
            }
        }
        self.on(&Event::EncoderStream(usize::MAX));
        self.on(&Event::DecoderStream(usize::MAX));
        assert!(self.blocked.is_empty(), "a section is never decoded");
    }
}

fn drain(stream: &mut VecDeque<u8>, bytes: usize) -> Vec<u8> {
    let end = bytes.min(stream.len());
    stream.drain(..end).collect()
}

fn event() -> impl Strategy<Value = Event> {
    let line = (0..LINES.len(), prop::bool::weighted(0.1));
    let lines = prop::collection::vec(line, 0..6);
    prop_oneof![
        4 => (0..STREAMS, prop::option::of(0..6usize), lines)
            .prop_map(|(stream, prepared, lines)| Event::Encode { stream, prepared, lines }),
        4 => (0..60usize).prop_map(Event::EncoderStream),
        3 => (0..4usize).prop_map(Event::DecoderStream),
        4 => (0..STREAMS).prop_map(Event::Section),
        1 => (0..STREAMS).prop_map(Event::Reset),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Every section decodes to its lines, and no more streams are blocked than permitted. Neither
    /// table exceeds its capacity (asserted there).
    #[test]
    fn sections_survive_any_order_of_the_streams(
        own_capacity in 0..400u64,
        peer_capacity in 0..400u64,
        max_blocked_streams in 0..4u64,
        events in prop::collection::vec(event(), 0..200),
    ) {
        let mut connection = Connection::new(own_capacity, peer_capacity, max_blocked_streams);
        for event in &events {
            connection.on(event);
        }
        connection.deliver_all();
    }
}

/// Each section after the first use of a line is five bytes, although entries are evicted
/// and sections arrive before the insertions that they need.
#[test]
fn lines_that_recur_are_compressed() {
    let mut connection = Connection::new(200, 200, 1);
    let mut sizes = Vec::new();
    for round in 0..60 {
        let lines = [(2 + round / 10, false), (9, false), (0, false)];
        connection.encode(0, None, &lines);
        sizes.push(connection.streams[0].sections[0].0.len());
        connection.deliver_all();
    }
    assert_eq!(connection.decoded, 60);
    assert_eq!(
        sizes.iter().filter(|&&size| size == 5).count(),
        6 * 9,
        "{sizes:?}"
    );
}

const STREAMS: usize = 6;

const LINES: [(&str, &str); 16] = [
    (":status", "200"),
    ("content-type", "text/html; charset=utf-8"),
    ("server", "hikyaku"),
    ("server", "another"),
    ("alt-svc", "h3=\":443\"; ma=86400"),
    ("x-empty", ""),
    ("x-first", "one value"),
    (
        "x-first",
        "one value that is somewhat longer than the others",
    ),
    ("x-second-name-of-some-length", "1"),
    ("x-second-name-of-some-length", "\u{1}\u{2}\u{3}"),
    ("x", "0"),
    ("x", "1"),
    ("x", "2"),
    ("x", "3"),
    ("cookie", "secret"),
    ("", ""),
];
