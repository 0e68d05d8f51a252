//! Methods (RFC 9110 §9).

use crate::case::{Case, LATER, Want, check, get, head, ok, optimal, required, send, stored, then};

const HOUR: &str = "Cache-Control: max-age=3600";
const HEAD: &str = "RFC 9110 §9.3.2";
const UPDATE: &str = "RFC 9111 §4.3.5";
const WRITING: &str = "RFC 9111 §4";

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![
        optimal(
            "head-by-get",
            HEAD,
            "The stored response to a GET answers a HEAD",
            then(stored(HOUR), [head().stored().status(200)]),
        ),
        required(
            "head-content",
            HEAD,
            "A response to a HEAD has no content, but the fields of the stored one",
            then(
                stored(format!("{HOUR}\nX-Test: a")),
                [
                    head().stored().setup(),
                    head().want(Want::Content("")).field("X-Test", "a"),
                ],
            ),
        ),
        required(
            "head-not-get",
            HEAD,
            "The response to a HEAD does not answer a GET",
            [
                head().answered(ok(HOUR).saying("0123456789")),
                get()
                    .answered(ok(HOUR).saying("0123456789"))
                    .want(Want::Content("0123456789")),
            ],
        ),
        check(
            "head-by-head",
            HEAD,
            "The response to a HEAD answers a HEAD",
            [head().answered(ok(HOUR)), head().stored()],
        ),
        check(
            "head-stale",
            UPDATE,
            "A HEAD upon a stale response goes to the origin",
            then(
                stored("Cache-Control: max-age=2"),
                [head().after(LATER).asked()],
            ),
        ),
        check(
            "head-freshens",
            UPDATE,
            "The response to a HEAD makes a stored response fresh again",
            then(
                stored("Cache-Control: max-age=2\nETag: \"a\""),
                [
                    head()
                        .after(LATER)
                        .answered(ok(format!("{HOUR}\nETag: \"a\"")).or_304("ETag: \"a\"")),
                    get().stored(),
                ],
            ),
        ),
        optimal(
            "get-content",
            "RFC 9110 §9.3.1",
            "A reused response comes whole, again and again",
            then(
                stored(HOUR),
                [get().stored().content_of(0), get().stored().content_of(0)],
            ),
        ),
        check(
            "post-stored",
            "RFC 9110 §9.3.3",
            "The response to a POST with its own URL as Content-Location answers a GET",
            [
                send("POST")
                    .content("a")
                    .answered(ok(format!("{HOUR}\nContent-Location: {{url}}"))),
                get().stored(),
            ],
        ),
        required(
            "post-not-get",
            "RFC 9110 §9.3.3",
            "The response to a POST without Content-Location does not answer a GET",
            [send("POST").content("a").answered(ok(HOUR)), get().asked()],
        ),
    ];
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "FOO"] {
        let request = match method {
            "POST" | "PUT" | "PATCH" => send(method).content("a"),
            _ => send(method),
        };
        cases.push(required(
            format!("write-{}", method.to_ascii_lowercase()),
            WRITING,
            format!("A {method} goes to the origin, whatever is stored"),
            then(stored(HOUR), [request.asked()]),
        ));
    }
    cases
}
