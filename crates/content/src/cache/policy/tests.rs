mod storing;

use http::HeaderValue;
use proptest::prelude::*;

use super::*;

/// Thu, 26 Nov 2026 12:00:00 GMT.
const NOON: u64 = 1_795_694_400_000;
const NOON_DATE: &str = "Thu, 26 Nov 2026 12:00:00 GMT";

type Fields<'a> = &'a [(&'static str, &'a str)];

fn headers(fields: Fields<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

/// A response that came at noon, at once.
fn judged(status: u16, fields: Fields<'_>, is_personal: bool, rules: &Rules) -> Option<Terms> {
    let headers = headers(fields);
    let received = Received {
        status: StatusCode::from_u16(status).unwrap(),
        headers: &headers,
        asked: NOON,
        received: NOON,
        is_personal,
    };
    received.judge(rules).map(|(terms, _)| terms)
}

fn rules() -> Rules {
    Rules::from(&CacheConfig::default())
}

fn request(cache_control: &str) -> Directives {
    Directives::of_request(&headers(&[("cache-control", cache_control)]))
}

#[test]
fn the_freshness_lifetime_is_the_first_of_its_sources() {
    let at = |seconds: u64| {
        httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(NOON + seconds * 1000))
    };
    let (soon, zero) = (at(30), "0");
    let old = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(NOON - 1_000_000));
    let older = "Thu, 26 Nov 2020 12:00:00 GMT";
    // fields, and the lifetime in seconds
    let cases: &[(Fields<'_>, u64)] = &[
        (
            &[
                ("cache-control", "max-age=10, s-maxage=20"),
                ("expires", &soon),
            ],
            20,
        ),
        (&[("cache-control", "max-age=10"), ("expires", &soon)], 10),
        (&[("date", NOON_DATE), ("expires", &soon)], 30),
        (&[("expires", &soon)], 30),
        // An invalid date, especially 0, is one in the past (§5.3).
        (&[("expires", zero), ("etag", "\"a\"")], 0),
        (&[("last-modified", &old)], 100),
        (&[("last-modified", older)], 86_400),
        (
            &[("last-modified", &old), ("cache-control", "max-age=x")],
            0,
        ),
        (
            &[
                ("cdn-cache-control", "max-age=5"),
                ("cache-control", "s-maxage=20"),
            ],
            5,
        ),
        (
            &[
                ("cdn-cache-control", "public"),
                ("expires", &soon),
                ("etag", "\"a\""),
            ],
            0,
        ),
        (
            &[("cdn-cache-control", ""), ("cache-control", "s-maxage=20")],
            20,
        ),
    ];
    for (fields, want) in cases {
        let terms = judged(200, fields, false, &rules()).unwrap();
        assert_eq!(terms.lifetime, want * 1000, "{fields:?}");
    }
    let config = CacheConfig {
        default_ttl: Duration::from_secs(7),
        ..CacheConfig::default()
    };
    for (status, want) in [
        (200, Some(7000)),
        (404, Some(7000)),
        (302, None),
        (500, None),
    ] {
        let terms = judged(status, &[], false, &Rules::from(&config));
        assert_eq!(terms.map(|terms| terms.lifetime), want, "{status}");
    }
    let config = CacheConfig {
        heuristic: false,
        ..CacheConfig::default()
    };
    let terms = judged(
        200,
        &[("last-modified", &old)],
        false,
        &Rules::from(&config),
    );
    assert_eq!(terms.unwrap().lifetime, 0);
}

#[test]
fn the_age_counts_the_way_and_the_stay() {
    let date =
        |before: u64| httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(NOON - before));
    let (five, ahead) = (date(5000), "Thu, 26 Nov 2026 13:00:00 GMT");
    // fields, delay of the response in ms, age at arrival in ms
    let cases: &[(Fields<'_>, u64, u64)] = &[
        (&[], 0, 0),
        (&[("date", NOON_DATE)], 300, 300),
        (&[("date", &five)], 0, 5000),
        (&[("age", "7")], 300, 7300),
        (&[("age", "7"), ("date", &five)], 0, 7000),
        (&[("age", "3"), ("date", &five)], 0, 5000),
        (&[("date", ahead)], 0, 0),
        (&[("age", "7, 9")], 0, 7000),
        (&[("age", "-7")], 0, 0),
        (&[("age", "7.5")], 0, 0),
    ];
    for (fields, delay, want) in cases {
        let mut fields = fields.to_vec();
        fields.push(("cache-control", "max-age=60"));
        let headers = headers(&fields);
        let received = Received {
            status: StatusCode::OK,
            headers: &headers,
            asked: NOON - delay,
            received: NOON,
            is_personal: false,
        };
        let (terms, _) = received.judge(&rules()).unwrap();
        assert_eq!(terms.age(NOON), *want, "{fields:?}");
        assert_eq!(terms.age(NOON + 10_000), want + 10_000, "{fields:?}");
        assert_eq!(terms.age_seconds(NOON + 10_000), (want + 10_000) / 1000);
    }
}

#[test]
fn a_stored_response_is_reused_as_both_sides_allow() {
    use Reuse::{Serve, ServeMeanwhile, Validate};
    let etag = ("etag", "\"a\"");
    // the response's Cache-Control, the request's, seconds since it came, and the reuse
    let cases = [
        ("max-age=60", "", 59, Serve),
        ("max-age=60", "", 60, Validate),
        ("max-age=60", "no-cache", 0, Validate),
        ("no-cache, max-age=60", "", 0, Validate),
        ("max-age=60", "max-age=10", 10, Serve),
        ("max-age=60", "max-age=10", 11, Validate),
        ("max-age=60", "max-age=0", 1, Validate),
        ("max-age=60", "min-fresh=10", 49, Serve),
        ("max-age=60", "min-fresh=10", 51, Validate),
        ("max-age=60", "max-stale=10", 70, Serve),
        ("max-age=60", "max-stale=10", 71, Validate),
        ("max-age=60", "max-stale", 100_000, Serve),
        ("max-age=60, must-revalidate", "max-stale", 61, Validate),
        ("max-age=60, proxy-revalidate", "max-stale", 61, Validate),
        ("s-maxage=60", "max-stale", 61, Validate),
        ("max-age=60, stale-while-revalidate=10", "", 59, Serve),
        (
            "max-age=60, stale-while-revalidate=10",
            "",
            69,
            ServeMeanwhile,
        ),
        ("max-age=60, stale-while-revalidate=10", "", 70, Validate),
        (
            "max-age=60, stale-while-revalidate=10",
            "max-age=100",
            65,
            Validate,
        ),
        (
            "s-maxage=60, stale-while-revalidate=10",
            "",
            65,
            ServeMeanwhile,
        ),
        (
            "max-age=60, stale-while-revalidate=10, must-revalidate",
            "",
            65,
            Validate,
        ),
    ];
    for (response, asked, seconds, want) in cases {
        let terms = judged(200, &[("cache-control", response), etag], false, &rules());
        let terms = terms.unwrap();
        let got = terms.reuse(&request(asked), NOON + seconds * 1000);
        assert_eq!(got, want, "{response} / {asked} / {seconds}");
    }
}

#[test]
fn a_stale_response_takes_the_place_of_errors_where_it_may() {
    let rule = CacheConfig {
        stale_if_error: Duration::from_secs(10),
        ..CacheConfig::default()
    };
    // the response's Cache-Control, the rule's seconds, seconds since it came
    let cases = [
        ("max-age=60, stale-if-error=10", false, 69, true),
        ("max-age=60, stale-if-error=10", false, 70, false),
        ("max-age=60", false, 61, false),
        ("max-age=60", true, 69, true),
        ("s-maxage=60", true, 61, false),
        (
            "max-age=60, must-revalidate, stale-if-error=10",
            true,
            61,
            false,
        ),
        ("max-age=60, stale-if-error=0", true, 61, false),
        ("no-cache, stale-if-error=10", true, 0, false),
    ];
    for (response, has_rule, seconds, want) in cases {
        let rules = if has_rule {
            Rules::from(&rule)
        } else {
            rules()
        };
        let fields = [("cache-control", response), ("etag", "\"a\"")];
        let terms = judged(200, &fields, false, &rules).unwrap();
        let got = terms.replaces_errors(NOON + seconds * 1000);
        assert_eq!(got, want, "{response} {seconds}");
    }
    for (status, want) in [
        (500, true),
        (501, false),
        (502, true),
        (504, true),
        (505, false),
        (404, false),
    ] {
        assert_eq!(
            is_error(StatusCode::from_u16(status).unwrap()),
            want,
            "{status}"
        );
    }
}

proptest! {
    #[test]
    fn no_arithmetic_overflows_and_time_makes_nothing_fresher(
        max_age: u64,
        age: u64,
        delay in 0_u64..1 << 40,
        before in 0_u64..1 << 40,
        later in 0_u64..1 << 40,
        asked in proptest::option::of(any::<u64>()),
        min_fresh in proptest::option::of(any::<u64>()),
    ) {
        let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(NOON.saturating_sub(before)));
        let fields = [
            ("cache-control", &*format!("max-age={max_age}")),
            ("age", &age.to_string()),
            ("date", &date),
            ("etag", "\"a\""),
        ];
        let headers = headers(&fields);
        let received = Received {
            status: StatusCode::OK,
            headers: &headers,
            asked: NOON.saturating_sub(delay),
            received: NOON,
            is_personal: false,
        };
        let (terms, _) = received.judge(&rules()).unwrap();
        prop_assert!(terms.age_seconds(NOON) >= age.min(1 << 31));
        prop_assert!(terms.age(NOON + later) >= terms.age(NOON));
        prop_assert!(terms.ttl(NOON + later) <= terms.ttl(NOON));
        let directives = Directives {
            max_age: asked.map(|it| it.min(1 << 31)),
            min_fresh: min_fresh.map(|it| it.min(1 << 31)),
            ..Directives::default()
        };
        let (now, then) = (terms.reuse(&directives, NOON), terms.reuse(&directives, NOON + later));
        prop_assert!(now == Reuse::Serve || then != Reuse::Serve, "{:?} {:?}", now, then);
        prop_assert_eq!(terms.reuse(&Directives::default(), NOON) == Reuse::Serve, terms.age(NOON) < terms.lifetime);
    }
}
