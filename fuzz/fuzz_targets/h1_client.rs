//! A server of HTTP/1.1 that keeps no rule. Its bytes come in two pieces, cut at any place, which must
//! not change what is understood.
#![no_main]

use bytes::{Buf, Bytes};
use hikyaku_h1::content::{Decoder, Part};
use hikyaku_h1::response::{Head, Limits};
use http::{HeaderMap, Method, StatusCode};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits {
    size: 1_000,
    fields: 60,
};

fuzz_target!(|data: &[u8]| {
    let Some((&[method, cut], data)) = data.split_first_chunk() else {
        return;
    };
    let method = match method % 2 {
        0 => Method::GET,
        _ => Method::HEAD,
    };
    let (first, second) = data.split_at(data.len().min(cut.into()));
    let whole = understand(&method, [data, b""]);
    // A head that is too large, or faulty, may be noticed before the rest of it has come.
    if let Some(whole) = whole {
        assert_eq!(understand(&method, [first, second]), Some(whole));
    }
});

#[derive(Debug, PartialEq)]
struct Understood {
    status: StatusCode,
    fields: HeaderMap,
    content: Vec<u8>,
    trailers: HeaderMap,
    /// What follows the response.
    rest: Bytes,
}

/// Reads a response and the end of the connection. `None` if there is a fault.
fn understand(method: &Method, pieces: [&[u8]; 2]) -> Option<Understood> {
    let mut pieces = pieces.into_iter();
    let mut input = Bytes::copy_from_slice(pieces.next()?);
    let head = loop {
        let before = input.len();
        match Head::parse(&mut input, &LIMITS).ok()? {
            Some(head) => break head,
            None => assert_eq!(input.len(), before),
        }
        input = [&input[..], pieces.next()?].concat().into();
    };
    assert!(head.headers.len() <= LIMITS.fields);
    let mut decoder = Decoder::new(head.framing(method).ok()?, LIMITS);
    let mut understood = Understood {
        status: head.status,
        fields: head.headers,
        content: Vec::new(),
        trailers: HeaderMap::new(),
        rest: Bytes::new(),
    };
    loop {
        match decoder.decode(&mut input).ok()? {
            Part::Data(data) => {
                assert!(!data.is_empty());
                understood.content.extend_from_slice(&data);
            }
            Part::Trailers(trailers) => understood.trailers = trailers,
            Part::Nothing => match pieces.next() {
                Some(piece) => input = [&input[..], piece].concat().into(),
                None => decoder.end_of_input().ok()?,
            },
            Part::End => break,
        }
    }
    let mut rest = input.chain(pieces.next().unwrap_or_default());
    understood.rest = rest.copy_to_bytes(rest.remaining());
    Some(understood)
}
