//! Vary (RFC 9111 §4.1).

use crate::case::{Answer, Case, LATER, check, get, ok, optimal, required};

const SECTION: &str = "RFC 9111 §4.1";

fn varying(by: &str) -> Answer {
    ok(format!("Cache-Control: max-age=3600\nVary: {by}"))
}

pub(crate) fn cases() -> Vec<Case> {
    [one(), several(), stars(), validated()].concat()
}

fn one() -> Vec<Case> {
    let first = || get().with("Foo: 1").answered(varying("Foo"));
    vec![
        optimal(
            "vary-same",
            SECTION,
            "A response is reused where its selecting field is the same",
            [first(), get().with("Foo: 1").stored()],
        ),
        required(
            "vary-other",
            SECTION,
            "A response is not reused where its selecting field is another",
            [first(), get().with("Foo: 2").asked()],
        ),
        required(
            "vary-missing",
            SECTION,
            "A response is not reused where its selecting field is missing",
            [first(), get().asked()],
        ),
        required(
            "vary-added",
            SECTION,
            "A response that was selected by no field is not reused where there is one",
            [get().answered(varying("Foo")), get().with("Foo: 1").asked()],
        ),
        optimal(
            "vary-both-missing",
            SECTION,
            "A response is reused where its selecting field is missing both times",
            [get().answered(varying("Foo")), get().stored()],
        ),
        optimal(
            "vary-others",
            SECTION,
            "Fields that Vary does not name select nothing",
            [
                get().with("Foo: 1").with("Bar: 1").answered(varying("Foo")),
                get().with("Foo: 1").with("Bar: 2").stored(),
            ],
        ),
        required(
            "vary-name-case",
            SECTION,
            "Names in Vary are compared without case",
            [
                get().with("Foo: 1").answered(varying("fOO")),
                get().with("Foo: 2").asked(),
            ],
        ),
        required(
            "vary-value-case",
            SECTION,
            "Values of an unknown selecting field are compared with case",
            [
                get().with("Foo: a").answered(varying("Foo")),
                get().with("Foo: A").asked(),
            ],
        ),
        optimal(
            "vary-variants",
            SECTION,
            "Two variants are stored side by side",
            [
                first(),
                get().with("Foo: 2").answered(varying("Foo")).asked(),
                get().with("Foo: 1").stored().content_of(0),
                get().with("Foo: 2").stored().content_of(1),
            ],
        ),
        required(
            "vary-encoding",
            SECTION,
            "A coded response is not sent to who does not take the coding",
            [
                get().with("Accept-Encoding: x-test").answered(ok(
                    "Cache-Control: max-age=3600\nVary: Accept-Encoding\nContent-Encoding: x-test",
                )),
                get()
                    .with("Accept-Encoding: identity")
                    .lacks("Content-Encoding"),
            ],
        ),
        required(
            "vary-cookie",
            SECTION,
            "A response that varies by cookie is not sent to another one",
            [
                get().with("Cookie: a=1").answered(varying("Cookie")),
                get().with("Cookie: a=2").asked(),
            ],
        ),
        required(
            "vary-later",
            SECTION,
            "The Vary of the newest response counts",
            [
                get()
                    .with("Foo: 1")
                    .answered(ok("Cache-Control: max-age=0")),
                get().with("Foo: 1").answered(varying("Foo")),
                get().with("Foo: 2").asked(),
            ],
        ),
    ]
}

fn several() -> Vec<Case> {
    let first = || {
        get()
            .with("Foo: 1")
            .with("Bar: 2")
            .answered(varying("Foo, Bar"))
    };
    vec![
        optimal(
            "vary-two-same",
            SECTION,
            "A response is reused where both selecting fields are the same",
            [first(), get().with("Foo: 1").with("Bar: 2").stored()],
        ),
        optimal(
            "vary-two-order",
            SECTION,
            "The order of selecting fields in the request does not count",
            [first(), get().with("Bar: 2").with("Foo: 1").stored()],
        ),
        required(
            "vary-two-other",
            SECTION,
            "A response is not reused where the second selecting field is another",
            [first(), get().with("Foo: 1").with("Bar: 3").asked()],
        ),
        required(
            "vary-two-missing",
            SECTION,
            "A response is not reused where the second selecting field is missing",
            [first(), get().with("Foo: 1").asked()],
        ),
        required(
            "vary-two-swapped",
            SECTION,
            "A response is not reused where the values are swapped",
            [first(), get().with("Foo: 2").with("Bar: 1").asked()],
        ),
        required(
            "vary-lines",
            SECTION,
            "All lines of Vary count",
            [
                get()
                    .with("Foo: 1")
                    .with("Bar: 2")
                    .answered(ok("Cache-Control: max-age=3600\nVary: Foo\nVary: Bar")),
                get().with("Foo: 1").with("Bar: 3").asked(),
            ],
        ),
        optimal(
            "vary-combined",
            SECTION,
            "Lines of a selecting field are the same as one line with commas",
            [
                get().with("Foo: 1, 2").answered(varying("Foo")),
                get().with("Foo: 1").with("Foo: 2").stored(),
            ],
        ),
        check(
            "vary-spaces",
            SECTION,
            "Spaces in the list of a selecting field do not count",
            [
                get().with("Foo: 1,2").answered(varying("Foo")),
                get().with("Foo: 1, 2").stored(),
            ],
        ),
        check(
            "vary-encoding-order",
            SECTION,
            "The order of codings in Accept-Encoding does not count",
            [
                get()
                    .with("Accept-Encoding: gzip, br")
                    .answered(varying("Accept-Encoding")),
                get().with("Accept-Encoding: br, gzip").stored(),
            ],
        ),
    ]
}

fn stars() -> Vec<Case> {
    let stars = [
        ("star", "*"),
        ("star-list", "Foo, *"),
        ("star-first", "*, Foo"),
        ("star-empty", ", *"),
        ("star-lines", "Foo\nVary: *"),
    ];
    let case = |(name, value): (&str, &str)| {
        required(
            format!("vary-{name}"),
            SECTION,
            format!(
                "A response with Vary: {} is not reused",
                value.replace('\n', " and ")
            ),
            [
                get().with("Foo: 1").answered(varying(value)),
                get().with("Foo: 1").asked(),
            ],
        )
    };
    stars.into_iter().map(case).collect()
}

fn validated() -> Vec<Case> {
    let variant = |tag: &str| {
        ok(format!(
            "Cache-Control: max-age=2\nVary: Foo\nETag: \"{tag}\""
        ))
    };
    vec![
        optimal(
            "vary-validated",
            "RFC 9111 §4.3.1",
            "A stale variant is validated by its own tag",
            [
                get().with("Foo: 1").answered(variant("one")),
                get().with("Foo: 2").answered(variant("two")),
                get()
                    .after(LATER)
                    .with("Foo: 1")
                    .answered(ok("").or_304("ETag: \"one\"\nVary: Foo"))
                    .conditional()
                    .status(200)
                    .content_of(0),
            ],
        ),
        check(
            "vary-selected-by-304",
            "RFC 9111 §4.3.4",
            "A variant that was not stored yet is found by its tag",
            [
                get()
                    .with("Foo: 1")
                    .answered(ok("Cache-Control: max-age=3600\nVary: Foo\nETag: \"one\"")),
                get()
                    .with("Foo: 2")
                    .answered(ok("").or_304("ETag: \"one\"\nVary: Foo"))
                    .conditional()
                    .status(200)
                    .content_of(0),
            ],
        ),
    ]
}
