use super::super::tests::hex;
use super::*;
use crate::qpack::QpackError;

const SERVER: (&str, &str) = ("server", "hikyaku");
const ALT_SVC: (&str, &str) = ("x-alt", "h3=443");

fn encoder(capacity: u64, max_blocked_streams: u64) -> Encoder {
    let mut encoder = Encoder::new(EncoderConfig {
        max_table_capacity: 4096,
        max_blocked_streams: u64::MAX,
    });
    encoder.set_peer_settings(capacity, max_blocked_streams);
    encoder.take_output();
    encoder
}

fn encode(encoder: &mut Encoder, stream_id: u64, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    let fields = fields.iter().map(|(name, value)| FieldRef {
        name: name.as_bytes(),
        value: value.as_bytes(),
        sensitive: false,
    });
    encoder.encode(stream_id, fields, &mut out);
    out
}

/// Sends lines twice on stream 0, and has the peer acknowledge them.
fn stored(encoder: &mut Encoder, fields: &[(&str, &str)]) {
    encode(encoder, 0, fields);
    encode(encoder, 0, fields);
    encoder.known_received = encoder.table.inserted();
    encoder.unacknowledged.clear();
    encoder.take_output();
}

#[test]
fn nothing_is_inserted_before_the_settings() {
    let mut encoder = Encoder::new(EncoderConfig {
        max_table_capacity: 4096,
        max_blocked_streams: u64::MAX,
    });
    for _ in 0..3 {
        let section = encode(&mut encoder, 0, &[(":status", "200"), ("a", "b")]);
        assert_eq!(section, hex("0000 d9 2161 0162"));
    }
    assert_eq!(encoder.take_output(), "");
}

#[test]
fn capacities_are_the_smaller_ones() {
    let cases: &[(&str, u64, u64, &str)] = &[
        ("the peer's", 4096, 220, "3fbd01"),
        ("its own", 220, 4096, "3fbd01"),
        ("the peer permits none", 4096, 0, ""),
        ("it wants none", 0, 4096, ""),
    ];
    for &(name, own, peer, want) in cases {
        let mut encoder = Encoder::new(EncoderConfig {
            max_table_capacity: own,
            max_blocked_streams: u64::MAX,
        });
        encoder.set_peer_settings(peer, 0);
        assert_eq!(encoder.take_output(), hex(want), "{name}");
    }
}

#[test]
fn the_required_insert_count_wraps_by_the_maximum_of_the_peer() {
    let mut encoder = Encoder::new(EncoderConfig {
        max_table_capacity: 100,
        max_blocked_streams: u64::MAX,
    });
    encoder.set_peer_settings(64, 1);
    for number in 0..4 {
        let line = [("a", ["0", "1", "2", "3"][number])];
        stored(&mut encoder, &line);
    }
    assert_eq!(
        encoder.table.inserted(),
        0,
        "34 bytes are more than half of 64"
    );
    let mut encoder = Encoder::new(EncoderConfig {
        max_table_capacity: 70,
        max_blocked_streams: u64::MAX,
    });
    encoder.set_peer_settings(96, 1);
    for number in 0..8 {
        let line = [("a", ["0", "1", "2", "3", "4", "5", "6", "7"][number])];
        stored(&mut encoder, &line);
    }
    let section = encode(&mut encoder, 0, &[("a", "7")]);
    assert_eq!(
        section,
        hex("0300 80"),
        "RFC 9204 §4.5.1.1: 8 mod (2 * 3) + 1"
    );
}

#[test]
fn the_second_use_is_inserted() {
    let mut encoder = encoder(4096, 1);
    assert_eq!(encode(&mut encoder, 0, &[SERVER])[..3], hex("0000 5f"));
    assert_eq!(encoder.take_output(), "");
    assert_eq!(
        encode(&mut encoder, 4, &[SERVER]),
        hex("0280 10"),
        "post-Base"
    );
    assert_eq!(encoder.take_output()[..2], hex("ff1d"), "static name 92");
    assert_eq!(
        encode(&mut encoder, 4, &[SERVER]),
        hex("0200 80"),
        "below the Base"
    );
    assert_eq!(encoder.take_output(), "");
}

#[test]
fn names_of_entries_are_referred_to() {
    let mut encoder = encoder(4096, 1);
    stored(&mut encoder, &[ALT_SVC]);
    let section = encode(&mut encoder, 0, &[("x-alt", "<>")]);
    assert_eq!(section, hex("0200 40 02 3c3e"));
    let section = encode(&mut encoder, 0, &[("x-alt", "<>")]);
    assert_eq!(
        encoder.take_output(),
        hex("80 02 3c3e"),
        "the name of the newest entry"
    );
    assert_eq!(section, hex("0380 10"));
    let section = encode(&mut encoder, 0, &[("x-alt", "<>"), ("x-alt", "{}")]);
    assert_eq!(section[..3], hex("0300 80"));
    assert_eq!(section[3], 0x40, "of the newest entry");
}

#[test]
fn blocked_streams_are_limited() {
    let literal = |section: &[u8]| section[0] == 0;
    let mut none = encoder(4096, 0);
    for _ in 0..3 {
        assert!(
            literal(&encode(&mut none, 0, &[SERVER])),
            "RFC 9204 §2.1.2: none may block"
        );
    }
    assert_eq!(none.table.inserted(), 1, "for later");
    none.on_decoder_stream(&hex("01")).unwrap();
    assert!(!literal(&encode(&mut none, 0, &[SERVER])), "received");

    let mut one = encoder(4096, 1);
    encode(&mut one, 0, &[SERVER]);
    assert!(!literal(&encode(&mut one, 4, &[SERVER])));
    assert!(literal(&encode(&mut one, 8, &[SERVER])), "a second stream");
    assert!(
        !literal(&encode(&mut one, 4, &[SERVER])),
        "the same stream again"
    );
    one.on_decoder_stream(&hex("44")).unwrap();
    assert!(
        !literal(&encode(&mut one, 8, &[SERVER])),
        "the first was cancelled"
    );
    one.on_decoder_stream(&hex("88")).unwrap();
    assert!(
        !literal(&encode(&mut one, 12, &[SERVER])),
        "RFC 9204 §2.1.4: known received"
    );
}

#[test]
fn sensitive_lines_are_never_indexed() {
    let mut encoder = encoder(4096, 1);
    let secret = FieldRef {
        name: b"x-token",
        value: b"<>",
        sensitive: true,
    };
    let cookie = FieldRef {
        name: b"set-cookie",
        value: b"<>",
        sensitive: false,
    };
    let empty = FieldRef {
        name: b"authorization",
        value: b"",
        sensitive: false,
    };
    for _ in 0..3 {
        let mut out = Vec::new();
        encoder.encode(0, [secret, cookie, empty], &mut out);
        assert_eq!(out[..3], hex("0000 3e"), "'N', Huffman, a name of 6 bytes");
        let rest = &out[3 + 6..];
        assert_eq!(
            rest,
            hex("02 3c3e 7e 02 3c3e 7f45 00"),
            "RFC 9204 §4.5.4: 'N'"
        );
    }
    assert_eq!(encoder.take_output(), "");
}

#[test]
fn entries_in_use_are_not_evicted() {
    let mut encoder = encoder(100, 8);
    stored(&mut encoder, &[SERVER]);
    encode(&mut encoder, 4, &[SERVER]);
    stored_without_acknowledgment(&mut encoder, ("a", "1"));
    stored_without_acknowledgment(&mut encoder, ("a", "2"));
    assert_eq!(
        encoder.table.inserted(),
        2,
        "RFC 9204 §2.1.1: stream 4 refers to the first"
    );
    encoder.on_decoder_stream(&hex("84")).unwrap();
    stored_without_acknowledgment(&mut encoder, ("a", "3"));
    assert_eq!(encoder.table.inserted(), 3, "the first made room");
    stored_without_acknowledgment(&mut encoder, ("a", "4"));
    assert_eq!(
        encoder.table.inserted(),
        3,
        "RFC 9204 §2.1.1: the second is not received"
    );
    encoder.on_decoder_stream(&hex("01")).unwrap();
    stored_without_acknowledgment(&mut encoder, ("a", "5"));
    assert_eq!(encoder.table.inserted(), 4);
}

/// Sends a line twice, on a stream that the peer cancels.
fn stored_without_acknowledgment(encoder: &mut Encoder, line: (&str, &str)) {
    encode(encoder, 60, &[line]);
    encode(encoder, 60, &[line]);
    encoder.on_decoder_stream(&hex("7c")).unwrap();
}

#[test]
fn a_section_does_not_evict_its_own_entries() {
    let mut encoder = encoder(100, 8);
    stored(&mut encoder, &[SERVER]);
    encode(&mut encoder, 4, &[("a", "1"), ("a", "2")]);
    let section = encode(&mut encoder, 4, &[SERVER, ("a", "1"), ("a", "2")]);
    assert_eq!(encoder.table.inserted(), 2);
    assert_eq!(section[..4], hex("0380 8010"));
}

#[test]
fn the_name_of_an_evicted_entry_is_not_referred_to() {
    let mut encoder = encoder(100, 0);
    stored(&mut encoder, &[("x-alt", "thirteen byte"), ("b", "1")]);
    encode(&mut encoder, 0, &[("x-alt", "<>")]);
    let section = encode(&mut encoder, 4, &[("x-alt", "<>")]);
    let insertion = encoder.take_output();
    assert_eq!(insertion, hex("81 02 3c3e"), "in the place of the first");
    assert_eq!(section[..3], hex("0000 2c"), "a literal name");
}

#[test]
fn draining_entries_are_duplicated() {
    let mut encoder = encoder(160, 1);
    stored(&mut encoder, &[SERVER]);
    stored(&mut encoder, &[("a", "1"), ("a", "2")]);
    assert_eq!(
        encode(&mut encoder, 4, &[SERVER])[..1],
        hex("02"),
        "113 of 160 bytes"
    );
    stored(&mut encoder, &[("a", "3")]);
    let section = encode(&mut encoder, 4, &[SERVER]);
    assert_eq!(
        encoder.take_output(),
        hex("03"),
        "RFC 9204 §2.1.1.1: Duplicate"
    );
    assert_eq!(section, hex("0680 10"));
    assert_eq!(
        encode(&mut encoder, 4, &[SERVER]),
        hex("0600 80"),
        "the newer one"
    );
}

#[test]
fn large_lines_are_not_inserted() {
    let mut encoder = encoder(100, 1);
    stored(&mut encoder, &[("name", "seventeen bytes...")]);
    assert_eq!(encoder.table.inserted(), 0, "54 bytes of 100");
    stored(&mut encoder, &[("name", "fourteen bytes")]);
    assert_eq!(encoder.table.inserted(), 1, "50 bytes of 100");
}

#[test]
fn decoder_instructions() {
    const ZERO: &str = "an increment is zero";
    const BEYOND: &str = "an increment exceeds the insertions";
    const NONE: &str = "no section of the stream is unacknowledged";
    const INTEGER: &str = "an integer exceeds 62 bits";
    let cases: &[(&str, &str, Result<(), &'static str>)] = &[
        // name, instructions after two insertions and a section on stream 4, result
        ("§4.4.1: an acknowledgment", "84", Ok(())),
        (
            "§4.4.1: a section that is already acknowledged",
            "8484",
            Err(NONE),
        ),
        ("§4.4.1: a stream without sections", "88", Err(NONE)),
        (
            "§4.4.1: a stream whose sections have no references",
            "80",
            Err(NONE),
        ),
        ("§4.4.2: a cancellation", "44", Ok(())),
        ("§4.4.2: a cancellation of an unknown stream", "48", Ok(())),
        (
            "§4.4.1: an acknowledgment after the cancellation",
            "4484",
            Err(NONE),
        ),
        ("§4.4.3: an increment", "02", Ok(())),
        ("§4.4.3: increments", "0101", Ok(())),
        ("§4.4.3: an increment equal to zero", "00", Err(ZERO)),
        (
            "§4.4.3: beyond what the encoder has sent",
            "03",
            Err(BEYOND),
        ),
        (
            "§2.1.4: beyond, since the section acknowledges the first",
            "8402",
            Err(BEYOND),
        ),
        ("§2.1.4: the second", "8401", Ok(())),
        (
            "§4.1.1: an increment beyond 62 bits",
            "3fffffffffffffffffff7f",
            Err(INTEGER),
        ),
        (
            "§4.1.1: the largest increment",
            "3f80feffffffffffff3f",
            Err(BEYOND),
        ),
        ("an incomplete instruction", "3f80", Ok(())),
    ];
    for &(name, instructions, want) in cases {
        let want = want.map_err(QpackError::DecoderStream);
        let prepared = || {
            let mut encoder = encoder(4096, 1);
            encode(&mut encoder, 0, &[SERVER, ALT_SVC]);
            encode(&mut encoder, 4, &[SERVER]);
            encode(&mut encoder, 8, &[ALT_SVC]);
            assert_eq!(
                (encoder.table.inserted(), encoder.unacknowledged.len()),
                (2, 1)
            );
            encoder
        };
        let instructions = hex(instructions);
        let got = prepared().on_decoder_stream(&instructions);
        assert_eq!(got, want, "RFC 9204 {name}");
        let mut bytewise = prepared();
        let got = instructions
            .iter()
            .try_for_each(|&byte| bytewise.on_decoder_stream(&[byte]));
        assert_eq!(got, want, "RFC 9204 {name}: byte by byte");
    }
}

#[test]
fn a_peer_that_acknowledges_nothing_costs_little() {
    let mut encoder = encoder(4096, 1000);
    for stream_id in 0..2000 {
        let unique = stream_id.to_string();
        let lines = [SERVER, ("etag", &unique), ("etag", &unique)];
        encode(&mut encoder, stream_id, &lines);
    }
    assert_eq!(encoder.unacknowledged.len(), MAX_UNACKNOWLEDGED);
    assert!(encoder.take_output().len() <= 4096);
    assert_eq!(encode(&mut encoder, 0, &[SERVER])[0], 0, "no reference");
}
