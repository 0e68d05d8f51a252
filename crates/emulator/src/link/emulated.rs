//! One emulated link between two namespaces.

use std::path::PathBuf;
use std::sync::Arc;

use super::error::LinkError;
use super::netem::NetemLink;
use super::netns::Netns;
use super::owner::Claim;
use super::pump::{ChangePair, LinkSet, Pump, Tuns};
use super::report::{Report, Sample};
use super::tun::Tun;

/// A link between interfaces of two namespaces; packets pass while it is started.
/// Up is from the first to the second.
#[derive(Debug)]
pub struct EmulatedLink {
    carrier: Carrier,
    packet_log: Option<PathBuf>,
}

#[derive(Debug)]
enum Carrier {
    Tun {
        // The order is that of dropping: the pump before its interfaces.
        pump: Option<Pump>,
        tuns: Arc<Tuns>,
    },
    Netem(NetemLink),
}

impl EmulatedLink {
    /// Makes the interfaces, which are down and have no addresses, by namespace
    /// and name.
    pub(crate) fn create([a, b]: [(&Netns, &str); 2]) -> Result<Self, LinkError> {
        let tuns = Tuns {
            a: Tun::create(a.0, a.1)?,
            b: Tun::create(b.0, b.1)?,
        };
        let tuns = Arc::new(tuns);
        Ok(Self::of(Carrier::Tun { pump: None, tuns }))
    }

    /// As [`Self::create`], with the netem back end, under a name.
    pub(crate) fn create_netem(
        claim: &Arc<Claim>,
        name: &str,
        ends: [(&Netns, &str); 2],
        mtu: u32,
    ) -> Result<Self, LinkError> {
        let link = NetemLink::create(claim, name, ends, mtu)?;
        Ok(Self::of(Carrier::Netem(link)))
    }

    fn of(carrier: Carrier) -> Self {
        Self {
            carrier,
            packet_log: None,
        }
    }

    /// Starts it, empty and with random streams from their start; ends the run
    /// before, if any. A [`LinkPair`](super::LinkPair) is one link for all packets.
    ///
    /// # Errors
    /// If the pump's thread cannot be started, or the back end cannot do it.
    pub fn start(&mut self, links: impl Into<LinkSet>, seed: u64) -> Result<(), LinkError> {
        let links = links.into();
        match &mut self.carrier {
            Carrier::Tun { pump, tuns } => {
                *pump = None;
                let log = self.packet_log.as_deref();
                *pump = Some(Pump::start(Arc::clone(tuns), links, seed, log)?);
                Ok(())
            }
            Carrier::Netem(_) if self.packet_log.is_some() => {
                Err(LinkError::NotForNetem("a packet log"))
            }
            Carrier::Netem(_) if !links.own.is_empty() => {
                Err(LinkError::NotForNetem("links of single clients"))
            }
            Carrier::Netem(link) => link.start(&links.common),
        }
    }

    /// Begins changes of the present run's common link, at times that count from now. Nothing happens
    /// while stopped.
    ///
    /// # Errors
    /// If the pump has failed, or the back end cannot do it.
    pub fn begin_changes(&self, changes: ChangePair) -> Result<(), LinkError> {
        self.change(changes, Pump::begin_changes)
    }

    /// As [`Self::begin_changes`], at times that count from the next packet of TCP or UDP
    /// that goes up: the first one of a client, if the link was started for it.
    ///
    /// # Errors
    /// If the pump has failed, or the back end cannot do it.
    pub fn begin_changes_at_first_packet(&self, changes: ChangePair) -> Result<(), LinkError> {
        self.change(changes, Pump::begin_changes_at_first_packet)
    }

    fn change(
        &self,
        changes: ChangePair,
        begin: impl Fn(&Pump, ChangePair) -> Result<(), LinkError>,
    ) -> Result<(), LinkError> {
        if changes == ChangePair::default() {
            return Ok(());
        }
        match &self.carrier {
            Carrier::Tun { pump: None, .. } => Ok(()),
            Carrier::Tun {
                pump: Some(pump), ..
            } => begin(pump, changes),
            Carrier::Netem(_) => Err(LinkError::NotForNetem("scheduled changes")),
        }
    }

    /// From the next start on, writes a line for each packet to a CSV file, which
    /// every start empties first. Without a path, as at the beginning, nothing is
    /// written.
    pub fn log_packets(&mut self, path: Option<PathBuf>) {
        self.packet_log = path;
    }

    /// State of the present run when last a packet moved, at most
    /// [`Sample::INTERVAL`] ago; empty while stopped, or if the kernel does not
    /// tell.
    pub fn state(&self) -> Sample {
        match &self.carrier {
            Carrier::Tun { pump, .. } => pump.as_ref().map_or_else(Sample::default, Pump::sample),
            Carrier::Netem(link) => link.state().unwrap_or_default(),
        }
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
    /// If the pump had failed, or the kernel does not tell what had passed.
    pub fn stop(&mut self) -> Result<Option<Report>, LinkError> {
        match &mut self.carrier {
            Carrier::Tun { pump, .. } => pump.take().map(Pump::stop).transpose(),
            Carrier::Netem(link) => link.stop(),
        }
    }
}
