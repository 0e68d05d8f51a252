//! The remains of labs that were killed before they could clean up.

use std::path::PathBuf;

use super::error::LinkError;
use super::owner::{Register, prefix};
use super::processes::{self, Process};
use super::{congestion, netns, privileges, scratch};

/// The remains of one dead owner.
#[derive(Debug)]
pub(crate) struct Leftover {
    owner: u32,
    /// Names of its namespaces.
    pub(crate) namespaces: Vec<String>,
    /// Processes inside these namespaces.
    pub(crate) processes: Vec<Process>,
}

/// All remains, with the register locked, so that none is added meanwhile.
#[derive(Debug)]
pub(crate) struct Leftovers {
    register: Register,
    /// The remains by owner.
    pub(crate) found: Vec<Leftover>,
    /// Congestion controls that no running lab needs on the machine's list.
    pub(crate) congestion_controls: Vec<String>,
    /// Temporary directories.
    pub(crate) directories: Vec<PathBuf>,
}

impl Leftovers {
    /// Finds the remains.
    pub(crate) fn find() -> Result<Self, LinkError> {
        privileges::check()?;
        let register = Register::lock()?;
        let mut found = Vec::new();
        for owner in register.owners()? {
            if register.dead(owner)?.is_none() {
                continue;
            }
            let namespaces = netns::existing(&prefix(owner));
            found.push(Leftover {
                owner,
                processes: processes::inside(&namespaces),
                namespaces,
            });
        }
        let congestion_controls = match register.is_used()? {
            true => Vec::new(),
            false => congestion::added(),
        };
        Ok(Self {
            directories: scratch::left(&register, &std::env::temp_dir()),
            register,
            found,
            congestion_controls,
        })
    }

    /// Removes all of them.
    ///
    /// # Errors
    /// If the calling process itself runs inside one of the namespaces, before anything is removed;
    /// or if something cannot be removed.
    pub(crate) fn remove(self) -> Result<(), LinkError> {
        let own = std::process::id();
        let is_own = |process: &&Process| process.pid == own;
        if let Some(leftover) = self
            .found
            .iter()
            .find(|leftover| leftover.processes.iter().any(|process| is_own(&process)))
        {
            return Err(LinkError::Inside(leftover.namespaces.join(", ")));
        }
        for leftover in &self.found {
            self.register.sweep(leftover.owner)?;
        }
        for path in &self.directories {
            scratch::remove(path)?;
        }
        if !self.register.is_used()? {
            congestion::restore(&self.register)?;
        }
        Ok(())
    }
}
