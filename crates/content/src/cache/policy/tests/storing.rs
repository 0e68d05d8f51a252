//! The rules of storing (RFC 9111 §3).

use super::*;

#[test]
fn a_cache_must_not_store_a_response_unless() {
    // the rule of RFC 9111 §3, status, fields, whether the request is personal, whether it is stored
    let cases: &[(&str, u16, Fields<'_>, bool, bool)] = &[
        (
            "max-age",
            200,
            &[("cache-control", "max-age=1")],
            false,
            true,
        ),
        (
            "s-maxage",
            200,
            &[("cache-control", "s-maxage=1")],
            false,
            true,
        ),
        (
            "Expires",
            200,
            &[("expires", "Thu, 26 Nov 2026 12:00:01 GMT")],
            false,
            true,
        ),
        ("nothing", 200, &[], false, false),
        (
            "nothing, but a validator",
            200,
            &[("etag", "\"a\"")],
            false,
            true,
        ),
        (
            "a date of change",
            200,
            &[("last-modified", NOON_DATE)],
            false,
            true,
        ),
        (
            "no-store",
            200,
            &[("cache-control", "no-store, max-age=1")],
            false,
            false,
        ),
        (
            "private",
            200,
            &[("cache-control", "private, max-age=1")],
            false,
            false,
        ),
        (
            "private fields",
            200,
            &[("cache-control", "private=\"x\", max-age=1")],
            false,
            true,
        ),
        (
            "no-cache without a validator",
            200,
            &[("cache-control", "no-cache")],
            false,
            false,
        ),
        (
            "no-cache with one",
            200,
            &[("cache-control", "no-cache"), ("etag", "\"a\"")],
            false,
            true,
        ),
        (
            "max-age=0 alone",
            200,
            &[("cache-control", "max-age=0")],
            false,
            false,
        ),
        // statuses
        (
            "a part",
            206,
            &[("cache-control", "max-age=1")],
            false,
            false,
        ),
        (
            "a 304",
            304,
            &[("cache-control", "max-age=1")],
            false,
            false,
        ),
        (
            "an explicit 302",
            302,
            &[("cache-control", "max-age=1")],
            false,
            true,
        ),
        (
            "a 302 with a validator",
            302,
            &[("etag", "\"a\"")],
            false,
            false,
        ),
        (
            "a public 302 with a validator",
            302,
            &[("cache-control", "public"), ("etag", "\"a\"")],
            false,
            true,
        ),
        (
            "an explicit 599",
            599,
            &[("cache-control", "max-age=1")],
            false,
            true,
        ),
        (
            "an explicit 503",
            503,
            &[("cache-control", "max-age=1")],
            false,
            true,
        ),
        // must-understand
        (
            "an understood status",
            200,
            &[("cache-control", "no-store, must-understand, max-age=1")],
            false,
            true,
        ),
        (
            "a status that is not",
            299,
            &[("cache-control", "no-store, must-understand, max-age=1")],
            false,
            false,
        ),
        // §3.5
        (
            "of a user",
            200,
            &[("cache-control", "max-age=1")],
            true,
            false,
        ),
        (
            "of a user, public",
            200,
            &[("cache-control", "public, max-age=1")],
            true,
            true,
        ),
        (
            "of a user, s-maxage",
            200,
            &[("cache-control", "s-maxage=1")],
            true,
            true,
        ),
        (
            "of a user, must-revalidate",
            200,
            &[("cache-control", "max-age=1, must-revalidate")],
            true,
            true,
        ),
        // cookies
        (
            "a cookie",
            200,
            &[("cache-control", "max-age=1"), ("set-cookie", "a=1")],
            false,
            false,
        ),
        (
            "a public cookie",
            200,
            &[
                ("cache-control", "max-age=1, public"),
                ("set-cookie", "a=1"),
            ],
            false,
            true,
        ),
        (
            "a cookie that is left out",
            200,
            &[
                ("cache-control", "max-age=1, private=\"set-cookie\""),
                ("set-cookie", "a=1"),
            ],
            false,
            true,
        ),
        // RFC 9213
        (
            "a targeted no-store",
            200,
            &[
                ("cache-control", "max-age=1"),
                ("cdn-cache-control", "no-store"),
            ],
            false,
            false,
        ),
        (
            "a targeted lifetime",
            200,
            &[
                ("cache-control", "no-store"),
                ("cdn-cache-control", "max-age=1"),
            ],
            false,
            true,
        ),
        (
            "a malformed targeted field",
            200,
            &[
                ("cache-control", "no-store"),
                ("cdn-cache-control", "max-age=1,"),
            ],
            false,
            false,
        ),
    ];
    for (name, status, fields, is_personal, want) in cases {
        let got = judged(*status, fields, *is_personal, &rules());
        assert_eq!(got.is_some(), *want, "{name}: {got:?}");
    }
}
