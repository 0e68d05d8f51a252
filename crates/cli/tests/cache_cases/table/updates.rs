//! A 304 changes the fields of the stored response (RFC 9111 §3.2, §4.3.4).

use crate::case::{Case, LATER, Step, Want, check, get, ok, optimal, required, stored, then};

const SECTION: &str = "RFC 9111 §3.2";

/// A stale response with a field, its validation that returns other lines, and one more use.
fn validated(before: &str, by: &str) -> Vec<Step> {
    then(
        stored(format!("Cache-Control: max-age=2\nETag: \"a\"\n{before}")),
        [get()
            .after(LATER)
            .answered(ok("").or_304(format!("Cache-Control: max-age=3600\nETag: \"a\"\n{by}")))
            .conditional()
            .status(200)
            .setup()],
    )
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let updated = [
        "Test-Field",
        "X-Test-Field",
        "Content-Foo",
        "Content-Security-Policy",
        "Content-Location",
        "Content-Language",
        "X-Frame-Options",
        "Access-Control-Allow-Origin",
        "Link",
        "Server-Timing",
    ];
    for name in updated {
        cases.push(required(
            format!("304-updates-{}", name.to_ascii_lowercase()),
            SECTION,
            format!("A 304 replaces {name} of the stored response"),
            then(
                validated(&format!("{name}: old"), &format!("{name}: new")),
                [get().stored().setup(), get().field(name, "new")],
            ),
        ));
    }
    for (name, before, by) in [
        ("Content-Length", "", "Content-Length: 3"),
        (
            "Content-Encoding",
            "Content-Encoding: old",
            "Content-Encoding: new",
        ),
        (
            "Content-Type",
            "Content-Type: text/old",
            "Content-Type: text/new",
        ),
        ("Content-Range", "", "Content-Range: bytes 0-1/2"),
    ] {
        cases.push(check(
            format!("304-keeps-{}", name.to_ascii_lowercase()),
            SECTION,
            format!("A 304 does not replace {name}, on which the content depends"),
            then(
                validated(before, by),
                [
                    get().want(Want::SameField(name, 0)).content_of(0),
                    get().want(Want::SameField(name, 0)).content_of(0),
                ],
            ),
        ));
    }
    cases.extend(others());
    cases
}

fn others() -> Vec<Case> {
    vec![
        required(
            "304-updates-response",
            SECTION,
            "The response that is validated has the fields of the 304",
            then(
                stored("Cache-Control: max-age=2\nETag: \"a\"\nX-Test: old"),
                [get()
                    .after(LATER)
                    .answered(ok("X-Test: new").or_304("ETag: \"a\"\nX-Test: new"))
                    .status(200)
                    .field("X-Test", "new")],
            ),
        ),
        required(
            "304-keeps-others",
            SECTION,
            "Fields that a 304 lacks stay as they were",
            then(
                validated("X-Test: old\nContent-Type: text/x-test", ""),
                [get()
                    .field("X-Test", "old")
                    .field("Content-Type", "text/x-test")],
            ),
        ),
        required(
            "304-adds",
            SECTION,
            "A 304 adds a field that the stored response lacks",
            then(
                validated("", "X-Test: new"),
                [get().stored().setup(), get().field("X-Test", "new")],
            ),
        ),
        required(
            "304-lines",
            SECTION,
            "A 304 replaces all lines of a field",
            then(
                validated("X-Test: a\nX-Test: b", "X-Test: c"),
                [get().stored().setup(), get().field("X-Test", "c")],
            ),
        ),
        required(
            "304-cache-control",
            SECTION,
            "The lifetime of a 304 takes the place of the former one",
            then(
                stored("Cache-Control: max-age=2\nETag: \"a\""),
                [
                    get()
                        .after(LATER)
                        .answered(ok("").or_304("Cache-Control: max-age=0\nETag: \"a\""))
                        .conditional()
                        .setup(),
                    get().asked(),
                ],
            ),
        ),
        optimal(
            "304-expires",
            SECTION,
            "The Expires of a 304 takes the place of the former one",
            then(
                stored("Date: {now}\nExpires: {now+2}\nETag: \"a\""),
                [
                    get()
                        .after(LATER)
                        .answered(ok("").or_304("Expires: {now+3600}\nETag: \"a\""))
                        .conditional()
                        .status(200),
                    get().stored().content_of(0),
                ],
            ),
        ),
        required(
            "304-hop-by-hop",
            "RFC 9110 §7.6.1",
            "A field that Connection of a 304 names does not become one of the response",
            then(
                validated("", "Connection: X-Hop\nX-Hop: a"),
                [get().lacks("X-Hop")],
            ),
        ),
    ]
}
