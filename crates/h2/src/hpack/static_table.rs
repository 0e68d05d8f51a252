//! The static table (RFC 7541 Appendix A).

use hikyaku_http_common::message::Class;

/// An entry.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) value: &'static str,
    pub(super) class: Class,
}

/// An entry of the requested name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) index: usize,
    /// Whether the entry also has the requested value.
    pub(super) exact: bool,
}

/// The number of entries; the first one has the index 1.
pub(super) const LEN: usize = 61;

/// The entry with this index; `None` if it is no index of the static table.
pub(super) fn entry(index: u64) -> Option<&'static Entry> {
    ENTRIES.get(usize::try_from(index.checked_sub(1)?).ok()?)
}

/// Finds the entry with this name and value, or else the first one with this name.
pub(super) fn find(name: &[u8], value: &[u8]) -> Option<Match> {
    let first = first(name)?;
    let mut index = first;
    while let Some(entry) = ENTRIES.get(index - 1)
        && entry.name.as_bytes() == name
    {
        if entry.value.as_bytes() == value {
            return Some(Match { index, exact: true });
        }
        index += 1;
    }
    Some(Match {
        index: first,
        exact: false,
    })
}

/// The first entry with this name. A `match` costs a comparison of lengths and one of bytes.
fn first(name: &[u8]) -> Option<usize> {
    Some(match name {
        b":authority" => 1,
        b":method" => 2,
        b":path" => 4,
        b":scheme" => 6,
        b":status" => 8,
        b"accept-charset" => 15,
        b"accept-encoding" => 16,
        b"accept-language" => 17,
        b"accept-ranges" => 18,
        b"accept" => 19,
        b"access-control-allow-origin" => 20,
        b"age" => 21,
        b"allow" => 22,
        b"authorization" => 23,
        b"cache-control" => 24,
        b"content-disposition" => 25,
        b"content-encoding" => 26,
        b"content-language" => 27,
        b"content-length" => 28,
        b"content-location" => 29,
        b"content-range" => 30,
        b"content-type" => 31,
        b"cookie" => 32,
        b"date" => 33,
        b"etag" => 34,
        b"expect" => 35,
        b"expires" => 36,
        b"from" => 37,
        b"host" => 38,
        b"if-match" => 39,
        b"if-modified-since" => 40,
        b"if-none-match" => 41,
        b"if-range" => 42,
        b"if-unmodified-since" => 43,
        b"last-modified" => 44,
        b"link" => 45,
        b"location" => 46,
        b"max-forwards" => 47,
        b"proxy-authenticate" => 48,
        b"proxy-authorization" => 49,
        b"range" => 50,
        b"referer" => 51,
        b"refresh" => 52,
        b"retry-after" => 53,
        b"server" => 54,
        b"set-cookie" => 55,
        b"strict-transport-security" => 56,
        b"transfer-encoding" => 57,
        b"user-agent" => 58,
        b"vary" => 59,
        b"via" => 60,
        b"www-authenticate" => 61,
        _ => return None,
    })
}

static ENTRIES: [Entry; LEN] = {
    const fn entry(name: &'static str, value: &'static str) -> Entry {
        let class = Class::of(name.as_bytes(), value.as_bytes());
        Entry { name, value, class }
    }
    [
        entry(":authority", ""),
        entry(":method", "GET"),
        entry(":method", "POST"),
        entry(":path", "/"),
        entry(":path", "/index.html"),
        entry(":scheme", "http"),
        entry(":scheme", "https"),
        entry(":status", "200"),
        entry(":status", "204"),
        entry(":status", "206"),
        entry(":status", "304"),
        entry(":status", "400"),
        entry(":status", "404"),
        entry(":status", "500"),
        entry("accept-charset", ""),
        entry("accept-encoding", "gzip, deflate"),
        entry("accept-language", ""),
        entry("accept-ranges", ""),
        entry("accept", ""),
        entry("access-control-allow-origin", ""),
        entry("age", ""),
        entry("allow", ""),
        entry("authorization", ""),
        entry("cache-control", ""),
        entry("content-disposition", ""),
        entry("content-encoding", ""),
        entry("content-language", ""),
        entry("content-length", ""),
        entry("content-location", ""),
        entry("content-range", ""),
        entry("content-type", ""),
        entry("cookie", ""),
        entry("date", ""),
        entry("etag", ""),
        entry("expect", ""),
        entry("expires", ""),
        entry("from", ""),
        entry("host", ""),
        entry("if-match", ""),
        entry("if-modified-since", ""),
        entry("if-none-match", ""),
        entry("if-range", ""),
        entry("if-unmodified-since", ""),
        entry("last-modified", ""),
        entry("link", ""),
        entry("location", ""),
        entry("max-forwards", ""),
        entry("proxy-authenticate", ""),
        entry("proxy-authorization", ""),
        entry("range", ""),
        entry("referer", ""),
        entry("refresh", ""),
        entry("retry-after", ""),
        entry("server", ""),
        entry("set-cookie", ""),
        entry("strict-transport-security", ""),
        entry("transfer-encoding", ""),
        entry("user-agent", ""),
        entry("vary", ""),
        entry("via", ""),
        entry("www-authenticate", ""),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_found() {
        for (index, entry) in (1..).zip(&ENTRIES) {
            let want = Some(Match { index, exact: true });
            let got = find(entry.name.as_bytes(), entry.value.as_bytes());
            assert_eq!(got, want, "{}: {}", entry.name, entry.value);
        }
        assert!(entry(0).is_none() && entry(62).is_none() && entry(u64::MAX).is_none());
    }

    #[test]
    fn entries_are_those_of_the_appendix() {
        let cases: &[(u64, &str, &str)] = &[
            (1, ":authority", ""),
            (5, ":path", "/index.html"),
            (14, ":status", "500"),
            (16, "accept-encoding", "gzip, deflate"),
            (28, "content-length", ""),
            (33, "date", ""),
            (44, "last-modified", ""),
            (54, "server", ""),
            (61, "www-authenticate", ""),
        ];
        for (index, name, value) in cases {
            let entry = entry(*index).unwrap();
            assert_eq!((entry.name, entry.value), (*name, *value), "{index}");
        }
    }

    #[test]
    fn another_value_finds_the_first_of_its_name() {
        let cases: &[(&str, &str, Option<usize>)] = &[
            (":status", "418", Some(8)),
            (":method", "PUT", Some(2)),
            ("server", "hikyaku", Some(54)),
            ("Server", "", None),
            ("", "", None),
        ];
        for &(name, value, index) in cases {
            let want = index.map(|index| Match {
                index,
                exact: false,
            });
            let got = find(name.as_bytes(), value.as_bytes());
            assert_eq!(got, want, "{name}: {value}");
        }
    }
}
