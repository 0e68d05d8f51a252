//! Entity tags of responses that are coded on their way (RFC 9110 §8.8.3).
//!
//! A coded response has a tag of its own, made of the original's. It is weak: the same content may be
//! coded into other bytes the next time. A client that asks with such a tag asks by the original's as
//! well, which is the one that the upstream knows.

use http::header::{self, HeaderMap, HeaderValue};

use crate::files::{Coding, Tag, Tags};

/// Tags of coded responses by which a client asks.
#[derive(Debug, Default)]
pub(super) struct Asked(Vec<Asking>);

#[derive(Debug)]
struct Asking {
    /// As the client sent it, with its quotes and without `W/`.
    sent: HeaderValue,
    /// The original, in the same form.
    original: HeaderValue,
}

/// Gives a response the tag of its coded form. One that is no tag is taken away.
pub(crate) fn mark(headers: &mut HeaderMap, coding: Coding) {
    let Some(tag) = headers.remove(header::ETAG) else {
        return;
    };
    let Some(Tag::Entity { opaque, .. }) = Tags::new(&tag).next() else {
        return;
    };
    let Some(inner) = opaque.strip_suffix(b"\"") else {
        return;
    };
    let marked = [&b"W/"[..], inner, MARK, coding.name().as_bytes(), b"\""].concat();
    if let Ok(marked) = HeaderValue::try_from(marked) {
        headers.insert(header::ETAG, marked);
    }
}

/// Adds the originals of marked tags to the conditions of a request.
///
/// `If-Range` keeps the marked tag, which holds for no range: a range of the original is no part of
/// the coded content.
pub(super) fn unmark(request: &mut HeaderMap) -> Asked {
    let mut asked = Asked::default();
    for name in [header::IF_NONE_MATCH, header::IF_MATCH] {
        let before = asked.0.len();
        let fields = request.get_all(&name);
        asked
            .0
            .extend(fields.iter().flat_map(Tags::new).filter_map(marked));
        for asking in &asked.0[before..] {
            crate::proxy::append_element(request, &name, asking.original.clone());
        }
    }
    asked
}

/// Reads a tag that [`mark`] has made.
fn marked(tag: Tag<'_>) -> Option<Asking> {
    let Tag::Entity {
        is_weak: true,
        opaque,
    } = tag
    else {
        return None;
    };
    let without = |coding: &Coding| {
        let inner = opaque.strip_suffix(b"\"")?;
        let inner = inner.strip_suffix(coding.name().as_bytes())?;
        inner.strip_suffix(MARK)
    };
    let original = Coding::ALL.iter().find_map(without)?;
    Some(Asking {
        sent: HeaderValue::from_bytes(opaque).ok()?,
        original: HeaderValue::try_from([original, b"\""].concat()).ok()?,
    })
}

impl Asked {
    /// Gives a 304 the tag of the coded response that the client has. Returns whether it has one.
    pub(super) fn restore(&self, not_modified: &mut HeaderMap) -> bool {
        let tag = not_modified.get(header::ETAG);
        let Some(Tag::Entity { opaque, .. }) = tag.and_then(|tag| Tags::new(tag).next()) else {
            return false;
        };
        let mut asking = self.0.iter();
        let Some(asking) = asking.find(|asking| asking.original.as_bytes() == opaque) else {
            return false;
        };
        let sent = [&b"W/"[..], asking.sent.as_bytes()].concat();
        if let Ok(sent) = HeaderValue::try_from(sent) {
            not_modified.insert(header::ETAG, sent);
        }
        true
    }
}

/// In every tag of a coded response.
const MARK: &[u8] = b"~coded-";

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let fields = fields.iter().map(|(name, value)| {
            let name = header::HeaderName::from_static(name);
            (name, HeaderValue::from_str(value).unwrap())
        });
        fields.collect()
    }

    #[test]
    fn a_tag_goes_out_and_comes_back() {
        for coding in Coding::ALL {
            for original in ["\"a,b\"", "W/\"a,b\"", "\"\""] {
                let mut coded = headers(&[("etag", original), ("a", "1")]);
                mark(&mut coded, coding);
                let inner = original.trim_start_matches("W/").trim_matches('"');
                let marked = format!("W/\"{inner}~coded-{}\"", coding.name());
                assert_eq!(coded, headers(&[("etag", &marked), ("a", "1")]));

                let mut request = headers(&[("if-none-match", &marked)]);
                let asked = unmark(&mut request);
                let both = format!("{marked}, \"{inner}\"");
                assert_eq!(request, headers(&[("if-none-match", &both)]));
                let mut answer = headers(&[("etag", original)]);
                assert!(asked.restore(&mut answer), "{original}");
                assert_eq!(answer, headers(&[("etag", &marked)]));
            }
        }
    }

    #[test]
    fn malformed_tags_do_not_stay() {
        for tag in ["", "a", "*", "\"a"] {
            let mut coded = headers(&[("etag", tag)]);
            mark(&mut coded, Coding::Br);
            assert_eq!(coded, headers(&[]), "{tag}");
        }
    }

    #[test]
    fn only_marked_tags_are_added_to() {
        let marked = "W/\"a~coded-br\"";
        // the client's condition, and the upstream's
        let cases = [
            ("\"a\"", "\"a\""),
            ("*", "*"),
            ("\"a~coded-br\"", "\"a~coded-br\""),
            ("W/\"a~coded-x\"", "W/\"a~coded-x\""),
            ("W/\"a~br\"", "W/\"a~br\""),
            (marked, "W/\"a~coded-br\", \"a\""),
            (
                "\"b\", W/\"a~coded-br\" , W/\"c~coded-zstd\"",
                "\"b\", W/\"a~coded-br\" , W/\"c~coded-zstd\", \"a\", \"c\"",
            ),
        ];
        for (sent, want) in cases {
            for name in ["if-none-match", "if-match"] {
                let mut request = headers(&[(name, sent), ("if-range", marked)]);
                unmark(&mut request);
                assert_eq!(request, headers(&[(name, want), ("if-range", marked)]));
            }
        }
    }

    #[test]
    fn the_tag_of_another_state_stays() {
        let mut request = headers(&[("if-none-match", "W/\"a~coded-br\"")]);
        let asked = unmark(&mut request);
        for answer in [&[("etag", "\"b\"")][..], &[]] {
            let mut answer = headers(answer);
            let before = answer.clone();
            assert!(!asked.restore(&mut answer));
            assert_eq!(answer, before);
        }
    }
}
