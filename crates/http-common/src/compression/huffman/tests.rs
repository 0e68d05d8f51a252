use proptest::prelude::*;

use super::*;

fn decoded(input: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut text = Vec::new();
    decode(input, &mut text).map(|()| text)
}

#[test]
fn codes_are_those_of_the_appendix() {
    let cases: &[(&str, usize, u32)] = &[
        ("'0', the first code", 48, 0x0),
        ("'t', the last of 5 bits", 116, 0x9),
        ("' ', the first of 6 bits", 32, 0x14),
        ("'Z', the last of 8 bits", 90, 0xfd),
        ("'\\', one of 19 bits", 92, 0x7fff0),
        ("0, one of 13 bits", 0, 0x1ff8),
        ("255, one of 26 bits", 255, 0x3ffffee),
        ("249, the last of 28 bits", 249, 0xffffffe),
        ("22, the last of a byte", 22, 0x3ffffffe),
        ("EOS", 256, 0x3fffffff),
    ];
    for &(name, symbol, code) in cases {
        assert_eq!(CODE.codes[symbol], code, "{name}");
    }
}

#[test]
fn strings_of_the_rfc() {
    let cases: &[(&str, &str, &[u8])] = &[
        ("empty", "", &[]),
        (
            "RFC 7541 §C.4.1",
            "www.example.com",
            &[
                0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
            ],
        ),
        (
            "RFC 7541 §C.4.2",
            "no-cache",
            &[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf],
        ),
        ("RFC 7541 §C.6.1", "302", &[0x64, 0x02]),
        (
            "RFC 7541 §C.6.1",
            "private",
            &[0xae, 0xc3, 0x77, 0x1a, 0x4b],
        ),
    ];
    for &(name, text, code) in cases {
        let mut out = Vec::new();
        encode(text.as_bytes(), &mut out);
        assert_eq!(out, code, "{name}");
        assert_eq!(encoded_len(text.as_bytes()), code.len(), "{name}");
        assert_eq!(decoded(code), Ok(text.as_bytes().to_vec()), "{name}");
    }
}

#[test]
fn padding_is_at_most_seven_ones() {
    let cases: &[(&str, &[u8], bool)] = &[
        ("5 bits and 3 of padding: '0'", &[0b0000_0111], true),
        (
            "RFC 7541 §5.2: padding not of the most significant bits of EOS",
            &[0b0000_0110],
            false,
        ),
        ("zeros as padding", &[0b0000_0000], false),
        (
            "RFC 7541 §5.2: a padding strictly longer than 7 bits",
            &[0b0000_0111, 0xff],
            false,
        ),
        ("nothing but a byte of padding", &[0xff], false),
        (
            "RFC 7541 §5.2: a string containing the EOS symbol",
            &[0xff, 0xff, 0xff, 0xff],
            false,
        ),
        (
            "EOS after a symbol",
            &[0b0000_0111, 0xff, 0xff, 0xff, 0xff],
            false,
        ),
        ("the start of a long code", &[0xff, 0xff], false),
    ];
    for &(name, input, valid) in cases {
        assert_eq!(decoded(input).is_ok(), valid, "{name}");
    }
}

proptest! {
    #[test]
    fn every_string_comes_back(text in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut out = Vec::new();
        encode(&text, &mut out);
        prop_assert_eq!(out.len(), encoded_len(&text));
        prop_assert_eq!(decoded(&out), Ok(text));
    }

    /// Short codes, which are read from a table.
    #[test]
    fn every_text_comes_back(text in "[ -~]{0,80}") {
        let mut out = Vec::new();
        encode(text.as_bytes(), &mut out);
        prop_assert_eq!(decoded(&out), Ok(text.into_bytes()));
    }

    /// Accepted input has one encoding.
    #[test]
    fn decoding_accepts_only_the_encoding(
        code in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        if let Ok(text) = decoded(&code) {
            let mut out = Vec::new();
            encode(&text, &mut out);
            prop_assert_eq!(out, code);
        }
    }
}
