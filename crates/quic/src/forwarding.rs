//! Datagrams that the kernel gave to another worker than that of their connection.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock, Weak};

use bytes::BytesMut;
use quinn_proto::EcnCodepoint;
use quinn_udp::RecvMeta;

use crate::hub::Hub;
use crate::steering::Steering;

/// The workers of one address. Each has an endpoint of its own, and gets the datagrams of its
/// connections, whichever socket they came to.
#[derive(Clone, Debug)]
pub struct Group(Arc<Members>);

#[derive(Debug)]
struct Members {
    steering: Steering,
    hubs: Box<[OnceLock<Weak<Hub>>]>,
}

impl Group {
    /// The workers that `steering` distributes connections among.
    pub fn new(steering: Steering) -> Self {
        let hubs = (0..steering.workers()).map(|_| OnceLock::new()).collect();
        Self(Arc::new(Members { steering, hubs }))
    }

    /// How connections are distributed.
    pub fn steering(&self) -> Steering {
        self.0.steering
    }

    /// Has the datagrams of `worker` brought to `hub`, and returns the way to the others.
    pub(crate) fn join(&self, worker: usize, hub: &Arc<Hub>) {
        if let Some(place) = self.0.hubs.get(worker) {
            // The first endpoint of a worker keeps its place.
            let _ = place.set(Arc::downgrade(hub));
        }
    }
}

/// The way from one worker to the others.
#[derive(Debug)]
pub(crate) struct Forwarder {
    pub(crate) group: Group,
    /// The worker itself.
    pub(crate) worker: usize,
}

impl Forwarder {
    /// Gives a datagram to the worker that has its connection. Returns false if it is this one, or that
    /// one does not run.
    pub(crate) fn forward(&self, datagram: &[u8], meta: &RecvMeta) -> bool {
        let members = &self.group.0;
        let worker = members.steering.worker_of(datagram);
        if worker == self.worker {
            return false;
        }
        let hub = members.hubs.get(worker).and_then(OnceLock::get);
        let Some(hub) = hub.and_then(Weak::upgrade) else {
            return false;
        };
        if !hub.forward(Forwarded::new(datagram, meta)) {
            tracing::debug!(client = %meta.addr, "worker {worker} takes no more datagrams");
        }
        true
    }
}

/// A datagram with its addresses.
#[derive(Debug)]
pub(crate) struct Forwarded {
    pub(crate) contents: BytesMut,
    pub(crate) remote: SocketAddr,
    pub(crate) local_ip: Option<IpAddr>,
    pub(crate) ecn: Option<EcnCodepoint>,
}

impl Forwarded {
    pub(crate) fn new(datagram: &[u8], meta: &RecvMeta) -> Self {
        Self {
            contents: BytesMut::from(datagram),
            remote: meta.addr,
            local_ip: meta.dst_ip,
            ecn: meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8)),
        }
    }
}
