//! One emulated link between two namespaces.

use std::sync::Arc;

use super::error::LinkError;
use super::netns::Netns;
use super::pump::{LinkPair, Pump, Report, Tuns};
use super::tun::Tun;

/// Two TUN interfaces in two namespaces; packets pass between them while the link
/// is started. Up is from the first to the second.
#[derive(Debug)]
pub struct EmulatedLink {
    // The order is that of dropping: the pump before its interfaces.
    pump: Option<Pump>,
    tuns: Arc<Tuns>,
}

impl EmulatedLink {
    /// Makes the interfaces, which are down and have no addresses, by namespace
    /// and name.
    pub(crate) fn create(a: (&Netns, &str), b: (&Netns, &str)) -> Result<Self, LinkError> {
        let tuns = Tuns {
            client: Tun::create(a.0, a.1)?,
            server: Tun::create(b.0, b.1)?,
        };
        Ok(Self {
            pump: None,
            tuns: Arc::new(tuns),
        })
    }

    /// Starts it, empty and with random streams from their start; ends the run
    /// before, if any.
    ///
    /// # Errors
    /// If the pump's thread cannot be started.
    pub fn start(&mut self, links: LinkPair, seed: u64) -> Result<(), LinkError> {
        self.pump = None;
        self.pump = Some(Pump::start(Arc::clone(&self.tuns), links, seed)?);
        Ok(())
    }

    /// Bytes of IP packets that the present run has delivered so far, up and down;
    /// zero while stopped.
    pub fn delivered_bytes(&self) -> [u64; 2] {
        self.pump.as_ref().map_or([0; 2], Pump::delivered)
    }

    /// Stops it: packets on their way are gone. `None` if it was stopped.
    ///
    /// # Errors
    /// If the pump had failed.
    pub fn stop(&mut self) -> Result<Option<Report>, LinkError> {
        self.pump.take().map(Pump::stop).transpose()
    }
}
