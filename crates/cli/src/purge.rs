//! `hikyaku purge`.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::Context;
use http::Method;
use serde::Deserialize;

use crate::admin::{Demand, ServerArgs};

/// The time limit of a purge.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Options of `hikyaku purge`.
#[derive(Debug, clap::Args)]
pub(crate) struct PurgeArgs {
    /// URLs of stored responses, such as `https://www.example.org/logo.png`.
    #[arg(value_name = "URL", required = true)]
    what: Vec<String>,
    /// Purge all URLs that begin so.
    #[arg(long)]
    prefix: bool,
    /// Purge all responses with these tags (`Cache-Tag`, `Surrogate-Key`) in place of URLs.
    #[arg(long, conflicts_with = "prefix")]
    tag: bool,
    /// Purge the caches of all edges of the server's fleet, and not only its own.
    #[arg(long)]
    fleet: bool,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Deserialize)]
struct Answer {
    purged: u64,
}

/// Removes stored responses from the server's caches, and prints how many there were.
pub(crate) fn run(args: &PurgeArgs) -> anyhow::Result<()> {
    let by = match (args.prefix, args.tag) {
        (true, _) => "prefix",
        (_, true) => "tag",
        _ => "url",
    };
    let path = match args.fleet {
        true => "/v1/cache/purge?fleet",
        false => "/v1/cache/purge",
    };
    let mut purged = 0;
    for what in &args.what {
        let demand = Demand {
            method: Method::POST,
            path,
            body: serde_json::json!({ by: what }).to_string(),
            limit: TIMEOUT,
            without: "caches are purged through it",
        };
        let asked = args.server.ask(demand);
        let answer = asked.with_context(|| format!("purging {what}"))?;
        let answer: Answer = serde_json::from_slice(&answer).context("reading the answer")?;
        purged += answer.purged;
    }
    let others = match args.fleet {
        true => " here; the other edges purge theirs within seconds",
        false => "",
    };
    writeln!(io::stdout(), "{purged} responses purged{others}")?;
    Ok(())
}
