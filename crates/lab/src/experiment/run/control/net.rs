//! The network of the paper's figure 7, with any number of peers: names, addresses and connections.

use std::fmt::Write as _;
use std::net::Ipv6Addr;

use super::watch::Prefix;
use hikyaku_emulator::topology::TopologySpec;

/// The operator's AS.
pub(super) const OWN_AS: u32 = 64500;
/// The client's provider.
pub(super) const ISP_AS: u32 = 64700;
/// Prefix of the client.
pub(super) const CLIENT: Prefix = (address(0xc, 0), 48);
/// The content server's default address.
pub(super) const SERVER: Ipv6Addr = address(5, 0x10);
/// The address of a routing daemon on the content server.
pub(super) const SERVER_DAEMON: Ipv6Addr = address(5, 0x11);
/// The route reflector.
pub(super) const REFLECTOR: Ipv6Addr = address(5, 0x53);
/// The prefix from which large tables are taken (RFC 9637).
pub(super) const MANY: Prefix = (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20);

/// Numbers of borders, and of transits at each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) borders: u8,
    pub(super) transits: u8,
    /// Whether a client's provider is behind all of them. Without it, each transit delivers packets
    /// for [`MANY`] to itself.
    pub(super) isp: bool,
}

/// A border router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Border(pub(super) u8);

/// An egress peer, by its number from 1 among all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) number: u8,
    pub(super) border: Border,
    /// Number of the peer at its border.
    pub(super) local: u8,
}

const fn address(network: u16, host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, network, 0, 0, 0, 0, host)
}

impl Border {
    pub(super) fn node(self) -> String {
        format!("border{}", self.0)
    }

    pub(super) const fn address(self) -> Ipv6Addr {
        address(5, 0xb0 + self.0 as u16)
    }

    pub(super) fn router_id(self) -> String {
        format!("192.0.2.{}", self.0)
    }

    pub(super) fn locator(self) -> String {
        format!("2001:db8:b{}::/48", self.0)
    }
}

impl Peer {
    /// Node of its router.
    pub(super) fn node(self) -> String {
        format!("transit{}", self.number)
    }

    pub(super) const fn asn(self) -> u32 {
        64600 + self.number as u32
    }

    pub(super) fn router_id(self) -> String {
        format!("198.51.100.{}", self.number)
    }

    /// The peer's address towards the border.
    pub(super) const fn address(self) -> Ipv6Addr {
        address(0xa0 + self.number as u16, 1)
    }

    /// The border's address towards the peer.
    pub(super) const fn border_address(self) -> Ipv6Addr {
        address(0xa0 + self.number as u16, 2)
    }

    /// The peer's address towards the client's provider.
    pub(super) const fn inner_address(self) -> Ipv6Addr {
        address(0xe0 + self.number as u16, 1)
    }

    /// The provider's address towards the peer.
    pub(super) const fn isp_address(self) -> Ipv6Addr {
        address(0xe0 + self.number as u16, 2)
    }

    /// The path's name at the server.
    pub(super) fn path(self) -> String {
        self.node()
    }

    /// The path's table at the server.
    pub(super) const fn server_table(self) -> u32 {
        10_000 + self.number as u32
    }

    /// The peer's table at its border.
    pub(super) const fn border_table(self) -> u32 {
        10_000 + self.local as u32
    }

    /// The server's EPE address of this path.
    pub(super) const fn epe(self) -> Ipv6Addr {
        address(5, 0xa0 + self.number as u16)
    }
}

impl Shape {
    pub(super) fn borders(self) -> impl Iterator<Item = Border> {
        (1..=self.borders).map(Border)
    }

    pub(super) fn peers(self) -> impl Iterator<Item = Peer> {
        self.borders().flat_map(move |border| self.peers_of(border))
    }

    pub(super) fn peers_of(self, border: Border) -> impl Iterator<Item = Peer> {
        (1..=self.transits).map(move |local| Peer {
            number: (border.0 - 1) * self.transits + local,
            border,
            local,
        })
    }

    /// Returns the network, without the routes of daemons and agents.
    pub(super) fn topology(self) -> Result<TopologySpec, hikyaku_emulator::topology::SpecError> {
        let mut text = "description = \"the paper's figure 7\"\n".to_owned();
        self.servers(&mut text);
        for border in self.borders() {
            let _ = write!(
                text,
                "[[nodes]]\nname = \"{}\"\nforward = true\n",
                border.node()
            );
        }
        for peer in self.peers() {
            self.transit(peer, &mut text);
        }
        if self.isp {
            let (client, length) = CLIENT;
            let host = Ipv6Addr::from_bits(client.to_bits() + 1);
            let _ = write!(
                text,
                "[[nodes]]\nname = \"isp\"\nforward = true\naddresses = [\"{host}/{length}\"]\n"
            );
        }
        self.lan(&mut text);
        for peer in self.peers() {
            self.wires(peer, &mut text);
        }
        TopologySpec::parse("the egress network", &text)
    }

    fn servers(self, text: &mut String) {
        let mut routes: Vec<String> = self
            .borders()
            .map(|border| format!("\"{} via {}\"", border.locator(), border.address()))
            .collect();
        routes.push(format!("\"default via {}\"", Border(1).address()));
        let _ = write!(
            text,
            "[[nodes]]\nname = \"server\"\nroutes = [{}]\n[[nodes]]\nname = \"reflector\"\n",
            routes.join(", ")
        );
    }

    fn transit(self, peer: Peer, text: &mut String) {
        let _ = write!(text, "[[nodes]]\nname = \"{}\"\n", peer.node());
        let back = format!("2001:db8:5::/64 via {}", peer.border_address());
        if self.isp {
            let (client, length) = CLIENT;
            let to = peer.isp_address();
            let _ = writeln!(
                text,
                "forward = true\nroutes = [\"{back}\", \"{client}/{length} via {to}\"]"
            );
        } else {
            let (many, length) = MANY;
            let _ = writeln!(
                text,
                "routes = [\"{back}\", \"local {many}/{length} dev lo\"]"
            );
        }
    }

    /// The LAN of 1600 bytes, so that packets keep their size within another header.
    fn lan(self, text: &mut String) {
        let mut ports = vec![
            port("server", "csp", &[SERVER, SERVER_DAEMON]),
            port("reflector", "csp", &[REFLECTOR]),
        ];
        ports.extend(
            self.borders()
                .map(|border| port(&border.node(), "csp", &[border.address()])),
        );
        let _ = write!(
            text,
            "[[lans]]\nname = \"csp\"\nmtu = 1600\nports = [{}]\n",
            ports.join(", ")
        );
    }

    fn wires(self, peer: Peer, text: &mut String) {
        let node = peer.node();
        let mut wire = |name: &str, a: String, b: String| {
            let _ = write!(text, "[[wires]]\nname = \"{name}\"\na = {a}\nb = {b}\n");
        };
        wire(
            &node,
            port(&peer.border.node(), &node, &[peer.border_address()]),
            port(&node, "border", &[peer.address()]),
        );
        if self.isp {
            wire(
                &format!("{node}-isp"),
                port(&node, "isp", &[peer.inner_address()]),
                port("isp", &node, &[peer.isp_address()]),
            );
        }
    }
}

fn port(node: &str, interface: &str, addresses: &[Ipv6Addr]) -> String {
    let addresses: Vec<String> = addresses
        .iter()
        .map(|address| format!("\"{address}/64\""))
        .collect();
    format!(
        "{{ node = \"{node}\", interface = \"{interface}\", addresses = [{}] }}",
        addresses.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_is_a_network() {
        for (borders, transits, isp) in [(2, 1, true), (1, 4, false), (2, 2, false)] {
            let shape = Shape {
                borders,
                transits,
                isp,
            };
            let spec = shape.topology().unwrap();
            let nodes = 2 + borders + borders * transits + u8::from(isp);
            assert_eq!(spec.nodes.len(), usize::from(nodes));
            let numbers: Vec<u8> = shape.peers().map(|peer| peer.number).collect();
            assert_eq!(numbers, (1..=borders * transits).collect::<Vec<_>>());
        }
    }
}
