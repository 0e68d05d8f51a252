//! The exchange of RFC 9204 Appendix B, byte for byte.

mod foreign;
mod round_trip;

use std::collections::BTreeMap;

use super::*;

/// The bytes of an instruction or a section in hexadecimal digits.
pub(super) fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits
        .bytes()
        .filter(|digit| !digit.is_ascii_whitespace())
        .collect();
    let text = std::str::from_utf8(&digits).unwrap();
    (0..text.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap())
        .collect()
}

fn lines(fields: &[(&'static str, &'static str)]) -> Decoded {
    let field = |&(name, value): &(&'static str, &'static str)| Field {
        name: Bytes::from_static(name.as_bytes()),
        value: Bytes::from_static(value.as_bytes()),
        never_indexed: false,
    };
    Decoded::Fields(fields.iter().map(field).collect())
}

#[test]
fn the_decoder_follows_the_examples_of_appendix_b() {
    let mut decoder = Decoder::new(DecoderConfig {
        max_table_capacity: 220,
        max_blocked_streams: 1,
        max_section_size: 1000,
    });

    // B.1: Literal Field Line with Name Reference
    let section = hex("0000 510b 2f69 6e64 6578 2e68 746d 6c").into();
    assert_eq!(
        decoder.decode(0, section),
        Ok(lines(&[(":path", "/index.html")]))
    );
    assert_eq!(decoder.take_output(), "");

    // B.2: Dynamic Table
    let authority = "c00f 7777 772e 6578 616d 706c 652e 636f 6d";
    let path = "c10c 2f73 616d 706c 652f 7061 7468";
    let section = hex("0381 10 11").into();
    assert_eq!(decoder.decode(4, section), Ok(Decoded::Blocked));
    assert_eq!(
        decoder.on_encoder_stream(&hex(&format!("3fbd01 {authority}"))),
        Ok(())
    );
    assert_eq!(decoder.poll_unblocked(), None, "one of two insertions");
    assert_eq!(decoder.on_encoder_stream(&hex(path)), Ok(()));
    let fields = lines(&[(":authority", "www.example.com"), (":path", "/sample/path")]);
    assert_eq!(decoder.poll_unblocked(), Some((4, Ok(fields))));
    assert_eq!(decoder.poll_unblocked(), None);
    assert_eq!(decoder.take_output(), hex("84"));

    // B.3: Speculative Insert
    let insert = hex("4a63 7573 746f 6d2d 6b65 790c 6375 7374 6f6d 2d76 616c 7565");
    assert_eq!(decoder.on_encoder_stream(&insert), Ok(()));
    assert_eq!(decoder.take_output(), hex("01"));

    // B.4: Duplicate Instruction, Stream Cancellation
    assert_eq!(
        decoder.decode(8, hex("0500 80 c1 81").into()),
        Ok(Decoded::Blocked)
    );
    decoder.cancel(8);
    assert_eq!(decoder.take_output(), hex("48"));
    assert_eq!(decoder.on_encoder_stream(&hex("02")), Ok(()));
    assert_eq!(decoder.poll_unblocked(), None, "cancelled");

    // B.5: Dynamic Table Insert, Eviction
    let insert = hex("810d 6375 7374 6f6d 2d76 616c 7565 32");
    assert_eq!(decoder.on_encoder_stream(&insert), Ok(()));
    let section = hex("0600 80 81 82 83").into();
    let fields = lines(&[
        ("custom-key", "custom-value2"),
        (":authority", "www.example.com"),
        ("custom-key", "custom-value"),
        (":path", "/sample/path"),
    ]);
    assert_eq!(decoder.decode(12, section), Ok(fields));
    let evicted = QpackError::DecompressionFailed("no such entry in the dynamic table");
    assert_eq!(decoder.decode(16, hex("0600 84").into()), Err(evicted));
}

#[test]
fn the_encoder_writes_the_examples_of_appendix_b() {
    let mut encoder = Encoder::new(EncoderConfig {
        max_table_capacity: 4096,
        max_blocked_streams: u64::MAX,
    });
    encoder.set_peer_settings(220, 2);
    let encode = |encoder: &mut Encoder, stream_id, fields: &[(&str, &str)]| {
        let mut out = Vec::new();
        let fields = fields.iter().map(|(name, value)| FieldRef {
            name: name.as_bytes(),
            value: value.as_bytes(),
            sensitive: false,
        });
        encoder.encode(stream_id, fields, &mut out);
        (encoder.take_output(), out)
    };

    // B.1, with the Huffman code that makes the value shorter.
    let (instructions, section) = encode(&mut encoder, 0, &[(":path", "/index.html")]);
    assert_eq!(
        instructions,
        hex("3fbd01"),
        "Set Dynamic Table Capacity=220"
    );
    assert_eq!(section, hex("0000 51 8860 d548 5f2b ce9a 68"));

    // B.2, with the lines used for the second time.
    let lines = [(":authority", "www.example.com"), (":path", "/sample/path")];
    encode(&mut encoder, 0, &lines);
    let (instructions, section) = encode(&mut encoder, 4, &lines);
    let authority = "c0 8c f1e3 c2e5 f23a 6ba0 ab90 f4ff";
    let path = "c1 89 6103 a6ba 0ac5 634c ff";
    assert_eq!(instructions, hex(&format!("{authority} {path}")));
    assert_eq!(section, hex("0381 10 11"));
    assert_eq!(encoder.on_decoder_stream(&hex("84")), Ok(()));

    // B.4: after the acknowledgment the Base is beyond the references.
    let (instructions, section) = encode(&mut encoder, 8, &[lines[0], (":path", "/"), lines[1]]);
    assert_eq!(instructions, "");
    assert_eq!(section, hex("0300 81 c1 80"));
    assert_eq!(encoder.on_decoder_stream(&hex("48")), Ok(()));
}

#[test]
fn error_codes_are_those_of_section_6() {
    let cases = [
        (
            QpackError::DecompressionFailed("x"),
            0x200,
            "decoding a field section: x",
        ),
        (
            QpackError::EncoderStream("x"),
            0x201,
            "reading the encoder stream: x",
        ),
        (
            QpackError::DecoderStream("x"),
            0x202,
            "reading the decoder stream: x",
        ),
    ];
    for (error, code, text) in cases {
        assert_eq!((error.code(), error.to_string()), (code, text.to_owned()));
    }
}
