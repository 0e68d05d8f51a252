//! Stale responses (RFC 9111 §4.2.4, RFC 5861), and requests at the same time.

use std::time::Duration;

use crate::case::{
    Answer, Case, LATER, Want, answer, check, get, no_answer, ok, optimal, required, stored, then,
};

const SECTION: &str = "RFC 9111 §4.2.4";
const REVALIDATE: &str = "RFC 5861 §3";
const ERROR: &str = "RFC 5861 §4";

pub(crate) fn cases() -> Vec<Case> {
    [forbidden(), meanwhile(), errors(), crowds()].concat()
}

fn forbidden() -> Vec<Case> {
    let mut cases = Vec::new();
    let values = [
        ("must-revalidate", "max-age=2, must-revalidate"),
        ("proxy-revalidate", "max-age=2, proxy-revalidate"),
        ("s-maxage", "s-maxage=2"),
    ];
    for (name, value) in values {
        for (end, answer, how) in [
            ("end", no_answer(), "does not answer"),
            ("503", answer(503, ""), "answers by a 503"),
        ] {
            cases.push(required(
                format!("stale-{name}-{end}"),
                SECTION,
                format!("No stale response with {name} is sent where the origin {how}"),
                then(
                    stored(format!("Cache-Control: {value}\nETag: \"a\"")),
                    [get().after(LATER).answered(answer).want(Want::Error)],
                ),
            ));
        }
    }
    cases.push(required(
        "stale-no-cache",
        SECTION,
        "No response with no-cache is sent where the origin does not answer",
        [
            get().answered(ok("Cache-Control: no-cache\nETag: \"a\"")),
            get().answered(no_answer()).want(Want::Error),
        ],
    ));
    cases.push(check(
        "stale-no-answer",
        SECTION,
        "A stale response is sent where the origin does not answer",
        then(
            stored("Cache-Control: max-age=2"),
            [get()
                .after(LATER)
                .answered(no_answer())
                .status(200)
                .content_of(0)],
        ),
    ));
    cases
}

fn meanwhile() -> Vec<Case> {
    let swr = "Cache-Control: max-age=2, stale-while-revalidate=3600";
    let fresh = || ok("Cache-Control: max-age=3600").late(Duration::from_millis(300));
    vec![
        optimal(
            "while-revalidate",
            REVALIDATE,
            "A stale response is sent at once within its stale-while-revalidate",
            then(
                stored(swr),
                [get().after(LATER).answered(fresh()).content_of(0)],
            ),
        ),
        optimal(
            "while-revalidate-renews",
            REVALIDATE,
            "The response is renewed meanwhile",
            then(
                stored(swr),
                [
                    get().after(LATER).answered(fresh()).content_of(0),
                    get()
                        .after(Duration::from_millis(1500))
                        .want(Want::AskedAtMost(0))
                        .want(Want::Newer),
                ],
            ),
        ),
        optimal(
            "while-revalidate-crowd",
            REVALIDATE,
            "One request renews it for all that come at the same time",
            then(
                stored(swr),
                [get()
                    .after(LATER)
                    .by(5)
                    .answered(fresh())
                    .content_of(0)
                    .want(Want::AskedAtMost(1))],
            ),
        ),
        required(
            "while-revalidate-over",
            REVALIDATE,
            "A response beyond its stale-while-revalidate is not sent before the origin is asked",
            then(
                stored("Cache-Control: max-age=1, stale-while-revalidate=1"),
                [get().after(LATER).asked().want(Want::Newer)],
            ),
        ),
    ]
}

fn errors() -> Vec<Case> {
    let lasting = "Cache-Control: max-age=2, stale-if-error=3600";
    let with = |lines: &str, answer: Answer| {
        then(
            stored(lines),
            [get()
                .after(LATER)
                .answered(answer)
                .status(200)
                .content_of(0)],
        )
    };
    let mut cases = vec![
        optimal(
            "if-error-end",
            ERROR,
            "A stale response is sent within its stale-if-error where the origin does not answer",
            with(lasting, no_answer()),
        ),
        required(
            "if-error-404",
            ERROR,
            "A 404 is no error that a stale response stands for",
            then(
                stored(lasting),
                [get().after(LATER).answered(answer(404, "")).status(404)],
            ),
        ),
        required(
            "if-error-over",
            ERROR,
            "A response beyond its stale-if-error is not sent for an error",
            then(
                stored("Cache-Control: max-age=1, stale-if-error=1"),
                [get().after(LATER).answered(answer(503, "")).status(503)],
            ),
        ),
        check(
            "if-error-must-revalidate",
            ERROR,
            "stale-if-error counts beside must-revalidate",
            with(
                "Cache-Control: max-age=2, stale-if-error=3600, must-revalidate",
                answer(503, ""),
            ),
        ),
        check(
            "if-error-request",
            ERROR,
            "stale-if-error of a request counts",
            then(
                stored("Cache-Control: max-age=2"),
                [get()
                    .after(LATER)
                    .with("Cache-Control: stale-if-error=3600")
                    .answered(answer(503, ""))
                    .status(200)
                    .content_of(0)],
            ),
        ),
    ];
    for status in [500, 502, 503, 504] {
        cases.push(optimal(
            format!("if-error-{status}"),
            ERROR,
            format!(
                "A stale response is sent within its stale-if-error in the place of a {status}"
            ),
            with(lasting, answer(status, "")),
        ));
    }
    cases
}

fn crowds() -> Vec<Case> {
    let late = |lines: &str| ok(lines).late(Duration::from_millis(500));
    vec![
        check(
            "crowd",
            "RFC 9111 §4",
            "One request goes to the origin for all that come at the same time",
            [get()
                .by(8)
                .answered(late("Cache-Control: max-age=3600"))
                .want(Want::AskedAtMost(1))],
        ),
        required(
            "crowd-private",
            "RFC 9111 §4",
            "Requests at the same time do not share a private response",
            [get()
                .by(4)
                .answered(late("Cache-Control: private, max-age=3600"))
                .want(Want::AskedAtLeast(4))],
        ),
    ]
}
