//! Building the namespaces of a network and their connections.

use std::sync::Arc;

use super::check::sysctl_path;
use super::spec::{EndSpec, InterfaceAddress, LanSpec, NodeSpec, WireSpec};
use crate::link::owner::Claim;
use crate::link::{LinkError, Netns};

/// Kernel parameters of every node; its own come after them.
const SYSCTLS: &[(&str, &str)] = &[
    // Otherwise a "fresh" connection inherits ssthresh from one before it.
    ("net/ipv4/tcp_no_metrics_save", "1"),
    // The first two are the kernel's own buffers. The last lets the window grow to twice the
    // bandwidth-delay product of 1 Gbit/s and 200 ms.
    ("net/ipv4/tcp_rmem", "4096 131072 67108864"),
    ("net/ipv4/tcp_wmem", "4096 16384 67108864"),
    // Link-local addresses of wires and LANs are usable at once.
    ("net/ipv6/conf/default/accept_dad", "0"),
];

/// Makes a node's namespace, without interfaces but loopback.
pub(super) fn create(claim: &Arc<Claim>, spec: &NodeSpec) -> Result<Netns, LinkError> {
    let netns = Netns::create_with(claim, &spec.name)?;
    for (key, value) in SYSCTLS {
        netns.set_sysctl(key, value)?;
    }
    netns.set_sysctl("net/ipv4/tcp_congestion_control", &spec.congestion_control)?;
    if spec.forward {
        netns.set_sysctl("net/ipv4/ip_forward", "1")?;
        netns.set_sysctl("net/ipv6/conf/all/forwarding", "1")?;
    }
    set_sysctls(&netns, spec, |path| !is_of_interface(path))?;
    Ok(netns)
}

/// Sets up the parts of a node that need its interfaces. They are the interfaces' kernel
/// parameters, the node's own addresses, routes, rules, and further commands.
pub(super) fn finish(netns: &Netns, spec: &NodeSpec) -> Result<(), LinkError> {
    set_sysctls(netns, spec, is_of_interface)?;
    netns.ip(&addresses("lo", &spec.addresses))?;
    for route in &spec.routes {
        netns.ip_command(&format!("{} route add {route}", family(route)))?;
    }
    for rule in &spec.rules {
        netns.ip_command(&format!("{} rule add {rule}", family(rule)))?;
    }
    spec.ip
        .iter()
        .try_for_each(|command| netns.ip_command(command))
}

fn set_sysctls(
    netns: &Netns,
    spec: &NodeSpec,
    which: impl Fn(&str) -> bool,
) -> Result<(), LinkError> {
    for (key, value) in &spec.sysctls {
        let path = sysctl_path(key);
        if which(&path) {
            netns.set_sysctl(&path, &value.to_string())?;
        }
    }
    Ok(())
}

/// Whether a kernel parameter exists only together with an interface.
fn is_of_interface(path: &str) -> bool {
    let mut parts = path.split('/').skip(2);
    matches!(parts.next(), Some("conf" | "neigh"))
        && !matches!(parts.next(), Some("all" | "default" | "lo") | None)
}

/// Sets the addresses of an emulated link's interface and the properties that the link needs.
pub(super) fn bring_up_end(netns: &Netns, end: &EndSpec, mtu: u32) -> Result<(), LinkError> {
    let interface = &end.interface;
    // The interface has no link-local address, and so sends no router solicitation. It has no
    // multicast, whose groups routers report. Such packets would take the place of the experiment's
    // packets in the links' random streams. The long transmit queue keeps bursts from being dropped
    // before they reach the link.
    netns.ip(&format!(
        "link set dev {interface} mtu {mtu} txqueuelen 10000 addrgenmode none multicast off\n\
         {}link set dev {interface} up\n",
        addresses(interface, &end.addresses)
    ))
}

/// Joins two nodes by a veth pair.
pub(super) fn connect(a: &Netns, b: &Netns, wire: &WireSpec) -> Result<(), LinkError> {
    add_veth(a, &wire.a.interface, b, &wire.b.interface, wire.mtu)?;
    bring_up(a, &wire.a)?;
    bring_up(b, &wire.b)
}

/// Makes a bridge in a namespace of its own, which joins the ports' nodes.
pub(super) fn create_lan<'a>(
    claim: &Arc<Claim>,
    lan: &LanSpec,
    node: impl Fn(&EndSpec) -> Result<&'a Netns, LinkError>,
) -> Result<Netns, LinkError> {
    // No node has a dot in its name.
    let bridge = Netns::create_with(claim, &format!("{}.lan", lan.name))?;
    bridge.ip(&format!(
        "link add name {BRIDGE} type bridge\nlink set dev {BRIDGE} up\n"
    ))?;
    for (i, end) in lan.ports.iter().enumerate() {
        let (host, port) = (node(end)?, format!("port{i}"));
        add_veth(host, &end.interface, &bridge, &port, lan.mtu)?;
        bridge.ip(&format!("link set dev {port} master {BRIDGE} up\n"))?;
        bring_up(host, end)?;
    }
    Ok(bridge)
}

const BRIDGE: &str = "bridge";

/// Makes both ends in their own namespaces, so that no interface is ever visible outside of the
/// network.
fn add_veth(a: &Netns, a_name: &str, b: &Netns, b_name: &str, mtu: u32) -> Result<(), LinkError> {
    a.ip(&format!(
        "link add name {a_name} mtu {mtu} type veth peer name {b_name} mtu {mtu} netns {}\n",
        b.name()
    ))
}

fn bring_up(netns: &Netns, end: &EndSpec) -> Result<(), LinkError> {
    let interface = &end.interface;
    netns.ip(&format!(
        "{}link set dev {interface} up\n",
        addresses(interface, &end.addresses)
    ))
}

/// Lines that add addresses, usable at once.
fn addresses(interface: &str, addresses: &[InterfaceAddress]) -> String {
    let line = |address: &InterfaceAddress| {
        let nodad = if address.ip.is_ipv6() { " nodad" } else { "" };
        format!("address add {address} dev {interface}{nodad}\n")
    };
    addresses.iter().map(line).collect()
}

/// Returns the address family of a route or rule, which `ip` does not always recognise.
fn family(text: &str) -> &'static str {
    if text.contains(':') { "-6" } else { "-4" }
}
