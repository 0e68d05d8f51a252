//! Go's clients: net/http over HTTP/1.1 and HTTP/2, quic-go over HTTP/3 (`go/cases.go`).

use sha2::{Digest, Sha256};

use crate::{BIG, Servers, built, expect_all_right, proxy, run};
use hikyaku_testkit::{Server, noise};

/// Makes the client try all cases, or one of those that run alone.
#[track_caller]
fn try_over(version: &str, case: &str, least: usize) {
    let Some(client) = built("tools/foreign-client") else {
        return;
    };
    let servers = Servers::start();
    let limited = proxy(&["limits.body_size=64KiB"]);
    let hash: String = Sha256::digest(noise(BIG))
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let url = |server: &Server| server.url("");
    let output = run(
        client,
        &[
            "-http",
            version,
            "-case",
            case,
            "-files",
            &url(&servers.files),
            "-proxy",
            &url(&servers.proxy),
            "-limited",
            &url(&limited),
            "-hash",
            &hash,
            "-size",
            &BIG.to_string(),
        ],
    );
    expect_all_right(&output, least);
}

#[test]
fn go_over_http_1() {
    try_over("1", "", 14);
}

#[test]
fn go_over_http_2() {
    try_over("2", "", 14);
}

#[test]
fn quic_go_over_http_3() {
    try_over("3", "", 14);
}

#[test]
fn go_sees_early_answers_over_http_1() {
    try_over("1", "early 413", 1);
}

#[test]
fn go_sees_early_answers_over_http_2() {
    try_over("2", "early 413", 1);
}

#[test]
fn quic_go_sees_early_answers_over_http_3() {
    try_over("3", "early 413", 1);
}
