//! The rules by the sentences of the RFCs. "§" alone is a section of RFC 9113, whose rules RFC 9114
//! repeats.

use super::*;

type Section = &'static [(&'static str, &'static str)];

const METHOD: (&str, &str) = (":method", "GET");
const HTTPS: (&str, &str) = (":scheme", "https");
const AUTHORITY: (&str, &str) = (":authority", "a.test");
const PATH: (&str, &str) = (":path", "/x?y");
const GET: Section = &[METHOD, HTTPS, AUTHORITY, PATH];
const CONNECT: (&str, &str) = (":method", "CONNECT");
const TARGET: (&str, &str) = (":authority", "a.test:443");
const WEBSOCKET: (&str, &str) = (":protocol", "websocket");

fn lines(parts: &[&[(&str, &str)]]) -> Result<Lines<Vec<u8>>, Malformed> {
    let mut lines = Lines::default();
    for (name, value) in parts.iter().copied().flatten() {
        // "\u{e9}" and other such characters stand for a single byte.
        let value: Vec<u8> = value.chars().map(|char| char as u8).collect();
        lines.line(Class::of(name.as_bytes(), &value), &value, &value)?;
    }
    Ok(lines)
}

fn request(parts: &[&[(&str, &str)]], connect_protocol: bool) -> Result<Option<u64>, Malformed> {
    let lines = lines(parts)?;
    lines.check_request(|value| value, connect_protocol)?;
    Ok(lines.content_length)
}

#[test]
fn fields_of_requests() {
    let cases: &[(&str, Section, bool)] = &[
        ("§8.3: :method twice", &[METHOD], false),
        ("§8.3: :path twice", &[PATH], false),
        ("§8.3: :scheme twice", &[HTTPS], false),
        ("§8.3: :authority twice", &[AUTHORITY], false),
        ("§8.3: a response's field", &[(":status", "200")], false),
        ("§8.3: an undefined one", &[(":x", "1")], false),
        ("§8.3: one without a name", &[(":", "1")], false),
        ("§8.3: one after others", &[("a", "1"), WEBSOCKET], false),
        ("RFC 8441 §3: not offered", &[WEBSOCKET], false),
        ("§8.2.1: in the range 0x41-0x5a", &[("Accept", "x")], false),
        ("§8.2.1: a space in a name", &[("a b", "x")], false),
        ("§8.2.1: a colon in a name", &[("a:", "x")], false),
        ("§8.2.1: an empty name", &[("", "x")], false),
        ("§8.2.1: NUL", &[("a", "x\0y")], false),
        ("§8.2.1: LF", &[("a", "x\ny")], false),
        ("§8.2.1: CR", &[("a", "x\ry")], false),
        ("RFC 9110 §5.5: DEL", &[("a", "x\u{7f}")], false),
        ("§8.2.1: space before", &[("a", " x")], false),
        ("§8.2.1: tab after", &[("a", "x\t")], false),
        ("RFC 9110 §5.5: space within", &[("a", "x \ty")], true),
        ("RFC 9110 §5.5: an empty value", &[("a", "")], true),
        ("RFC 9110 §5.5: obs-text", &[("a", "\u{e9}")], true),
        ("§8.2.2: Connection", &[("connection", "close")], false),
        ("§8.2.2: Keep-Alive", &[("keep-alive", "1")], false),
        (
            "§8.2.2: Proxy-Connection",
            &[("proxy-connection", "x")],
            false,
        ),
        (
            "§8.2.2: Transfer-Encoding",
            &[("transfer-encoding", "x")],
            false,
        ),
        ("§8.2.2: Upgrade", &[("upgrade", "websocket")], false),
        ("§8.2.2: TE: trailers", &[("te", "trailers")], true),
        ("§8.2.2: another TE", &[("te", "gzip")], false),
        ("§8.2.2: both", &[("te", "trailers, gzip")], false),
        ("§8.3.1: the same Host", &[("host", "A.test")], true),
        ("§8.3.1: another Host", &[("host", "b.test")], false),
        ("§8.3.1: another port", &[("host", "a.test:8443")], false),
        (
            "RFC 9112 §3.2: two",
            &[("host", "a.test"), ("host", "a.test")],
            false,
        ),
        (
            "§8.2.1: a crumb with LF",
            &[("cookie", "a"), ("cookie", "\nb")],
            false,
        ),
    ];
    for (name, extra, valid) in cases {
        let got = request(&[GET, extra], false);
        assert_eq!(got.is_ok(), *valid, "{name}: {got:?}");
    }
}

#[test]
fn lengths_of_requests() {
    let cases: &[(&str, &[&str], Option<Option<u64>>)] = &[
        ("RFC 9110 §8.6: none", &[], Some(None)),
        ("RFC 9110 §8.6: digits", &["3"], Some(Some(3))),
        ("RFC 9110 §8.6: zero", &["0"], Some(Some(0))),
        (
            "the largest",
            &["18446744073709551615"],
            Some(Some(u64::MAX)),
        ),
        ("beyond 64 bits", &["18446744073709551616"], None),
        ("RFC 9110 §8.6: two", &["3", "5"], None),
        ("RFC 9110 §8.6: two equal ones", &["3", "3"], None),
        ("RFC 9110 §8.6: a list", &["3, 3"], None),
        ("RFC 9110 §8.6: a sign", &["+3"], None),
        ("RFC 9110 §8.6: below zero", &["-3"], None),
        ("RFC 9110 §8.6: letters", &["abc"], None),
        ("RFC 9110 §8.6: nothing", &[""], None),
    ];
    for (name, values, want) in cases {
        let fields: Vec<_> = values.iter().map(|it| ("content-length", *it)).collect();
        assert_eq!(request(&[GET, &fields], false).ok(), *want, "{name}");
    }
}

#[test]
fn targets_of_requests() {
    const SLASH: (&str, &str) = (":path", "/");
    let cases: &[(&str, Section, bool)] = &[
        ("all", GET, true),
        ("in another order", &[PATH, AUTHORITY, HTTPS, METHOD], true),
        ("§8.3.1: one :method", &[HTTPS, AUTHORITY, PATH], false),
        ("§8.3.1: one :scheme", &[METHOD, AUTHORITY, PATH], false),
        ("§8.3.1: one :path", &[METHOD, HTTPS, AUTHORITY], false),
        ("no field at all", &[], false),
        (
            "§8.3.1: an empty :path",
            &[METHOD, HTTPS, AUTHORITY, (":path", "")],
            false,
        ),
        (
            "§8.3.1: without a slash",
            &[METHOD, HTTPS, AUTHORITY, (":path", "x")],
            false,
        ),
        (
            "a fragment",
            &[METHOD, HTTPS, AUTHORITY, (":path", "/#x")],
            false,
        ),
        (
            "RFC 3986 §3.3: a space",
            &[METHOD, HTTPS, AUTHORITY, (":path", "/a b")],
            false,
        ),
        (
            "§8.3.1: userinfo",
            &[METHOD, HTTPS, (":authority", "u@a.test"), PATH],
            false,
        ),
        (
            "a password",
            &[METHOD, HTTPS, (":authority", "u:p@a.test"), PATH],
            false,
        ),
        (
            "an empty authority",
            &[METHOD, HTTPS, (":authority", ""), PATH],
            false,
        ),
        (
            "one without a host",
            &[METHOD, HTTPS, (":authority", ":443"), PATH],
            false,
        ),
        (
            "one with a slash",
            &[METHOD, HTTPS, (":authority", "a.test/x"), PATH],
            false,
        ),
        ("neither :authority nor Host", &[METHOD, HTTPS, PATH], false),
        (
            "§8.3.1: Host alone",
            &[METHOD, HTTPS, PATH, ("host", "a.test")],
            true,
        ),
        ("an empty Host", &[METHOD, HTTPS, PATH, ("host", "")], false),
        (
            "RFC 9110 §9.1: no token",
            &[(":method", "G T"), HTTPS, AUTHORITY, PATH],
            false,
        ),
        (
            "RFC 9110 §9.1: nothing",
            &[(":method", ""), HTTPS, AUTHORITY, PATH],
            false,
        ),
        (
            "a method of no RFC",
            &[(":method", "XYZ"), HTTPS, AUTHORITY, PATH],
            true,
        ),
        (
            "another :scheme",
            &[METHOD, (":scheme", "ftp"), AUTHORITY, PATH],
            true,
        ),
        (
            "RFC 3986 §3.1: no scheme",
            &[METHOD, (":scheme", "1"), AUTHORITY, PATH],
            false,
        ),
        (
            "one with a space",
            &[METHOD, (":scheme", "ht tp"), AUTHORITY, PATH],
            false,
        ),
        (
            "§8.3.1: OPTIONS *",
            &[(":method", "OPTIONS"), HTTPS, AUTHORITY, (":path", "*")],
            true,
        ),
        ("GET *", &[METHOD, HTTPS, AUTHORITY, (":path", "*")], false),
        ("§8.5: CONNECT", &[CONNECT, TARGET], true),
        ("§8.5: with :path", &[CONNECT, TARGET, SLASH], false),
        ("§8.5: with :scheme", &[CONNECT, TARGET, HTTPS], false),
        ("RFC 9110 §9.3.6: no port", &[CONNECT, AUTHORITY], false),
        (
            "RFC 9110 §9.3.6: port 0",
            &[CONNECT, (":authority", "a.test:0")],
            false,
        ),
        ("§8.5: without :authority", &[CONNECT], false),
        (
            "RFC 8441 §4: extended",
            &[CONNECT, HTTPS, AUTHORITY, PATH, WEBSOCKET],
            true,
        ),
        (
            "RFC 8441 §4: without them",
            &[CONNECT, AUTHORITY, WEBSOCKET],
            false,
        ),
        (
            "of another method",
            &[METHOD, HTTPS, AUTHORITY, PATH, WEBSOCKET],
            false,
        ),
        (
            "no token",
            &[CONNECT, HTTPS, AUTHORITY, PATH, (":protocol", "a b")],
            false,
        ),
        (
            "an empty one",
            &[CONNECT, HTTPS, AUTHORITY, PATH, (":protocol", "")],
            false,
        ),
    ];
    for (name, section, valid) in cases {
        let got = request(&[section], true);
        assert_eq!(got.is_ok(), *valid, "{name}: {got:?}");
    }
}

#[test]
fn responses() {
    const OK: (&str, &str) = (":status", "200");
    let cases: &[(&str, Section, Option<u16>)] = &[
        ("§8.3.2: a status", &[OK, ("a", "b")], Some(200)),
        ("§8.3.2: no status", &[("a", "b")], None),
        ("§8.3.2: two digits", &[(":status", "20")], None),
        ("§8.3.2: four digits", &[(":status", "2000")], None),
        ("§8.3.2: a sign", &[(":status", "+20")], None),
        ("§8.3.2: below 100", &[(":status", "099")], None),
        ("§8.3: twice", &[OK, OK], None),
        ("§8.3: a request's field", &[OK, (":path", "/")], None),
        ("§8.3: after others", &[("a", "b"), OK], None),
        ("§8.6: 101", &[(":status", "101")], None),
        ("§8.1: interim", &[(":status", "103")], Some(103)),
        ("§8.2.2: Connection", &[OK, ("connection", "close")], None),
        (
            "RFC 9110 §8.6: a sign",
            &[OK, ("content-length", "+5")],
            None,
        ),
    ];
    for (name, section, want) in cases {
        let got = lines(&[section]).and_then(|lines| lines.check_response(|value| value));
        assert_eq!(got.ok().map(|status| status.as_u16()), *want, "{name}");
    }
}

#[test]
fn trailers() {
    let cases: &[(&str, Section, bool)] = &[
        ("§8.1: fields", &[("a", "b"), ("c", "d")], true),
        ("§8.1: none", &[], true),
        ("§8.1: a pseudo-header field", &[(":path", "/")], false),
        ("§8.1: a status", &[(":status", "200")], false),
        ("§8.2.2: Connection", &[("connection", "close")], false),
        ("§8.2.1: an upper-case name", &[("A", "b")], false),
    ];
    for (name, section, valid) in cases {
        let got = lines(&[section]).and_then(|lines| lines.check_trailers());
        assert_eq!(got.is_ok(), *valid, "{name}: {got:?}");
    }
}

#[test]
fn sent_fields() {
    let cases: &[(&str, &str, bool)] = &[
        ("accept", "*/*", true),
        ("connection", "close", false),
        ("keep-alive", "timeout=5", false),
        ("proxy-connection", "close", false),
        ("transfer-encoding", "chunked", false),
        ("upgrade", "websocket", false),
        ("te", "trailers", true),
        ("te", "gzip", false),
    ];
    for (name, value, want) in cases {
        let field = (
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
        assert_eq!(is_sent(&field.0, &field.1), *want, "{name}: {value}");
    }
}
