//! Validation (RFC 9111 §4.3) and clients' own conditions (RFC 9110 §13).

use crate::case::{
    Answer, Case, LATER, SHORT, Step, Want, answer, check, get, no_answer, ok, optimal, required,
    stored, then,
};

const SENDING: &str = "RFC 9111 §4.3.1";
const HANDLING: &str = "RFC 9111 §4.3.3";
const RECEIVED: &str = "RFC 9111 §4.3.2";
const MODIFIED: &str = "Last-Modified: Tue, 15 Nov 1994 12:45:26 GMT";
const MODIFIED_DATE: &str = "Tue, 15 Nov 1994 12:45:26 GMT";

pub(crate) fn cases() -> Vec<Case> {
    [asked(), answered(), dates(), clients(), forwarded()].concat()
}

fn short(validators: &str) -> String {
    format!("{SHORT}\n{validators}")
}

fn unchanged() -> Answer {
    ok("").or_304(SHORT)
}

fn asked() -> Vec<Case> {
    let mut cases = vec![
        optimal(
            "validate-last-modified",
            SENDING,
            "A stale response is validated by its Last-Modified",
            then(
                stored(short(MODIFIED)),
                [get()
                    .after(LATER)
                    .answered(unchanged())
                    .sees("If-Modified-Since", MODIFIED_DATE)
                    .status(200)
                    .content_of(0)],
            ),
        ),
        optimal(
            "validate-both",
            SENDING,
            "A stale response with tag and Last-Modified is validated by its tag",
            then(
                stored(short(&format!("ETag: \"a\"\n{MODIFIED}"))),
                [get()
                    .after(LATER)
                    .answered(unchanged())
                    .sees("If-None-Match", "\"a\"")
                    .status(200)
                    .content_of(0)],
            ),
        ),
        required(
            "validate-nothing",
            SENDING,
            "A stale response without a validator is not validated",
            then(
                stored(SHORT),
                [get()
                    .after(LATER)
                    .asked()
                    .want(Want::SeesNot("If-None-Match"))
                    .want(Want::SeesNot("If-Modified-Since"))],
            ),
        ),
    ];
    let tags = [
        ("strong", "\"a\""),
        ("weak", "W/\"a\""),
        ("comma", "\"a,b\""),
        ("empty", "\"\""),
        ("backslash", "\"a\\b\""),
        ("star", "\"*\""),
    ];
    for (name, tag) in tags {
        cases.push(optimal(
            format!("validate-tag-{name}"),
            SENDING,
            format!("A stale response is validated by its tag {tag}"),
            then(
                stored(short(&format!("ETag: {tag}"))),
                [get()
                    .after(LATER)
                    .answered(unchanged())
                    .sees("If-None-Match", tag)
                    .status(200)
                    .content_of(0)],
            ),
        ));
    }
    cases
}

fn answered() -> Vec<Case> {
    let tagged = || stored(short("ETag: \"a\""));
    vec![
        optimal(
            "validated-fresh",
            HANDLING,
            "A validated response is fresh again",
            then(
                tagged(),
                [
                    get()
                        .after(LATER)
                        .answered(ok("").or_304("Cache-Control: max-age=3600\nETag: \"a\""))
                        .conditional()
                        .status(200),
                    get().stored().content_of(0),
                ],
            ),
        ),
        required(
            "validated-changed",
            HANDLING,
            "A changed response takes the place of the stored one",
            then(
                tagged(),
                [
                    get()
                        .after(LATER)
                        .answered(ok("Cache-Control: max-age=3600\nETag: \"b\"")),
                    get().stored().setup().content_of(2),
                    get().content_of(2).field("ETag", "\"b\""),
                ],
            ),
        ),
        required(
            "validated-gone",
            HANDLING,
            "A 404 upon validation is sent, not the stored response",
            then(
                tagged(),
                [get().after(LATER).answered(answer(404, "")).status(404)],
            ),
        ),
        check(
            "validated-503",
            HANDLING,
            "A 503 upon validation is answered by the stored response",
            then(
                tagged(),
                [get()
                    .after(LATER)
                    .answered(answer(503, ""))
                    .status(200)
                    .content_of(0)],
            ),
        ),
        required(
            "validated-age",
            HANDLING,
            "A validated response has the age of the validation",
            then(
                stored("Cache-Control: max-age=3602\nAge: 3600\nETag: \"a\""),
                [
                    get()
                        .after(LATER)
                        .answered(ok("").or_304("Cache-Control: max-age=3600\nETag: \"a\""))
                        .conditional()
                        .setup(),
                    get().stored().setup(),
                    get().want(Want::Age(0, 60)),
                ],
            ),
        ),
    ]
}

/// A fresh response, and a client's conditional request that needs no origin.
fn dates() -> Vec<Case> {
    let fresh = || {
        stored(format!(
            "Cache-Control: max-age=3600\nETag: \"a\"\n{MODIFIED}"
        ))
    };
    let yes = |name: &str, line: &'static str, claim: &str| {
        optimal(
            format!("condition-{name}"),
            RECEIVED,
            claim,
            then(fresh(), [get().with(line).stored().status(304)]),
        )
    };
    let no = |name: &str, line: &'static str, claim: &str| {
        optimal(
            format!("condition-{name}"),
            RECEIVED,
            claim,
            then(
                fresh(),
                [get().with(line).stored().status(200).content_of(0)],
            ),
        )
    };
    vec![
        yes(
            "tag",
            "If-None-Match: \"a\"",
            "A client that has a fresh response gets a 304 from the cache",
        ),
        yes(
            "tag-weak",
            "If-None-Match: W/\"a\"",
            "Tags are compared weakly",
        ),
        yes(
            "tag-list",
            "If-None-Match: \"x\", \"a\"",
            "One tag of a list is enough",
        ),
        yes(
            "tag-star",
            "If-None-Match: *",
            "Any tag means every response",
        ),
        no(
            "tag-other",
            "If-None-Match: \"b\"",
            "A client with another tag gets the fresh response",
        ),
        no(
            "tag-unquoted",
            "If-None-Match: a",
            "A tag without quotes is not the same",
        ),
        yes(
            "date",
            "If-Modified-Since: Tue, 15 Nov 1994 12:45:26 GMT",
            "A client with the same date gets a 304 from the cache",
        ),
        yes(
            "date-later",
            "If-Modified-Since: Tue, 15 Nov 2005 12:45:26 GMT",
            "A client with a later date gets a 304 from the cache",
        ),
        no(
            "date-earlier",
            "If-Modified-Since: Tue, 15 Nov 1988 12:45:26 GMT",
            "A client with an earlier date gets the fresh response",
        ),
        no(
            "date-invalid",
            "If-Modified-Since: yesterday",
            "A client with an invalid date gets the fresh response",
        ),
    ]
}

fn clients() -> Vec<Case> {
    let fresh = || {
        stored(format!(
            "Cache-Control: max-age=3600\nETag: \"a\"\n{MODIFIED}"
        ))
    };
    let hit = |step: Step| then(fresh(), [step]);
    vec![
        required(
            "condition-both",
            "RFC 9110 §13.2.2",
            "If-Modified-Since does not count beside If-None-Match",
            hit(get()
                .with("If-None-Match: \"b\"")
                .with("If-Modified-Since: Tue, 15 Nov 1994 12:45:26 GMT")
                .status(200)),
        ),
        required(
            "condition-304-fields",
            "RFC 9110 §15.4.5",
            "A 304 from the cache has the tag of the response",
            then(
                fresh(),
                [
                    get()
                        .with("If-None-Match: \"a\"")
                        .stored()
                        .status(304)
                        .setup(),
                    get()
                        .with("If-None-Match: \"a\"")
                        .status(304)
                        .field("ETag", "\"a\""),
                ],
            ),
        ),
        required(
            "condition-304-content",
            "RFC 9110 §15.4.5",
            "A 304 has no content",
            then(
                fresh(),
                [
                    get().with("If-None-Match: \"a\"").status(304).setup(),
                    get()
                        .with("If-None-Match: \"a\"")
                        .status(304)
                        .want(Want::Content("")),
                ],
            ),
        ),
        check(
            "condition-if-match",
            RECEIVED,
            "A request with If-Match goes to the origin",
            hit(get().with("If-Match: \"x\"").asked()),
        ),
        check(
            "condition-if-unmodified",
            RECEIVED,
            "A request with If-Unmodified-Since goes to the origin",
            hit(get()
                .with("If-Unmodified-Since: Tue, 15 Nov 1988 12:45:26 GMT")
                .asked()),
        ),
    ]
}

fn forwarded() -> Vec<Case> {
    let not_modified = || {
        let lines = "ETag: \"a\"\nCache-Control: max-age=3600";
        ok(lines).or_304(lines)
    };
    vec![
        required(
            "condition-missing",
            RECEIVED,
            "A client's condition that meets an empty cache is answered correctly",
            [get()
                .with("If-None-Match: \"a\"")
                .answered(not_modified())
                .status(304)],
        ),
        required(
            "condition-304-not-stored",
            HANDLING,
            "A 304 for a client's own condition is no response for others",
            [
                get()
                    .with("If-None-Match: \"a\"")
                    .answered(not_modified())
                    .status(304),
                get().status(200),
            ],
        ),
        check(
            "condition-stale",
            SENDING,
            "A client's condition upon a stale response is answered by a 304",
            then(
                stored(short("ETag: \"a\"")),
                [get()
                    .after(LATER)
                    .with("If-None-Match: \"a\"")
                    .answered(unchanged())
                    .status(304)],
            ),
        ),
        check(
            "condition-stale-other",
            HANDLING,
            "A client with another tag gets the stored response when it is validated",
            then(
                stored(short("ETag: \"a\"")),
                [get()
                    .after(LATER)
                    .with("If-None-Match: \"b\"")
                    .answered(ok("").or_304("ETag: \"a\""))
                    .conditional()
                    .status(200)
                    .content_of(0)],
            ),
        ),
        required(
            "validated-no-answer",
            "RFC 9111 §5.2.2.2",
            "With must-revalidate a validation without an answer is an error",
            then(
                stored("Cache-Control: max-age=2, must-revalidate\nETag: \"a\""),
                [get().after(LATER).answered(no_answer()).want(Want::Error)],
            ),
        ),
    ]
}
