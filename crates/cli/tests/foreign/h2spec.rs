//! h2spec: the sentences of RFC 9113 and RFC 7541, one by one.
//!
//! h2spec requests more than the first window of a stream (RFC 9113 §6.9.2), so that its streams
//! stay open. A stream that is over may take frames that an open one must refuse (§5.1, closed),
//! and h2spec expects the refusal.

use std::process::Output;

use crate::{built, run, text};
use hikyaku_testkit::{Server, Site};

/// The number of h2spec's cases; fewer are not the whole suite.
const CASES: usize = 146;

#[test]
fn h2spec_finds_nothing_at_a_server_of_files() {
    let site = Site::with_big_file(100_000);
    try_all(|| Server::start(&[site.path()]));
}

#[test]
fn h2spec_finds_nothing_at_a_proxy() {
    let site = Site::with_big_file(100_000);
    let upstream = Server::start(&[site.path()]);
    let url = upstream.url("");
    try_all(|| Server::start(&["--upstream", &url, "--set", "proxy.insecure=true"]));
}

/// Makes h2spec try the generic cases and those of HTTP/2 and HPACK, with the strict ones.
#[track_caller]
fn try_all(server: impl FnOnce() -> Server) {
    let Some(h2spec) = built("tools/h2spec") else {
        return;
    };
    let server = server();
    let port = server.port().to_string();
    // If no answer is due, it waits for so many seconds.
    let output = run(
        h2spec,
        &[
            "--tls",
            "--insecure",
            "--strict",
            "--timeout",
            "10",
            "--path",
            "/big.bin",
            "--port",
            &port,
        ],
    );
    expect_all_passed(&output);
}

#[track_caller]
fn expect_all_passed(output: &Output) {
    let report = text(&output.stdout);
    let last = report.lines().rfind(|line| line.contains(" tests, "));
    let want = format!("{CASES} tests, {CASES} passed, 0 skipped, 0 failed");
    // Failures are reported again at the end.
    let failures = report.find("Failures:").unwrap_or(report.len());
    assert_eq!(last, Some(want.as_str()), "{}", &report[failures..]);
    assert!(output.status.success(), "{report}");
}
