//! The report: Markdown for people, JSON lines for machines.

use std::fmt::Write;

use super::analysis::{Figure, Results, times};
use super::arm::{ARMS, Arm, Load};
use super::host::Machine;
use super::rounds::{FOREIGN_LIMIT, Run, STEAL_LIMIT};
use super::stats::Spread;

/// The whole report. Writing into a `String` does not fail.
pub(super) fn markdown(machine: &Machine, results: &Results, raw: &str) -> String {
    let mut out = String::from("# What the edge server costs\n\n");
    let rounds = results.runs.iter().map(|run| run.round + 1).max();
    let _ = writeln!(
        out,
        "Medians over {} paired round(s), with the smallest and largest in parentheses. In each \
         round every arm runs once, in an order that turns from round to round; ratios are \
         made within a round. `docs/benchmarks.md` says how everything is measured; every \
         run is in [{raw}]({raw}).\n",
        rounds.unwrap_or(0)
    );
    goals(&mut out, results);
    before(&mut out, results);
    large(&mut out, results);
    small(&mut out, results);
    egress(&mut out, results);
    memory(&mut out, results);
    core(&mut out, results);
    disturbances(&mut out, results);
    conditions(&mut out, machine);
    out
}

fn goals(out: &mut String, results: &Results) {
    let goals = results.goals();
    if goals.is_empty() {
        return;
    }
    out.push_str("## Goals\n\n| | goal | reached | |\n| --- | --- | --- | --- |\n");
    for goal in goals {
        let met = match goal.met {
            true => "yes",
            false => "**no**",
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {met} |",
            goal.what, goal.goal, goal.reached
        );
    }
}

/// The arms of a load that were measured.
fn measured(results: &Results, load: Load) -> Vec<Arm> {
    let ran = |arm: &Arm| arm.load == load && results.of(*arm).next().is_some();
    ARMS.into_iter().filter(ran).collect()
}

/// This build's cost beside that of the other one (`--before`).
fn before(out: &mut String, results: &Results) {
    let mut rows = String::new();
    for arm in ARMS {
        let ratio = |before| results.ratio(arm, before, Run::cpu_per_gib);
        let Some(ratio) = arm.before().and_then(ratio) else {
            continue;
        };
        let cell = precise(ratio);
        let _ = writeln!(rows, "| {arm} | {cell} |");
    }
    if rows.is_empty() {
        return;
    }
    out.push_str(
        "\n## Beside the build before\n\nThe server's CPU time for the same work, of that of \
         the build before, in the same round.\n\n| load | CPU time |\n| --- | --- |\n",
    );
    out.push_str(&rows);
}

fn large(out: &mut String, results: &Results) {
    let arms = measured(results, Load::Large);
    if arms.is_empty() {
        return;
    }
    out.push_str(
        "\n## Large files\n\nServer CPU-seconds per GiB: 256 MiB files from the disk's file \
         system (in the page cache), one after the other on one connection.\n\n\
         | server | HTTP | client | CPU-s/GiB | of nginx's | Gbit/s |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    let gbit_per_s: Figure = |run| run.body_bytes as f64 * 8.0 / run.elapsed_s / 1e9;
    for arm in arms {
        let cells = [
            cell(results.spread(arm, Run::cpu_per_gib), 3),
            versus(results, arm, Run::cpu_per_gib),
            cell(results.spread(arm, gbit_per_s), 1),
        ];
        row(out, arm, &cells);
    }
    let best = results.nginx_h2_large();
    let _ = writeln!(
        out,
        "\nHTTP/2 and HTTP/3 are compared with nginx's HTTP/2 at the frame size that costs it \
         less, here \"{}\". Clients differ in how they read: compare arms of the same client.",
        best.server
    );
}

fn small(out: &mut String, results: &Results) {
    out.push_str(
        "\n## Small files\n\nRequests for a file of 1 KiB, 64 at once: on HTTP/1.1 over 64 \
         connections, on HTTP/2 and HTTP/3 over one. Where the server's core was not busy, \
         the client's was, and the rate per CPU-second shows the limit of the server.\n\n\
         | server | HTTP | client | requests/s | of nginx's | server busy \
         | requests per server CPU-second | of nginx's |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for arm in measured(results, Load::Small) {
        let busy = results.spread(arm, Run::busy);
        let cells = [
            cell(results.spread(arm, Run::requests_per_s), 0),
            versus(results, arm, Run::requests_per_s),
            busy.map_or_else(String::new, |busy| format!("{:.0} %", 100.0 * busy.median)),
            cell(results.spread(arm, Run::requests_per_cpu_s), 0),
            versus(results, arm, Run::requests_per_cpu_s),
        ];
        row(out, arm, &cells);
    }
    out.push_str("\nHTTP/3 is compared with nginx's HTTP/2 by h2load.\n");
}

fn egress(out: &mut String, results: &Results) {
    out.push_str(
        "\n## Egress paths\n\nThe small files by a server that has two egress paths to choose from, \
         by the same server without (`[egress]`), in the same round.\n\n\
         | HTTP | client | requests/s | requests per server CPU-second |\n\
         | --- | --- | --- | --- |\n",
    );
    for arm in ARMS {
        let Some(without) = arm.without_egress() else {
            continue;
        };
        let ratio = |figure| results.ratio(arm, without, figure);
        let [rate, cpu] = [Run::requests_per_s, Run::requests_per_cpu_s]
            .map(|figure: Figure| ratio(figure).map_or_else(String::new, precise));
        let (http, client) = (arm.http.number(), arm.generator);
        let _ = writeln!(out, "| {http} | {client} | {rate} | {cpu} |");
    }
}

/// Prints `0.987 (0.975-0.994)`, since differences are small here.
fn precise(ratio: Spread) -> String {
    cell(Some(ratio), 3)
}

fn row(out: &mut String, arm: Arm, cells: &[String]) {
    let _ = writeln!(
        out,
        "| {} | {} | {} | {} |",
        arm.server,
        arm.http.number(),
        arm.generator,
        cells.join(" | ")
    );
}

fn versus(results: &Results, arm: Arm, figure: Figure) -> String {
    let ratio = results
        .peer(arm)
        .and_then(|peer| results.ratio(arm, peer, figure));
    ratio.map_or_else(String::new, times)
}

fn cell(spread: Option<Spread>, decimals: usize) -> String {
    let Some(Spread { median, min, max }) = spread else {
        return String::new();
    };
    format!("{median:.decimals$} ({min:.decimals$}-{max:.decimals$})")
}

fn memory(out: &mut String, results: &Results) {
    if results.idle.is_empty() {
        return;
    }
    out.push_str(
        "\n## Idle connections\n\nMemory of the server (PSS) with all of them open after one \
         request each, less that of the fresh server. What the kernel needs for sockets is not \
         in it.\n\n\
         | server | HTTP | connections | KiB each | server before, MiB | with, MiB | opened in, s |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    for idle in &results.idle {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {:.1} | {:.1} | {:.1} | {:.1} |",
            idle.server,
            idle.http.number(),
            idle.connections,
            idle.kib_each(),
            mib(idle.before),
            mib(idle.with),
            idle.opened_s
        );
    }
}

fn core(out: &mut String, results: &Results) {
    let Some(decision) = &results.decision else {
        return;
    };
    let _ = writeln!(
        out,
        "\n## Decisions and estimates\n\nOne decision: median {:.0} ns, 99th percentile {:.0} ns; \
         looking the client up: {:.0} ns on average (`cargo bench -p hikyaku-core --bench \
         decide`).\n\nMemory of the client table (`cargo run --release -p hikyaku-core --example \
         memory`):\n\n\
         | clients | | bytes a client | while it grows |\n| --- | --- | --- | --- |",
        decision.median_ns, decision.p99_ns, decision.view_ns
    );
    for case in &results.estimates {
        let _ = writeln!(
            out,
            "| {} | {} | {:.1} | {:.1} |",
            case.clients, case.case, case.bytes_per_client, case.peak_bytes_per_client
        );
    }
}

fn disturbances(out: &mut String, results: &Results) {
    let disturbed: Vec<&Run> = results.runs.iter().filter(|run| run.disturbed()).collect();
    let (steal, foreign) = (100.0 * STEAL_LIMIT, 100.0 * FOREIGN_LIMIT);
    let _ = writeln!(
        out,
        "\n## Disturbances\n\nRuns in which the hypervisor took more than {steal:.0} % of the two \
         CPUs, or others more than {foreign:.0} % of the server's: {} of {}. They are in the \
         figures.\n",
        disturbed.len(),
        results.runs.len()
    );
    if disturbed.is_empty() {
        return;
    }
    out.push_str("| round | arm | stolen | others |\n| --- | --- | --- | --- |\n");
    for run in disturbed {
        let _ = writeln!(
            out,
            "| {} | {} | {:.1} % | {:.1} % |",
            run.round + 1,
            run.arm,
            100.0 * run.steal,
            100.0 * run.foreign
        );
    }
}

fn conditions(out: &mut String, machine: &Machine) {
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
         | CPU | {}, {} logical; server and client {place} |\n\
         | memory | {:.1} GiB |\n| system | {}, Linux {}; kernel TLS {kernel_tls} |\n\
         | nginx | {} (`conf/bench/nginx.conf.in`) |\n| clients | {}; {} |\n",
        machine.date,
        machine.commit,
        machine.command,
        machine.cpu,
        machine.cores,
        machine.memory_gib,
        machine.system,
        machine.kernel,
        machine.nginx,
        machine.h2load,
        machine.curl
    );
}

/// Prints a run in one line, for progress.
pub(super) fn progress(run: &Run) -> String {
    let Run { round, arm, .. } = run;
    let figure = match arm.load {
        Load::Large => format!("{:.3} CPU-s/GiB", run.cpu_per_gib()),
        Load::Small => format!("{:.0} requests/s", run.requests_per_s()),
    };
    let mark = match run.disturbed() {
        true => " (disturbed)",
        false => "",
    };
    format!("round {}: {arm}: {figure}{mark}", round + 1)
}
