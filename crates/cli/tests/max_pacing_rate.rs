//! `policy.max_pacing_rate`: no connection sends faster, over any transport.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use hikyaku_testkit::{Server, Site, get, hikyaku};

/// So many bytes that the ones before pacing do not count: the first ten segments, each of up to 64
/// KiB on loopback.
const BIG: usize = 4_000_000;

#[test]
fn no_connection_is_faster() {
    let site = Site::with_big_file(BIG);
    let server = Server::start(&[site.path(), "--set", "policy.max_pacing_rate=5Mbps"]);
    let mptcp = Path::new("/proc/sys/net/mptcp/enabled").exists();
    let arms: [(&str, &[&str]); 3] = [
        ("tcp", &["--http", "2"]),
        ("mptcp", &["--http", "2", "--mptcp"]),
        ("quic", &["--http", "3"]),
    ];
    for (arm, options) in arms {
        if arm == "mptcp" && !mptcp {
            continue;
        }
        let url = server.url(&format!("/big.bin?{arm}"));
        let records = get(&[options, &[&url]].concat());
        assert_eq!(records[0]["body_bytes"], BIG, "{arm}: {records:?}");
        let path = format!("/big.bin?{arm}");
        let line = server.wait_access(arm, |line| line["path"] == path.as_str());
        let goodput = line["goodput_bps"].as_u64().unwrap();
        assert!(goodput < 6_500_000, "{arm}: {line}");
    }
    let explained = server.admin_json("/v1/clients/127.0.0.1");
    assert_eq!(explained["max_pacing_rate"], "5Mbps");
    let text = explained["text"].as_str().unwrap();
    assert!(text.contains("5 Mbit/s on each connection"), "{text}");
}

#[test]
fn useless_rates_are_refused() {
    let site = Site::new(&[]);
    for value in ["63kbps", "0bps", "5MB", "fast"] {
        let set = format!("policy.max_pacing_rate={value}");
        let listen = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
        let args = [&["serve", site.path(), "--set", &set], &listen[..]].concat();
        let output = hikyaku(&args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{value}: {said}");
        let why = format!("`{value}` is no largest pacing rate; expected `off`");
        assert!(said.contains(&why), "{value}: {said}");
    }
}
