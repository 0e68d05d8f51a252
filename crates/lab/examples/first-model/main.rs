//! Measures the first model (`docs/first-model.md`).
//!
//! The shipped binary serves and fetches files over emulated links, on a grid of
//! round-trip time, loss and rate, by each arm. Every run is one JSON line; a
//! second start goes on where the first stopped. Then the model is fitted.
//!
//! ```text
//! cargo build --release -p hikyaku
//! cargo run --release -p hikyaku-lab --example first-model
//! ```
//!
//! Needs root.

#![allow(clippy::print_stderr, reason = "a tool for the terminal")]

mod access_log;
mod client;
mod fit;
mod grid;
mod lane;
mod plan;
mod record;
mod schedule;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use hikyaku_core::model::Model;

use lane::Site;
use plan::Plan;
use record::{Conditions, Data};

/// Measures load times by arm over emulated links and fits a model to them
#[derive(Debug, Parser)]
struct Args {
    /// The binary that is measured: `hikyaku serve` and `hikyaku get`
    #[arg(long, value_name = "FILE", default_value = "target/release/hikyaku")]
    binary: PathBuf,

    /// Runs, one JSON line each; what it holds of the same binary is not measured again
    #[arg(
        long,
        value_name = "FILE",
        default_value = "build/first-model/runs.jsonl"
    )]
    data: PathBuf,

    /// Where the model goes [default: models/default.json; with --quick
    /// build/first-model/quick.json]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Measure a few cells, to see whether everything works; the model is of no use
    #[arg(long)]
    quick: bool,

    /// Fit what the data file holds, measure nothing
    #[arg(long)]
    fit_only: bool,

    /// Seed of all random streams
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Namespace pairs side by side
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u16).range(1..=64))]
    lanes: u16,

    /// Sum of the rates that may be expected on all lanes together, in Mbit/s
    #[arg(long, value_name = "MBPS", default_value_t = 600.0)]
    capacity: f64,

    /// Time after which a download is given up and its load time extrapolated, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    cap: u64,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let plan = if args.quick {
        Plan::quick()
    } else {
        Plan::full()
    };
    let conditions = Conditions::collect(&args.binary, args.seed)?;
    let data = Data::open(&args.data, &conditions)?;
    if !args.fit_only {
        measure(&args, &plan, &conditions, &data)?;
    }
    fit(&args, &plan, &conditions, &data)
}

fn measure(args: &Args, plan: &Plan, conditions: &Conditions, data: &Data) -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "emulated links need root: run this as root"
    );
    let stop = stop_on_signal()?;
    let site = Site::prepare(&args.binary, &plan.sizes, Duration::from_secs(args.cap))?;
    let jobs = plan.jobs(args.seed);
    schedule::run(
        jobs,
        args.lanes.into(),
        args.capacity,
        &site,
        conditions,
        data,
        &stop,
    )?;
    ensure!(
        !stop.load(Ordering::Relaxed),
        "stopped; start again to go on where it stopped"
    );
    Ok(())
}

fn fit(args: &Args, plan: &Plan, conditions: &Conditions, data: &Data) -> Result<()> {
    let file = fit::model(plan, &data.runs(), data.source(conditions)?)?;
    let model = Model::new(file).context("checking the fitted model")?;
    let output = args.output();
    write(output, &(model.to_json() + "\n"))?;
    eprintln!("wrote {}", output.display());
    Ok(())
}

impl Args {
    /// A model of a few cells must not take the place of the shipped one.
    fn output(&self) -> &Path {
        let default = match self.quick {
            true => "build/first-model/quick.json",
            false => "models/default.json",
        };
        self.output.as_deref().unwrap_or(Path::new(default))
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    let attempt = || {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, text)
    };
    attempt().with_context(|| format!("writing {}", path.display()))
}

/// Set by Ctrl-C and SIGTERM, so that namespaces and servers are removed.
fn stop_on_signal() -> Result<Arc<AtomicBool>> {
    use tokio::signal::unix::{SignalKind, signal};
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    // Registered before this returns: no signal finds the default action.
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
        stopped.store(true, Ordering::Relaxed);
        eprintln!("stopping: the runs under way end first");
    });
    Ok(stop)
}
