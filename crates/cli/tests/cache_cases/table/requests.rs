//! Directives of requests (RFC 9111 §5.2.1), which a cache may take or leave, and Pragma (§5.4).

use crate::case::{Case, LATER, check, get, ok, stored, then};

const HOUR: &str = "Cache-Control: max-age=3600\nETag: \"a\"";

pub(crate) fn cases() -> Vec<Case> {
    let asked = |name: &str, section, claim: &str, line: &str, stored_with: &str| {
        check(
            format!("request-{name}"),
            section,
            claim,
            then(stored(stored_with), [get().with(line).asked()]),
        )
    };
    let aged = "Cache-Control: max-age=3600\nAge: 1800";
    vec![
        asked(
            "no-cache",
            "RFC 9111 §5.2.1.4",
            "A request with no-cache goes to the origin",
            "Cache-Control: no-cache",
            HOUR,
        ),
        check(
            "request-no-cache-validates",
            "RFC 9111 §5.2.1.4",
            "A request with no-cache validates the stored response",
            then(
                stored(HOUR),
                [get()
                    .with("Cache-Control: no-cache")
                    .answered(ok("").or_304("ETag: \"a\""))
                    .conditional()
                    .status(200)
                    .content_of(0)],
            ),
        ),
        asked(
            "max-age-0",
            "RFC 9111 §5.2.1.1",
            "A request with max-age=0 goes to the origin",
            "Cache-Control: max-age=0",
            aged,
        ),
        asked(
            "max-age",
            "RFC 9111 §5.2.1.1",
            "A request does not get a response that is older than its max-age",
            "Cache-Control: max-age=600",
            aged,
        ),
        asked(
            "min-fresh",
            "RFC 9111 §5.2.1.3",
            "A request does not get a response that is not fresh for its min-fresh",
            "Cache-Control: min-fresh=2400",
            aged,
        ),
        check(
            "request-max-stale",
            "RFC 9111 §5.2.1.2",
            "A request gets a stale response within its max-stale",
            then(
                stored("Cache-Control: max-age=2"),
                [get()
                    .after(LATER)
                    .with("Cache-Control: max-stale=3600")
                    .stored()],
            ),
        ),
        asked(
            "no-store",
            "RFC 9111 §5.2.1.5",
            "A request with no-store goes to the origin",
            "Cache-Control: no-store",
            HOUR,
        ),
        check(
            "request-no-store-stores",
            "RFC 9111 §5.2.1.5",
            "The response to a request with no-store is not stored",
            [
                get().with("Cache-Control: no-store").answered(ok(HOUR)),
                get().asked(),
            ],
        ),
        check(
            "request-only-if-cached",
            "RFC 9111 §5.2.1.7",
            "A request with only-if-cached gets a 504 from an empty cache",
            [get().with("Cache-Control: only-if-cached").status(504)],
        ),
        check(
            "request-only-if-cached-stored",
            "RFC 9111 §5.2.1.7",
            "A request with only-if-cached gets a stored response",
            then(
                stored(HOUR),
                [get().with("Cache-Control: only-if-cached").stored()],
            ),
        ),
        asked(
            "pragma",
            "RFC 9111 §5.4",
            "A request with Pragma: no-cache goes to the origin",
            "Pragma: no-cache",
            HOUR,
        ),
        check(
            "response-pragma",
            "RFC 9111 §5.4",
            "Pragma: no-cache of a response means nothing",
            [
                get().answered(ok("Cache-Control: max-age=3600\nPragma: no-cache")),
                get().stored(),
            ],
        ),
    ]
}
