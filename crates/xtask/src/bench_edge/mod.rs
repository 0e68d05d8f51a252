//! `make bench-edge`: the cost of the edge server, beside nginx (`docs/benchmarks.md`).
//!
//! Servers run on one core, load generators on another, over loopback. The benchmark writes a
//! report in Markdown and, beside it, every run as a JSON line.
//!
//! ```text
//! cargo build --release -p hikyaku
//! cargo xtask bench-edge
//! ```

mod analysis;
mod arm;
mod core_bench;
mod generator;
mod host;
mod memory;
mod process;
mod report;
mod rounds;
mod server;
mod stats;
mod sys;

use std::env;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hikyaku_testkit::agent::Agent;
use serde::Serialize;

use analysis::Results;
use arm::{ARMS, Arm, Http, ServerKind};
use host::Machine;
use process::Stop;
use server::Workspace;

/// Options of `cargo xtask bench-edge`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// File of the report; the runs go beside it, as .jsonl
    #[arg(long, value_name = "FILE", default_value = "build/bench-edge/edge.md")]
    out: PathBuf,

    /// Rounds; each has one run of every arm
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,

    /// Time of a run, at least and roughly, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    time: f64,

    /// Idle connections
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=15_000))]
    idle: u64,

    /// One short round and few connections, to see whether everything works; the figures are of no
    /// use
    #[arg(long, conflicts_with_all = ["rounds", "time", "idle"])]
    quick: bool,

    /// Only the cost of `[egress]`: small files with it and without
    #[arg(long)]
    egress: bool,

    /// The binary that is measured
    #[arg(long, value_name = "FILE", default_value = "target/release/hikyaku")]
    binary: PathBuf,

    /// Another build, which runs every load of hikyaku in the same rounds
    #[arg(long, value_name = "FILE")]
    before: Option<PathBuf>,

    /// CPU of the servers
    #[arg(long, value_name = "CPU", default_value_t = 0)]
    server_cpu: usize,

    /// CPU of the load generators
    #[arg(long, value_name = "CPU", default_value_t = 1)]
    client_cpu: usize,

    /// Directory, on a disk, for the served files
    #[arg(long, value_name = "DIR", default_value = "build/bench-edge")]
    dir: PathBuf,
}

/// Measures, and writes the report.
pub(crate) fn run(mut args: Args) -> Result<()> {
    if args.quick {
        (args.rounds, args.time, args.idle) = (1, 0.2, 200);
    }
    ensure!(
        args.server_cpu != args.client_cpu,
        "server and load generators need a CPU each: give another --client-cpu"
    );
    let time = Duration::try_from_secs_f64(args.time).context("reading --time")?;
    let machine = Machine::describe(args.server_cpu, args.client_cpu)?;
    let stop = stop_on_signal()?;
    let binaries = (args.binary.as_path(), args.before.as_deref());
    let workspace = Workspace::prepare(&args.dir, binaries, (args.server_cpu, args.client_cpu))?;
    let raw = args.out.with_extension("jsonl");
    let mut lines = Lines::create(&raw)?;
    lines.write("machine", &machine)?;

    let _agent = Agent::start(workspace.agent());
    let arms = arms(args.egress, args.before.is_some());
    let runs = rounds::run(&workspace, &arms, args.rounds.into(), time, &stop, |run| {
        eprintln!("{}", report::progress(run));
        lines.write("run", run)
    })?;
    let mut results = Results {
        runs,
        idle: Vec::new(),
        decision: None,
        estimates: Vec::new(),
    };
    if !args.egress {
        results.idle = idle(&workspace, &args, &stop, &mut lines)?;
        results.decision = Some(core_bench::decision(&workspace, &stop)?);
        results.estimates = core_bench::estimates(&workspace, &stop)?;
    }
    if let Some(decision) = &results.decision {
        lines.write("decision", decision)?;
    }
    for case in &results.estimates {
        lines.write("estimates", case)?;
    }
    for goal in results.goals() {
        lines.write("goal", &goal)?;
    }
    lines.flush()?;
    let name = raw.file_name().unwrap_or_default().to_string_lossy();
    let report = report::markdown(&machine, &results, &name);
    fs::write(&args.out, report).with_context(|| format!("writing {}", args.out.display()))?;
    eprintln!("wrote {} and {}", args.out.display(), raw.display());
    Ok(())
}

/// All arms, or those with egress routes and their peers without. Where builds are compared, each
/// arm of hikyaku is followed by the same load on the other build.
fn arms(only_egress: bool, compared: bool) -> Vec<Arm> {
    let with_before = |arm: Arm| [Some(arm), arm.before().filter(|_| compared)];
    let arms = of_this_build(only_egress).into_iter();
    arms.flat_map(with_before).flatten().collect()
}

fn of_this_build(only_egress: bool) -> Vec<Arm> {
    let compared: Vec<Arm> = ARMS.into_iter().filter_map(Arm::without_egress).collect();
    let concerned = |arm: &Arm| arm.server == ServerKind::Egress || compared.contains(arm);
    let all = ARMS.into_iter();
    all.filter(|arm| !only_egress || concerned(arm)).collect()
}

fn idle(
    workspace: &Workspace,
    args: &Args,
    stop: &Stop,
    lines: &mut Lines,
) -> Result<Vec<memory::Idle>> {
    let client = env::current_exe()?;
    let count = args.idle;
    let mut arms = vec![
        (ServerKind::Nginx, Http::H2),
        (ServerKind::Hikyaku, Http::H2),
        (ServerKind::Hikyaku, Http::H3),
    ];
    if args.before.is_some() {
        arms.extend([Http::H2, Http::H3].map(|http| (ServerKind::Before, http)));
    }
    let mut all = Vec::new();
    for (server, http) in arms {
        let number = http.number();
        let idle = memory::measure(workspace, (server, http), count, &client, stop)
            .with_context(|| format!("measuring idle connections of {server}, HTTP/{number}"))?;
        let each = idle.kib_each();
        eprintln!("{count} idle connections: {server}, HTTP/{number}: {each:.1} KiB each");
        lines.write("idle", &idle)?;
        all.push(idle);
    }
    Ok(all)
}

/// The file of JSON lines.
struct Lines {
    path: PathBuf,
    file: BufWriter<File>,
}

#[derive(Serialize)]
struct Line<'a, T> {
    r#type: &'static str,
    #[serde(flatten)]
    content: &'a T,
}

impl Lines {
    fn create(path: &Path) -> Result<Self> {
        let attempt = || {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            File::create(path)
        };
        let file = attempt().with_context(|| format!("creating {}", path.display()))?;
        Ok(Self {
            path: path.to_owned(),
            file: BufWriter::new(file),
        })
    }

    fn write(&mut self, r#type: &'static str, content: &impl Serialize) -> Result<()> {
        let line = serde_json::to_string(&Line { r#type, content })?;
        writeln!(self.file, "{line}").with_context(|| format!("writing {}", self.path.display()))
    }

    fn flush(&mut self) -> Result<()> {
        self.file
            .flush()
            .with_context(|| format!("writing {}", self.path.display()))
    }
}

/// On Ctrl-C and SIGTERM, ends processes and removes files in order.
fn stop_on_signal() -> Result<Arc<Stop>> {
    use tokio::signal::unix::{SignalKind, signal};
    let stop = Arc::new(Stop::default());
    let stopped = Arc::clone(&stop);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    // Registered before this returns, so that no signal finds the default action.
    let (mut interrupt, mut terminate) = {
        let _context = runtime.enter();
        (
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
        )
    };
    thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        stopped.set();
    });
    Ok(stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_load_of_hikyaku_is_followed_by_the_build_before() {
        let both = arms(false, true);
        let of = |kind| both.iter().filter(move |arm| arm.server == kind).count();
        assert_eq!(of(ServerKind::Before), of(ServerKind::Hikyaku));
        for (index, before) in both.iter().enumerate() {
            if before.server == ServerKind::Before {
                assert_eq!(both[index - 1].before(), Some(*before));
            }
        }
        assert_eq!(arms(false, false), ARMS);
    }
}
