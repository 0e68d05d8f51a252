//! `hikyaku lab`: emulated networks, and experiments on them.

use std::io;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use hikyaku_emulator::clean::{self, CleanArgs};
use hikyaku_emulator::interrupt;
use hikyaku_emulator::selftest::{self, SelftestArgs};
use hikyaku_emulator::shell::{self, ShellArgs};
use hikyaku_lab::all::{self, AllArgs};
use hikyaku_lab::experiment::{self, ListArgs, RunArgs};
use hikyaku_lab::fit::{self, FitArgs};
use hikyaku_lab::report::{self, ReportArgs};
use hikyaku_lab::sim::{self, SimArgs};

/// Arguments of `hikyaku lab`.
#[derive(Debug, Args)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the experiments that come with the program.
    List(ListArgs),
    /// Measure experiments over emulated links.
    Run(Box<RunArgs>),
    /// Measure every experiment, or a part of them.
    All(AllArgs),
    /// Run experiments in simulation; needs no root.
    Sim(Box<SimArgs>),
    /// Fit the model of the servers' decisions to measurements, and check it.
    Fit(FitArgs),
    /// Show the rates and delays of emulated links on this machine, beside their settings.
    Selftest(SelftestArgs),
    /// Make pages with plots and tables of the measurements.
    Report(ReportArgs),
    /// Build a network and open a shell inside.
    Shell(ShellArgs),
    /// Remove the leftovers of killed labs, and nothing else.
    Clean(CleanArgs),
}

/// Runs the subcommand and returns its exit status.
pub(crate) fn run(args: &LabArgs) -> anyhow::Result<ExitCode> {
    let out = &mut io::stdout().lock();
    let status = match &args.command {
        Command::List(args) => experiment::list(args, out)?,
        Command::Run(args) => experiment::run(args, out)?,
        Command::All(args) => all::run(args, out)?,
        Command::Sim(args) => sim::run(args, out)?,
        Command::Report(args) => report::run(args, out)?,
        Command::Selftest(args) => {
            interrupt::clean_up_when_asked_to_end()?;
            selftest::run(args, out)?
        }
        Command::Fit(args) => fit::run(args, out)?,
        Command::Shell(args) => shell::run(args, out)?,
        Command::Clean(args) => clean::run(args, out)?,
    };
    Ok(ExitCode::from(status))
}
