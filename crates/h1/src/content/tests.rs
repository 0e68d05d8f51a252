use proptest::prelude::*;

use super::*;

const LIMITS: Limits = Limits {
    size: 100,
    fields: 10,
};

/// Decodes content that comes in pieces of `step` bytes. Returns it with its trailers and what
/// follows it.
fn decode(
    framing: Framing,
    text: &[u8],
    step: usize,
) -> Result<(Vec<u8>, HeaderMap, Bytes), ContentError> {
    let mut decoder = Decoder::new(framing, LIMITS);
    let (mut content, mut trailers) = (Vec::new(), HeaderMap::new());
    let mut input = Bytes::new();
    let mut pieces = text.chunks(step.max(1));
    loop {
        match decoder.decode(&mut input)? {
            Part::Data(data) => {
                assert!(!data.is_empty());
                content.extend_from_slice(&data);
            }
            Part::Trailers(fields) => trailers = fields,
            Part::End => return Ok((content, trailers, input)),
            Part::Nothing => match pieces.next() {
                Some(piece) => input = [&input[..], piece].concat().into(),
                None => decoder.end_of_input()?,
            },
        }
    }
}

#[test]
fn content_ends_by_its_framing() {
    use Framing::{Chunked, Length, UntilClose};
    let cases: &[(&str, Framing, &str, &str, &str)] = &[
        ("none", Length(0), "", "", ""),
        ("by length", Length(5), "hellonext", "hello", "next"),
        ("to the end", UntilClose, "hello", "hello", ""),
        ("to the end, none", UntilClose, "", "", ""),
        ("no chunk", Chunked, "0\r\n\r\nnext", "", "next"),
        (
            "chunks",
            Chunked,
            "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\nnext",
            "hello",
            "next",
        ),
        (
            "zeros",
            Chunked,
            "0005\r\nhello\r\n000\r\n\r\n",
            "hello",
            "",
        ),
        (
            "capitals",
            Chunked,
            "A\r\nhellohello\r\n0\r\n\r\n",
            "hellohello",
            "",
        ),
        // "A recipient MUST ignore unrecognized chunk extensions." (§7.1.1)
        (
            "extensions",
            Chunked,
            "5;a=b;c=\"d\"\r\nhello\r\n0;x\r\n\r\n",
            "hello",
            "",
        ),
        (
            "whitespace",
            Chunked,
            "5  \r\nhello\r\n0 ;x\r\n\r\n",
            "hello",
            "",
        ),
        (
            "line ends within",
            Chunked,
            "4\r\n\r\n\r\n\r\n0\r\n\r\n",
            "\r\n\r\n",
            "",
        ),
    ];
    for (name, framing, text, content, rest) in cases {
        for step in [1, 2, 3, 100] {
            // The rest comes with the last piece.
            let text = match step {
                100 => text.as_bytes(),
                _ => &text.as_bytes()[..text.len() - rest.len()],
            };
            let (got, trailers, left) = decode(*framing, text, step).unwrap();
            assert_eq!(got, content.as_bytes(), "{name}, {step}");
            assert!(trailers.is_empty(), "{name}, {step}");
            assert_eq!(left, if step == 100 { *rest } else { "" }, "{name}, {step}");
        }
    }
}

#[test]
fn trailers_follow_the_last_chunk() {
    let text = b"1\r\nx\r\n0\r\nA: 1\r\nb:2\r\n\r\nnext";
    for step in [1, 4, 100] {
        let text = &text[..text.len() - if step == 100 { 0 } else { 4 }];
        let (content, trailers, rest) = decode(Framing::Chunked, text, step).unwrap();
        assert_eq!(content, b"x", "{step}");
        assert_eq!(
            (&trailers["a"], &trailers["b"]),
            (&"1".parse().unwrap(), &"2".parse().unwrap())
        );
        assert_eq!(rest, if step == 100 { "next" } else { "" }, "{step}");
    }
}

/// Each of these is read differently by some parser, so that it could hide a response in another.
#[test]
fn chunks_that_are_malformed_are_refused() {
    let long = format!("1;{}", "x".repeat(200));
    let many = "a: b\r\n".repeat(11);
    let cases = [
        ("no size", "\r\nx\r\n"),
        ("a sign", "+1\r\nx\r\n"),
        ("a minus", "-1\r\nx\r\n"),
        ("a prefix", "0x1\r\nx\r\n"),
        ("a space before the size", " 1\r\nx\r\n"),
        ("a space within the size", "1 1\r\nxxxxxxxxxxxxxxxxx\r\n"),
        ("an underscore", "1_0\r\nx\r\n"),
        ("no digit", "g\r\n"),
        ("a size beyond 64 bits", "10000000000000000\r\n"),
        ("a bare line feed after the size", "1\nx\r\n0\r\n\r\n"),
        ("a bare line feed in an extension", "1;a\nx\r\n0\r\n\r\n"),
        ("a bare CR after the size", "1\rx\r\n"),
        ("a bare CR in an extension", "1;a\rb\r\nx\r\n"),
        ("a chunk longer than its size", "1\r\nxy\r\n0\r\n\r\n"),
        ("a bare line feed after a chunk", "1\r\nx\n0\r\n\r\n"),
        ("a bare CR after a chunk", "1\r\nx\r0\r\n\r\n"),
        ("long extensions", &long),
        ("a malformed trailer", "0\r\na b\r\n\r\n"),
        ("a folded trailer", "0\r\na: b\r\n c\r\n\r\n"),
        ("many trailers", &format!("0\r\n{many}\r\n")),
        ("a long trailer", &format!("0\r\na: {}", "x".repeat(200))),
    ];
    for (name, text) in cases {
        for step in [1, 1000] {
            let got = decode(Framing::Chunked, text.as_bytes(), step);
            let is_refused = matches!(got, Err(ContentError::Chunk(_) | ContentError::Trailers(_)));
            assert!(is_refused, "{name}, {step}: {got:?}");
        }
    }
}

#[test]
fn content_that_ends_early_is_incomplete() {
    let cases: &[(Framing, &str)] = &[
        (Framing::Length(5), "hell"),
        (Framing::Chunked, ""),
        (Framing::Chunked, "5"),
        (Framing::Chunked, "5\r\nhell"),
        (Framing::Chunked, "5\r\nhello"),
        (Framing::Chunked, "5\r\nhello\r\n"),
        (Framing::Chunked, "5\r\nhello\r\n0\r\n"),
        (Framing::Chunked, "0\r\na: b\r\n"),
    ];
    for (framing, text) in cases {
        let got = decode(*framing, text.as_bytes(), 100);
        assert_eq!(got, Err(ContentError::Incomplete), "{framing:?} {text}");
    }
}

proptest! {
    #[test]
    fn content_survives_any_cut(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..5),
        step in 1usize..50,
    ) {
        let mut text = Vec::new();
        for chunk in &chunks {
            text.extend_from_slice(format!("{:X}\r\n", chunk.len()).as_bytes());
            text.extend_from_slice(chunk);
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(b"0\r\n\r\n");
        let (content, _, rest) = decode(Framing::Chunked, &text, step).unwrap();
        prop_assert_eq!(content, chunks.concat());
        prop_assert!(rest.is_empty());
    }
}
