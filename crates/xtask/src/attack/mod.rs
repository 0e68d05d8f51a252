//! Attacks on a server over loopback, while an honest client measures its waiting time.

mod attacker;
mod honest;
mod http1;
mod http2;
mod http3;
mod report;
mod server;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use attacker::Attack;
use honest::Waits;
use server::{Kind, Server};

use crate::usage::Usage;

/// Options of `cargo xtask attack`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Attacks; all if none is named.
    names: Vec<String>,
    /// Servers, each started afresh for each attack.
    #[arg(long, value_enum, default_values_t = [Kind::Hikyaku, Kind::Nginx])]
    server: Vec<Kind>,
    /// Seconds of each attack, 1 to 600; a quarter as long runs without an attack before it.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// The binary under attack.
    #[arg(long, default_value = "target/release/hikyaku")]
    hikyaku: PathBuf,
    /// Lists the attacks.
    #[arg(long)]
    list: bool,
    /// Only attacks the server on this loopback address, and prints the connections that were
    /// opened, and ended by the server.
    #[arg(long)]
    against: Option<SocketAddr>,
}

/// Attacks, and prints a table.
///
/// # Errors
/// If an attack is unknown, or a server cannot be started or ends.
pub(crate) fn run(args: &Args) -> Result<()> {
    let attacks = chosen(args)?;
    let time = Duration::from_secs(args.seconds);
    if args.list {
        report::list(&attacks);
        return Ok(());
    }
    if let Some(address) = args.against {
        return attacks
            .iter()
            .try_for_each(|attack| attacker::attack(attack, address, time));
    }
    report::begin(args)?;
    for attack in &attacks {
        let meant = args
            .server
            .iter()
            .filter(|kind| !attack.http3 || kind.speaks_http3());
        for &kind in meant {
            let outcome = measure(attack, kind, args, time);
            let outcome = outcome.with_context(|| format!("{} on {kind}", attack.name))?;
            report::row(attack, kind, &outcome);
        }
    }
    Ok(())
}

fn chosen(args: &Args) -> Result<Vec<Attack>> {
    let mut all: Vec<Attack> = [http1::attacks(), http2::attacks(), http3::attacks()]
        .into_iter()
        .flatten()
        .collect();
    for name in &args.names {
        let known = all.iter().any(|attack| attack.name == name);
        ensure!(known, "no attack is called `{name}`; `--list` names all");
    }
    all.retain(|attack| args.names.is_empty() || args.names.iter().any(|n| n == attack.name));
    Ok(all)
}

/// The results of an attack.
struct Outcome {
    /// Waiting times before the attack.
    quiet: Waits,
    waits: Waits,
    before: Usage,
    /// The server's peak memory in bytes.
    peak_memory: u64,
    /// The server's CPU-seconds a second.
    cpu: f64,
    /// The number of connections that attackers opened.
    opened: u64,
    /// The number of these connections that the server ended.
    ended: u64,
}

fn measure(attack: &Attack, kind: Kind, args: &Args, time: Duration) -> Result<Outcome> {
    let mut server = Server::start(kind, &args.hikyaku)?;
    let address = server.address();
    honest::wait(address, time / 10)?;
    let quiet = honest::wait(address, time / 4)?;
    let before = server.usage()?;
    let attackers = server.attackers(attack.name, args.seconds)?;
    let honest = std::thread::spawn(move || honest::wait(address, time));
    let mut peak_memory = before.memory;
    while !honest.is_finished() {
        std::thread::sleep(Duration::from_millis(100));
        peak_memory = peak_memory.max(server.usage()?.memory);
    }
    let after = server.usage()?;
    let waits = honest
        .join()
        .map_err(|_| anyhow::anyhow!("the honest client died"))??;
    let (opened, ended) = attackers.wait()?;
    server.check()?;
    Ok(Outcome {
        quiet,
        waits,
        before,
        peak_memory,
        cpu: (after.cpu - before.cpu).as_secs_f64() / time.as_secs_f64(),
        opened,
        ended,
    })
}
