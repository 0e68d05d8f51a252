//! Runs experiments over emulated links: `hikyaku lab run`.

mod access_log;
mod browser;
mod certificate;
mod control;
mod cpu_wait;
mod crowd;
mod epe;
mod error;
mod experiment;
mod fetch;
mod fleet;
mod flows;
mod get;
mod lane;
mod measured;
mod peer;
mod plan;
mod pool;
mod process;
mod programs;
mod progress;
mod server;
mod session;
mod setup;
mod stop;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;

use super::record::Conditions;
use certificate::Certificate;
use experiment::Experiment;
use hikyaku_emulator::link::KeepAwake;
use hikyaku_emulator::link::privileges;
use hikyaku_emulator::link::scratch::Scratch;
use lane::Shared;
use pool::Pool;
use progress::{Load, Progress};

pub(crate) use error::Attempt;
pub use error::RunError;
pub(crate) use measured::Measured;
pub(crate) use plan::{RunSize, seed};
pub(crate) use progress::span;
pub(crate) use setup::only;
pub(crate) use stop::Stop;

/// Measure experiments over emulated links.
///
/// Runs this program as server and client in network namespaces that emulated links join. Writes
/// one JSON line for each session. Sessions that already have a record of the same binary,
/// experiment and seed are not measured again. Needs root.
#[derive(Clone, Debug, clap::Args)]
pub struct RunArgs {
    /// Experiments by their names (`hikyaku lab list`), or TOML files. Several are
    /// measured side by side
    #[arg(value_name = "NAME|FILE", required = true)]
    pub experiments: Vec<String>,

    /// Measure only the experiment's `[quick]` part, to see whether everything works
    #[arg(long)]
    pub quick: bool,

    /// Seed of all random streams [default: the experiment's]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Directory of the records [default: build/lab/NAME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Directory with one for each experiment, where `out` names none.
    #[arg(skip = "build/lab")]
    pub below: PathBuf,

    /// Pairs of namespaces side by side; slow runs hardly load the machine
    #[arg(long, value_name = "N", default_value_t = DEFAULT_LANES, value_parser = clap::value_parser!(u16).range(1..=250))]
    pub lanes: u16,

    /// Largest sum of the rates of all lanes together, in Mbit/s [default: 130 for each CPU]
    #[arg(long, value_name = "MBPS")]
    pub capacity: Option<f64>,

    /// Number of repeats of each cell [default: the experiment's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeats: Option<u32>,

    /// Only cells with this value of an axis, such as `rate=50Mbps`; several values of an axis add
    /// up
    #[arg(long, value_name = "AXIS=VALUE")]
    pub only: Vec<String>,

    /// Only these arms
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub arms: Vec<String>,

    /// Program that serves and fetches [default: this one]
    #[arg(long, value_name = "FILE")]
    pub binary: Option<PathBuf>,

    /// Keep the servers' logs, and print their directory
    #[arg(long)]
    pub keep: bool,
}

/// Enough for slow runs side by side; more lanes cost the machine more than they gain.
pub(crate) const DEFAULT_LANES: u16 = 20;

/// Measures, and writes the progress and results to `out`. Returns the exit status: 0 if every
/// session was measured, 1 if some failed, 128 and the signal's number if one came first.
///
/// # Errors
/// If an experiment or an option is wrong, or nothing can be measured.
pub fn run(args: &RunArgs, out: &mut dyn Write) -> Result<u8, RunError> {
    let sources = setup::load(args)?;
    // Before anything is written.
    privileges::check()?;
    // Before anything exists that a signal would leave behind.
    let stop = Stop::on_signal()?;
    let scratch = Scratch::create(args.keep)?;
    let binary = copy_binary(args.binary.as_deref(), scratch.path())?;
    let conditions = Conditions::collect(&binary)?;
    let experiments = sources
        .into_iter()
        .enumerate()
        .map(|(i, source)| {
            setup::open(
                args,
                source,
                &conditions,
                &binary,
                &scratch.path().join(format!("{i}")),
            )
        })
        .collect::<Result<Vec<_>, _>>()?;
    for experiment in &experiments {
        print_line(out, &experiment.introduction())?;
        for line in &experiment.left_out {
            print_line(out, &format!("{}: {line}", experiment.name))?;
        }
        experiment.prepare()?;
    }
    let shared = Shared {
        binary,
        scratch: scratch.path().to_owned(),
        certificate: Certificate::create(scratch.path())?,
        stop,
    };
    measure(args, &experiments, &shared, out)?;
    if args.keep {
        print_line(
            out,
            &format!("the servers' logs are in {}", shared.scratch.display()),
        )?;
    }
    finish(&experiments, &shared, out)
}

fn measure(
    args: &RunArgs,
    experiments: &[Experiment],
    shared: &Shared,
    out: &mut dyn Write,
) -> Result<(), RunError> {
    let capacity = args.capacity.unwrap_or_else(default_capacity);
    let mut jobs = plan::jobs(experiments, capacity);
    jobs.retain(|job| {
        let experiment = &experiments[job.experiment];
        let keys: Vec<_> = job.keys(&experiment.spec).collect();
        !experiment.data.is_run_done(&keys)
    });
    let lanes = usize::from(args.lanes);
    let shortest = Load::of(&jobs).seconds(capacity, lanes as f64);
    let about = span(std::time::Duration::from_secs_f64(shortest));
    print_line(out, &format!("{} runs to go, at least {about}", jobs.len()))?;
    let progress = Progress::new(&jobs, capacity, lanes);
    let awake = KeepAwake::start();
    let result = Pool::new(jobs, lanes, capacity, shared, experiments, &progress).run();
    drop(awake);
    progress.finish();
    result
}

fn finish(
    experiments: &[Experiment],
    shared: &Shared,
    out: &mut dyn Write,
) -> Result<u8, RunError> {
    let mut failed = 0;
    for experiment in experiments {
        print_line(out, &experiment.conclusion())?;
        failed += experiment.data.tally().failed;
    }
    if shared.stop.is_set() {
        print_line(out, "stopped; run the same command again to go on")?;
        return Ok(shared.stop.code());
    }
    Ok(u8::from(failed > 0))
}

fn print_line(out: &mut dyn Write, line: &str) -> Result<(), RunError> {
    writeln!(out, "{line}").attempt(|| "writing to standard output".to_owned())
}

/// Returns the rate in Mbit/s that a machine with this number of CPUs can carry.
fn default_capacity() -> f64 {
    130.0 * thread::available_parallelism().map_or(1, usize::from) as f64
}

/// Copies the program to be measured, so that a new build does not change it.
fn copy_binary(binary: Option<&Path>, scratch: &Path) -> Result<PathBuf, RunError> {
    let from = binary.unwrap_or(Path::new("/proc/self/exe"));
    let to = scratch.join("hikyaku");
    fs::copy(from, &to).attempt(|| format!("copying the program {}", from.display()))?;
    Ok(to)
}
