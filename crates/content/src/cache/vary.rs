//! The request's part in a stored response: `Vary` and the fields that it names (RFC 9111 §4.1).

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::stored::unshared;
use crate::proxy::elements;

/// The fields by which a response was chosen, with their values in the request that it answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Selector(Box<[Selecting]>);

#[derive(Clone, Debug)]
struct Selecting {
    name: HeaderName,
    /// The value in its normal form; `None` where the request had no such field.
    value: Option<Box<[u8]>>,
    /// The line of the request, if it had one. Most requests have the same, which needs no normal form.
    sent: Option<HeaderValue>,
}

impl PartialEq for Selecting {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.value == other.value
    }
}

impl Eq for Selecting {}

impl Selector {
    /// Reads `Vary` of a response to a request with these fields. `None` if no other request can be sure to
    /// get the same response.
    pub(super) fn of(response: &HeaderMap, request: &HeaderMap) -> Option<Self> {
        if !response.contains_key(header::VARY) {
            return Some(Self::default());
        }
        let mut names = Vec::new();
        for name in elements(response, &header::VARY) {
            let name: HeaderName = name.parse().ok().filter(|_| name != "*")?;
            if describes_clients(&name) {
                return None;
            }
            names.push(name);
        }
        names.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        names.dedup();
        Some(Self::by(names, request))
    }

    /// Whether a request with these fields gets the response.
    pub(super) fn matches(&self, request: &HeaderMap) -> bool {
        self.0.iter().all(|selecting| selecting.matches(request))
    }

    /// Whether no field chooses.
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The selector of a request with these fields, among responses that fields of these names choose.
    pub(super) fn by(names: Vec<HeaderName>, request: &HeaderMap) -> Self {
        let selecting = names.into_iter().map(|name| Selecting {
            value: normal(request, &name),
            sent: only(request, &name).map(unshared),
            name,
        });
        Self(selecting.collect())
    }

    /// The names of the fields in their order, and their values.
    pub(super) fn parts(&self) -> impl ExactSizeIterator<Item = (&HeaderName, Option<&[u8]>)> {
        self.0.iter().map(|it| (&it.name, it.value.as_deref()))
    }

    pub(super) fn of_parts(parts: Vec<(HeaderName, Option<Box<[u8]>>)>) -> Self {
        let selecting = parts.into_iter().map(|(name, value)| Selecting {
            name,
            value,
            sent: None,
        });
        Self(selecting.collect())
    }

    /// Whether two requests agree in the fields that choose.
    pub(super) fn unites(&self, one: &HeaderMap, other: &HeaderMap) -> bool {
        let mut selecting = self.0.iter();
        selecting.all(|it| normal(one, &it.name) == normal(other, &it.name))
    }

    /// Bytes in memory.
    pub(super) fn size(&self) -> usize {
        let sizes = self.0.iter().map(|it| {
            size_of::<Selecting>()
                + it.name.as_str().len()
                + it.value.as_ref().map_or(0, |it| it.len())
        });
        sizes.sum()
    }
}

impl Selecting {
    fn matches(&self, request: &HeaderMap) -> bool {
        if self.value.is_none() || !request.contains_key(&self.name) {
            return self.value.is_none() && !request.contains_key(&self.name);
        }
        let is_same = self.sent.is_some() && only(request, &self.name) == self.sent.as_ref();
        is_same || normal(request, &self.name) == self.value
    }
}

/// The value of a field that has one line.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

/// The value of a field in a form that all values with its meaning have. Lines are joined, and whitespace
/// around the elements of a list does not matter. Codings and languages have no case, and codings no order
/// (RFC 9110 §12.5.3, §12.5.4).
fn normal(headers: &HeaderMap, name: &HeaderName) -> Option<Box<[u8]>> {
    let mut values = headers.get_all(name).iter().peekable();
    values.peek()?;
    let lines = values.flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
    let elements = lines.map(<[u8]>::trim_ascii);
    let mut elements: Vec<Vec<u8>> = elements
        .filter(|element| !element.is_empty())
        .map(<[u8]>::to_vec)
        .collect();
    if matches!(*name, header::ACCEPT_ENCODING | header::ACCEPT_LANGUAGE) {
        for element in &mut elements {
            element.make_ascii_lowercase();
            element.retain(|byte| !byte.is_ascii_whitespace());
        }
    }
    if *name == header::ACCEPT_ENCODING {
        elements.sort_unstable();
    }
    Some(elements.join(&b", "[..]).into())
}

/// Whether the server itself writes the client's address into a field on its way to the upstream. What
/// the client has sent there says nothing of the response.
fn describes_clients(name: &HeaderName) -> bool {
    matches!(name.as_str(), "forwarded" | "x-forwarded-for" | "x-real-ip")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn a_stored_response_is_for_requests_that_mean_the_same() {
        type Fields<'a> = &'a [(&'static str, &'a str)];
        // Vary, the first request, another one, and whether it gets the response
        let cases: &[(&str, Fields<'_>, Fields<'_>, bool)] = &[
            ("a", &[("a", "1")], &[("a", "1"), ("b", "2")], true),
            ("a", &[("a", "1")], &[("a", "2")], false),
            ("a", &[("a", "1")], &[], false),
            ("a", &[], &[], true),
            ("a", &[], &[("a", "")], false),
            (
                "a, B",
                &[("a", "1"), ("b", "2")],
                &[("b", "2"), ("a", "1")],
                true,
            ),
            ("a, b", &[("a", "1"), ("b", "2")], &[("a", "1")], false),
            ("a", &[("a", "1, 2")], &[("a", "1,2")], true),
            ("a", &[("a", "1, 2")], &[("a", "1"), ("a", "2")], true),
            ("a", &[("a", "1, 2")], &[("a", "2, 1")], false),
            ("a", &[("a", "x")], &[("a", "X")], false),
            (
                "accept-encoding",
                &[("accept-encoding", "gzip, BR;q=0.5")],
                &[("accept-encoding", "br; q=0.5,gzip")],
                true,
            ),
            (
                "accept-encoding",
                &[("accept-encoding", "gzip")],
                &[("accept-encoding", "gzip, br")],
                false,
            ),
            (
                "accept-language",
                &[("accept-language", "de, en")],
                &[("accept-language", "DE,en")],
                true,
            ),
            (
                "accept-language",
                &[("accept-language", "de, en")],
                &[("accept-language", "en, de")],
                false,
            ),
        ];
        for (vary, first, other, want) in cases {
            let (first, other) = (headers(first), headers(other));
            let selector = Selector::of(&headers(&[("vary", vary)]), &first).unwrap();
            assert!(selector.matches(&first), "{vary} {first:?}");
            assert_eq!(
                selector.matches(&other),
                *want,
                "{vary} {first:?} {other:?}"
            );
            assert_eq!(selector.unites(&first, &other), *want, "{vary}");
        }
    }

    #[test]
    fn some_responses_are_for_one_request_alone() {
        for vary in [
            "*",
            "a, *",
            "X-Forwarded-For",
            "forwarded",
            "x-real-ip",
            "not a name",
        ] {
            let response = headers(&[("vary", vary)]);
            assert_eq!(Selector::of(&response, &HeaderMap::new()), None, "{vary}");
        }
        let selector = Selector::of(&headers(&[]), &headers(&[("a", "1")]));
        assert_eq!(selector, Some(Selector::default()));
    }
}
