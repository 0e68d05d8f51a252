//! Directives of `Cache-Control` (RFC 9111 §5.2), and of the field that is for this kind of cache alone
//! (RFC 9213).

use http::header::{self, HeaderMap, HeaderName};

use super::dictionary::{Bare, Members};

/// The field for caches of content delivery networks (RFC 9213 §3).
pub(super) const CDN_CACHE_CONTROL: HeaderName = HeaderName::from_static("cdn-cache-control");

/// The directives of a message that this cache knows. Times are in seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Directives {
    /// Without names of fields.
    pub(super) no_cache: bool,
    /// Without names of fields.
    pub(super) private: bool,
    pub(super) no_store: bool,
    pub(super) public: bool,
    pub(super) must_revalidate: bool,
    pub(super) proxy_revalidate: bool,
    pub(super) must_understand: bool,
    pub(super) only_if_cached: bool,
    pub(super) max_age: Option<u64>,
    pub(super) s_maxage: Option<u64>,
    pub(super) min_fresh: Option<u64>,
    /// Without a limit it is the largest number.
    pub(super) max_stale: Option<u64>,
    pub(super) stale_while_revalidate: Option<u64>,
    pub(super) stale_if_error: Option<u64>,
    /// The fields that `private` and `no-cache` name. They are not stored.
    pub(super) fields: Vec<HeaderName>,
}

impl Directives {
    /// The directives of a request. `Pragma` counts where there is no `Cache-Control` (RFC 9111 §5.4).
    pub(super) fn of_request(headers: &HeaderMap) -> Self {
        if headers.contains_key(header::CACHE_CONTROL) {
            return Self::of(headers);
        }
        let mut pragma = headers.get_all(header::PRAGMA).iter();
        let has_no_cache = pragma.any(|value| {
            let mut elements = value.as_bytes().split(|&byte| byte == b',');
            elements.any(|element| element.trim_ascii().eq_ignore_ascii_case(b"no-cache"))
        });
        Self {
            no_cache: has_no_cache,
            ..Self::default()
        }
    }

    /// The directives of `Cache-Control`.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut directives = Self::default();
        for value in headers.get_all(header::CACHE_CONTROL) {
            for element in elements(value.as_bytes()) {
                let (name, argument) = match element.iter().position(|&byte| byte == b'=') {
                    Some(at) => (&element[..at], Some(unquoted(&element[at + 1..]))),
                    None => (element, None),
                };
                directives.take(&name.to_ascii_lowercase(), argument);
            }
        }
        directives
    }

    /// The directives of the targeted field. `None` if it is empty or malformed, since it counts for
    /// nothing then (RFC 9213 §2.1).
    pub(super) fn targeted(headers: &HeaderMap) -> Option<Self> {
        let fields = headers.get_all(CDN_CACHE_CONTROL);
        let mut directives = Self::default();
        let members = Members::of(fields.iter().map(http::HeaderValue::as_bytes))?;
        for (name, value) in members.iter() {
            match value {
                Bare::True => directives.take(name, None),
                Bare::Integer(number) => directives.take(name, Some(&number.to_string())),
                Bare::Other => {}
            }
        }
        (!members.is_empty()).then_some(directives)
    }

    /// Takes a directive. Of one that is repeated the first counts (RFC 9111 §4.2.1).
    fn take(&mut self, name: &(impl AsRef<[u8]> + ?Sized), argument: Option<&str>) {
        match (name.as_ref(), argument) {
            (b"no-store", _) => self.no_store = true,
            (b"no-cache", None) => self.no_cache = true,
            (b"private", None) => self.private = true,
            (b"no-cache" | b"private", Some(names)) => self.take_fields(names),
            (b"public", _) => self.public = true,
            (b"must-revalidate", _) => self.must_revalidate = true,
            (b"proxy-revalidate", _) => self.proxy_revalidate = true,
            (b"must-understand", _) => self.must_understand = true,
            (b"only-if-cached", _) => self.only_if_cached = true,
            (b"max-age", argument) => first(&mut self.max_age, lifetime(argument)),
            (b"s-maxage", argument) => first(&mut self.s_maxage, lifetime(argument)),
            (b"max-stale", None) => first(&mut self.max_stale, u64::MAX),
            (b"max-stale", Some(seconds)) => first_of(&mut self.max_stale, seconds),
            (b"min-fresh", Some(seconds)) => first_of(&mut self.min_fresh, seconds),
            (b"stale-while-revalidate", Some(seconds)) => {
                first_of(&mut self.stale_while_revalidate, seconds);
            }
            (b"stale-if-error", Some(seconds)) => first_of(&mut self.stale_if_error, seconds),
            _ => {}
        }
    }

    fn take_fields(&mut self, names: &str) {
        let names = names.split(',').map(str::trim);
        self.fields
            .extend(names.filter_map(|name| name.parse().ok()));
    }
}

/// The lifetime of a response. An argument that is no number makes the response stale (RFC 9111 §4.2.1).
fn lifetime(argument: Option<&str>) -> u64 {
    argument.and_then(delta).unwrap_or(0)
}

fn first(of: &mut Option<u64>, seconds: u64) {
    of.get_or_insert(seconds);
}

fn first_of(of: &mut Option<u64>, seconds: &str) {
    if let Some(seconds) = delta(seconds) {
        first(of, seconds);
    }
}

/// Reads a number of seconds. Numbers that are too large become the largest one (RFC 9111 §1.2.2).
pub(super) fn delta(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| {
        text.parse::<u64>()
            .map_or(MAX_DELTA, |it| it.min(MAX_DELTA))
    })
}

/// 2^31 seconds, which RFC 9111 §1.2.2 takes for any larger number.
const MAX_DELTA: u64 = 1 << 31;

/// The elements of a list, without its whitespace. Commas in quotes do not part any.
fn elements(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(list);
    let next = move || {
        let list = rest?;
        let (mut quoted, mut escaped) = (false, false);
        let end = list.iter().position(|&byte| {
            let ends = byte == b',' && !quoted;
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                _ => {}
            }
            ends
        });
        rest = end.map(|end| &list[end + 1..]);
        Some(list[..end.unwrap_or(list.len())].trim_ascii())
    };
    std::iter::from_fn(next).filter(|element| !element.is_empty())
}

/// An argument without its quotes. No argument that is known has an escape or anything but ASCII.
fn unquoted(argument: &[u8]) -> &str {
    let inner = argument
        .strip_prefix(b"\"")
        .and_then(|inner| inner.strip_suffix(b"\""));
    std::str::from_utf8(inner.unwrap_or(argument)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(fields: &[(HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn of(values: &[&str]) -> Directives {
        let fields = values.iter().map(|value| (header::CACHE_CONTROL, *value));
        Directives::of(&headers(&fields.collect::<Vec<_>>()))
    }

    #[test]
    fn lifetimes_are_read() {
        // values of Cache-Control, and max-age
        let cases: &[(&[&str], Option<u64>)] = &[
            (&[], None),
            (&["max-age=60"], Some(60)),
            (&["MAX-AGE=60"], Some(60)),
            (&["max-age=\"60\""], Some(60)),
            (&["public,max-age=60"], Some(60)),
            (&[" , public ,\tmax-age=60"], Some(60)),
            (&["public", "max-age=60"], Some(60)),
            (&["max-age=60, max-age=1"], Some(60)),
            (&["max-age=1", "max-age=60"], Some(1)),
            (&["max-age=99999999999999999999999"], Some(1 << 31)),
            (&["max-age=4294967296"], Some(1 << 31)),
            // None of these is a number, so that the response is stale.
            (&["max-age"], Some(0)),
            (&["max-age="], Some(0)),
            (&["max-age=-1"], Some(0)),
            (&["max-age=1.5"], Some(0)),
            (&["max-age=60s"], Some(0)),
            (&["max-age= 60"], Some(0)),
            (&["max-age='60'"], Some(0)),
            // These are other directives.
            (&["max-age =60"], None),
            (&["x-max-age=60"], None),
            (&["ext=\"a, max-age=60\""], None),
            (&["ext=\"a\\\", max-age=60\""], None),
            (&["ext=\"a\", max-age=60"], Some(60)),
        ];
        for (values, want) in cases {
            assert_eq!(of(values).max_age, *want, "{values:?}");
        }
    }

    #[test]
    fn private_and_no_cache_may_name_fields() {
        let directives = of(&["private=\"Set-Cookie, x-a\", no-cache=x-b"]);
        assert!(!directives.private && !directives.no_cache);
        assert_eq!(directives.fields, ["set-cookie", "x-a", "x-b"]);
        let directives = of(&["private, no-cache"]);
        assert!(directives.private && directives.no_cache);
    }

    #[test]
    fn requests_have_directives_of_their_own() {
        let directives = of(&["max-stale, min-fresh=5, only-if-cached, no-store"]);
        assert_eq!(directives.max_stale, Some(u64::MAX));
        assert_eq!(directives.min_fresh, Some(5));
        assert!(directives.only_if_cached && directives.no_store);
        assert_eq!(of(&["max-stale=7"]).max_stale, Some(7));
        assert_eq!(of(&["max-stale=x, min-fresh"]), Directives::default());
    }

    #[test]
    fn pragma_counts_where_there_is_no_cache_control() {
        let cases: &[(&[(HeaderName, &str)], bool)] = &[
            (&[(header::PRAGMA, "no-cache")], true),
            (&[(header::PRAGMA, "x, No-Cache")], true),
            (&[(header::PRAGMA, "x")], false),
            (
                &[
                    (header::PRAGMA, "no-cache"),
                    (header::CACHE_CONTROL, "max-age=1"),
                ],
                false,
            ),
        ];
        for (fields, want) in cases {
            let directives = Directives::of_request(&headers(fields));
            assert_eq!(directives.no_cache, *want, "{fields:?}");
        }
    }

    #[test]
    fn the_targeted_field_is_a_dictionary() {
        let cases: &[(&[&str], Option<Directives>)] = &[
            (&[], None),
            (&[""], None),
            (&["max-age=60, ?"], None),
            (&["Max-Age=60"], None),
            (&["max-age=60,"], None),
            (
                &["max-age=60"],
                Some(Directives {
                    max_age: Some(60),
                    ..Directives::default()
                }),
            ),
            (
                &["no-store", "max-age=5;a=1"],
                Some(Directives {
                    no_store: true,
                    max_age: Some(5),
                    ..Directives::default()
                }),
            ),
            // A value of another type is none.
            (&["max-age=\"60\""], Some(Directives::default())),
            (&["no-store=?0"], Some(Directives::default())),
        ];
        for (values, want) in cases {
            let fields = values.iter().map(|value| (CDN_CACHE_CONTROL, *value));
            let headers = headers(&fields.collect::<Vec<_>>());
            assert_eq!(Directives::targeted(&headers), *want, "{values:?}");
        }
    }
}
