//! `make bench`: the cost of the edge server, beside other servers (`docs/benchmarks.md`).
//!
//! Servers run on one core, clients on another, over the loopback of a namespace. The benchmark
//! writes a report in Markdown and, beside it, every run as a JSON line.
//!
//! ```text
//! cargo build --release -p hikyaku
//! cargo xtask bench
//! ```

mod arms;
mod clients;
mod core_bench;
mod figures;
mod host;
mod lines;
mod namespace;
mod process;
mod report;
mod rounds;
mod rows;
mod server;
mod stats;
mod sys;
mod workspace;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hikyaku_testkit::agent::Agent;

use arms::{Arm, Build, Peer, Program};
use clients::Scene;
use host::Machine;
use lines::Lines;
use report::Results;
use rounds::{Extent, Measurement};
use rows::Row;
use server::{Cpus, Server};
use workspace::Workspace;

/// Options of `cargo xtask bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// File of the report; the runs go beside it, as .jsonl
    #[arg(long, value_name = "FILE", default_value = "build/bench/edge.md")]
    out: PathBuf,

    /// Rows, by names or their beginnings; `table`, `curves` and `all` are groups
    #[arg(
        long,
        value_name = "ROWS",
        value_delimiter = ',',
        default_value = "table"
    )]
    rows: Vec<String>,

    /// Servers beside hikyaku
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "nginx,caddy,haproxy,h2o,pinned,egress,files"
    )]
    peers: Vec<Peer>,

    /// Rounds; each has one run of every server
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,

    /// Time of a run, at least and roughly, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    time: f64,

    /// One short round with small files and few connections, to see whether everything works; the
    /// figures are of no use
    #[arg(long, conflicts_with_all = ["rounds", "time"])]
    quick: bool,

    /// The daily comparison with --before: few rows and no other servers. It fails if a figure is
    /// worse by more than 5 %
    #[arg(long, requires = "before", conflicts_with_all = ["rows", "peers", "quick"])]
    short: bool,

    /// The binary that is measured
    #[arg(long, value_name = "FILE", default_value = "target/release/hikyaku")]
    binary: PathBuf,

    /// Another build, which runs every row of hikyaku in the same rounds; may be given several times
    #[arg(long, value_name = "[NAME=]FILE")]
    before: Vec<Build>,

    /// CPU of the servers
    #[arg(long, value_name = "CPU", default_value_t = 0)]
    server_cpu: usize,

    /// CPU of the clients
    #[arg(long, value_name = "CPU", default_value_t = 1)]
    client_cpu: usize,

    /// Directory, on a disk, for the served files
    #[arg(long, value_name = "DIR", default_value = "build/bench")]
    dir: PathBuf,

    /// Prints the rows, and measures nothing
    #[arg(long)]
    list: bool,
}

/// The share by which a figure of the short form may be worse.
const LIMIT: f64 = 0.05;

/// The rows, the servers and the extent of a measurement.
struct Plan {
    rows: Vec<Row>,
    arms: Vec<Arm>,
    extent: Extent,
    cpus: Cpus,
    /// Whether the core's own benchmarks run.
    core: bool,
}

/// Measures, and writes the report.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.list {
        for row in rows::all(false) {
            println!("{:22} {}", row.id, row.describe());
        }
        return Ok(());
    }
    let plan = plan(args)?;
    namespace::enter()?;
    let stop = process::stop_on_signal()?;
    process::raise_file_limit();
    let workspace = Workspace::prepare(&args.dir, &plan.rows)?;
    let machine = Machine::describe(plan.cpus, &plan.arms)?;
    let raw = args.out.with_extension("jsonl");
    let mut lines = Lines::create(&raw)?;
    lines.write("machine", &machine)?;
    let scene = Scene {
        workspace: &workspace,
        cpus: plan.cpus,
        stop: &stop,
    };
    let results = measure(&plan, scene, &machine, &mut lines)?;
    lines.flush()?;
    let name = raw.file_name().unwrap_or_default().to_string_lossy();
    let text = report::markdown(&results, &name);
    fs::write(&args.out, text).with_context(|| format!("writing {}", args.out.display()))?;
    eprintln!("wrote {} and {}", args.out.display(), raw.display());
    verdict(&results, args.short)
}

fn plan(args: &Args) -> Result<Plan> {
    let cpus = Cpus {
        server: args.server_cpu,
        client: args.client_cpu,
    };
    ensure!(
        cpus.server != cpus.client && cpus.server.max(cpus.client) < host::cpu_count(),
        "server and clients need a CPU each: give others of this machine's {} by --server-cpu and \
         --client-cpu",
        host::cpu_count()
    );
    let time = Duration::try_from_secs_f64(args.time).context("reading --time")?;
    let extent = match (args.quick, args.short) {
        (true, _) => Extent {
            rounds: 1,
            time: Duration::from_millis(200),
        },
        _ => Extent {
            rounds: args.rounds.into(),
            time,
        },
    };
    let (names, peers) = match args.short {
        true => (rows::SHORT.map(str::to_owned).to_vec(), Vec::new()),
        false => (args.rows.clone(), args.peers.clone()),
    };
    let rows = rows::choose(rows::all(args.quick), &names)?;
    let arms = arms::arms(&args.binary, &args.before, &peers)?;
    find_clients(&rows, &arms)?;
    Ok(Plan {
        core: !args.quick && names.iter().any(|name| name == "table" || name == "all"),
        rows,
        arms,
        extent,
        cpus,
    })
}

/// Fails early if a program that the rows need is missing.
fn find_clients(rows: &[Row], arms: &[Arm]) -> Result<()> {
    for row in rows {
        arms::find(clients::program(row))?;
    }
    if rows.iter().any(|row| rounds::needs_upstream(row, arms)) {
        arms::find("nginx").context("finding the upstream of proxies")?;
    }
    Ok(())
}

fn measure<'a>(
    plan: &'a Plan,
    scene: Scene<'_>,
    machine: &'a Machine,
    lines: &mut Lines,
) -> Result<Results<'a>> {
    let Plan { rows, arms, .. } = plan;
    let egress = arms.iter().any(|arm| arm.program == Program::Egress);
    let _agent = egress.then(|| Agent::start(scene.workspace.agent()));
    let upstream = rows.iter().any(|row| rounds::needs_upstream(row, arms));
    let upstream = upstream.then(|| Server::start_upstream(scene.workspace, plan.cpus, scene.stop));
    let upstream = upstream.transpose().context("starting the upstream")?;
    let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let mut results = Results {
        machine,
        rows,
        arms,
        runs: Vec::new(),
        failures: Vec::new(),
        core: None,
    };
    for row in rows {
        let measurement = Measurement {
            scene,
            row,
            extent: plan.extent,
            origin: upstream.as_ref().map_or(nowhere, Server::address),
        };
        let (runs, failures) = measurement.run(arms, |run| {
            eprintln!("{}", report::progress(run, row));
            lines.write("run", run)
        })?;
        for failure in &failures {
            eprintln!(
                "{}: {} FAILED: {}",
                failure.row, failure.server, failure.fault
            );
            lines.write("failure", failure)?;
        }
        results.runs.extend(runs);
        results.failures.extend(failures);
    }
    if plan.core {
        let core = core_bench::measure(scene.workspace.path(), plan.cpus.server, scene.stop)?;
        lines.write("core", &core)?;
        results.core = Some(core);
    }
    Ok(results)
}

/// Fails if a server could not run a row, or if the short form finds a figure that got worse.
fn verdict(results: &Results<'_>, short: bool) -> Result<()> {
    let worse = match short {
        true => results.worse(LIMIT),
        false => Vec::new(),
    };
    for one in &worse {
        println!(
            "{}: {} is {:.1} % worse than of {}",
            one.row,
            one.figure.name(),
            100.0 * one.share,
            one.build
        );
    }
    ensure!(
        worse.is_empty(),
        "{} figure(s) got worse by more than {:.0} %",
        worse.len(),
        100.0 * LIMIT
    );
    match results.failures.len() {
        0 => Ok(()),
        count => bail!("{count} run(s) failed: see the report"),
    }
}
