//! A network in the kernel.

use std::path::Path;
use std::sync::Arc;

use hikyaku_netsim::derive_seed;

use super::error::SpecProblem;
use super::node;
use super::spec::{EndSpec, LinkSpec, TopologySpec};
use crate::link::owner::Claim;
use crate::link::{Backend, EmulatedLink, LinkError, Netns, Report, processes};

/// Nodes and their connections, built from a [`TopologySpec`].
///
/// Wires and LANs carry packets at once, an emulated link after its [start](EmulatedLink::start).
/// Dropping a network ends the processes inside, stops its links, and removes all of it.
#[derive(Debug)]
pub struct Network {
    // The order is that of dropping: pumps and interfaces before namespaces.
    links: Vec<Link>,
    nodes: Vec<Node>,
    #[allow(dead_code, reason = "kept for its drop")]
    bridges: Vec<Netns>,
}

#[derive(Debug)]
struct Node {
    name: String,
    netns: Netns,
}

#[derive(Debug)]
struct Link {
    spec: LinkSpec,
    link: EmulatedLink,
}

impl Network {
    /// Builds everything. The namespaces are called `hkyk-PID-N-NODE`.
    ///
    /// # Errors
    /// Without privileges, `/dev/net/tun` or iproute2, if the description is inconsistent, or if
    /// the kernel refuses a part. Parts that had been created until then are removed.
    pub fn create(spec: &TopologySpec) -> Result<Self, LinkError> {
        spec.check()?;
        let claim = Claim::take()?;
        let mut network = Self {
            links: Vec::new(),
            nodes: Vec::new(),
            bridges: Vec::new(),
        };
        for spec in &spec.nodes {
            let netns = node::create(&claim, spec).map_err(part("node", &spec.name))?;
            let name = spec.name.clone();
            network.nodes.push(Node { name, netns });
        }
        network.join(&claim, spec)?;
        for (node, spec) in network.nodes.iter().zip(&spec.nodes) {
            node::finish(&node.netns, spec).map_err(part("node", &spec.name))?;
        }
        Ok(network)
    }

    /// The namespace of a node.
    pub fn node(&self, name: &str) -> Option<&Netns> {
        let node = self.nodes.iter().find(|node| node.name == name)?;
        Some(&node.netns)
    }

    /// Every node's name and namespace, in the description's order.
    pub fn nodes(&self) -> impl Iterator<Item = (&str, &Netns)> {
        let nodes = self.nodes.iter();
        nodes.map(|node| (node.name.as_str(), &node.netns))
    }

    /// The emulated link of this name.
    pub fn link(&self, name: &str) -> Option<&EmulatedLink> {
        let link = self.links.iter().find(|link| link.spec.name == name)?;
        Some(&link.link)
    }

    /// The emulated link of this name, to start, stop or log it.
    pub fn link_mut(&mut self, name: &str) -> Option<&mut EmulatedLink> {
        let link = self.links.iter_mut().find(|link| link.spec.name == name)?;
        Some(&mut link.link)
    }

    /// A node's namespace by its index in the description.
    pub(crate) fn node_at(&self, index: usize) -> &Netns {
        &self.nodes[index].netns
    }

    /// An emulated link by its index in the description.
    pub(crate) fn link_at(&self, index: usize) -> &EmulatedLink {
        &self.links[index].link
    }

    /// An emulated link by its index in the description, for changes.
    pub(crate) fn link_at_mut(&mut self, index: usize) -> &mut EmulatedLink {
        &mut self.links[index].link
    }

    /// Starts every emulated link as described, each with random streams of its own. A running link
    /// starts anew. Links stay as they are until [`Self::begin_changes`].
    ///
    /// # Errors
    /// If a pump's thread cannot be started.
    pub fn start_links(&mut self, seed: u64) -> Result<(), LinkError> {
        for (i, Link { spec, link }) in self.links.iter_mut().enumerate() {
            let seed = derive_seed(seed, &[i as u64]);
            let started = link.start(spec.links(), seed);
            started.map_err(part("link", &spec.name))?;
        }
        Ok(())
    }

    /// Begins the scheduled changes of every running link, at times that count from now.
    ///
    /// # Errors
    /// If a pump has failed.
    pub fn begin_changes(&self) -> Result<(), LinkError> {
        for Link { spec, link } in &self.links {
            let begun = link.begin_changes(spec.changes.by_direction());
            begun.map_err(part("link", &spec.name))?;
        }
        Ok(())
    }

    /// Makes every emulated link write a [packet log](EmulatedLink::log_packets) from its next
    /// start on. Its file in `directory` is the link's name and `.csv`.
    pub fn log_packets(&mut self, directory: &Path) {
        for Link { spec, link } in &mut self.links {
            link.log_packets(Some(directory.join(format!("{}.csv", spec.name))));
        }
    }

    /// Stops every emulated link, and returns the reports of those that ran.
    ///
    /// # Errors
    /// If a pump had failed, or a packet log could not be written.
    pub fn stop_links(&mut self) -> Result<Vec<(&str, Report)>, LinkError> {
        let mut reports = Vec::new();
        for Link { spec, link } in &mut self.links {
            let report = link.stop().map_err(part("link", &spec.name))?;
            reports.extend(report.map(|report| (spec.name.as_str(), report)));
        }
        Ok(reports)
    }

    fn join(&mut self, claim: &Arc<Claim>, spec: &TopologySpec) -> Result<(), LinkError> {
        for lan in &spec.lans {
            let bridge = node::create_lan(claim, lan, |end| self.end(end));
            self.bridges.push(bridge.map_err(part("LAN", &lan.name))?);
        }
        for wire in &spec.wires {
            let connected = node::connect(self.end(&wire.a)?, self.end(&wire.b)?, wire);
            connected.map_err(part("wire", &wire.name))?;
        }
        for spec in &spec.links {
            let link = self
                .create_link(claim, spec)
                .map_err(part("link", &spec.name))?;
            let spec = spec.clone();
            self.links.push(Link { spec, link });
        }
        Ok(())
    }

    fn create_link(&self, claim: &Arc<Claim>, spec: &LinkSpec) -> Result<EmulatedLink, LinkError> {
        let (a, b) = (self.end(&spec.a)?, self.end(&spec.b)?);
        let ends = [(a, spec.a.interface.as_str()), (b, &spec.b.interface)];
        let link = match spec.backend {
            Backend::Tun => EmulatedLink::create(ends)?,
            Backend::Netem => EmulatedLink::create_netem(claim, &spec.name, ends, spec.mtu)?,
        };
        node::bring_up_end(a, &spec.a, spec.mtu)?;
        node::bring_up_end(b, &spec.b, spec.mtu)?;
        Ok(link)
    }

    fn end(&self, end: &EndSpec) -> Result<&Netns, LinkError> {
        self.node(&end.node).ok_or_else(|| {
            let place = end.interface.clone();
            let problem = format!("no node is called `{}`", end.node);
            SpecProblem { place, problem }.into()
        })
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // All together, since each may take time to end. A process that does not end keeps nothing
        // else from being removed.
        let names = self.nodes.iter().map(|node| node.netns.name().to_owned());
        let _ = processes::end_inside(&names.collect::<Vec<_>>());
    }
}

/// Adds the name of the part that could not be built.
fn part(what: &'static str, name: &str) -> impl FnOnce(LinkError) -> LinkError {
    let name = name.to_owned();
    move |source| LinkError::Part {
        what,
        name,
        source: Box::new(source),
    }
}
