//! The fields of stored responses (RFC 9111 §3.1), and of forwarded messages (RFC 9110 §7.6).

use crate::case::{Case, Want, check, get, ok, optimal, required, stored, then};

const SECTION: &str = "RFC 9111 §3.1";
const HOP: &str = "RFC 9110 §7.6.1";

fn hour(lines: &str) -> String {
    format!("Cache-Control: max-age=3600\n{lines}")
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let kept = [
        ("Test-Field", "a"),
        ("X-Test-Field", "a"),
        ("Content-Foo", "a"),
        ("Content-Encoding", "x-test"),
        ("Content-Language", "de"),
        ("Content-Location", "/elsewhere"),
        ("Content-Disposition", "attachment; filename=\"a\""),
        ("Content-Security-Policy", "default-src 'self'"),
        ("Content-Type", "text/x-test"),
        ("ETag", "\"a\""),
        ("Last-Modified", "Tue, 15 Nov 1994 12:45:26 GMT"),
        ("Link", "</a>; rel=next"),
        ("Access-Control-Allow-Origin", "*"),
        ("Clear-Site-Data", "\"cookies\""),
        ("X-Frame-Options", "deny"),
        ("Vary", "Foo"),
        ("Retry-After", "10"),
    ];
    for (name, value) in kept {
        cases.push(required(
            format!("field-{}", name.to_ascii_lowercase()),
            SECTION,
            format!("{name} is stored"),
            then(
                stored(hour(&format!("{name}: {value}"))),
                [get().field(name, value)],
            ),
        ));
    }
    for name in ["Keep-Alive", "Proxy-Connection", "TE", "Upgrade", "Trailer"] {
        cases.push(required(
            format!("hop-{}", name.to_ascii_lowercase()),
            HOP,
            format!("{name}, named by Connection, is not stored"),
            then(
                stored(hour(&format!("Connection: {name}\n{name}: a"))),
                [get().lacks(name)],
            ),
        ));
    }
    cases.extend(others());
    cases
}

fn others() -> Vec<Case> {
    vec![
        required(
            "hop-named",
            HOP,
            "A field that Connection names is not stored",
            then(
                stored(hour("Connection: X-Hop\nX-Hop: a")),
                [get().lacks("X-Hop")],
            ),
        ),
        required(
            "hop-named-first",
            HOP,
            "A field that Connection names is not forwarded",
            [get()
                .answered(ok(hour("Connection: X-Hop\nX-Hop: a")))
                .lacks("X-Hop")],
        ),
        required(
            "hop-request",
            HOP,
            "A field that Connection of a request names is not forwarded",
            [get()
                .with("Connection: X-Hop")
                .with("X-Hop: a")
                .asked()
                .want(Want::SeesNot("X-Hop"))],
        ),
        check(
            "hop-proxy-authenticate",
            SECTION,
            "Proxy-Authenticate is not stored",
            then(
                stored(hour("Proxy-Authenticate: Basic realm=a")),
                [get().lacks("Proxy-Authenticate")],
            ),
        ),
        required(
            "field-lines",
            SECTION,
            "All lines of a field are stored, in their order",
            then(
                stored(hour("X-Test: a\nX-Test: b\nX-Test: c")),
                [get().field("X-Test", "a, b, c")],
            ),
        ),
        required(
            "field-cache-control",
            SECTION,
            "Cache-Control is stored as it came",
            then(
                stored("Cache-Control: max-age=3600, foo=\"bar, baz\""),
                [get().field("Cache-Control", "max-age=3600, foo=\"bar, baz\"")],
            ),
        ),
        required(
            "field-date",
            "RFC 9110 §6.6.1",
            "Date of a reused response is that of the origin",
            then(
                stored(hour("Date: {now-60}")),
                [get().want(Want::SameField("Date", 0))],
            ),
        ),
        check(
            "field-expires",
            SECTION,
            "Expires of a reused response is that of the origin",
            then(
                stored("Expires: {now+3600}"),
                [get().want(Want::SameField("Expires", 0))],
            ),
        ),
        check(
            "field-age-first",
            "RFC 9111 §5.1",
            "A response that the origin makes now has no age",
            [get().answered(ok(hour(""))).lacks("Age")],
        ),
        required(
            "field-content-length",
            "RFC 9110 §8.6",
            "A reused response has the length of its content",
            then(
                [
                    get().answered(ok(hour("")).saying("0123456789")),
                    get().stored().setup(),
                ],
                [get()
                    .field("Content-Length", "10")
                    .want(Want::Content("0123456789"))],
            ),
        ),
        optimal(
            "field-empty",
            SECTION,
            "A response without content is reused",
            [get().answered(ok(hour("")).saying("")), get().stored()],
        ),
    ]
}
