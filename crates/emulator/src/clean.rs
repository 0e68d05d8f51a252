//! `hikyaku lab clean`: removes the remains of killed labs.

use std::io::{self, Write};

use crate::link::LinkError;
use crate::link::leftovers::Leftovers;

/// Arguments of `hikyaku lab clean`.
#[derive(Clone, Debug, clap::Args)]
pub struct CleanArgs {
    /// Print what would be removed, and remove nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// The reason why nothing, or not everything, was removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CleanError {
    /// A remain could not be examined or removed.
    #[error("removing the remains of killed labs")]
    Link(#[from] LinkError),
    /// The output could not be written.
    #[error("writing the list of removed things")]
    Write(#[from] io::Error),
}

/// Removes the remains of labs that no longer run. They are namespaces with their interfaces and
/// processes, temporary directories, and additions to the machine's list of allowed congestion
/// controls. Running labs, and anything that is not a lab's, are left alone. Writes one line for
/// each removed thing.
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
