//! Heads of stored responses as bytes, for the disk.
//!
//! A form of another version is no head: what an older server has stored is then asked for anew.

use http::StatusCode;
use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::Head;
use crate::cache::policy::Terms;
use crate::cache::vary::Selector;

/// The first byte of the form that this server reads and writes.
const VERSION: u8 = 1;

impl Head {
    /// The head as [`Head::decode`] reads it.
    pub(in crate::cache) fn encode(&self) -> Vec<u8> {
        let mut out = Output(vec![VERSION]);
        out.number(self.status.as_u16().into());
        let (numbers, flags) = self.terms.to_parts();
        numbers.into_iter().for_each(|number| out.number(number));
        out.number(flags | (u64::from(self.is_personal) << 8));
        out.number(self.tags.len() as u64);
        for tag in &self.tags {
            out.bytes(tag.as_bytes());
        }
        let selecting = self.selector.parts();
        out.number(selecting.len() as u64);
        for (name, value) in selecting {
            out.bytes(name.as_str().as_bytes());
            out.number(value.is_some().into());
            out.bytes(value.unwrap_or_default());
        }
        for (name, value) in &self.headers {
            out.bytes(name.as_str().as_bytes());
            out.bytes(value.as_bytes());
        }
        out.0
    }

    /// Reads a head. `None` if it is none, or one of another version.
    pub(in crate::cache) fn decode(encoded: &[u8]) -> Option<Self> {
        let (&VERSION, rest) = encoded.split_first()? else {
            return None;
        };
        let mut input = Input(rest);
        let status = u16::try_from(input.number()?).ok()?;
        let numbers = [
            input.number()?,
            input.number()?,
            input.number()?,
            input.number()?,
        ];
        let flags = input.number()?;
        let tags = (0..input.number()?)
            .map(|_| Some(std::str::from_utf8(input.bytes()?).ok()?.into()))
            .collect::<Option<Vec<Box<str>>>>()?;
        let selecting = (0..input.number()?)
            .map(|_| {
                let name = HeaderName::from_bytes(input.bytes()?).ok()?;
                let is_there = input.number()? == 1;
                let value = input.bytes()?;
                Some((name, is_there.then(|| value.into())))
            })
            .collect::<Option<Vec<_>>>()?;
        let mut headers = HeaderMap::new();
        while !input.0.is_empty() {
            let name = HeaderName::from_bytes(input.bytes()?).ok()?;
            headers.append(name, HeaderValue::from_bytes(input.bytes()?).ok()?);
        }
        Some(Self::of_parts(
            StatusCode::from_u16(status).ok()?,
            headers,
            Terms::of_parts(numbers, flags & 0xff),
            Selector::of_parts(selecting),
            tags.into(),
            flags >> 8 == 1,
        ))
    }
}

struct Output(Vec<u8>);

impl Output {
    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }
}
