//! The key of a response: its URL (RFC 9111 §2).

use crate::case::{Case, Step, check, get, ok, optimal, required};

const SECTION: &str = "RFC 9111 §2";
const HOUR: &str = "Cache-Control: max-age=3600";

fn first(step: Step) -> Step {
    step.answered(ok(HOUR))
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        optimal(
            "query-same",
            SECTION,
            "A response is reused for the same query",
            [first(get().at("?a=1&b=2")), get().at("?a=1&b=2").stored()],
        ),
        required(
            "query-other",
            SECTION,
            "A response is not reused for another query",
            [first(get().at("?a=1")), get().at("?a=2").asked()],
        ),
        required(
            "query-none",
            SECTION,
            "A response is not reused without its query",
            [first(get().at("?a=1")), get().asked()],
        ),
        required(
            "query-order",
            SECTION,
            "A response is not reused for its query in another order",
            [first(get().at("?a=1&b=2")), get().at("?b=2&a=1").asked()],
        ),
        required(
            "query-case",
            SECTION,
            "A response is not reused for its query in another case",
            [first(get().at("?a=x")), get().at("?a=X").asked()],
        ),
        required(
            "path-case",
            SECTION,
            "A response is not reused for its path in another case",
            [first(get().at("/a")), get().at("/A").asked()],
        ),
        required(
            "path-slash",
            SECTION,
            "A response is not reused for its path with a slash at the end",
            [first(get().at("/a")), get().at("/a/").asked()],
        ),
        required(
            "path-encoded-slash",
            "RFC 3986 §2.2",
            "An encoded slash is none",
            [first(get().at("/a%2Fb")), get().at("/a/b").asked()],
        ),
        required(
            "host",
            SECTION,
            "A response is not reused for another host",
            [
                first(get().with("Host: localhost")),
                get().with("Host: other.test").asked(),
            ],
        ),
        check(
            "host-case",
            "RFC 9110 §4.2.3",
            "A response is reused for its host in another case",
            [
                first(get().with("Host: localhost")),
                get().with("Host: LOCALHOST").stored(),
            ],
        ),
        check(
            "path-unreserved",
            "RFC 3986 §6.2.2.2",
            "A response is reused for its path with an encoded letter",
            [first(get().at("/a~b")), get().at("/a%7Eb").stored()],
        ),
        check(
            "query-empty",
            SECTION,
            "A response is reused for its path with an empty query",
            [first(get()), get().at("?").stored()],
        ),
    ]
}
