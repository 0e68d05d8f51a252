//! A server with many sites, each with its directory and its certificate.

mod client;
mod server;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use client::Client;
use server::{Machine, Server};

/// Options of `cargo xtask sites`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Number of sites, 2 to 100,000.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(2..=100_000))]
    sites: u32,
    /// Number of rounds, 1 to 100, of one server each with one site and with all. Medians are printed.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// The binary.
    #[arg(long, default_value = "target/release/hikyaku")]
    hikyaku: PathBuf,
}

/// The measurements of one server.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// The time from the start to the first answer of the last site.
    start: Duration,
    /// Bytes of memory then.
    memory: u64,
    /// The longest wait for an answer in the time of a reload, but without one.
    quiet: Duration,
    /// The longest wait for an answer during a reload.
    pause: Duration,
    /// The time from the signal to the report of the reload.
    reload: Duration,
}

/// Measures, and prints a table.
///
/// # Errors
/// If a server cannot be started, or does not answer.
pub(crate) fn run(args: &Args) -> Result<()> {
    let machine = Machine::new(args.sites)?;
    let (mut one, mut all) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        one.push(measure(&machine, args, 1)?);
        all.push(measure(&machine, args, args.sites)?);
    }
    let added = u64::from(args.sites - 1);
    let each = median(&all, |it| it.memory).saturating_sub(median(&one, |it| it.memory)) / added;
    println!(
        "Medians of {} rounds, in milliseconds and KiB:\n",
        args.rounds
    );
    println!("| sites | first answer | memory | each | reload | longest wait in it | without |");
    println!("| --: | --: | --: | --: | --: | --: | --: |");
    row(1, &one, None);
    row(args.sites, &all, Some(each));
    Ok(())
}

fn row(sites: u32, all: &[Measured], each: Option<u64>) {
    let ms = |of: fn(&Measured) -> Duration| median(all, of).as_secs_f64() * 1e3;
    let each = each.map_or_else(|| "–".to_owned(), |bytes| format!("{:.1}", kib(bytes)));
    println!(
        "| {sites} | {:.0} | {:.0} | {each} | {:.0} | {:.1} | {:.1} |",
        ms(|it| it.start),
        kib(median(all, |it| it.memory)),
        ms(|it| it.reload),
        ms(|it| it.pause),
        ms(|it| it.quiet),
    );
}

fn kib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0
}

fn median<T: Ord + Copy>(all: &[Measured], of: impl Fn(&Measured) -> T) -> T {
    let mut values: Vec<_> = all.iter().map(of).collect();
    values.sort_unstable();
    values[values.len() / 2]
}

fn measure(machine: &Machine, args: &Args, sites: u32) -> Result<Measured> {
    let server = Server::start(machine, &args.hikyaku, sites)?;
    let answered = || Client::open(server.address(), machine.last());
    let mut client = server.wait_for(answered).context("waiting for an answer")?;
    let start = server.age();
    let memory = server.memory()?;
    // The first answers fill caches.
    client.longest_wait(|elapsed| elapsed < Duration::from_millis(500))?;
    let signalled = server.reload()?;
    let mut reload = None;
    let pause = client.longest_wait(|_| {
        if server.has_reloaded() {
            reload = Some(signalled.elapsed());
        }
        reload.is_none() && signalled.elapsed() < server::LIMIT
    })?;
    let reload = reload.context("the server has not reloaded")?;
    let quiet = client.longest_wait(|elapsed| elapsed < reload)?;
    Ok(Measured {
        start,
        memory,
        quiet,
        pause,
        reload,
    })
}
