//! CDN-Cache-Control (RFC 9213) and Cache-Status (RFC 9211).

use crate::case::{Case, LATER, Want, check, get, no_reuse, ok, optimal, reuse, stored, then};

const SECTION: &str = "RFC 9213 §2.2";
const GRAMMAR: &str = "RFC 9213 §2.1";
const STATUS: &str = "RFC 9211 §2";

pub(crate) fn cases() -> Vec<Case> {
    [targeted(), grammar(), reports()].concat()
}

fn targeted() -> Vec<Case> {
    let hour = "Cache-Control: max-age=3600";
    vec![
        optimal(
            "cdn-max-age",
            SECTION,
            "A response within the max-age of CDN-Cache-Control is reused",
            reuse("CDN-Cache-Control: max-age=3600"),
        ),
        optimal(
            "cdn-beside-no-store",
            SECTION,
            "CDN-Cache-Control counts, not no-store in Cache-Control",
            reuse("CDN-Cache-Control: max-age=3600\nCache-Control: no-store"),
        ),
        optimal(
            "cdn-beside-private",
            SECTION,
            "CDN-Cache-Control counts, not private in Cache-Control",
            reuse("CDN-Cache-Control: max-age=3600\nCache-Control: private"),
        ),
        optimal(
            "cdn-beside-expires",
            SECTION,
            "CDN-Cache-Control counts, not an earlier Expires",
            reuse("CDN-Cache-Control: max-age=3600\nExpires: {now-3600}"),
        ),
        optimal(
            "cdn-max-age-0",
            SECTION,
            "max-age=0 of CDN-Cache-Control counts, not a longer one in Cache-Control",
            no_reuse(format!("CDN-Cache-Control: max-age=0\n{hour}")),
        ),
        optimal(
            "cdn-no-store",
            SECTION,
            "no-store of CDN-Cache-Control counts",
            no_reuse(format!("CDN-Cache-Control: no-store\n{hour}")),
        ),
        optimal(
            "cdn-private",
            SECTION,
            "private of CDN-Cache-Control counts",
            no_reuse(format!("CDN-Cache-Control: private\n{hour}")),
        ),
        optimal(
            "cdn-no-cache",
            SECTION,
            "no-cache of CDN-Cache-Control counts",
            no_reuse(format!("CDN-Cache-Control: no-cache\n{hour}")),
        ),
        optimal(
            "cdn-age",
            SECTION,
            "A response that is older than the max-age of CDN-Cache-Control is not reused",
            no_reuse("CDN-Cache-Control: max-age=3600\nAge: 7200"),
        ),
        optimal(
            "cdn-over",
            SECTION,
            "A response beyond the max-age of CDN-Cache-Control is not reused",
            then(
                stored(format!("CDN-Cache-Control: max-age=2\n{hour}")),
                [get().after(LATER).asked()],
            ),
        ),
        check(
            "cdn-forwarded",
            "RFC 9213 §3.1",
            "CDN-Cache-Control goes on to the client",
            [get()
                .answered(ok("CDN-Cache-Control: max-age=3600"))
                .field("CDN-Cache-Control", "max-age=3600")],
        ),
    ]
}

fn grammar() -> Vec<Case> {
    let hour = "Cache-Control: max-age=3600";
    let ignored = [
        ("empty", "", "An empty CDN-Cache-Control is ignored"),
        (
            "invalid",
            "max-age=0, &&",
            "A CDN-Cache-Control that is no dictionary is ignored",
        ),
        (
            "capitals",
            "MAX-AGE=0",
            "Keys in capitals make CDN-Cache-Control invalid",
        ),
        (
            "equals",
            "max-age= 0",
            "A space after the equals sign makes CDN-Cache-Control invalid",
        ),
    ];
    let mut cases: Vec<Case> = ignored
        .into_iter()
        .map(|(name, value, claim)| {
            optimal(
                format!("cdn-{name}"),
                GRAMMAR,
                claim,
                reuse(format!("CDN-Cache-Control: {value}\n{hour}")),
            )
        })
        .collect();
    cases.extend([
        optimal(
            "cdn-unknown",
            GRAMMAR,
            "Unknown keys and parameters of CDN-Cache-Control are ignored",
            reuse("CDN-Cache-Control: foo=\"bar\";a=1, max-age=3600;b=2\nCache-Control: no-store"),
        ),
        optimal(
            "cdn-last",
            GRAMMAR,
            "The last of equal keys of CDN-Cache-Control counts",
            no_reuse("CDN-Cache-Control: max-age=3600, max-age=0"),
        ),
        optimal(
            "cdn-lines",
            GRAMMAR,
            "The lines of CDN-Cache-Control are one dictionary",
            reuse(
                "CDN-Cache-Control: foo\nCDN-Cache-Control: max-age=3600\nCache-Control: no-store",
            ),
        ),
        check(
            "cdn-string",
            GRAMMAR,
            "A string as the max-age of CDN-Cache-Control is ignored",
            no_reuse("CDN-Cache-Control: max-age=\"3600\""),
        ),
    ]);
    cases
}

fn reports() -> Vec<Case> {
    let hour = "Cache-Control: max-age=3600";
    vec![
        check(
            "report-miss",
            STATUS,
            "Cache-Status says that a request was forwarded, and why",
            [get()
                .answered(ok(hour))
                .want(Want::Contains("Cache-Status", "; fwd="))],
        ),
        check(
            "report-hit",
            STATUS,
            "Cache-Status says that a response was reused",
            then(
                stored(hour),
                [get().stored().want(Want::Contains("Cache-Status", "; hit"))],
            ),
        ),
        check(
            "report-origin",
            STATUS,
            "Cache-Status of the origin stays before that of the cache",
            [get()
                .answered(ok(format!("{hour}\nCache-Status: origin; hit")))
                .want(Want::Contains("Cache-Status", "origin; hit"))],
        ),
    ]
}
