//! Tasks of hikyaku's developers: `cargo xtask TASK`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for the terminal"
)]

mod arrows;
mod attack;
mod bench;
#[cfg(test)]
mod where_is;

use clap::{Parser, Subcommand};

/// Tasks of hikyaku's developers.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", version)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Prints the arrows between crates and modules, and fails on a forbidden one or a circle.
    Arrows,
    /// Attacks servers on loopback, and reports their memory, CPU time and an honest client's
    /// waiting time.
    Attack(attack::Args),
    /// Measures the cost of the edge server, beside other servers and builds.
    Bench(bench::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().task {
        Task::Arrows => arrows::run(),
        Task::Attack(args) => attack::run(&args),
        Task::Bench(args) => bench::run(&args),
    }
}
