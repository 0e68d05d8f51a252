//! A client and a server joined by one emulated link.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::emulated::EmulatedLink;
use super::error::LinkError;
use super::netns::Netns;
use super::pump::LinkSet;
use super::report::Report;
use crate::topology::{EndSpec, InterfaceAddress, LinkSpec, Network, NodeSpec, TopologySpec};

/// IPv4 address of the client.
pub const CLIENT_V4: Ipv4Addr = Ipv4Addr::new(10, 104, 121, 1);
/// IPv4 address of the server.
pub const SERVER_V4: Ipv4Addr = Ipv4Addr::new(10, 104, 121, 2);
/// IPv6 address of the client.
pub const CLIENT_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x6879, 0, 0, 0, 0, 0, 1);
/// IPv6 address of the server.
pub const SERVER_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x6879, 0, 0, 0, 0, 0, 2);

/// Name of either end of a [`Topology`]'s link.
pub const INTERFACE: &str = "hkyk0";

/// The smallest [`Network`]: two namespaces, `hkyk-PID-N-client` and `hkyk-PID-N-server`, each with
/// one interface of 1500 B MTU. It is the shipped topology `pair`. Nothing passes between them
/// until a link is started. A drop ends processes inside, stops the link and removes both
/// namespaces.
#[derive(Debug)]
pub struct Topology {
    network: Network,
}

impl Topology {
    /// Creates the namespaces with these interfaces, their addresses and loopback, and nothing
    /// else.
    ///
    /// # Errors
    /// Without privileges, `/dev/net/tun` or iproute2. Parts that had been created until then are
    /// removed.
    pub fn create() -> Result<Self, LinkError> {
        let network = Network::create(&pair())?;
        Ok(Self { network })
    }

    /// The client's namespace.
    pub fn client(&self) -> &Netns {
        self.network.node_at(0)
    }

    /// The server's namespace.
    pub fn server(&self) -> &Netns {
        self.network.node_at(1)
    }

    /// The link between the two, client first.
    pub fn link(&self) -> &EmulatedLink {
        self.network.link_at(0)
    }

    /// The link between the two, client first, for changes.
    pub fn link_mut(&mut self) -> &mut EmulatedLink {
        self.network.link_at_mut(0)
    }

    /// Joins the namespaces by a fresh link, empty and with random streams from their start. The
    /// link before it ends.
    ///
    /// # Errors
    /// If the pump's thread cannot be started.
    pub fn start_link(&mut self, links: impl Into<LinkSet>, seed: u64) -> Result<(), LinkError> {
        self.link_mut().start(links, seed)
    }

    /// Bytes of IP packets that the present link has delivered so far, up and
    /// down; zero without a link.
    pub fn delivered_bytes(&self) -> [u64; 2] {
        self.link().delivered_bytes()
    }

    /// Ends the link and drops the packets on their way. Returns `None` if there was none.
    ///
    /// # Errors
    /// If the pump had failed.
    pub fn stop_link(&mut self) -> Result<Option<Report>, LinkError> {
        self.link_mut().stop()
    }
}

/// The description, without the link's properties.
fn pair() -> TopologySpec {
    let end = |node: &str, v4: Ipv4Addr, v6: Ipv6Addr| EndSpec {
        node: node.to_owned(),
        interface: INTERFACE.to_owned(),
        addresses: [(IpAddr::V4(v4), 24), (IpAddr::V6(v6), 64)]
            .map(|(ip, prefix_len)| InterfaceAddress { ip, prefix_len })
            .into(),
    };
    TopologySpec {
        nodes: ["client", "server"].map(NodeSpec::new).into(),
        links: vec![LinkSpec::new(
            "path",
            end("client", CLIENT_V4, CLIENT_V6),
            end("server", SERVER_V4, SERVER_V6),
        )],
        ..TopologySpec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::pair;
    use crate::topology::TopologySpec;

    #[test]
    fn it_is_the_shipped_pair() {
        let mut shipped = TopologySpec::load("pair").unwrap();
        shipped.description.clear();
        for link in &mut shipped.links {
            link.both = None;
        }
        assert_eq!(shipped, pair());
    }
}
