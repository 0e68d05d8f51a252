//! Ranges (RFC 9110 §14) and partial responses (RFC 9111 §3.3, §3.4).

use crate::case::{Answer, Case, Step, Want, answer, check, get, ok, optimal, required, then};

const RANGES: &str = "RFC 9110 §14.2";
const STORING: &str = "RFC 9111 §3.3";
const COMBINING: &str = "RFC 9111 §3.4";
const IF_RANGE: &str = "RFC 9110 §13.1.5";

fn whole() -> Answer {
    ok("Cache-Control: max-age=3600\nETag: \"a\"\nAccept-Ranges: bytes").saying("0123456789")
}

fn part(range: &str, content: &'static str) -> Answer {
    let lines =
        format!("Cache-Control: max-age=3600\nETag: \"a\"\nContent-Range: bytes {range}/10");
    answer(206, lines).saying(content)
}

fn after_whole(step: Step) -> Vec<Step> {
    then(
        [get().answered(whole()), get().stored().setup()],
        [step.answered(whole())],
    )
}

pub(crate) fn cases() -> Vec<Case> {
    [of_whole(), conditional(), partial()].concat()
}

fn of_whole() -> Vec<Case> {
    let cut = |name: &str, range: &str, got: &'static str, content: &'static str| {
        optimal(
            format!("range-{name}"),
            RANGES,
            format!("The range {range} is cut from a stored response"),
            after_whole(
                get()
                    .with(format!("Range: bytes={range}"))
                    .stored()
                    .status(206)
                    .field("Content-Range", got)
                    .want(Want::Content(content)),
            ),
        )
    };
    vec![
        cut("first", "0-3", "bytes 0-3/10", "0123"),
        cut("middle", "4-6", "bytes 4-6/10", "456"),
        cut("open", "7-", "bytes 7-9/10", "789"),
        cut("suffix", "-2", "bytes 8-9/10", "89"),
        cut("long", "5-1000", "bytes 5-9/10", "56789"),
        optimal(
            "range-beyond",
            "RFC 9110 §15.5.17",
            "A range beyond a stored response gets a 416 from the cache",
            after_whole(get().with("Range: bytes=20-30").stored().status(416)),
        ),
        check(
            "range-several",
            RANGES,
            "Several ranges are cut from a stored response",
            after_whole(
                get()
                    .with("Range: bytes=0-1,5-6")
                    .stored()
                    .status(206)
                    .want(Want::Contains("Content-Type", "multipart/byteranges")),
            ),
        ),
        required(
            "range-unit",
            RANGES,
            "A range of an unknown unit is ignored",
            after_whole(
                get()
                    .with("Range: lines=0-1")
                    .status(200)
                    .want(Want::Content("0123456789")),
            ),
        ),
        check(
            "range-invalid",
            RANGES,
            "An invalid range is ignored",
            after_whole(get().with("Range: bytes=5-3").status(200)),
        ),
        check(
            "range-extended",
            RANGES,
            "A range request upon an empty cache asks the origin for the whole",
            [get()
                .with("Range: bytes=0-3")
                .answered(part("0-3", "0123"))
                .want(Want::SeesNot("Range"))
                .status(206)],
        ),
        optimal(
            "range-ignored",
            STORING,
            "A whole response to a range request is stored",
            [
                get()
                    .with("Range: bytes=0-3")
                    .answered(whole())
                    .want(Want::AnyStatus),
                get()
                    .want(Want::AskedAtMost(0))
                    .status(200)
                    .want(Want::Content("0123456789")),
            ],
        ),
    ]
}

fn conditional() -> Vec<Case> {
    let range = || get().with("Range: bytes=0-3");
    vec![
        optimal(
            "if-range-same",
            IF_RANGE,
            "A range is cut where If-Range has the tag of the stored response",
            after_whole(range().with("If-Range: \"a\"").stored().status(206)),
        ),
        required(
            "if-range-other",
            IF_RANGE,
            "The whole response is sent where If-Range has another tag",
            after_whole(
                range()
                    .with("If-Range: \"b\"")
                    .status(200)
                    .want(Want::Content("0123456789")),
            ),
        ),
        required(
            "if-range-weak",
            IF_RANGE,
            "The whole response is sent where If-Range has a weak tag",
            after_whole(
                range()
                    .with("If-Range: W/\"a\"")
                    .status(200)
                    .want(Want::Content("0123456789")),
            ),
        ),
        optimal(
            "range-if-none-match",
            "RFC 9110 §13.2.2",
            "If-None-Match counts before Range",
            after_whole(range().with("If-None-Match: \"a\"").stored().status(304)),
        ),
    ]
}

fn partial() -> Vec<Case> {
    let first = || {
        get()
            .with("Range: bytes=0-4")
            .answered(part("0-4", "01234"))
            .status(206)
    };
    vec![
        required(
            "partial-not-whole",
            STORING,
            "A part is not reused as the whole",
            [
                first(),
                get()
                    .answered(whole())
                    .status(200)
                    .want(Want::Content("0123456789")),
            ],
        ),
        required(
            "partial-not-other",
            STORING,
            "A part is not reused for another range",
            [
                first(),
                get()
                    .with("Range: bytes=5-9")
                    .answered(part("5-9", "56789"))
                    .status(206)
                    .want(Want::Content("56789"))
                    .field("Content-Range", "bytes 5-9/10"),
            ],
        ),
        check(
            "partial-same",
            STORING,
            "A part is reused for its own range",
            [first(), get().with("Range: bytes=0-4").stored().status(206)],
        ),
        check(
            "partial-within",
            STORING,
            "A range within a stored part is cut from it",
            [
                first(),
                get()
                    .with("Range: bytes=1-2")
                    .stored()
                    .status(206)
                    .want(Want::Content("12")),
            ],
        ),
        check(
            "partial-combined",
            COMBINING,
            "Two parts are combined to the whole",
            [
                first(),
                get()
                    .with("Range: bytes=5-9")
                    .answered(part("5-9", "56789"))
                    .status(206),
                get()
                    .want(Want::AskedAtMost(0))
                    .status(200)
                    .want(Want::Content("0123456789")),
            ],
        ),
        required(
            "partial-other-tag",
            COMBINING,
            "Parts with different tags are not combined",
            [
                first(),
                get()
                    .with("Range: bytes=5-9")
                    .answered(
                        answer(
                            206,
                            "Cache-Control: max-age=3600\nETag: \"b\"\nContent-Range: bytes 5-9/10",
                        )
                        .saying("abcde"),
                    )
                    .status(206),
                get()
                    .answered(ok("ETag: \"b\"").saying("vwxyzabcde"))
                    .status(200)
                    .want(Want::Content("vwxyzabcde")),
            ],
        ),
    ]
}
