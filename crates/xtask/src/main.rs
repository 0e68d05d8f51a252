//! Tasks of hikyaku's developers: `cargo xtask TASK`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for the terminal"
)]

mod arrows;
mod attack;
mod bench_edge;
mod idle;
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
    /// Measures the cost of the edge server, beside nginx.
    BenchEdge(bench_edge::Args),
    /// Holds idle connections open until standard input ends.
    Idle(idle::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().task {
        Task::Arrows => arrows::run(),
        Task::Attack(args) => attack::run(&args),
        Task::BenchEdge(args) => bench_edge::run(args),
        Task::Idle(args) => idle::run(&args),
    }
}
