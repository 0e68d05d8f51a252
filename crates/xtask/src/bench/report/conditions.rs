//! The parts of the report that say how far its figures can be believed.

use std::fmt::Write;

use super::super::host::Machine;
use super::super::rounds::{FOREIGN_LIMIT, Failure, Run, STEAL_LIMIT};

pub(super) fn failures(out: &mut String, failures: &[Failure]) {
    if failures.is_empty() {
        return;
    }
    out.push_str("\n## Failures\n\n| row | server | reason |\n| --- | --- | --- |\n");
    for Failure { row, server, fault } in failures {
        let fault = fault.replace('\n', " ").replace('|', "/");
        let _ = writeln!(out, "| {row} | {server} | {fault} |");
    }
}

pub(super) fn disturbances(out: &mut String, runs: &[Run]) {
    let disturbed: Vec<&Run> = runs.iter().filter(|run| run.disturbed()).collect();
    let (steal, foreign) = (100.0 * STEAL_LIMIT, 100.0 * FOREIGN_LIMIT);
    let _ = writeln!(
        out,
        "\n## Disturbances\n\nRuns in which the hypervisor took more than {steal:.0} % of the two \
         CPUs, or others more than {foreign:.0} % of the server's: {} of {}. They are in the \
         figures.\n",
        disturbed.len(),
        runs.len()
    );
    if disturbed.is_empty() {
        return;
    }
    out.push_str("| row | round | server | stolen | others |\n| --- | --- | --- | --- | --- |\n");
    for run in disturbed {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {:.1} % | {:.1} % |",
            run.row,
            run.round + 1,
            run.server,
            100.0 * run.steal,
            100.0 * run.foreign
        );
    }
}

pub(super) fn conditions(out: &mut String, machine: &Machine) {
    let place = match machine.siblings {
        true => "on two threads of **the same core**, so that each slows the other",
        false => "on a core each",
    };
    let kernel_tls = match machine.kernel_tls {
        true => "available",
        false => "not available",
    };
    let _ = write!(
        out,
        "\n## Conditions\n\n| | |\n| --- | --- |\n\
         | date | {} |\n| commit | {} |\n| command | `{}` |\n\
         | network | loopback of a namespace, MTU {} bytes |\n\
         | CPU | {}, {} logical; server and client {place} |\n\
         | memory | {:.1} GiB |\n| system | {}, Linux {}; kernel TLS {kernel_tls} |\n\
         | clients | {} |\n",
        machine.date,
        machine.commit,
        machine.command,
        machine.mtu,
        machine.cpu,
        machine.cores,
        machine.memory_gib,
        machine.system,
        machine.kernel,
        machine.clients.join("; "),
    );
    for (name, version) in &machine.servers {
        let _ = writeln!(out, "| {name} | {version} |");
    }
}
