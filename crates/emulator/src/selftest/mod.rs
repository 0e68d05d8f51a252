//! `hikyaku lab selftest`: does the emulated link do on this machine what it
//! promises?

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
    /// Measure shorter: less than a minute in all
    #[arg(long)]
    quick: bool,
    /// Print a JSON object a line instead of a table
    #[arg(long)]
    json: bool,
}

/// Why the self-test could not be done. That a goal is missed is no error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SelftestError {
    /// There is no network to test.
    #[error("setting up an emulated network for the self-test")]
    SetUp(#[source] LinkError),
    /// The results could not be told.
    #[error("writing the results of the self-test")]
    Write(#[from] io::Error),
}

/// How often a measurement is made at most: other load on the machine spoils some.
const ATTEMPTS: usize = 3;

/// Checks one promise after another and writes a line for each. Returns the exit
/// status: 0 if all that the kernel can do is right, else 1.
///
/// # Errors
/// If no emulated network can be set up, or `out` cannot be written to.
pub fn run(args: &SelftestArgs, out: &mut dyn Write) -> Result<u8, SelftestError> {
    // Without privileges every check would fail; say so once.
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

/// One promise.
struct Check {
    name: String,
    goal: String,
    measure: Box<dyn Fn(&mut Bench, u64) -> Result<Finding, CheckError>>,
}

/// What a check may run into.
type CheckError = Box<dyn std::error::Error + Send + Sync>;

/// What one attempt found.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Finding {
    /// A figure or a fact, and whether it is what was promised.
    Reached { text: String, good: bool },
    /// The kernel lacks what is to be checked.
    Unavailable(String),
}

/// Result of a check.
#[derive(Debug)]
struct Row {
    finding: Finding,
    attempts: usize,
    /// What kept the last attempt from saying much.
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
    fn errors_are_told_with_their_causes() {
        let cause = io::Error::from(io::ErrorKind::PermissionDenied);
        let error = LinkError::StartPump(cause);
        let text = describe(&error);
        assert_eq!(
            text,
            "starting the pump of an emulated link: permission denied"
        );
    }
}
