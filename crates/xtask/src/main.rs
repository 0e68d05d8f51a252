//! Tasks of hikyaku's developers: `cargo xtask TASK`.

mod attack;

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
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().task {
        Task::Attack(args) => attack::run(&args),
    }
}
