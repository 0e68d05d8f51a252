//! Tasks of hikyaku's developers: `cargo xtask TASK`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for the terminal"
)]

mod arrows;
mod attack;
mod bench;
mod fleet;
mod sites;
mod usage;
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
    /// Measures the cost of a fleet's store, for edges and for the store.
    Fleet(fleet::Args),
    /// Measures a server with many sites: the time to its first answer, its memory, and the pause at a
    /// reload.
    Sites(sites::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().task {
        Task::Arrows => arrows::run(),
        Task::Attack(args) => attack::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::Fleet(args) => fleet::run(&args),
        Task::Sites(args) => sites::run(&args),
    }
}
