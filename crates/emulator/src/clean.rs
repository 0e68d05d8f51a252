//! `hikyaku lab clean`: removes what killed labs left behind.

use std::io::{self, Write};

use crate::link::LinkError;
use crate::link::leftovers::Leftovers;

/// Arguments of `hikyaku lab clean`.
#[derive(Clone, Debug, clap::Args)]
pub struct CleanArgs {
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Why nothing, or not all, was removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CleanError {
    /// Something could not be looked at or removed.
    #[error("removing what killed labs left behind")]
    Link(#[from] LinkError),
    /// Nobody reads what is written.
    #[error("writing what is removed")]
    Write(#[from] io::Error),
}

/// Removes the namespaces of labs that do not run any more, with the interfaces
/// and processes inside, and their temporary directories, and takes back what they added to the machine's list of
/// allowed congestion controls. Running labs, and whatever is not a lab's, are
/// left alone. Writes one line for each thing removed.
///
/// # Errors
/// Without privileges, or if something cannot be removed.
pub fn run(args: &CleanArgs, out: &mut dyn Write) -> Result<u8, CleanError> {
    let leftovers = Leftovers::find()?;
    let lines = lines(&leftovers);
    if !args.dry_run {
        leftovers.remove()?;
    }
    if lines.is_empty() {
        writeln!(out, "nothing to remove")?;
    }
    let done = if args.dry_run {
        "would remove"
    } else {
        "removed"
    };
    for line in lines {
        writeln!(out, "{done} {line}")?;
    }
    Ok(0)
}

fn lines(leftovers: &Leftovers) -> Vec<String> {
    let mut lines = Vec::new();
    for leftover in &leftovers.found {
        let processes = leftover.processes.iter();
        lines.extend(processes.map(|process| format!("process {process}")));
        let namespaces = leftover.namespaces.iter();
        lines.extend(namespaces.map(|name| format!("namespace {name}")));
    }
    let directories = leftovers.directories.iter();
    lines.extend(directories.map(|path| format!("directory {}", path.display())));
    let names = leftovers.congestion_controls.iter();
    lines.extend(names.map(|name| format!("`{name}` from tcp_allowed_congestion_control")));
    lines
}
