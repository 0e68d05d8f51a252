//! The examples of RFC 7541 Appendix C, errors, and properties of both sides together.

use hikyaku_http_common::compression::Malformed;
use proptest::prelude::*;

use super::*;
use crate::section::{Fields, Section};

/// Decodes a block. Its lines are `name: value`, with `!` before those that are never indexed.
fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<String>, Malformed> {
    let mut section = Section::default();
    let kept = decoder.decode(block, &mut section)?;
    if !kept {
        assert!(section.lines().is_empty());
        return Ok(vec!["too large".into()]);
    }
    let fields = Fields::new(&section, 0);
    let line = |field: crate::section::Field<'_>| {
        let never = if field.never_indexed { "!" } else { "" };
        let name = field.name.escape_ascii();
        format!("{never}{name}: {}", field.value.escape_ascii())
    };
    Ok(fields.map(line).collect())
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| *byte != b' ').collect();
    let (pairs, _) = digits.as_chunks::<2>();
    pairs
        .iter()
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

const GET: &str = ":method: GET";
const HTTP: &str = ":scheme: http";
const HTTPS: &str = ":scheme: https";
const AUTHORITY: &str = ":authority: www.example.com";

#[test]
fn requests_of_appendix_c() {
    let wanted: [&[&str]; 3] = [
        &[GET, HTTP, ":path: /", AUTHORITY],
        &[GET, HTTP, ":path: /", AUTHORITY, "cache-control: no-cache"],
        &[
            GET,
            HTTPS,
            ":path: /index.html",
            AUTHORITY,
            "custom-key: custom-value",
        ],
    ];
    let cases: [(&str, [&str; 3]); 2] = [
        (
            "C.3",
            [
                "828684410f7777772e6578616d706c652e636f6d",
                "828684be58086e6f2d6361636865",
                "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
            ],
        ),
        (
            "C.4",
            [
                "828684418cf1e3c2e5f23a6ba0ab90f4ff",
                "828684be5886a8eb10649cbf",
                "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
            ],
        ),
    ];
    for (name, blocks) in cases {
        let mut decoder = Decoder::new(1_000);
        for (block, want) in blocks.iter().zip(wanted) {
            assert_eq!(decode(&mut decoder, &bytes(block)).unwrap(), want, "{name}");
        }
    }
}

#[test]
fn responses_of_appendix_c() {
    // The table has 256 bytes, so that entries are evicted.
    let wanted: [&[&str]; 3] = [
        &[
            ":status: 302",
            "cache-control: private",
            "date: Mon, 21 Oct 2013 20:13:21 GMT",
            "location: https://www.example.com",
        ],
        &[
            ":status: 307",
            "cache-control: private",
            "date: Mon, 21 Oct 2013 20:13:21 GMT",
            "location: https://www.example.com",
        ],
        &[
            ":status: 200",
            "cache-control: private",
            "date: Mon, 21 Oct 2013 20:13:22 GMT",
            "location: https://www.example.com",
            "content-encoding: gzip",
            "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
        ],
    ];
    let blocks = [
        "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3",
        "4883640effc1c0bf",
        "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
    ];
    let mut decoder = Decoder::new(1_000);
    decoder.set_max_capacity(256);
    for (at, (block, want)) in blocks.iter().zip(wanted).enumerate() {
        // 3f e1 01: the encoder reduces its table to 256 bytes.
        let update = if at == 0 { "3fe101" } else { "" };
        let block = bytes(&format!("{update}{block}"));
        assert_eq!(
            decode(&mut decoder, &block).unwrap(),
            want,
            "C.6.{}",
            at + 1
        );
    }
}

#[test]
fn invalid_blocks() {
    // The table has one entry, `a: b`.
    let cases: &[(&str, &str, Option<&[&str]>)] = &[
        ("§2.3.3: an index beyond both tables", "bf", None),
        ("the last index", "be", Some(&["a: b"])),
        ("§6.1: the index value of 0", "80", None),
        ("a name that is not there", "7f00 01 78", None),
        (
            "§5.1: an integer beyond limits",
            "ffffffffffffffffffffff7f",
            None,
        ),
        ("a truncated integer", "ff", None),
        ("a truncated name", "0005 61", None),
        ("a truncated value", "0001 61 05 62", None),
        ("no value", "0001 61", None),
        ("§5.2: padding longer than 7 bits", "0001 61 82 1fff", None),
        ("§5.2: padding of zeros", "0001 61 81 18", None),
        ("§5.2: the EOS symbol", "0001 61 84 ffffffff", None),
        ("§6.2.2", "0001 61 01 63", Some(&["a: c"])),
        ("§6.2.3", "1001 61 01 63", Some(&["!a: c"])),
        ("§6.2.3 with an index", "1f2f 01 63", Some(&["!a: c"])),
        ("§6.3: at the end of a block", "be 20", None),
        ("§6.3: at its beginning", "20", Some(&[])),
        ("§4.3: the table is emptied", "20 be", None),
        ("§4.2: two changes", "20 3fe11f", Some(&[])),
        ("§6.3: larger than the limit", "3fe21f", None),
    ];
    for (name, block, want) in cases {
        let mut decoder = Decoder::new(1_000);
        decode(&mut decoder, &bytes("4001 61 01 62")).unwrap();
        let got = decode(&mut decoder, &bytes(block)).ok();
        let want = want.map(|lines| lines.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(got, want, "{name}");
    }
}

#[test]
fn a_table_has_to_shrink() {
    let cases: &[(&str, u32, &str, bool)] = &[
        ("RFC 7541 §4.2: it did", 100, "3f45 4001 61 01 62", true),
        ("it did not", 100, "4001 61 01 62", false),
        ("nothing is in the block", 100, "", true),
        ("it was no larger", 4_096, "4001 61 01 62", true),
    ];
    for (name, capacity, block, valid) in cases {
        let mut decoder = Decoder::new(1_000);
        decoder.set_max_capacity(*capacity);
        assert_eq!(
            decode(&mut decoder, &bytes(block)).is_ok(),
            *valid,
            "{name}"
        );
    }
}

#[test]
fn sections_beyond_the_limit_change_the_table() {
    let mut decoder = Decoder::new(100);
    let block = [
        &b"\x40\x01a\x7f\x01"[..],
        &[b'x'; 128],
        &b"\x40\x01b\x01c"[..],
    ]
    .concat();
    assert_eq!(decode(&mut decoder, &block).unwrap(), ["too large"]);
    assert_eq!(decode(&mut decoder, &[0xbe]).unwrap(), ["b: c"]);
    // A bomb: an entry of many bytes, by references of one byte.
    let bomb = [0xbf; 10_000];
    assert_eq!(decode(&mut decoder, &bomb).unwrap(), ["too large"]);
}

/// Encodes lines.
fn encode(encoder: &mut Encoder, lines: &[(&str, &str, bool)]) -> Vec<u8> {
    let mut out = Vec::new();
    encoder.begin(&mut out);
    for (name, value, sensitive) in lines {
        encoder.line(name.as_bytes(), value.as_bytes(), *sensitive, &mut out);
    }
    out
}

#[test]
fn lines_enter_the_table_when_they_come_again() {
    let mut encoder = Encoder::new(4_096);
    let cases: &[(&str, &[(&str, &str, bool)], &str)] = &[
        ("of the static table", &[(":status", "200", false)], "88"),
        ("the first time", &[("server", "a", false)], "0f27 0161"),
        ("the second time", &[("server", "a", false)], "76 0161"),
        ("the third time", &[("server", "a", false)], "be"),
        ("sensitive", &[("server", "a", true)], "1f27 0161"),
        ("a cookie", &[("set-cookie", "b", false)], "1f28 0162"),
        ("a cookie again", &[("set-cookie", "b", false)], "1f28 0162"),
    ];
    for (name, lines, want) in cases {
        assert_eq!(encode(&mut encoder, lines), bytes(want), "{name}");
    }
    encoder.set_peer_capacity(0);
    encoder.set_peer_capacity(100);
    let block = encode(&mut encoder, &[("server", "a", false)]);
    assert_eq!(
        block,
        bytes("20 3f45 76 0161"),
        "§4.2: the smallest, and the last"
    );
}

#[test]
fn an_encoder_without_a_table_says_so() {
    let mut encoder = Encoder::new(0);
    for want in ["20 0f27 0161", "0f27 0161", "0f27 0161"] {
        assert_eq!(encode(&mut encoder, &[("server", "a", false)]), bytes(want));
    }
}

fn name() -> impl Strategy<Value = String> {
    let known = [
        "server",
        "etag",
        ":status",
        "content-type",
        "x",
        "set-cookie",
    ];
    prop_oneof![
        prop::sample::select(known.to_vec()).prop_map(str::to_owned),
        "[a-z-]{1,12}",
    ]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,40}",
        Just("200".to_owned()),
        Just("x".repeat(90)),
        "[a-c]"
    ]
}

proptest! {
    /// Blocks come back whatever the table, and prepared lines among them.
    #[test]
    fn blocks_come_back(
        blocks in prop::collection::vec(
            (
                prop::collection::vec((name(), value(), any::<bool>()), 0..8),
                prop::option::of(prop::sample::select(vec![0u32, 60, 100, 4_096])),
                any::<bool>(),
            ),
            1..12,
        ),
        own in prop::sample::select(vec![0u32, 100, 4_096, 10_000]),
    ) {
        let mut encoder = Encoder::new(own);
        let mut decoder = Decoder::new(1 << 20);
        for (lines, capacity, is_prepared) in blocks {
            if let Some(capacity) = capacity {
                encoder.set_peer_capacity(capacity);
                decoder.set_max_capacity(capacity);
            }
            let mut block = Vec::new();
            encoder.begin(&mut block);
            let mut prepared = PreparedLines::default();
            for (name, value, sensitive) in &lines {
                if is_prepared {
                    prepared.push(name.as_bytes(), value.as_bytes(), *sensitive);
                } else {
                    encoder.line(name.as_bytes(), value.as_bytes(), *sensitive, &mut block);
                }
            }
            encoder.prepared(&prepared, &mut block);
            let want: Vec<String> = lines
                .iter()
                .map(|(name, value, sensitive)| {
                    let never = if *sensitive || name == "set-cookie" { "!" } else { "" };
                    format!("{never}{name}: {}", value.as_bytes().escape_ascii())
                })
                .collect();
            // A smaller table is announced with the next line.
            if !block.is_empty() {
                prop_assert_eq!(decode(&mut decoder, &block).unwrap(), want);
            }
        }
    }

    #[test]
    fn any_bytes_are_taken(blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..5)) {
        let mut decoder = Decoder::new(300);
        for block in blocks {
            let mut section = Section::default();
            let _ = decoder.decode(&block, &mut section);
        }
    }
}
