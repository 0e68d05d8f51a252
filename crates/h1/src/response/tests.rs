use proptest::prelude::*;

use super::*;

const LIMITS: Limits = Limits {
    size: 4096,
    fields: 100,
};

fn parse(text: &str) -> Result<Option<Head>, HeadError> {
    Head::parse(&mut Bytes::copy_from_slice(text.as_bytes()), &LIMITS)
}

fn head(fields: &str) -> Head {
    let text = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
    parse(&text).unwrap().unwrap()
}

#[test]
fn a_head_is_taken_and_what_follows_is_left() {
    let mut input = Bytes::from_static(b"HTTP/1.1 404 Not Here\r\nA: 1 \r\na:2\r\nB:\r\n\r\nrest");
    let head = Head::parse(&mut input, &LIMITS).unwrap().unwrap();
    assert_eq!(
        (head.status, head.version),
        (StatusCode::NOT_FOUND, Version::HTTP_11)
    );
    let values: Vec<_> = head.headers.get_all("a").iter().collect();
    assert_eq!(values, ["1", "2"]);
    assert_eq!(head.headers["b"], "");
    assert_eq!(input, "rest");
}

#[test]
fn heads_that_are_malformed_are_refused() {
    let cases = [
        ("another protocol", "SSH-2.0-OpenSSH\r\n"),
        ("HTTP/2", "HTTP/2.0 200 OK\r\n\r\n"),
        ("HTTP/0.9", "<html>"),
        ("no status", "HTTP/1.1 OK\r\n\r\n"),
        ("a status below 100", "HTTP/1.1 099 OK\r\n\r\n"),
        ("a status of four digits", "HTTP/1.1 2000 OK\r\n\r\n"),
        // §5.1: "A proxy MUST remove any such whitespace from a response message before forwarding".
        (
            "a space before the colon",
            "HTTP/1.1 200 OK\r\nA : 1\r\n\r\n",
        ),
        // §5.2: "a proxy or gateway ... MUST either discard the message ... or replace".
        ("a folded line", "HTTP/1.1 200 OK\r\nA: 1\r\n b\r\n\r\n"),
        ("a field without a name", "HTTP/1.1 200 OK\r\n: 1\r\n\r\n"),
        ("a line without a colon", "HTTP/1.1 200 OK\r\nA\r\n\r\n"),
        // §2.2: a bare CR is invalid.
        ("a bare CR in a value", "HTTP/1.1 200 OK\r\nA: 1\r2\r\n\r\n"),
        ("a NUL in a value", "HTTP/1.1 200 OK\r\nA: 1\x002\r\n\r\n"),
        (
            "a vertical tab before a coding",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: \x0bchunked\r\n\r\n",
        ),
        ("a bare CR in the reason", "HTTP/1.1 200 O\rK\r\n\r\n"),
    ];
    for (name, text) in cases {
        let got = parse(text);
        assert!(
            matches!(got, Err(HeadError::Malformed(_))),
            "{name}: {got:?}"
        );
    }
}

#[test]
fn heads_are_bounded_in_bytes_and_fields() {
    let fields = |count| format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(count));
    let long = |count| format!("HTTP/1.1 200 OK\r\na: {}", "x".repeat(count));
    let ended = |count| format!("{}\r\n\r\n", long(count));
    let cases = [
        ("as many fields as are allowed", fields(100), Ok(true)),
        ("one more", fields(101), Err(HeadError::TooLarge)),
        ("more than the first table has", fields(FEW + 1), Ok(true)),
        ("an incomplete head within the limit", long(4000), Ok(false)),
        (
            "an incomplete head beyond it",
            long(4096),
            Err(HeadError::TooLarge),
        ),
        ("a complete head within the limit", ended(4000), Ok(true)),
        (
            "a complete head beyond it",
            ended(4096),
            Err(HeadError::TooLarge),
        ),
    ];
    for (name, text, want) in cases {
        assert_eq!(parse(&text).map(|head| head.is_some()), want, "{name}");
    }
}

/// RFC 9112 §6.3. Where two parties could disagree, a response would be taken for another's.
#[test]
fn the_framing_is_that_of_the_method_status_and_fields() {
    use Framing::{Chunked, Length, UntilClose};
    use HeadError::{ContentLength, TransferCoding};
    let cases = [
        ("GET", 200, "content-length: 5", Ok(Length(5))),
        ("GET", 200, "", Ok(UntilClose)),
        ("GET", 200, "transfer-encoding: chunked", Ok(Chunked)),
        ("GET", 200, "transfer-encoding: Chunked", Ok(Chunked)),
        // "Any response to a HEAD request ... is always terminated by the first empty line"
        ("HEAD", 200, "content-length: 5", Ok(Length(0))),
        ("HEAD", 200, "content-length: x", Ok(Length(0))),
        ("GET", 204, "content-length: 5", Ok(Length(0))),
        ("GET", 304, "transfer-encoding: chunked", Ok(Length(0))),
        ("GET", 103, "content-length: 5", Ok(Length(0))),
        // "the Transfer-Encoding overrides the Content-Length"
        (
            "GET",
            200,
            "content-length: 5\r\ntransfer-encoding: chunked",
            Ok(Chunked),
        ),
        // Codings that we would pass on without their name.
        (
            "GET",
            200,
            "transfer-encoding: gzip, chunked",
            Err(TransferCoding),
        ),
        (
            "GET",
            200,
            "transfer-encoding: chunked, chunked",
            Err(TransferCoding),
        ),
        (
            "GET",
            200,
            "transfer-encoding: chunked\r\ntransfer-encoding: x",
            Err(TransferCoding),
        ),
        (
            "GET",
            200,
            "transfer-encoding: xchunked",
            Err(TransferCoding),
        ),
        (
            "GET",
            200,
            "transfer-encoding: chunked;q=1",
            Err(TransferCoding),
        ),
        (
            "GET",
            200,
            "transfer-encoding: identity",
            Err(TransferCoding),
        ),
        ("GET", 200, "transfer-encoding:", Err(TransferCoding)),
        // "If a message is received without Transfer-Encoding and with an invalid Content-Length
        // header field, then the message framing is invalid"
        (
            "GET",
            200,
            "content-length: 5\r\ncontent-length: 5",
            Ok(Length(5)),
        ),
        ("GET", 200, "content-length: 5, 5", Ok(Length(5))),
        ("GET", 200, "content-length: 5, 6", Err(ContentLength)),
        (
            "GET",
            200,
            "content-length: 5\r\ncontent-length: 6",
            Err(ContentLength),
        ),
        ("GET", 200, "content-length: +5", Err(ContentLength)),
        ("GET", 200, "content-length: -5", Err(ContentLength)),
        ("GET", 200, "content-length: 0x5", Err(ContentLength)),
        ("GET", 200, "content-length: 5 5", Err(ContentLength)),
        ("GET", 200, "content-length: 5,", Err(ContentLength)),
        ("GET", 200, "content-length:", Err(ContentLength)),
        (
            "GET",
            200,
            "content-length: 18446744073709551616",
            Err(ContentLength),
        ),
    ];
    for (method, status, fields, want) in cases {
        let mut head = head(&match fields {
            "" => String::new(),
            fields => format!("{fields}\r\n"),
        });
        head.status = StatusCode::from_u16(status).unwrap();
        let method = method.parse().unwrap();
        assert_eq!(head.framing(&method), want, "{method} {status} {fields}");
    }
}

#[test]
fn a_client_treats_http_1_0_with_a_transfer_coding_as_faulty() {
    let text = "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n";
    let head = parse(text).unwrap().unwrap();
    assert_eq!(head.framing(&Method::GET), Err(HeadError::TransferCoding));
}

#[test]
fn a_connection_persists_by_version_and_options() {
    let cases = [
        ("1.1", "", true),
        ("1.1", "connection: close\r\n", false),
        ("1.1", "connection: x, Close\r\n", false),
        ("1.1", "connection: x\r\nconnection: close\r\n", false),
        ("1.1", "connection: keep-alive\r\n", true),
        ("1.1", "connection: closed\r\n", true),
        (
            "1.1",
            "transfer-encoding: chunked\r\ncontent-length: 5\r\n",
            false,
        ),
        ("1.0", "", false),
        ("1.0", "connection: Keep-Alive\r\n", true),
        ("1.0", "connection: keep-alive, close\r\n", false),
    ];
    for (version, fields, want) in cases {
        let text = format!("HTTP/{version} 200 OK\r\n{fields}\r\n");
        let head = parse(&text).unwrap().unwrap();
        assert_eq!(head.is_persistent(), want, "{version} {fields}");
    }
}

proptest! {
    #[test]
    fn a_head_that_comes_in_pieces_is_the_same(cut in 0usize..80) {
        let text = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 3\r\n\r\nabc";
        let cut = cut.min(text.len() - 4);
        prop_assert_eq!(parse(&text[..cut]), Ok(None));
        prop_assert_eq!(parse(text).unwrap().unwrap().headers.len(), 2);
    }
}
