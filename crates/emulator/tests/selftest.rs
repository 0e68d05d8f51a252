//! `hikyaku lab selftest` as a whole: needs root.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests")]

use clap::Parser;
use hikyaku_emulator::selftest::{SelftestArgs, run};
use hikyaku_testkit::{skip, skip_part, this_test};

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: SelftestArgs,
}

/// Checks that depend on nothing but the emulator. Rates, times and CPU figures are those of an
/// optimised build on an otherwise idle machine.
const CERTAIN: &[&str] = &[
    "loss 0.1%",
    "loss 1%",
    "loss 5%",
    "queue in packets",
    "queue in bytes",
    "queue in time",
    "IPv4",
    "IPv6",
    "MPTCP",
    "SRv6",
    "ECN",
    "UDP GSO",
];

#[test]
fn every_check_runs_and_the_certain_ones_are_good() {
    if !rustix::process::geteuid().is_root() {
        return skip(&this_test(), "the self-test needs root");
    }
    let Command { args } = Command::parse_from(["selftest", "--quick", "--json"]);
    let mut out = Vec::new();
    let status = run(&args, &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    eprint!("{out}");
    let rows: Vec<serde_json::Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(rows.len(), 23);
    let text = |row: &serde_json::Value, key: &str| row[key].as_str().unwrap().to_owned();
    for name in CERTAIN {
        let row = rows.iter().find(|row| text(row, "check") == *name).unwrap();
        let verdict = text(row, "verdict");
        if verdict == "unavailable" {
            let why = format!("{name} is not available in this kernel");
            skip_part(&this_test(), &why);
        } else {
            assert_eq!(verdict, "ok", "{row}");
        }
    }
    let failed = rows.iter().any(|row| text(row, "verdict") == "failed");
    assert_eq!(status, u8::from(failed));
}
