//! A client and a server joined by one emulated link.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::emulated::EmulatedLink;
use super::error::LinkError;
use super::netns::Netns;
use super::owner::Claim;
use super::pump::{LinkPair, Report};

/// IPv4 address of the client.
pub const CLIENT_V4: Ipv4Addr = Ipv4Addr::new(10, 104, 121, 1);
/// IPv4 address of the server.
pub const SERVER_V4: Ipv4Addr = Ipv4Addr::new(10, 104, 121, 2);
/// IPv6 address of the client.
pub const CLIENT_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x6879, 0, 0, 0, 0, 0, 1);
/// IPv6 address of the server.
pub const SERVER_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x6879, 0, 0, 0, 0, 0, 2);

/// Two namespaces, `hkyk-PID-N-client` and `hkyk-PID-N-server`, each with one
/// interface of 1500 B MTU. Nothing passes between them until a link is started.
/// Dropping it stops the link and removes both namespaces; processes that run in
/// them must have ended before.
#[derive(Debug)]
pub struct Topology {
    // The order is that of dropping: interfaces before namespaces.
    link: EmulatedLink,
    client: Netns,
    server: Netns,
}

impl Topology {
    /// Creates the namespaces, which hold nothing but these interfaces, their
    /// addresses and loopback.
    ///
    /// # Errors
    /// Without privileges, `/dev/net/tun` or iproute2. What had been created
    /// until then is removed.
    pub fn create() -> Result<Self, LinkError> {
        let claim = Claim::take()?;
        let client = Netns::create_with(&claim, "client")?;
        let server = Netns::create_with(&claim, "server")?;
        let link = EmulatedLink::create((&client, INTERFACE), (&server, INTERFACE))?;
        configure(&client, CLIENT_V4, CLIENT_V6)?;
        configure(&server, SERVER_V4, SERVER_V6)?;
        Ok(Self {
            link,
            client,
            server,
        })
    }

    /// The client's namespace.
    pub fn client(&self) -> &Netns {
        &self.client
    }

    /// The server's namespace.
    pub fn server(&self) -> &Netns {
        &self.server
    }

    /// Joins the namespaces by a fresh link, empty and with random streams from
    /// their start; ends the one before, if any.
    ///
    /// # Errors
    /// If the pump's thread cannot be started.
    pub fn start_link(&mut self, links: LinkPair, seed: u64) -> Result<(), LinkError> {
        self.link.start(links, seed)
    }

    /// Bytes of IP packets that the present link has delivered so far, up and
    /// down; zero without a link.
    pub fn delivered_bytes(&self) -> [u64; 2] {
        self.link.delivered_bytes()
    }

    /// Ends the link: packets on their way are gone. `None` if there was none.
    ///
    /// # Errors
    /// If the pump had failed.
    pub fn stop_link(&mut self) -> Result<Option<Report>, LinkError> {
        self.link.stop()
    }
}

const INTERFACE: &str = "hkyk0";

/// Kernel parameters of both namespaces.
const SYSCTLS: &[(&str, &str)] = &[
    // Else a "fresh" connection inherits ssthresh from one before it.
    ("net/ipv4/tcp_no_metrics_save", "1"),
    // What the server does not choose itself is the Internet's usual.
    ("net/ipv4/tcp_congestion_control", "cubic"),
    // The kernel's own first buffers; the last lets the window grow to twice the
    // bandwidth-delay product of 1 Gbit/s and 200 ms.
    ("net/ipv4/tcp_rmem", "4096 131072 67108864"),
    ("net/ipv4/tcp_wmem", "4096 16384 67108864"),
];

fn configure(netns: &Netns, v4: Ipv4Addr, v6: Ipv6Addr) -> Result<(), LinkError> {
    for (key, value) in SYSCTLS {
        netns.set_sysctl(key, value)?;
    }
    // No link-local address and so no router solicitation: they would take the
    // place of the experiment's packets in the links' random streams. The long
    // transmit queue keeps bursts from being dropped before they reach the link.
    netns.ip(&format!(
        "link set {INTERFACE} mtu 1500 txqueuelen 10000 addrgenmode none\n\
         address add {v4}/24 dev {INTERFACE}\n\
         address add {v6}/64 dev {INTERFACE} nodad\n\
         link set {INTERFACE} up\n"
    ))
}
