//! h2spec: the sentences of RFC 9113 and RFC 7541, one by one.
//!
//! What it asks for is larger than the first window of a stream (RFC 9113 §6.9.2). A stream that is
//! over may take frames that one that is open must refuse (§5.1, closed), and h2spec expects the
//! refusal.

use std::process::Output;

use crate::{built, run, text};
use hikyaku_testkit::{Server, Site};

/// Cases that h2spec has; fewer are not the whole suite.
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

/// Has h2spec try the generic cases, those of HTTP/2 and of HPACK, the strict ones included.
#[track_caller]
fn try_all(server: impl FnOnce() -> Server) {
    let Some(h2spec) = built("tools/h2spec") else {
        return;
    };
    let server = server();
    let port = server.port().to_string();
    // Where nothing is to come back it waits for so many seconds.
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
    // A failure is reported again at the end.
    let failures = report.find("Failures:").unwrap_or(report.len());
    assert_eq!(last, Some(want.as_str()), "{}", &report[failures..]);
    assert!(output.status.success(), "{report}");
}
