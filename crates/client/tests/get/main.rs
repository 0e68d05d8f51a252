//! The client against real servers on loopback.
#![allow(clippy::unwrap_used)]

mod alt_svc;
mod close;
mod crowd;
mod http;
mod output;
mod page;
mod resume;
mod server;

use clap::Parser;
use hikyaku_client::{ExitStatus, GetArgs, GetError, run};
use serde_json::Value;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    get: GetArgs,
}

/// Runs `hikyaku get` with the words of `line`; returns its output and exit status.
fn get_text(line: &str) -> (String, Result<ExitStatus, GetError>) {
    let words = std::iter::once("get").chain(line.split_whitespace());
    let cli = Cli::try_parse_from(words).unwrap();
    let mut out = Vec::new();
    let result = run(&cli.get, &mut out);
    (String::from_utf8(out).unwrap(), result)
}

/// The records of `hikyaku get --json`.
fn get(line: &str) -> (Records, ExitStatus) {
    let (text, result) = get_text(&format!("--json {line}"));
    let records = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    (Records(records), result.unwrap())
}

struct Records(Vec<Value>);

impl Records {
    fn of(&self, kind: &str) -> Vec<&Value> {
        self.0.iter().filter(|r| r["type"] == kind).collect()
    }

    fn requests(&self) -> Vec<&Value> {
        self.of("request")
    }

    fn one(&self, kind: &str) -> &Value {
        let found = self.of(kind);
        assert_eq!(found.len(), 1, "{kind}: {:?}", self.0);
        found[0]
    }

    /// The HTTP versions of all requests, in order.
    fn versions(&self) -> Vec<&str> {
        let requests = self.requests();
        requests
            .iter()
            .map(|r| r["http"].as_str().unwrap_or("-"))
            .collect()
    }
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}
