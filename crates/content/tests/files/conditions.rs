//! Conditional requests (RFC 9110 §13).

use std::time::{Duration, SystemTime};

use hikyaku_content::FilesConfig;

use crate::support::*;

#[tokio::test]
async fn conditions_follow_rfc_9110() {
    const MODIFIED: u64 = 1_000_000_000;
    let server = Server::new(&FilesConfig::default(), |root| {
        write(&root.join("a.txt"), "0123456789");
        set_modified(&root.join("a.txt"), MODIFIED);
    });
    let date = |offset: i64| {
        let seconds = MODIFIED.checked_add_signed(offset).unwrap();
        httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
    };
    let (before, same, after) = (date(-1), date(0), date(1));
    // A file whose status has just changed has no strong date.
    tokio::time::sleep(Duration::from_millis(3100)).await;
    let plain = server.get("/a.txt", &[]).await;
    let etag = plain.header("etag").unwrap().to_owned();
    let weak = format!("W/{etag}");
    let list = format!("\"x\" , {etag}");
    assert!(etag.starts_with('"'), "strong: {etag}");
    assert_eq!(plain.header("last-modified"), Some(&*same));

    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], u16);
    let cases: &[Case<'_>] = &[
        ("none match: other", &[("if-none-match", "\"x\"")], 200),
        ("none match: same", &[("if-none-match", &etag)], 304),
        ("none match: weak", &[("if-none-match", &weak)], 304),
        ("none match: list", &[("if-none-match", &list)], 304),
        (
            "none match: two fields",
            &[("if-none-match", "\"x\""), ("if-none-match", &etag)],
            304,
        ),
        ("none match: any", &[("if-none-match", "*")], 304),
        ("none match: malformed", &[("if-none-match", "x")], 200),
        (
            "none match goes before date",
            &[("if-none-match", "\"x\""), ("if-modified-since", &after)],
            200,
        ),
        (
            "modified since: before",
            &[("if-modified-since", &before)],
            200,
        ),
        ("modified since: same", &[("if-modified-since", &same)], 304),
        (
            "modified since: after",
            &[("if-modified-since", &after)],
            304,
        ),
        (
            "modified since: no date",
            &[("if-modified-since", "yesterday")],
            200,
        ),
        ("match: same", &[("if-match", &etag)], 200),
        ("match: list", &[("if-match", &list)], 200),
        ("match: any", &[("if-match", "*")], 200),
        ("match: other", &[("if-match", "\"x\"")], 412),
        ("match: weak", &[("if-match", &weak)], 412),
        ("match: malformed", &[("if-match", "x")], 412),
        (
            "match goes before date",
            &[("if-match", &etag), ("if-unmodified-since", &before)],
            200,
        ),
        (
            "match, then none match",
            &[("if-match", &etag), ("if-none-match", &etag)],
            304,
        ),
        (
            "unmodified since: before",
            &[("if-unmodified-since", &before)],
            412,
        ),
        (
            "unmodified since: same",
            &[("if-unmodified-since", &same)],
            200,
        ),
        (
            "unmodified since: no date",
            &[("if-unmodified-since", "x")],
            200,
        ),
        ("range", &[("range", "bytes=0-1")], 206),
        (
            "range if same",
            &[("range", "bytes=0-1"), ("if-range", &etag)],
            206,
        ),
        (
            "range if other",
            &[("range", "bytes=0-1"), ("if-range", "\"x\"")],
            200,
        ),
        (
            "range if weak",
            &[("range", "bytes=0-1"), ("if-range", &weak)],
            200,
        ),
        (
            "range if date",
            &[("range", "bytes=0-1"), ("if-range", &same)],
            206,
        ),
        (
            "range if later date",
            &[("range", "bytes=0-1"), ("if-range", &after)],
            200,
        ),
        (
            "range if malformed",
            &[("range", "bytes=0-1"), ("if-range", "x")],
            200,
        ),
        (
            "range, not modified",
            &[("range", "bytes=0-1"), ("if-none-match", &etag)],
            304,
        ),
        (
            "range, failed",
            &[("range", "bytes=99-"), ("if-match", "\"x\"")],
            412,
        ),
        ("if-range alone", &[("if-range", &etag)], 200),
    ];
    for (name, headers, status) in cases {
        let answer = server.get("/a.txt", headers).await;
        assert_eq!(answer.status, *status, "{name}");
        if matches!(status, 200 | 206 | 304) {
            assert_eq!(answer.header("etag"), Some(&*etag), "{name}");
            assert_eq!(answer.header("last-modified"), Some(&*same), "{name}");
        }
        let len = match status {
            200 => 10,
            206 => 2,
            304 => 0,
            _ => continue,
        };
        assert_eq!(answer.body.len(), len, "{name}");
    }
}
