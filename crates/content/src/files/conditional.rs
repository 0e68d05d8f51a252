//! Conditional requests (RFC 9110 §13).

use std::time::SystemTime;

use http::header::{self, GetAll, HeaderName};
use http::{HeaderMap, HeaderValue};

/// The validators of a representation (RFC 9110 §8.8).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validators<'a> {
    pub(crate) etag: Option<&'a HeaderValue>,
    pub(crate) modified: Option<SystemTime>,
    /// Whether `modified` is a strong validator (§8.8.2.2).
    pub(crate) is_dated_strongly: bool,
}

/// The result of a request's preconditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Send the representation, or the part of it that `Range` names.
    Send,
    /// Answer with status 304.
    NotModified,
    /// Answer with status 412.
    Failed,
}

/// Whether a request has any field of this module or a `Range`.
pub(crate) fn is_conditional(headers: &HeaderMap) -> bool {
    CONDITIONS.iter().any(|name| headers.contains_key(name))
}

/// Evaluates the preconditions of a `GET` or `HEAD` in the order of §13.2.2.
/// A date that cannot be read is ignored (§13.1.3, §13.1.4).
pub(crate) fn evaluate(headers: &HeaderMap, of: &Validators<'_>) -> Outcome {
    let matches = headers.get_all(header::IF_MATCH);
    if is_present(&matches) {
        if !any_tag(&matches, |tag| tag.is_strongly(of.etag)) {
            return Outcome::Failed;
        }
    } else if date(headers, header::IF_UNMODIFIED_SINCE)
        .is_some_and(|date| of.modified.is_some_and(|modified| modified > date))
    {
        return Outcome::Failed;
    }
    let none_match = headers.get_all(header::IF_NONE_MATCH);
    let is_current = if is_present(&none_match) {
        any_tag(&none_match, |tag| tag.is_weakly(of.etag))
    } else {
        date(headers, header::IF_MODIFIED_SINCE)
            .is_some_and(|date| of.modified.is_some_and(|modified| modified <= date))
    };
    if is_current {
        Outcome::NotModified
    } else {
        Outcome::Send
    }
}

/// Whether `If-Range` lets `Range` hold (§13.1.5). It does if it is absent, or if it names this
/// very representation by a strong validator.
pub(crate) fn range_holds(headers: &HeaderMap, of: &Validators<'_>) -> bool {
    let Some(value) = headers.get(header::IF_RANGE) else {
        return true;
    };
    if let Some(Tag::Entity { is_weak, .. }) = Tags::new(value).next() {
        return !is_weak && of.etag.is_some_and(|etag| etag == value);
    }
    let date = date(headers, header::IF_RANGE);
    of.is_dated_strongly && date.is_some() && date == of.modified
}

fn is_present(fields: &GetAll<'_, HeaderValue>) -> bool {
    fields.iter().next().is_some()
}

fn any_tag(fields: &GetAll<'_, HeaderValue>, matches: impl Fn(&Tag<'_>) -> bool) -> bool {
    fields.iter().flat_map(Tags::new).any(|tag| matches(&tag))
}

fn date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

/// An element of `If-Match` or `If-None-Match`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag<'a> {
    /// `*`: any representation that exists.
    Any,
    /// `entity-tag` (§8.8.3), with its quotes.
    Entity { is_weak: bool, opaque: &'a [u8] },
}

impl Tag<'_> {
    /// Weak comparison (§8.8.3.2).
    fn is_weakly(&self, etag: Option<&HeaderValue>) -> bool {
        let etag = etag.map(HeaderValue::as_bytes);
        match self {
            Self::Any => true,
            Self::Entity { opaque, .. } => {
                etag.is_some_and(|etag| *opaque == etag.strip_prefix(WEAK).unwrap_or(etag))
            }
        }
    }

    /// Strong comparison: two tags, neither of which is weak.
    fn is_strongly(&self, etag: Option<&HeaderValue>) -> bool {
        match self {
            Self::Any => true,
            Self::Entity { is_weak, opaque } => {
                !is_weak && etag.is_some_and(|etag| *opaque == etag.as_bytes())
            }
        }
    }
}

/// The tags of a field, up to the first that is malformed.
pub(crate) struct Tags<'a>(&'a [u8]);

impl<'a> Tags<'a> {
    pub(crate) fn new(field: &'a HeaderValue) -> Self {
        Self(field.as_bytes())
    }
}

impl<'a> Iterator for Tags<'a> {
    type Item = Tag<'a>;

    fn next(&mut self) -> Option<Tag<'a>> {
        let start = self.0.iter().position(|byte| !b" \t,".contains(byte))?;
        let rest = &self.0[start..];
        if rest == b"*" {
            self.0 = b"";
            return Some(Tag::Any);
        }
        let (is_weak, rest) = match rest.strip_prefix(WEAK) {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let inner = rest.strip_prefix(b"\"")?;
        let end = inner.iter().position(|&byte| byte == b'"')? + 2;
        self.0 = &rest[end..];
        Some(Tag::Entity {
            is_weak,
            opaque: &rest[..end],
        })
    }
}

const WEAK: &[u8] = b"W/";

const CONDITIONS: [HeaderName; 6] = [
    header::RANGE,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_MATCH,
    header::IF_UNMODIFIED_SINCE,
    header::IF_RANGE,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_from_lists() {
        let strong = |opaque| Tag::Entity {
            is_weak: false,
            opaque,
        };
        let weak = |opaque| Tag::Entity {
            is_weak: true,
            opaque,
        };
        let cases: &[(&str, &[Tag<'_>])] = &[
            ("*", &[Tag::Any]),
            ("\"a\"", &[strong(b"\"a\"")]),
            ("W/\"a\"", &[weak(b"\"a\"")]),
            (
                "\"a\" ,\t\"b\",,W/\"c\"",
                &[strong(b"\"a\""), strong(b"\"b\""), weak(b"\"c\"")],
            ),
            ("\"a,b\"", &[strong(b"\"a,b\"")]),
            ("\"\"", &[strong(b"\"\"")]),
            ("", &[]),
            (" , ", &[]),
            ("a", &[]),
            ("\"a", &[]),
            ("w/\"a\"", &[]),
            ("\"a\", b, \"c\"", &[strong(b"\"a\"")]),
            ("*, \"a\"", &[]),
        ];
        for (field, want) in cases {
            let field = HeaderValue::from_static(field);
            assert_eq!(Tags::new(&field).collect::<Vec<_>>(), *want, "{field:?}");
        }
    }

    #[test]
    fn weak_tags_are_alike_in_weak_comparisons_alone() {
        // a client's tag, the representation's, whether they are weakly and strongly the same
        let cases = [
            ("\"a\"", "\"a\"", true, true),
            ("W/\"a\"", "\"a\"", true, false),
            ("\"a\"", "W/\"a\"", true, false),
            ("W/\"a\"", "W/\"a\"", true, false),
            ("\"a\"", "\"b\"", false, false),
            ("*", "W/\"a\"", true, true),
        ];
        for (asked, etag, weakly, strongly) in cases {
            let (asked, etag) = (
                HeaderValue::from_static(asked),
                HeaderValue::from_static(etag),
            );
            let tag = Tags::new(&asked).next().unwrap();
            let got = (tag.is_weakly(Some(&etag)), tag.is_strongly(Some(&etag)));
            assert_eq!(got, (weakly, strongly), "{asked:?} {etag:?}");
        }
    }
}
