//! Freshness (RFC 9111 §4.2): lifetimes, ages and heuristics.

use std::time::Duration;

use crate::case::{
    Case, LATER, SHORT, Want, answer, check, get, no_reuse, ok, optimal, required, reuse, stored,
    then,
};

const LIFETIME: &str = "RFC 9111 §4.2.1";
const AGE: &str = "RFC 9111 §4.2.3";
const EXPIRES: &str = "RFC 9111 §5.3";
const HEURISTIC: &str = "RFC 9111 §4.2.2";

pub(crate) fn cases() -> Vec<Case> {
    [lifetimes(), expires(), shared(), ages(), heuristics()].concat()
}

fn lifetimes() -> Vec<Case> {
    let mut cases = vec![
        optimal(
            "max-age",
            LIFETIME,
            "A response within its max-age is reused",
            reuse("Cache-Control: max-age=3600"),
        ),
        required(
            "max-age-over",
            LIFETIME,
            "A response beyond its max-age is not reused",
            then(stored(SHORT), [get().after(LATER).asked()]),
        ),
        required(
            "max-age-0",
            LIFETIME,
            "A response with max-age=0 is not reused",
            no_reuse("Cache-Control: max-age=0"),
        ),
        optimal(
            "max-age-negative",
            LIFETIME,
            "A response with a negative max-age is not reused",
            no_reuse("Cache-Control: max-age=-3600"),
        ),
        required(
            "max-age-0-expires",
            LIFETIME,
            "max-age=0 counts, not a later Expires",
            no_reuse("Cache-Control: max-age=0\nExpires: {now+3600}"),
        ),
        optimal(
            "max-age-expired",
            LIFETIME,
            "max-age counts, not an earlier Expires",
            reuse("Cache-Control: max-age=3600\nExpires: {now-3600}"),
        ),
        optimal(
            "max-age-bad-expires",
            LIFETIME,
            "max-age counts, not an invalid Expires",
            reuse("Cache-Control: max-age=3600\nExpires: 0"),
        ),
        optimal(
            "immutable",
            "RFC 8246 §2",
            "A fresh immutable response is reused",
            reuse("Cache-Control: max-age=3600, immutable"),
        ),
        required(
            "immutable-over",
            "RFC 8246 §2",
            "A stale immutable response is not reused",
            then(
                stored("Cache-Control: max-age=2, immutable"),
                [get().after(LATER).asked()],
            ),
        ),
    ];
    for (name, seconds) in [
        ("largest", "2147483647"),
        ("overflow", "2147483648"),
        ("overflow-64", "99999999999999999999"),
    ] {
        cases.push(optimal(
            format!("max-age-{name}"),
            "RFC 9111 §1.2.2",
            format!("A max-age of {seconds} is a long time"),
            reuse(format!("Cache-Control: max-age={seconds}")),
        ));
    }
    cases
}

fn expires() -> Vec<Case> {
    let mut cases = vec![
        optimal(
            "expires",
            EXPIRES,
            "A response before its Expires is reused",
            reuse("Expires: {now+3600}"),
        ),
        required(
            "expires-past",
            EXPIRES,
            "A response after its Expires is not reused",
            no_reuse("Expires: {now-3600}"),
        ),
        required(
            "expires-now",
            EXPIRES,
            "A response with Expires like Date is not reused",
            no_reuse("Date: {now}\nExpires: {now}"),
        ),
        required(
            "expires-over",
            EXPIRES,
            "A response is not reused when its Expires has come",
            then(
                stored("Date: {now}\nExpires: {now+2}"),
                [get().after(LATER).asked()],
            ),
        ),
        check(
            "expires-by-date",
            LIFETIME,
            "Expires counts from Date, also where the origin's clock is behind",
            reuse("Date: {now-7200}\nExpires: {now-3600}\nAge: 0"),
        ),
    ];
    let invalid = [
        ("0", "0"),
        ("-1", "-1"),
        ("word", "never"),
        ("number", "3600"),
        ("zone", "Thu, 18 Aug 2050 02:01:18 AEST"),
        ("two-digits", "Thu, 18 Aug 50 02:01:18 GMT"),
        ("iso", "2050-08-18T02:01:18Z"),
    ];
    for (name, value) in invalid {
        cases.push(required(
            format!("expires-invalid-{name}"),
            EXPIRES,
            format!("An Expires of `{value}` is one of the past"),
            no_reuse(format!("Expires: {value}")),
        ));
    }
    let obsolete = [
        ("rfc850", "Thursday, 18-Aug-50 02:01:18 GMT"),
        ("asctime", "Thu Aug 18 02:01:18 2050"),
    ];
    for (name, value) in obsolete {
        cases.push(optimal(
            format!("expires-{name}"),
            "RFC 9110 §5.6.7",
            format!("An Expires in the obsolete format `{value}` is read"),
            reuse(format!("Expires: {value}")),
        ));
    }
    cases
}

fn shared() -> Vec<Case> {
    const SECTION: &str = "RFC 9111 §5.2.2.10";
    vec![
        optimal(
            "s-maxage",
            SECTION,
            "A response within its s-maxage is reused",
            reuse("Cache-Control: s-maxage=3600"),
        ),
        required(
            "s-maxage-0",
            SECTION,
            "s-maxage=0 counts, not a longer max-age",
            no_reuse("Cache-Control: max-age=3600, s-maxage=0"),
        ),
        required(
            "s-maxage-0-first",
            SECTION,
            "s-maxage=0 counts wherever it stands",
            no_reuse("Cache-Control: s-maxage=0, max-age=3600"),
        ),
        required(
            "s-maxage-0-lines",
            SECTION,
            "s-maxage=0 counts in a line of its own",
            no_reuse("Cache-Control: max-age=3600\nCache-Control: s-maxage=0"),
        ),
        required(
            "s-maxage-over",
            SECTION,
            "A response beyond its s-maxage is not reused",
            then(
                stored("Cache-Control: s-maxage=2, max-age=3600"),
                [get().after(LATER).asked()],
            ),
        ),
        optimal(
            "s-maxage-longer",
            SECTION,
            "s-maxage counts, not max-age=0",
            reuse("Cache-Control: s-maxage=3600, max-age=0"),
        ),
        optimal(
            "s-maxage-expired",
            SECTION,
            "s-maxage counts, not an earlier Expires",
            reuse("Cache-Control: s-maxage=3600\nExpires: {now-3600}"),
        ),
    ]
}

fn ages() -> Vec<Case> {
    const FIELD: &str = "RFC 9111 §5.1";
    let hour = "Cache-Control: max-age=3600";
    let mut cases = vec![
        required(
            "age-beyond",
            AGE,
            "A response that is older than its max-age on arrival is not reused",
            no_reuse(format!("{hour}\nAge: 7200")),
        ),
        required(
            "age-beyond-expires",
            AGE,
            "A response that is older than its Expires allows is not reused",
            no_reuse("Date: {now}\nExpires: {now+3600}\nAge: 7200"),
        ),
        optimal(
            "age-within",
            AGE,
            "A response that is younger than its max-age on arrival is reused",
            reuse(format!("{hour}\nAge: 1800")),
        ),
        required(
            "age-and-time",
            AGE,
            "The age on arrival and the time in the cache add up",
            then(
                stored("Cache-Control: max-age=3602\nAge: 3600"),
                [get().after(LATER).asked()],
            ),
        ),
        required(
            "age-overflow",
            "RFC 9111 §1.2.2",
            "An age of 2147483648 is a long time",
            no_reuse(format!("{hour}\nAge: 2147483648")),
        ),
        optimal(
            "age-first-stale",
            FIELD,
            "Of the ages `7200, 0` the first counts",
            no_reuse(format!("{hour}\nAge: 7200, 0")),
        ),
        optimal(
            "age-first-fresh",
            FIELD,
            "Of the ages `0, 7200` the first counts",
            reuse(format!("{hour}\nAge: 0, 7200")),
        ),
        check(
            "age-apparent",
            AGE,
            "A response whose Date is older than its max-age is not reused",
            no_reuse("Cache-Control: max-age=60\nDate: {now-3600}"),
        ),
        required(
            "age-sent",
            "RFC 9111 §4",
            "A reused response has its age",
            then(stored(hour), [get().stored().want(AGE_NOW)]),
        ),
        required(
            "age-sent-grows",
            AGE,
            "The age of a reused response grows",
            then(
                stored(hour),
                [get()
                    .after(Duration::from_millis(2200))
                    .stored()
                    .want(Want::Age(2, 30))],
            ),
        ),
        required(
            "age-sent-sum",
            AGE,
            "The age of a reused response has that of its arrival in it",
            then(
                stored(format!("{hour}\nAge: 1000")),
                [get().stored().want(Want::Age(1000, 1030))],
            ),
        ),
        required(
            "age-sent-expires",
            AGE,
            "A response that is reused for its Expires has its age, too",
            then(
                stored("Expires: {now+3600}"),
                [get().stored().want(AGE_NOW)],
            ),
        ),
    ];
    for (name, value) in [
        ("word", "old"),
        ("negative", "-7200"),
        ("decimal", "7200.5"),
    ] {
        cases.push(optimal(
            format!("age-invalid-{name}"),
            FIELD,
            format!("An age of `{value}` is ignored"),
            reuse(format!("{hour}\nAge: {value}")),
        ));
    }
    cases
}

const AGE_NOW: Want = Want::Age(0, 30);

fn heuristics() -> Vec<Case> {
    let old = "Last-Modified: {now-31536000}";
    let mut cases = vec![
        check(
            "heuristic-none",
            HEURISTIC,
            "A response without any lifetime or Last-Modified is not reused",
            no_reuse(""),
        ),
        check(
            "heuristic",
            HEURISTIC,
            "A response that did not change for a year is reused",
            reuse(old),
        ),
        check(
            "heuristic-public",
            HEURISTIC,
            "A public response that did not change for a year is reused",
            reuse(format!("{old}\nCache-Control: public")),
        ),
        required(
            "heuristic-explicit",
            HEURISTIC,
            "No heuristic takes the place of an explicit lifetime",
            no_reuse(format!("{old}\nExpires: {{now-60}}")),
        ),
    ];
    for status in [201, 302, 303, 307, 400, 403, 500, 503] {
        cases.push(required(
            format!("heuristic-{status}"),
            HEURISTIC,
            format!("A {status} without a lifetime is not reused"),
            [
                get().answered(answer(status, old)),
                get().answered(ok("")).asked(),
            ],
        ));
    }
    cases
}
