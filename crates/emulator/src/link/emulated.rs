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

/// A link between interfaces of two namespaces. Packets pass while it is started. Up is from the
/// first to the second.
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
    /// Makes the interfaces by namespace and name. They are down and have no addresses.
    pub(crate) fn create([a, b]: [(&Netns, &str); 2]) -> Result<Self, LinkError> {
        let tuns = Tuns {
            a: Tun::create(a.0, a.1)?,
            b: Tun::create(b.0, b.1)?,
        };
        let tuns = Arc::new(tuns);
        Ok(Self::of(Carrier::Tun { pump: None, tuns }))
    }

    /// Makes the interfaces of a link with the netem back end, under a name.
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

    /// Starts the link, empty and with random streams from their start. A run before it ends. A
    /// [`LinkPair`](super::LinkPair) is one link for all packets.
    ///
    /// # Errors
    /// If the pump's thread cannot be started, or the back end lacks a property.
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

    /// Begins changes of the present run's common link, at times that count from now. Nothing
    /// happens while the link is stopped.
    ///
    /// # Errors
    /// If the pump has failed, or the back end has no changes.
    pub fn begin_changes(&self, changes: ChangePair) -> Result<(), LinkError> {
        self.change(changes, Pump::begin_changes)
    }

    /// Begins changes at times that count from the next packet of TCP or UDP that goes up. That is
    /// a client's first packet if the link was started for it. Otherwise this equals
    /// [`Self::begin_changes`].
    ///
    /// # Errors
    /// If the pump has failed, or the back end has no changes.
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

    /// Writes a line for each packet to a CSV file, from the next start on. Every start empties the
    /// file first. Without a path, which is the default, nothing is written.
    pub fn log_packets(&mut self, path: Option<PathBuf>) {
        self.packet_log = path;
    }

    /// State of the present run at the last packet's move, at most [`Sample::INTERVAL`] ago. It is
    /// empty while the link is stopped, or if the kernel does not report it.
    pub fn state(&self) -> Sample {
        match &self.carrier {
            Carrier::Tun { pump, .. } => pump.as_ref().map_or_else(Sample::default, Pump::sample),
            Carrier::Netem(link) => link.state().unwrap_or_default(),
        }
    }

    /// Bytes of IP packets that the present run has delivered so far, up and down; zero while the
    /// link is stopped.
    pub fn delivered_bytes(&self) -> [u64; 2] {
        let Sample { up, down, .. } = self.state();
        [up, down].map(|direction| direction.counters.delivered.bytes)
    }

    /// Stops the link and drops the packets on their way. Returns `None` if it was stopped.
    ///
    /// # Errors
    /// If the pump had failed, or the kernel does not report its counters.
    pub fn stop(&mut self) -> Result<Option<Report>, LinkError> {
        match &mut self.carrier {
            Carrier::Tun { pump, .. } => pump.take().map(Pump::stop).transpose(),
            Carrier::Netem(link) => link.stop(),
        }
    }
}
