//! Which responses are stored (RFC 9111 §3).

use crate::case::{
    Case, End, LATER, Want, answer, check, get, no_answer, no_reuse, ok, optimal, required, reuse,
    send, then,
};

const HOUR: &str = "Cache-Control: max-age=3600";
const AUTHORIZATION: &str = "RFC 9111 §3.5";

pub(crate) fn cases() -> Vec<Case> {
    [
        refused(),
        statuses(),
        authorization(),
        cookies(),
        incomplete(),
    ]
    .concat()
}

fn refused() -> Vec<Case> {
    const NO_CACHE: &str = "RFC 9111 §5.2.2.4";
    vec![
        required(
            "no-store",
            "RFC 9111 §5.2.2.5",
            "A response with no-store is not stored",
            no_reuse("Cache-Control: no-store"),
        ),
        required(
            "no-store-max-age",
            "RFC 9111 §5.2.2.5",
            "no-store counts, whatever its lifetime",
            no_reuse("Cache-Control: no-store, max-age=3600\nExpires: {now+3600}"),
        ),
        required(
            "private",
            "RFC 9111 §5.2.2.7",
            "A private response is not stored by a shared cache",
            no_reuse("Cache-Control: private, max-age=3600"),
        ),
        required(
            "private-s-maxage",
            "RFC 9111 §5.2.2.7",
            "A private response is not stored, whatever its s-maxage",
            no_reuse("Cache-Control: private, s-maxage=3600"),
        ),
        required(
            "private-fields",
            "RFC 9111 §5.2.2.7",
            "A field that private names is not sent to others",
            [
                get().answered(ok(
                    "Cache-Control: max-age=3600, private=\"X-Own\"\nX-Own: a",
                )),
                get().lacks("X-Own"),
            ],
        ),
        required(
            "no-cache",
            NO_CACHE,
            "A response with no-cache is not reused without asking",
            no_reuse("Cache-Control: no-cache, max-age=3600"),
        ),
        required(
            "no-cache-expires",
            NO_CACHE,
            "no-cache counts, whatever its Expires",
            no_reuse("Cache-Control: no-cache\nExpires: {now+3600}"),
        ),
        optimal(
            "no-cache-validated",
            NO_CACHE,
            "A response with no-cache is stored, and validated at each use",
            [
                get().answered(ok("Cache-Control: no-cache\nETag: \"a\"").or_304("ETag: \"a\"")),
                get()
                    .answered(ok("").or_304("ETag: \"a\""))
                    .conditional()
                    .status(200)
                    .content_of(0),
            ],
        ),
        required(
            "no-cache-fields",
            NO_CACHE,
            "A field that no-cache names is not sent again without asking",
            [
                get().answered(ok(
                    "Cache-Control: max-age=3600, no-cache=\"X-Own\"\nX-Own: a",
                )),
                get().lacks("X-Own"),
            ],
        ),
        check(
            "must-understand",
            "RFC 9111 §5.2.2.3",
            "must-understand overrides no-store for a known status",
            reuse("Cache-Control: max-age=3600, no-store, must-understand"),
        ),
        required(
            "must-understand-unknown",
            "RFC 9111 §5.2.2.3",
            "A response of an unknown status with no-store, must-understand is not stored",
            [
                get().answered(answer(
                    599,
                    "Cache-Control: max-age=3600, no-store, must-understand",
                )),
                get().asked(),
            ],
        ),
        check(
            "no-transform",
            "RFC 9111 §5.2.2.6",
            "A response with no-transform is reused",
            reuse("Cache-Control: max-age=3600, no-transform"),
        ),
    ]
}

fn statuses() -> Vec<Case> {
    let mut cases = Vec::new();
    for status in [203, 204, 300, 301, 308, 404, 405, 410, 414, 501] {
        cases.push(optimal(
            format!("status-{status}"),
            "RFC 9110 §15.1",
            format!("A fresh {status} is reused"),
            [
                get().answered(answer(status, format!("{HOUR}\nLocation: /elsewhere"))),
                get().stored(),
            ],
        ));
    }
    for status in [302, 307, 400, 403, 500, 502, 503] {
        cases.push(check(
            format!("status-{status}"),
            "RFC 9111 §3",
            format!("A {status} with a lifetime is reused"),
            [
                get().answered(answer(status, format!("{HOUR}\nLocation: /elsewhere"))),
                get().stored(),
            ],
        ));
    }
    for status in [301, 404, 410] {
        cases.push(required(
            format!("status-{status}-over"),
            "RFC 9111 §4.2",
            format!("A {status} beyond its lifetime is not reused"),
            [
                get().answered(answer(status, "Cache-Control: max-age=2")),
                get().stored().setup(),
                get().after(LATER).asked(),
            ],
        ));
    }
    cases.push(check(
        "status-599",
        "RFC 9111 §3",
        "A response of an unknown status with a lifetime is reused",
        [get().answered(answer(599, HOUR)), get().stored()],
    ));
    cases
}

fn authorization() -> Vec<Case> {
    let with = || get().with("Authorization: Basic dGVzdDp0ZXN0");
    let mut cases = vec![
        required(
            "authorization",
            AUTHORIZATION,
            "The response to a request with `Authorization` is not reused",
            [with().answered(ok(HOUR)), get().asked()],
        ),
        required(
            "authorization-same",
            AUTHORIZATION,
            "The response to a request with `Authorization` is not reused for the same one",
            [with().answered(ok(HOUR)), with().asked()],
        ),
        required(
            "authorization-expires",
            AUTHORIZATION,
            "The response to a request with `Authorization` is not reused for its Expires",
            [with().answered(ok("Expires: {now+3600}")), get().asked()],
        ),
        check(
            "authorization-later",
            AUTHORIZATION,
            "A request with `Authorization` gets a stored public response",
            [
                get().answered(ok("Cache-Control: public, max-age=3600")),
                with().stored(),
            ],
        ),
    ];
    for (name, value) in [
        ("public", "public, max-age=3600"),
        ("must-revalidate", "must-revalidate, max-age=3600"),
        ("s-maxage", "s-maxage=3600"),
    ] {
        cases.push(optimal(
            format!("authorization-{name}"),
            AUTHORIZATION,
            format!("With {name} the response to a request with `Authorization` is reused"),
            [
                with().answered(ok(format!("Cache-Control: {value}"))),
                with().stored(),
            ],
        ));
    }
    cases
}

fn cookies() -> Vec<Case> {
    vec![
        optimal(
            "cookie",
            "RFC 9111 §3",
            "A request with a cookie gets a stored response that does not depend on it",
            [get().answered(ok(HOUR)), get().with("Cookie: a=b").stored()],
        ),
        check(
            "set-cookie",
            "RFC 9111 §7.3",
            "A fresh response with Set-Cookie is reused",
            reuse(format!("{HOUR}\nSet-Cookie: a=b")),
        ),
        check(
            "set-cookie-public",
            "RFC 9111 §7.3",
            "A fresh public response with Set-Cookie is reused",
            reuse("Cache-Control: public, max-age=3600\nSet-Cookie: a=b"),
        ),
        required(
            "set-cookie-no-cache",
            "RFC 9111 §7.3",
            "A cookie that no-cache names is not set for others",
            [
                get().answered(ok(
                    "Cache-Control: max-age=3600, no-cache=\"Set-Cookie\"\nSet-Cookie: a=b",
                )),
                get().lacks("Set-Cookie"),
            ],
        ),
    ]
}

fn incomplete() -> Vec<Case> {
    const SECTION: &str = "RFC 9111 §3.3";
    let cut = |end| {
        [
            get().answered(ok(HOUR).ending(end)).want(Want::Error),
            get().asked().status(200),
        ]
    };
    vec![
        required(
            "cut-off",
            SECTION,
            "A response that was cut off is not reused as a whole one",
            cut(End::Cut),
        ),
        required(
            "cut-off-chunks",
            SECTION,
            "A response that was cut off between its chunks is not reused as a whole one",
            cut(End::CutChunks),
        ),
        required(
            "no-answer",
            "RFC 9110 §15.6.3",
            "The error that stands for a missing response is not reused",
            [
                get().answered(no_answer()).want(Want::Error),
                get().answered(ok(HOUR)).asked().status(200),
            ],
        ),
        optimal(
            "interim",
            "RFC 9110 §15.2",
            "The response after an interim one is reused",
            [
                get()
                    .answered(ok(HOUR).hinting("Link: </a.css>; rel=preload"))
                    .want(Want::Interim(103)),
                get().stored(),
            ],
        ),
        required(
            "interim-fields",
            "RFC 9110 §15.2",
            "Fields of an interim response do not become those of the stored one",
            then(
                [
                    get().answered(ok(HOUR).hinting("X-Early: a")),
                    get().stored().setup(),
                ],
                [get().lacks("X-Early")],
            ),
        ),
        required(
            "post-not-stored",
            "RFC 9110 §9.3.3",
            "The response to a POST is not reused for a POST",
            [
                send("POST").content("a").answered(ok(HOUR)),
                send("POST").content("a").asked(),
            ],
        ),
    ]
}
