//! One emulated link between two namespaces.

use std::path::PathBuf;
use std::sync::Arc;

use super::error::LinkError;
use super::netns::Netns;
use super::pump::{ChangePair, LinkPair, Pump, Tuns};
use super::report::{Report, Sample};
use super::tun::Tun;

/// Two TUN interfaces in two namespaces; packets pass between them while the link
/// is started. Up is from the first to the second.
#[derive(Debug)]
pub struct EmulatedLink {
    // The order is that of dropping: the pump before its interfaces.
    pump: Option<Pump>,
    tuns: Arc<Tuns>,
    packet_log: Option<PathBuf>,
}

impl EmulatedLink {
    /// Makes the interfaces, which are down and have no addresses, by namespace
    /// and name.
    pub(crate) fn create(a: (&Netns, &str), b: (&Netns, &str)) -> Result<Self, LinkError> {
        let tuns = Tuns {
            a: Tun::create(a.0, a.1)?,
            b: Tun::create(b.0, b.1)?,
        };
        Ok(Self {
            pump: None,
            tuns: Arc::new(tuns),
            packet_log: None,
        })
    }

    /// Starts it, empty and with random streams from their start; ends the run
    /// before, if any.
    ///
    /// # Errors
    /// If the pump's thread cannot be started.
    pub fn start(&mut self, links: LinkPair, seed: u64) -> Result<(), LinkError> {
        self.pump = None;
        let (tuns, log) = (Arc::clone(&self.tuns), self.packet_log.as_deref());
        self.pump = Some(Pump::start(tuns, links, seed, log)?);
        Ok(())
    }

    /// Begins changes of the present run, at times that count from now: the moment
    /// of a request, for example. Nothing happens while stopped.
    ///
    /// # Errors
    /// If the pump has failed.
    pub fn begin_changes(&self, changes: ChangePair) -> Result<(), LinkError> {
        self.pump
            .as_ref()
            .map_or(Ok(()), |pump| pump.begin_changes(changes))
    }

    /// From the next start on, writes a line for each packet to a CSV file, which
    /// every start empties first. Without a path, as at the beginning, nothing is
    /// written.
    pub fn log_packets(&mut self, path: Option<PathBuf>) {
        self.packet_log = path;
    }

    /// State of the present run when last a packet moved, at most
    /// [`Sample::INTERVAL`] ago; empty while stopped.
    pub fn state(&self) -> Sample {
        self.pump
            .as_ref()
            .map_or_else(Sample::default, Pump::sample)
    }

    /// Bytes of IP packets that the present run has delivered so far, up and down;
    /// zero while stopped.
    pub fn delivered_bytes(&self) -> [u64; 2] {
        let Sample { up, down, .. } = self.state();
        [up, down].map(|direction| direction.counters.delivered.bytes)
    }

    /// Stops it: packets on their way are gone. `None` if it was stopped.
    ///
    /// # Errors
    /// If the pump had failed.
    pub fn stop(&mut self) -> Result<Option<Report>, LinkError> {
        self.pump.take().map(Pump::stop).transpose()
    }
}
