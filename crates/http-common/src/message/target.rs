//! The parts of a request's target (RFC 3986 §3, RFC 9110 §7.1).

/// Whether `scheme` is a scheme (RFC 3986 §3.1).
pub(super) fn is_scheme(scheme: &[u8]) -> bool {
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    // `http` knows no longer ones.
    scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme.len() <= 64
        && scheme.iter().all(is_allowed)
}

/// Whether `path` is a path with its query. It "MUST NOT be empty for `http` or `https` URIs" and
/// begins with a slash, except for `OPTIONS *` (RFC 9113 §8.3.1, RFC 9114 §4.3.1).
pub(super) fn is_path(path: &[u8], is_options: bool) -> bool {
    if path.first() != Some(&b'/') {
        return is_options && path == b"*";
    }
    let end = path.iter().position(|byte| *byte == b'?');
    let (path_alone, query) = path.split_at(end.unwrap_or(path.len()));
    let has = |class: u8| move |byte: &u8| BYTES[usize::from(*byte)] & class != 0;
    path.len() <= MAX_PATH
        && path_alone.iter().all(has(IN_PATH))
        && query.iter().all(has(IN_QUERY))
        && std::str::from_utf8(path).is_ok()
}

/// Whether `authority` is a host, with a port or without. "`:authority` MUST NOT include the
/// deprecated userinfo subcomponent" (RFC 9113 §8.3.1).
pub(super) fn is_authority(authority: &[u8]) -> bool {
    let Some((host, port)) = split(authority) else {
        return false;
    };
    // "The port subcomponent of authority is designated by an optional port number" (RFC 3986 §3.2.3),
    // which may be empty.
    let is_port = |port: &[u8]| port.is_empty() || parse_port(port).is_some();
    !host.is_empty() && port.is_none_or(is_port)
}

/// The port of an authority.
pub(super) fn port(authority: &[u8]) -> Option<u16> {
    parse_port(split(authority)?.1?)
}

fn parse_port(port: &[u8]) -> Option<u16> {
    let digits = port.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(port)
        .ok()
        .filter(|_| digits)?
        .parse()
        .ok()
}

/// Takes an authority apart: the host, and what follows its colon.
fn split(authority: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let (host, rest) = if let Some(inner) = authority.strip_prefix(b"[") {
        let end = inner.iter().position(|byte| *byte == b']')?;
        let is_allowed = |byte: &u8| byte.is_ascii_hexdigit() || b":.".contains(byte);
        if end == 0 || !inner[..end].iter().all(is_allowed) {
            return None;
        }
        authority.split_at(end + 2)
    } else {
        let end = authority.iter().position(|byte| *byte == b':');
        let (host, rest) = authority.split_at(end.unwrap_or(authority.len()));
        if !host.iter().all(|byte| is_in_name(*byte)) {
            return None;
        }
        (host, rest)
    };
    match rest {
        [] => Some((host, None)),
        [b':', port @ ..] => Some((host, Some(port))),
        _ => None,
    }
}

/// Whether a byte may stand in a host's name (RFC 3986 §3.2.2). Percent signs may not, as in the crate
/// `http`: no host has them.
fn is_in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte)
}

/// The longest path of the crate `http`, in bytes.
const MAX_PATH: usize = 65_534;

const IN_PATH: u8 = 1;
const IN_QUERY: u8 = 2;

/// Where each byte may stand, as the crate `http` takes it. That is more than RFC 3986 §3.3 allows,
/// since browsers send more. A number sign would begin a fragment.
static BYTES: [u8; 256] = {
    let mut bytes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        bytes[byte] = match byte as u8 {
            0..=b' ' | b'#' | b'<' | b'>' | 0x7f => 0,
            b'"' => IN_PATH,
            b'?' | b'`' => IN_QUERY,
            _ => IN_PATH | IN_QUERY,
        };
        byte += 1;
    }
    bytes
};

#[cfg(test)]
mod tests {
    use http::uri::{Authority, PathAndQuery};

    use super::*;

    #[test]
    fn paths_have_the_bytes_that_uris_have() {
        for byte in 0..=255 {
            for text in [[b'/', byte], [b'?', byte]] {
                let path = [b"/a", &text[..]].concat();
                let want = byte != b'#' && PathAndQuery::try_from(&path[..]).is_ok();
                assert_eq!(is_path(&path, false), want, "{}", path.escape_ascii());
            }
        }
        let cases: &[(&str, &[u8], bool, bool)] = &[
            ("RFC 9113 §8.3.1: empty", b"", false, false),
            ("without a slash", b"a", false, false),
            ("a query alone", b"?a", false, false),
            ("OPTIONS *", b"*", true, true),
            ("an asterisk for others", b"*", false, false),
            ("UTF-8", "/caf\u{e9}?\u{e9}".as_bytes(), false, true),
            ("Latin-1", b"/caf\xe9", false, false),
        ];
        for (name, path, is_options, want) in cases {
            assert_eq!(is_path(path, *is_options), *want, "{name}");
        }
    }

    #[test]
    fn hosts_have_the_bytes_that_uris_have() {
        for byte in 0..=255 {
            // A colon would begin a port, and an at sign end userinfo.
            let host = [b'a', byte, b'b'];
            let want = !b":@".contains(&byte) && Authority::try_from(&host[..]).is_ok();
            assert_eq!(is_authority(&host), want, "{}", host.escape_ascii());
        }
    }

    #[test]
    fn authorities_have_hosts_and_ports() {
        // (authority, valid, port)
        let cases: &[(&str, bool, Option<u16>)] = &[
            ("a.test", true, None),
            ("a.test:443", true, Some(443)),
            ("192.0.2.1:8443", true, Some(8443)),
            ("[2001:db8::1]", true, None),
            ("[2001:db8::1]:443", true, Some(443)),
            ("", false, None),
            (":443", false, Some(443)),
            ("a.test:", true, None),
            ("a.test:x", false, None),
            ("a.test:65536", false, None),
            ("a.test:+1", false, None),
            ("user@a.test", false, None),
            ("a.test:1:2", false, None),
            ("[2001:db8::1", false, None),
            ("[2001:db8::1]x", false, None),
            ("[]", false, None),
            ("a b", false, None),
            ("a/b", false, None),
        ];
        for &(authority, valid, want) in cases {
            assert_eq!(is_authority(authority.as_bytes()), valid, "{authority}");
            assert_eq!(port(authority.as_bytes()), want, "{authority}");
            assert!(
                !valid || Authority::try_from(authority).is_ok(),
                "{authority}"
            );
        }
    }
}
