//! Translation of field sections, beside the rules that `http-common` has.

mod encoding;
mod requests;
mod responses;

use bytes::Bytes;
use http::{Method, Request, response};

use super::{Content, Context, Encoded, RequestHead, encode, head, trailer_section};
use crate::error::{Code, Error};
use crate::priority::Priority;
use crate::qpack::{Field, Fields as Section};

type Fields = &'static [(&'static str, &'static str)];

const GET: Fields = &[
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "a.test"),
    (":path", "/"),
];

fn fields(parts: &[&[(&str, &str)]]) -> Section {
    let lines = parts.iter().copied().flatten();
    lines
        .map(|(name, value)| Field {
            name: Bytes::copy_from_slice(name.as_bytes()),
            // "\u{e9}" and other such characters stand for a single byte.
            value: value.chars().map(|char| char as u8).collect(),
            never_indexed: false,
        })
        .collect()
}

fn request(parts: &[&[(&str, &str)]], context: &Context) -> Result<String, Error> {
    let (head, content) = head::<RequestHead>(&fields(parts), context)?;
    let mut text = format!("{} {}", head.parts.method, head.parts.uri);
    if let Some(protocol) = head.protocol {
        text = format!("{text} {}", protocol.as_str());
    }
    for (name, value) in &head.parts.headers {
        text = format!("{text} {name}={}", value.as_bytes().escape_ascii());
    }
    match content {
        Content::Open => {}
        Content::Length(length) => text = format!("{text} ({length})"),
        Content::None => text += " (none)",
        Content::Tunnel => text += " (tunnel)",
    }
    Ok(text)
}
