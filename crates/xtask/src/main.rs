//! Tasks of hikyaku's developers: `cargo xtask TASK`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for the terminal"
)]

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
    /// Attacks servers on loopback, and reports their memory, CPU time and what an honest client waits.
    Attack(attack::Args),
    /// Measures what the edge server costs, beside nginx.
    BenchEdge(bench_edge::Args),
    /// Holds idle connections open until standard input ends.
    Idle(idle::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().task {
        Task::Attack(args) => attack::run(&args),
        Task::BenchEdge(args) => bench_edge::run(args),
        Task::Idle(args) => idle::run(&args),
    }
}
