//! `hikyaku lab selftest`: whether the emulated link is accurate on this machine.

mod bench;
mod figures;
mod passage;
mod table;
mod traffic;

use std::io::{self, Write};

use clap::Args;

use crate::link::{KeepAwake, LinkError, Topology};
use bench::Bench;
use table::Table;

/// Arguments of `hikyaku lab selftest`.
#[derive(Clone, Debug, Default, Args)]
pub struct SelftestArgs {
    /// Measure for less than a minute in all
    #[arg(long)]
    quick: bool,
    /// Print one JSON object per line instead of a table
    #[arg(long)]
    json: bool,
}

/// The reason why the self-test could not run. A missed goal is no error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SelftestError {
    /// No network could be set up.
    #[error("setting up an emulated network for the self-test")]
    SetUp(#[source] LinkError),
    /// The results could not be written.
    #[error("writing the results of the self-test")]
    Write(#[from] io::Error),
}

/// Largest number of attempts of a measurement, since other load on the machine spoils some.
const ATTEMPTS: usize = 3;

/// Runs one check after another and writes a line for each. Returns the exit status: 0 if
/// everything that the kernel supports is right, else 1.
///
/// # Errors
/// If no emulated network can be set up, or `out` cannot be written to.
pub fn run(args: &SelftestArgs, out: &mut dyn Write) -> Result<u8, SelftestError> {
    // Without privileges every check would fail, so it is reported once.
    drop(Topology::create().map_err(SelftestError::SetUp)?);
    let _awake = KeepAwake::start();
    let mut bench = Bench::new(args.quick);
    let mut table = Table::begin(args.json, out)?;
    for check in figures::checks().into_iter().chain(passage::checks()) {
        let row = check.run(&mut bench);
        table.row(&check, &row, out)?;
    }
    table.end(out)?;
    Ok(u8::from(table.failed()))
}

/// One checked property.
struct Check {
    name: String,
    goal: String,
    measure: Box<dyn Fn(&mut Bench, u64) -> Result<Finding, CheckError>>,
}

/// An error of a check.
type CheckError = Box<dyn std::error::Error + Send + Sync>;

/// The result of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Finding {
    /// A figure or a fact, and whether it meets the goal.
    Reached { text: String, good: bool },
    /// The kernel lacks the checked feature.
    Unavailable(String),
}

/// Result of a check.
#[derive(Debug)]
struct Row {
    finding: Finding,
    attempts: usize,
    /// The disturbance of the last attempt.
    disturbed: Option<String>,
}

impl Check {
    fn new<F>(name: impl Into<String>, goal: impl Into<String>, measure: F) -> Self
    where
        F: Fn(&mut Bench, u64) -> Result<Finding, CheckError> + 'static,
    {
        Self {
            name: name.into(),
            goal: goal.into(),
            measure: Box::new(measure),
        }
    }

    /// Measures until the result is good, or the attempts are used up.
    fn run(&self, bench: &mut Bench) -> Row {
        let mut attempt = 1;
        loop {
            bench.forget_disturbance();
            let finding = (self.measure)(bench, attempt as u64).unwrap_or_else(|error| {
                let text = describe(error.as_ref());
                Finding::Reached { text, good: false }
            });
            let bad = matches!(finding, Finding::Reached { good: false, .. });
            if !bad || attempt == ATTEMPTS {
                return Row {
                    finding,
                    attempts: attempt,
                    disturbed: bench.disturbance().map(str::to_owned),
                };
            }
            attempt += 1;
        }
    }
}

impl Finding {
    fn reached(text: impl Into<String>, good: bool) -> Self {
        Self::Reached {
            text: text.into(),
            good,
        }
    }
}

/// An error and its causes in one line.
fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let causes: Vec<String> = causes.map(ToString::to_string).collect();
    causes.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_shown_with_their_causes() {
        let cause = io::Error::from(io::ErrorKind::PermissionDenied);
        let error = LinkError::StartPump(cause);
        let text = describe(&error);
        assert_eq!(
            text,
            "starting the pump of an emulated link: permission denied"
        );
    }
}
