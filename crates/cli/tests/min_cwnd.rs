//! `policy.min_cwnd`: a fixed floor under the congestion window, and its warning.
#![allow(clippy::unwrap_used)]

use hikyaku_testkit::{Server, Site, get, hikyaku};

#[test]
fn a_floor_serves_and_is_warned_of() {
    let site = Site::with_big_file(1_000_000);
    let plain = Server::start(&[site.path()]);
    assert!(!plain.log().contains("policy.min_cwnd"));
    for floor in ["256xMSS", "373760", "365KiB"] {
        let set = format!("policy.min_cwnd={floor}");
        let server = Server::start(&[site.path(), "--set", &set]);
        // With eBPF the message is "the congestion windows of QUIC and TCP".
        server.wait_log("policy.min_cwnd holds");
        server.wait_log("at 373760 bytes or more");
        let fetched = get(&["--http", "3", &server.url("/big.bin")]);
        assert!(
            fetched
                .iter()
                .any(|record| record["body_bytes"] == 1_000_000),
            "{floor}: {fetched:?}"
        );
    }
}

#[test]
fn impossible_floors_are_refused() {
    let site = Site::new(&[]);
    for (value, why) in [
        ("1GiB", "more than the 12582912 that a connection may have"),
        ("0", "`0` is no minimum congestion window"),
        ("many", "expected `adaptive`, `off`, a number of bytes"),
    ] {
        let set = format!("policy.min_cwnd={value}");
        let listen = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
        let args = [&["serve", site.path(), "--set", &set], &listen[..]].concat();
        let output = hikyaku(&args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{value}: {said}");
        assert!(said.contains(why), "{value}: {said}");
    }
}
