//! The parts of a topology.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use hikyaku_netsim::{Change, LinkConfig};
use serde::{Deserialize, Deserializer};

use crate::link::{Backend, ChangePair, LinkPair};

/// A network: nodes and their connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopologySpec {
    /// Purpose of the topology, in one line.
    pub description: String,
    /// Hosts and routers. A shell opens in the first.
    pub nodes: Vec<NodeSpec>,
    /// Emulated links, of a rate, delay, loss and queue.
    #[serde(default)]
    pub links: Vec<LinkSpec>,
    /// Direct connections of two nodes, as fast as the machine.
    #[serde(default)]
    pub wires: Vec<WireSpec>,
    /// Ethernet segments of several nodes, as fast as the machine.
    #[serde(default)]
    pub lans: Vec<LanSpec>,
}

/// A host or a router: one network namespace.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    /// Unique in the topology: lower-case letters, digits and `-`.
    pub name: String,
    /// Addresses of the node itself, on its loopback interface. Default none.
    #[serde(default)]
    pub addresses: Vec<InterfaceAddress>,
    /// Whether the node forwards packets between its interfaces, IPv4 and IPv6. Default `false`.
    #[serde(default)]
    pub forward: bool,
    /// Congestion control of TCP connections that choose none. Default `cubic`.
    #[serde(default = "cubic")]
    pub congestion_control: String,
    /// Further kernel parameters below `net`, such as `net.ipv4.tcp_ecn`. Default
    /// none.
    #[serde(default)]
    pub sysctls: BTreeMap<String, Sysctl>,
    /// Routes, as `ip route add` takes them. Default none.
    #[serde(default)]
    pub routes: Vec<String>,
    /// Routing policy rules, as `ip rule add` takes them. Default none.
    #[serde(default)]
    pub rules: Vec<String>,
    /// Further commands of iproute2 without the `ip`, run last and in order. Default none.
    #[serde(default)]
    pub ip: Vec<String>,
}

/// An emulated link between two nodes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Unique in the topology.
    pub name: String,
    /// One end.
    pub a: EndSpec,
    /// The other end.
    pub b: EndSpec,
    /// Largest IP packet in bytes, 1280 to 65535. Default 1500.
    #[serde(default = "ethernet_mtu")]
    pub mtu: u32,
    /// Emulator of the link: `tun` or `netem`. Default `tun`.
    #[serde(default)]
    pub backend: Backend,
    /// Properties of both directions; excludes `up` and `down`.
    #[serde(default)]
    pub both: Option<LinkConfig>,
    /// Properties from `a` to `b`. Default unlimited.
    #[serde(default)]
    pub up: Option<LinkConfig>,
    /// Properties from `b` to `a`. Default unlimited.
    #[serde(default)]
    pub down: Option<LinkConfig>,
    /// Scheduled changes. Default none.
    #[serde(default)]
    pub changes: Changes,
}

/// Scheduled changes of a link, at times after
/// [`Network::begin_changes`](super::Network::begin_changes).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Changes {
    /// Changes of both directions.
    pub both: Vec<Change>,
    /// Changes of the direction from `a` to `b`.
    pub up: Vec<Change>,
    /// Changes of the direction from `b` to `a`.
    pub down: Vec<Change>,
}

/// A veth pair between two nodes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WireSpec {
    /// Unique in the topology.
    pub name: String,
    /// One end.
    pub a: EndSpec,
    /// The other end.
    pub b: EndSpec,
    /// Largest IP packet in bytes, 1280 to 65535. Default 1500.
    #[serde(default = "ethernet_mtu")]
    pub mtu: u32,
}

/// A bridge with a port for each of several nodes, in a namespace of its own.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LanSpec {
    /// Unique in the topology: lower-case letters, digits and `-`.
    pub name: String,
    /// The interfaces on the bridge.
    pub ports: Vec<EndSpec>,
    /// Largest IP packet in bytes, 1280 to 65535. Default 1500.
    #[serde(default = "ethernet_mtu")]
    pub mtu: u32,
}

/// An interface of a node.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndSpec {
    /// Name of the node.
    pub node: String,
    /// Name of the interface, at most 15 characters, unique in the node.
    pub interface: String,
    /// Addresses of the interface. Default none.
    #[serde(default)]
    pub addresses: Vec<InterfaceAddress>,
}

/// An address and the length of its prefix: `10.0.0.1/24`, `fd00::1/64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The address.
    pub ip: IpAddr,
    /// Length of the network's prefix in bits, at most 32 or 128.
    pub prefix_len: u8,
}

/// Value of a kernel parameter: an integer or text.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Sysctl {
    /// A number.
    Integer(i64),
    /// Any other value, such as `4096 131072 67108864`.
    Text(String),
}

impl NodeSpec {
    /// A node with this name and every default.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            addresses: Vec::new(),
            forward: false,
            congestion_control: cubic(),
            sysctls: BTreeMap::new(),
            routes: Vec::new(),
            rules: Vec::new(),
            ip: Vec::new(),
        }
    }
}

impl LinkSpec {
    /// A link with this name between these ends and every default.
    pub fn new(name: &str, a: EndSpec, b: EndSpec) -> Self {
        Self {
            name: name.to_owned(),
            a,
            b,
            mtu: ethernet_mtu(),
            backend: Backend::default(),
            both: None,
            up: None,
            down: None,
            changes: Changes::default(),
        }
    }

    /// The properties of both directions; up is from `a` to `b`.
    pub fn links(&self) -> LinkPair {
        let direction = |own: &Option<LinkConfig>| {
            let config = own.as_ref().or(self.both.as_ref());
            config.cloned().unwrap_or_default()
        };
        LinkPair {
            up: direction(&self.up),
            down: direction(&self.down),
        }
    }
}

impl Changes {
    /// All changes up and down, in the order of time.
    pub fn by_direction(&self) -> ChangePair {
        let direction = |own: &[Change]| {
            let mut changes = [self.both.as_slice(), own].concat();
            changes.sort_by_key(|change| change.at);
            changes
        };
        ChangePair {
            up: direction(&self.up),
            down: direction(&self.down),
        }
    }
}

impl FromStr for InterfaceAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not an address with a prefix length, such as `10.0.0.1/24` or `fd00::1/64`"
            )
        };
        let (ip, len) = text.split_once('/').ok_or_else(wrong)?;
        let ip: IpAddr = ip.parse().map_err(|_| wrong())?;
        let prefix_len = len.parse().map_err(|_| wrong())?;
        let max = if ip.is_ipv4() { 32 } else { 128 };
        if prefix_len > max {
            return Err(wrong());
        }
        Ok(Self { ip, prefix_len })
    }
}

impl fmt::Display for InterfaceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.prefix_len)
    }
}

impl<'de> Deserialize<'de> for InterfaceAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for Sysctl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            Self::Text(value) => f.write_str(value),
        }
    }
}

fn cubic() -> String {
    "cubic".to_owned()
}

fn ethernet_mtu() -> u32 {
    1500
}
