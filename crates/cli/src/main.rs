//! `hikyaku`: a content delivery server that gives every client the transport that is fastest for
//! it, and tools that show why.

mod admin;
mod explain;
mod hint;
mod lab;
mod reload;
mod serve;
mod version;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use hikyaku_client::GetArgs;

/// Serves each client over the HTTP version that is fastest for it, measures every response, and
/// explains its choices.
#[derive(Debug, Parser)]
#[command(name = "hikyaku", version = version::SHORT.as_str(), long_version = version::LONG.as_str(), max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve files or a reverse proxy over HTTP/1.1, 2 and 3.
    Serve(Box<serve::ServeArgs>),
    /// Fetch URLs and measure every phase.
    Get(Box<GetArgs>),
    /// Emulate networks and measure on them.
    Lab(lab::LabArgs),
    /// Make a running server read its configuration again, and report the result.
    Reload(reload::ReloadArgs),
    /// Show a server's measurements of a client, its decision, and the reasons.
    Explain(explain::ExplainArgs),
}

fn main() -> ExitCode {
    let result = match Args::parse().command {
        Command::Serve(args) => serve::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Get(args) => get(&args),
        Command::Lab(args) => lab::run(&args),
        Command::Reload(args) => reload::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Explain(args) => explain::run(&args).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        let _ = writeln!(io::stderr(), "error: {error:#}");
        if let Some(hint) = hint::hint(&error) {
            let _ = writeln!(io::stderr(), "hint: {hint}");
        }
        ExitCode::FAILURE
    })
}

fn get(args: &GetArgs) -> anyhow::Result<ExitCode> {
    let status = hikyaku_client::run(args, &mut io::stdout().lock())?;
    Ok(ExitCode::from(status))
}
