//! The text at the start of a shell in a network.

use std::io::{self, Write};

use hikyaku_netsim::{Counters, LinkConfig};

use crate::link::Report;
use crate::topology::{EndSpec, Network, TopologySpec};

/// Nodes with their addresses, links, and how to enter the other nodes.
pub(super) fn write(
    out: &mut dyn Write,
    spec: &TopologySpec,
    network: &Network,
    inside: &str,
) -> io::Result<()> {
    let nodes: Vec<_> = network
        .nodes()
        .map(|(name, netns)| (name, netns.name(), addresses(spec, name)))
        .collect();
    let longest = nodes.iter().map(|(name, ..)| name.len()).max();
    let width = longest.unwrap_or_default();

    writeln!(out, "{}", spec.description)?;
    for (name, _, addresses) in &nodes {
        let mark = if *name == inside { '*' } else { ' ' };
        writeln!(out, "{mark} {name:width$}  {addresses}")?;
    }
    for link in &spec.links {
        let links = link.links();
        writeln!(
            out,
            "link {} from {} to {}",
            link.name, link.a.node, link.b.node
        )?;
        writeln!(out, "  up    {}", properties(&links.up))?;
        writeln!(out, "  down  {}", properties(&links.down))?;
    }
    writeln!(
        out,
        "You are in {inside}. Enter the others from any terminal:"
    )?;
    for (name, netns, _) in nodes.iter().filter(|(name, ..)| *name != inside) {
        writeln!(out, "  {name:width$}  ip netns exec {netns} $SHELL")?;
    }
    writeln!(out, "When this shell ends, everything is removed.")?;
    out.flush()
}

/// Writes a link's report at the end.
pub(super) fn end(out: &mut dyn Write, name: &str, report: &Report) -> io::Result<()> {
    for (direction, counters) in [("up", &report.up), ("down", &report.down)] {
        let Counters {
            delivered,
            lost,
            dropped,
            policed,
            ..
        } = counters;
        writeln!(
            out,
            "link {name} {direction:4}  {} packets delivered, {} lost, {} dropped by the queue, \
             {} by the policy on UDP",
            delivered.packets, lost.packets, dropped.packets, policed.packets
        )?;
    }
    let late = report.lateness.quantile(0.99);
    writeln!(
        out,
        "link {name}: 99 % of the packets at most {late:.1?} late"
    )?;
    if let Some(why) = report.disturbed() {
        writeln!(out, "link {name} was disturbed: {why}")?;
    }
    out.flush()
}

fn addresses(spec: &TopologySpec, node: &str) -> String {
    let links = spec.links.iter().flat_map(|link| [&link.a, &link.b]);
    let wires = spec.wires.iter().flat_map(|wire| [&wire.a, &wire.b]);
    let ports = spec.lans.iter().flat_map(|lan| &lan.ports);
    let ends = links.chain(wires).chain(ports);
    let own = spec.nodes.iter().filter(|other| other.name == node);
    own.flat_map(|node| &node.addresses)
        .chain(
            ends.filter(|end: &&EndSpec| end.node == node)
                .flat_map(|end| &end.addresses),
        )
        .map(|address| address.ip.to_string())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Formats a link as in a description, without default values.
fn properties(link: &LinkConfig) -> String {
    let (Ok(link), Ok(default)) = (
        toml::Table::try_from(link),
        toml::Table::try_from(LinkConfig::default()),
    ) else {
        return String::new();
    };
    let changed = link
        .iter()
        .filter(|(key, value)| default.get(*key) != Some(value));
    let text: Vec<String> = changed
        .map(|(key, value)| format!("{key} = {value}"))
        .collect();
    match text.is_empty() {
        true => "unlimited".to_owned(),
        false => text.join(", "),
    }
}
