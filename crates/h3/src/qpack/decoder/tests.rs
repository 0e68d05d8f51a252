use super::super::tests::hex;
use super::*;
use crate::qpack::Field;

/// `:authority` `www.example.com` and `:path` `/sample/path` in a table of 220 bytes
/// (RFC 9204 §B.2).
const TWO_ENTRIES: &str = "3fbd01 c00f7777772e6578616d706c652e636f6d c10c2f73616d706c652f70617468";

fn decoder() -> Decoder {
    Decoder::new(DecoderConfig {
        max_table_capacity: 220,
        max_blocked_streams: 1,
        max_section_size: 1000,
    })
}

fn decoder_after(instructions: &str) -> Decoder {
    let mut decoder = decoder();
    assert_eq!(
        decoder.on_encoder_stream(&hex(instructions)),
        Ok(()),
        "{instructions}"
    );
    decoder
}

#[test]
fn encoder_instructions() {
    const LARGE: &str = "an entry is larger than the table's capacity";
    const MAXIMUM: &str = "the table's capacity exceeds its maximum";
    const NO_STATIC: &str = "no such entry in the static table";
    const NO_DYNAMIC: &str = "no such entry in the dynamic table";
    const LONG: &str = "a string is longer than may be stored";
    const INTEGER: &str = "an integer exceeds 62 bits";
    let cases: &[(&str, &str, Result<(), &'static str>)] = &[
        // name, instructions after a Set Dynamic Table Capacity=220, result
        ("§4.3.1: a capacity equal to the limit", "3fbd01", Ok(())),
        (
            "§4.3.1: a new capacity that exceeds the limit",
            "3fbe01",
            Err(MAXIMUM),
        ),
        ("§4.3.1: a capacity of zero", "20", Ok(())),
        (
            "§3.2.2: an entry larger than the capacity",
            "20 c000",
            Err(LARGE),
        ),
        ("§3.2.2: exactly the capacity", "3f05 c2013f", Ok(())),
        ("§3.2.2: a byte more", "3f04 c2013f", Err(LARGE)),
        ("§3.1: the last entry of the static table", "ff2300", Ok(())),
        (
            "§3.1: an invalid static table index",
            "ff2400",
            Err(NO_STATIC),
        ),
        (
            "§2.2.3: the name of an entry that is not inserted",
            "8000",
            Err(NO_DYNAMIC),
        ),
        (
            "§2.2.3: a duplicate of an entry that is not inserted",
            "00",
            Err(NO_DYNAMIC),
        ),
        ("§4.3.4: a duplicate", "c000 00", Ok(())),
        (
            "§2.2.3: a duplicate of an evicted entry",
            "c000 20 3fbd01 00",
            Err(NO_DYNAMIC),
        ),
        ("§4.3.2: a dynamic name reference", "c000 8001 41", Ok(())),
        (
            "§4.1.1: an index beyond 62 bits",
            "ffffffffffffffffffff7f",
            Err(INTEGER),
        ),
        (
            "§4.1.2: an invalid Huffman code as value",
            "c081 00",
            Err(INVALID_PADDING),
        ),
        (
            "§4.1.2: an invalid Huffman code as name",
            "61 00 00",
            Err(INVALID_PADDING),
        ),
        (
            "a name whose length alone is too large",
            "5fbe01",
            Err(LONG),
        ),
        (
            "a value whose length alone is too large",
            "c07f 7f",
            Err(LONG),
        ),
        ("an incomplete instruction", "c07f 5d", Ok(())),
    ];
    for &(name, instructions, want) in cases {
        let want = want.map_err(QpackError::EncoderStream);
        let instructions = hex(instructions);
        let got = decoder_after("3fbd01").on_encoder_stream(&instructions);
        assert_eq!(got, want, "RFC 9204 {name}");
        let mut bytewise = decoder_after("3fbd01");
        let got = instructions
            .iter()
            .try_for_each(|&byte| bytewise.on_encoder_stream(&[byte]));
        assert_eq!(got, want, "RFC 9204 {name}: byte by byte");
    }
}

#[test]
fn field_sections() {
    const NO_STATIC: &str = "no such entry in the static table";
    const NO_DYNAMIC: &str = "no such entry in the dynamic table";
    const TRUNCATED: &str = "it is truncated";
    let path = Ok((":path", "/sample/path", false));
    let other_path = |never_indexed| Ok((":path", "/x", never_indexed));
    let cases: &[(&str, &str, Result<(&str, &str, bool), &'static str>)] = &[
        // name, section of one line after TWO_ENTRIES, the line
        (
            "§4.5.2: indexed, static",
            "0000 d9",
            Ok((":status", "200", false)),
        ),
        ("§4.5.2: indexed, dynamic", "0300 80", path),
        ("§4.5.3: indexed, post-Base", "0381 11", path),
        (
            "§4.5.4: name reference, static",
            "0000 51022f78",
            other_path(false),
        ),
        (
            "§4.5.4: name reference, static, 'N'",
            "0000 71022f78",
            other_path(true),
        ),
        (
            "§4.5.4: name reference, dynamic",
            "0300 40022f78",
            other_path(false),
        ),
        (
            "§4.5.4: name reference, dynamic, 'N'",
            "0300 60022f78",
            other_path(true),
        ),
        (
            "§4.5.5: post-Base name reference",
            "0381 01022f78",
            other_path(false),
        ),
        (
            "§4.5.5: post-Base name reference, 'N'",
            "0381 09022f78",
            other_path(true),
        ),
        (
            "§4.5.6: literal name",
            "0000 2161 0162",
            Ok(("a", "b", false)),
        ),
        (
            "§4.5.6: literal name, 'N'",
            "0000 3161 0162",
            Ok(("a", "b", true)),
        ),
        (
            "§4.5.6: Huffman codes",
            "0000 291f 811f",
            Ok(("a", "a", false)),
        ),
        (
            "§2.2.1: a count larger than required",
            "0301 82",
            Ok(AUTHORITY),
        ),
        (
            "§3.1: an invalid static table index",
            "0000 ff24",
            Err(NO_STATIC),
        ),
        (
            "§3.1: a name of an invalid static table index",
            "0000 5f54 00",
            Err(NO_STATIC),
        ),
        (
            "§2.2.3: index not less than the declared count",
            "0200 10",
            Err(NO_DYNAMIC),
        ),
        (
            "§2.2.1: a count smaller than required",
            "0280 11",
            Err(NO_DYNAMIC),
        ),
        ("§2.2.3: before the first entry", "0300 82", Err(NO_DYNAMIC)),
        (
            "§4.5.1: a reference with a count of zero",
            "0000 80",
            Err(NO_DYNAMIC),
        ),
        ("§4.5.1: the same with a Base", "0002 80", Err(NO_DYNAMIC)),
        (
            "§4.5.3: post-Base with a count of zero",
            "0000 10",
            Err(NO_DYNAMIC),
        ),
        (
            "§4.5.1.2: a negative Base",
            "0382 10",
            Err("the Base is negative"),
        ),
        (
            "§4.5.1.1: beyond the full range",
            "0d00",
            Err("the Required Insert Count is impossible"),
        ),
        ("§4.5.1: empty", "", Err(TRUNCATED)),
        ("§4.5.1: no Base", "00", Err(TRUNCATED)),
        ("§4.5.4: truncated value", "0000 51022f", Err(TRUNCATED)),
        ("§4.5.4: no value", "0000 51", Err(TRUNCATED)),
        ("§4.5.6: truncated name", "0000 2261", Err(TRUNCATED)),
        ("§4.5.2: truncated index", "0000 ff", Err(TRUNCATED)),
        (
            "§4.1.2: an invalid Huffman code",
            "0000 51 81 00",
            Err(INVALID_PADDING),
        ),
        (
            "a length beyond any memory",
            "0000 517fffffffffffffff3f",
            Err(TRUNCATED),
        ),
    ];
    for &(name, section, want) in cases {
        let mut decoder = decoder_after(TWO_ENTRIES);
        let want = want
            .map_err(QpackError::DecompressionFailed)
            .map(|(name, value, never)| {
                let (name, value) = (name.to_owned().into(), value.to_owned().into());
                let field = Field {
                    name,
                    value,
                    never_indexed: never,
                };
                Decoded::Fields([field].into_iter().collect())
            });
        assert_eq!(
            decoder.decode(0, hex(section).into()),
            want,
            "RFC 9204 {name}"
        );
    }
}

#[test]
fn an_evicted_entry_cannot_be_referred_to() {
    let mut decoder = decoder_after(TWO_ENTRIES);
    decoder.on_encoder_stream(&hex("3f32")).unwrap();
    let fields = decoder.decode(0, hex("0300 80").into()).unwrap();
    assert!(matches!(fields, Decoded::Fields(_)), "49 of 81 bytes");
    let evicted = QpackError::DecompressionFailed("no such entry in the dynamic table");
    assert_eq!(decoder.decode(0, hex("0300 81").into()), Err(evicted));
}

#[test]
fn no_more_streams_are_blocked_than_permitted() {
    let mut decoder = decoder();
    assert_eq!(
        decoder.decode(4, hex("0200 80").into()),
        Ok(Decoded::Blocked)
    );
    assert_eq!(
        decoder.decode(4, hex("0000 d9").into()),
        Ok(Decoded::Blocked),
        "waits its turn"
    );
    let too_many = QpackError::DecompressionFailed("more streams are blocked than permitted");
    assert_eq!(decoder.decode(8, hex("0200 80").into()), Err(too_many));
    let unblocked = decoder.decode(8, hex("0000 d9").into());
    assert!(
        matches!(unblocked, Ok(Decoded::Fields(_))),
        "another stream that need not wait"
    );

    decoder.on_encoder_stream(&hex(TWO_ENTRIES)).unwrap();
    let mut statuses = Vec::new();
    while let Some((4, Ok(Decoded::Fields(fields)))) = decoder.poll_unblocked() {
        let first = fields.iter().next().unwrap();
        statuses.push(String::from_utf8(first.name.to_vec()).unwrap());
    }
    assert_eq!(statuses, [":authority", ":status"], "in their order");
    assert_eq!(
        decoder.take_output(),
        hex("84 01"),
        "acknowledgment, and what it leaves out"
    );
    assert_eq!(
        decoder.decode(8, hex("0400 80").into()),
        Ok(Decoded::Blocked),
        "room again"
    );
    decoder.cancel(8);
    assert_eq!(
        decoder.decode(12, hex("0400 80").into()),
        Ok(Decoded::Blocked),
        "and again"
    );
}

#[test]
fn a_section_that_is_too_large_is_acknowledged() {
    let size = |lines: u64| lines * 57;
    let cases: &[(&str, u64, &str, bool)] = &[
        // name, max_section_size in bytes, section, too large
        ("exactly the limit", size(2), "0300 8181", false),
        ("one line more", size(2), "0300 818181", true),
        ("one byte less", size(2) - 1, "0300 8181", true),
        ("nothing permitted", 0, "0300 81", true),
    ];
    for &(name, max_section_size, section, too_large) in cases {
        let config = DecoderConfig {
            max_section_size,
            ..decoder().config
        };
        let mut decoder = Decoder::new(config);
        decoder.on_encoder_stream(&hex(TWO_ENTRIES)).unwrap();
        let decoded = decoder.decode(4, hex(section).into()).unwrap();
        assert_eq!(
            decoded == Decoded::TooLarge,
            too_large,
            "{name}: {decoded:?}"
        );
        assert_eq!(decoder.take_output(), hex("84"), "{name}");
    }
    let mut decoder = Decoder::new(DecoderConfig {
        max_section_size: 0,
        ..decoder().config
    });
    let invalid = decoder.decode(4, hex("0000 d9 ff24").into());
    assert!(invalid.is_err(), "what follows the limit is checked");
}

#[test]
fn incomplete_instructions_are_bounded() {
    // These are the longest Huffman codes that a name and a value of 220 bytes could have.
    let mut decoder = decoder_after("3fbd01 7f 9a06");
    decoder.on_encoder_stream(&[0xff; 825]).unwrap();
    decoder.on_encoder_stream(&hex("ff ba05")).unwrap();
    decoder.on_encoder_stream(&[0xff; 824]).unwrap();
    assert_eq!(decoder.partial.len(), 3 + 825 + 3 + 824);
    assert!(decoder.on_encoder_stream(&[0xff]).is_err(), "EOS");
}

#[test]
fn cancellations_are_left_out_without_a_table() {
    let config = DecoderConfig {
        max_table_capacity: 0,
        ..decoder().config
    };
    let mut decoder = Decoder::new(config);
    decoder.cancel(4);
    assert_eq!(decoder.take_output(), "", "RFC 9204 §2.2.2.2");
    let impossible = QpackError::DecompressionFailed("the Required Insert Count is impossible");
    assert_eq!(decoder.decode(0, hex("0200 80").into()), Err(impossible));
    assert_eq!(
        decoder.on_encoder_stream(&hex("20")),
        Ok(()),
        "a capacity of zero"
    );
}

#[test]
fn insertions_are_acknowledged_together() {
    let mut decoder = decoder_after(TWO_ENTRIES);
    decoder.on_encoder_stream(&hex("00")).unwrap();
    assert_eq!(decoder.take_output(), hex("03"));
    assert_eq!(decoder.take_output(), "", "RFC 9204 §4.4.3: never zero");
    decoder.on_encoder_stream(&hex("00 00")).unwrap();
    decoder.decode(4, hex("0500 80").into()).unwrap();
    assert_eq!(
        decoder.take_output(),
        hex("84 01"),
        "what the section has not acknowledged"
    );
}

const AUTHORITY: (&str, &str, bool) = (":authority", "www.example.com", false);

const INVALID_PADDING: &str = "the padding of a Huffman string is invalid";
