//! The table of results.

use std::process::Command;

use anyhow::Result;

use super::attacker::{Attack, println};
use super::server::Kind;
use super::{Args, Outcome};

/// Prints the names of the attacks.
pub(super) fn list(attacks: &[Attack]) {
    for attack in attacks {
        println(format_args!("{:<22} {}", attack.name, attack.about));
    }
}

/// Prints the conditions, and the table's head.
pub(super) fn begin(args: &Args) -> Result<()> {
    let commit = Command::new("git")
        .args(["describe", "--always", "--dirty"])
        .output()?;
    let commit = String::from_utf8_lossy(&commit.stdout).trim().to_owned();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    println(format_args!(
        "`cargo xtask attack --seconds {}`, commit {commit}, Linux {}. The server has one CPU; attackers and \
         an honest client, before them, have another.\n",
        args.seconds,
        kernel.trim()
    ));
    println(format_args!(
        "| attack | server | memory before, peak | CPU | honest p50 quiet, attacked | p99 quiet, attacked | \
         failed | attackers opened, ended by the server |"
    ));
    println(format_args!(
        "| --- | --- | --- | --- | --- | --- | --- | --- |"
    ));
    Ok(())
}

/// Prints the result of one attack on one server.
pub(super) fn row(attack: &Attack, kind: Kind, outcome: &Outcome) {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let (quiet, waits) = (&outcome.quiet, &outcome.waits);
    let ms = |share: f64| {
        let [quiet, waits] = [quiet, waits].map(|waits| waits.quantile(share).as_secs_f64() * 1e3);
        format!("{quiet:.1}, {waits:.1} ms")
    };
    println(format_args!(
        "| {} | {kind} | {:.0}, {:.0} MiB | {:.0} % | {} | {} | {} of {} | {}, {} |",
        attack.name,
        mib(outcome.before.memory),
        mib(outcome.peak_memory),
        outcome.cpu * 100.0,
        ms(0.5),
        ms(0.99),
        waits.failed,
        waits.failed + waits.answered(),
        outcome.opened,
        outcome.ended,
    ));
}
