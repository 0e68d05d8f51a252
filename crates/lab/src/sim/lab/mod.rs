//! Experiments in simulation: `hikyaku lab sim`.

mod jobs;
mod measured;
mod plan;
mod progress;

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use crate::experiment::{
    self, Attempt, Backend, Conditions, Data, RunError, Source, Spec, Stop, only,
};
use jobs::Job;
use progress::Progress;

/// Run experiments in simulation.
///
/// Simulates whole QUIC connections under virtual time, on all CPUs. It needs no root, and the same
/// seed gives the same result. Writes one JSON line for each session, as `hikyaku lab run` does. A
/// session that has a record of the same binary, experiment and seed is not simulated again.
#[derive(Clone, Debug, clap::Args)]
pub struct SimArgs {
    /// Experiments by their names (`hikyaku lab list`), or TOML files
    #[arg(value_name = "NAME|FILE", required = true)]
    pub experiments: Vec<String>,

    /// Simulate only the experiment's `[quick]` part
    #[arg(long)]
    pub quick: bool,

    /// Seed of all random streams [default: the experiment's]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Directory of the records [default: build/lab/NAME, with --cross-check build/lab/NAME-sim]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Number of repeats of each cell [default: the experiment's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeats: Option<u32>,

    /// Only cells with this value of an axis, such as `loss=1%`; several values of an axis
    /// add up
    #[arg(long, value_name = "AXIS=VALUE")]
    pub only: Vec<String>,

    /// Only these arms
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub arms: Vec<String>,

    /// Also take experiments over emulated links, and simulate those of their arms that are
    /// downloads over HTTP/3, for a comparison of the two
    #[arg(long)]
    pub cross_check: bool,

    /// Simulations side by side [default: one for each CPU]
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZeroUsize>,
}

/// Simulates, and writes the progress and results to `out`. Returns the exit status: 0 if every
/// session was simulated, 1 if some failed, 128 and the signal's number if one came first.
///
/// # Errors
/// If an experiment or an option is wrong, or cannot be simulated.
pub fn run(args: &SimArgs, out: &mut dyn Write) -> Result<u8, RunError> {
    let sources = args
        .experiments
        .iter()
        .map(|name| experiment::find(name))
        .collect::<Result<Vec<_>, _>>()?;
    if args.out.is_some() && sources.len() > 1 {
        return argument("`--out` is the place of one experiment: name one only");
    }
    let conditions = Conditions::collect(Path::new("/proc/self/exe"))?;
    let stop = Stop::on_signal()?;
    let mut failed = 0;
    for source in sources {
        failed += one(args, &source, &conditions, &stop, out)?;
        if stop.is_set() {
            print_line(out, "stopped; run the same command again to go on")?;
            return Ok(stop.code());
        }
    }
    Ok(u8::from(failed > 0))
}

/// Simulates one experiment. Returns the number of failed sessions.
fn one(
    args: &SimArgs,
    source: &Source,
    conditions: &Conditions,
    stop: &Stop,
    out: &mut dyn Write,
) -> Result<usize, RunError> {
    let spec = spec(args, source, out)?;
    let seed = args.seed.unwrap_or(spec.seed);
    let cells = only(&args.only, &spec.cells(seed))?;
    let mut jobs = jobs::all(&spec, &cells, seed).map_err(RunError::Arguments)?;
    let mut arguments =
        experiment::arguments(&source.argument, args.repeats, &args.only, &args.arms);
    if spec.backend == Backend::Link {
        arguments.push("--cross-check".to_owned());
    }
    let conditions = Conditions {
        arguments,
        experiment_sha256: source.sha256(),
        quick: args.quick,
        seed,
        ..conditions.clone()
    };
    let directory = args
        .out
        .clone()
        .unwrap_or_else(|| default_out(source, &spec));
    let data = Data::open(
        &directory,
        &source.text,
        &conditions,
        spec.stop_after_timeout,
    )?;
    let total = jobs.len();
    // The same seed fails again, so one attempt is enough.
    let is_done = |job: &Job| data.attempts(&job.key) > 0 || data.is_done(&job.key);
    jobs.retain(|job| !is_done(job));
    print_line(
        out,
        &format!(
            "{}: {} cells, {} arms, {} of {total} sessions to go, records in {}",
            source.name,
            cells.len(),
            spec.arms.len(),
            jobs.len(),
            directory.display()
        ),
    )?;
    let progress = Progress::new(jobs.len());
    let record = |job: &Job| {
        // An earlier repeat may have made this one unnecessary.
        if is_done(job) {
            return Ok(());
        }
        let run = job.run(&source.name, &spec, data.attempts(&job.key), &conditions);
        progress.done(&run);
        data.add(&[run])
    };
    let result = on_all_cpus(args.threads, &jobs, stop, record);
    progress.finish();
    result?;
    let tally = data.tally();
    print_line(
        out,
        &format!(
            "{}: {} sessions complete, {} timed out, {} failed; see them with `hikyaku lab report {}`",
            source.name,
            tally.complete,
            tally.timed_out,
            tally.failed,
            directory.display()
        ),
    )?;
    Ok(tally.failed)
}

/// Returns the experiment, reduced to the parts that can be simulated.
fn spec(args: &SimArgs, source: &Source, out: &mut dyn Write) -> Result<Spec, RunError> {
    let mut spec = source.parse(args.quick)?;
    let name = &source.name;
    if let Some(unknown) = args.arms.iter().find(|arm| spec.arm(arm).is_none()) {
        return argument(format!("`--arms`: {name} has no arm `{unknown}`"));
    }
    spec.arms
        .retain(|arm| args.arms.is_empty() || args.arms.contains(&arm.name));
    if spec.backend == Backend::Link {
        if !args.cross_check {
            return argument(format!(
                "`{name}` runs over emulated links: run it by `{}`, or simulate its downloads \
                 over HTTP/3 with `--cross-check`",
                spec.backend.command()
            ));
        }
        for arm in std::mem::take(&mut spec.arms) {
            match plan::check(&spec, &arm) {
                Ok(()) => spec.arms.push(arm),
                Err(why) => {
                    print_line(out, &format!("{name}: arm `{}` left out: {why}", arm.name))?;
                }
            }
        }
        if spec.arms.is_empty() {
            return argument(format!("no arm of `{name}` can be simulated"));
        }
    }
    if let Some(repeats) = args.repeats {
        spec.repeats = repeats;
        spec.adjust
            .iter_mut()
            .for_each(|adjust| adjust.repeats = None);
    }
    Ok(spec)
}

/// Returns a directory beside that of the records over links.
fn default_out(source: &Source, spec: &Spec) -> PathBuf {
    let name = match spec.backend {
        Backend::Simulation => source.name.clone(),
        Backend::Link => format!("{}-sim", source.name),
    };
    Path::new("build/lab").join(name)
}

/// Runs `each` over the jobs, in their order, until an error or a signal.
fn on_all_cpus(
    threads: Option<NonZeroUsize>,
    jobs: &[Job],
    stop: &Stop,
    each: impl Fn(&Job) -> Result<(), RunError> + Sync,
) -> Result<(), RunError> {
    let threads = threads.map_or_else(
        || thread::available_parallelism().map_or(1, NonZeroUsize::get),
        NonZeroUsize::get,
    );
    let next = Mutex::new(jobs.iter());
    let work = || {
        while !stop.is_set() {
            // The lock is held for one step only.
            let job = next
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .next();
            match job {
                Some(job) => each(job).inspect_err(|_| stop.set())?,
                None => break,
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.min(jobs.len()))
            .map(|_| scope.spawn(work))
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
    })
}

fn argument<T>(why: impl Into<String>) -> Result<T, RunError> {
    Err(RunError::Arguments(why.into()))
}

fn print_line(out: &mut dyn Write, line: &str) -> Result<(), RunError> {
    writeln!(out, "{line}").attempt(|| "writing to standard output".to_owned())
}
