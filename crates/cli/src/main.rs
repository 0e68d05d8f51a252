//! `hikyaku`: a content delivery server that gives every client the transport that is fastest for
//! it, and tools that show why.

mod admin;
mod certs;
mod check;
mod completions;
mod defaults;
mod demo;
mod doctor;
mod explain;
mod fleet;
mod gain;
mod hint;
mod lab;
mod purge;
mod reload;
mod serve;
mod table;
mod upgrade;
mod version;
mod what_if;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
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
    /// Check a configuration without serving it, and report all that is wrong.
    Check(Box<check::CheckArgs>),
    /// Look for what this machine, its network and its DNS lack to serve well, and how to mend it.
    Doctor(Box<doctor::DoctorArgs>),
    /// Print every key of the configuration with its default and what it does.
    Config,
    /// Fetch URLs and measure every phase.
    Get(Box<GetArgs>),
    /// Emulate networks and measure on them.
    Lab(lab::LabArgs),
    /// Make a running server read its configuration again, and report the result.
    Reload(admin::ServerArgs),
    /// Replace a running server's process by its program as it is installed now, without losing a request.
    Upgrade(admin::ServerArgs),
    /// Show a server's certificates: their names, issuers and ends, and the next orders by ACME.
    Certs(certs::CertsArgs),
    /// Remove stored responses from a running server's caches, by URL, by its beginning, or by tag.
    Purge(purge::PurgeArgs),
    /// Show the fleet that a running server is of: its store, and its members with their versions and clocks.
    Fleet(fleet::FleetArgs),
    /// Show how much sooner responses arrive than for clients that are held back, with intervals.
    Gain(gain::GainArgs),
    /// Show a server's measurements of a client, its decision, and the reasons.
    Explain(explain::ExplainArgs),
    /// Estimate the load times that other settings would have given, by access logs.
    WhatIf(what_if::WhatIfArgs),
    /// Show the product: clients on unlike emulated networks load a page, and the dashboard shows who gets
    /// what and what it gains. Ends by Ctrl-C.
    Demo(demo::DemoArgs),
    /// Print the script by which a shell completes commands and options.
    Completions(completions::CompletionsArgs),
}

fn main() -> ExitCode {
    let result = match Args::parse().command {
        Command::Serve(args) => serve::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Check(args) => check::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Config => defaults::print(&mut io::stdout().lock()).map(|()| ExitCode::SUCCESS),
        Command::Get(args) => get(&args),
        Command::Lab(args) => lab::run(&args),
        Command::Reload(args) => reload::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Upgrade(args) => upgrade::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Certs(args) => certs::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Purge(args) => purge::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Fleet(args) => fleet::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Gain(args) => gain::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Explain(args) => explain::run(&args).map(|()| ExitCode::SUCCESS),
        Command::WhatIf(args) => what_if::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Completions(args) => {
            completions::print(&args, Args::command(), &mut io::stdout().lock())
                .map(|()| ExitCode::SUCCESS)
        }
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
