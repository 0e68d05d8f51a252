//! Consistency of a description's parts.

use std::collections::BTreeSet;

use super::error::SpecProblem;
use super::spec::{EndSpec, NodeSpec, TopologySpec};

type Checked = Result<(), SpecProblem>;

/// Names that no interface can have. Loopback has the first. The others are directories, of files
/// or of kernel parameters (dev_valid_name(), sysctl_dev_name_is_allowed()).
const TAKEN: [&str; 5] = ["lo", "all", "default", ".", ".."];

impl TopologySpec {
    /// Finds the first part that cannot be built as described.
    ///
    /// # Errors
    /// The part, its place, and the remedy.
    pub fn check(&self) -> Result<(), SpecProblem> {
        if self.nodes.is_empty() {
            return wrong("nodes", "there is none; add a [[nodes]] with a name");
        }
        unique("nodes", self.nodes.iter().map(|node| node.name.as_str()))?;
        unique("links", self.links.iter().map(|link| link.name.as_str()))?;
        unique("wires", self.wires.iter().map(|wire| wire.name.as_str()))?;
        unique("lans", self.lans.iter().map(|lan| lan.name.as_str()))?;
        self.nodes.iter().try_for_each(check_node)?;

        let mut interfaces = BTreeSet::new();
        for (place, end) in self.ends() {
            self.check_end(&place, end)?;
            if !interfaces.insert((&end.node, &end.interface)) {
                let problem = format!(
                    "node `{}` has an interface `{}` already; choose another name",
                    end.node, end.interface
                );
                return wrong(&place, &problem);
            }
        }
        self.check_links()?;
        let wires = self
            .wires
            .iter()
            .map(|wire| ("wires", &wire.name, wire.mtu));
        let lans = self.lans.iter().map(|lan| ("lans", &lan.name, lan.mtu));
        for (section, name, mtu) in wires.chain(lans) {
            check_mtu(&format!("{section}.{name}"), mtu)?;
        }
        Ok(())
    }

    /// Returns every interface and its place.
    fn ends(&self) -> impl Iterator<Item = (String, &EndSpec)> {
        let pair = |section: &str, name: &str, a, b| {
            [
                (format!("{section}.{name}.a"), a),
                (format!("{section}.{name}.b"), b),
            ]
        };
        let links = self.links.iter();
        let links = links.flat_map(move |link| pair("links", &link.name, &link.a, &link.b));
        let wires = self.wires.iter();
        let wires = wires.flat_map(move |wire| pair("wires", &wire.name, &wire.a, &wire.b));
        let lans = self.lans.iter().flat_map(|lan| {
            let ports = lan.ports.iter().enumerate();
            ports.map(|(i, port)| (format!("lans.{}.ports[{i}]", lan.name), port))
        });
        links.chain(wires).chain(lans)
    }

    fn check_end(&self, place: &str, end: &EndSpec) -> Checked {
        if !self.nodes.iter().any(|node| node.name == end.node) {
            let names: Vec<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
            let problem = format!(
                "no node is called `{}`; there are {}",
                end.node,
                names.join(", ")
            );
            return wrong(&format!("{place}.node"), &problem);
        }
        let name = &end.interface;
        let is_word = |byte: u8| byte.is_ascii_graphic() && !b"/:@%\"'\\#".contains(&byte);
        let fits = !name.is_empty() && name.len() <= 15 && name.bytes().all(is_word);
        if !fits || TAKEN.contains(&name.as_str()) {
            let problem = format!(
                "`{name}` cannot be the name of an interface: use 1 to 15 letters, digits, `-`, \
                 `_` or `.`, and none of {}",
                TAKEN.map(|name| format!("`{name}`")).join(", ")
            );
            return wrong(&format!("{place}.interface"), &problem);
        }
        Ok(())
    }

    fn check_links(&self) -> Checked {
        for link in &self.links {
            let place = format!("links.{}", link.name);
            check_mtu(&place, link.mtu)?;
            if link.both.is_some() && (link.up.is_some() || link.down.is_some()) {
                return wrong(
                    &place,
                    "`both` excludes `up` and `down`; keep either `both` or those two",
                );
            }
        }
        Ok(())
    }
}

fn check_node(node: &NodeSpec) -> Checked {
    let place = format!("nodes.{}", node.name);
    for (key, value) in &node.sysctls {
        let path = sysctl_path(key);
        if !path.starts_with("net/") || path.split('/').any(|part| part.is_empty() || part == "..")
        {
            let problem = "only parameters below `net.` belong to a namespace; others are the \
                           whole machine's";
            return wrong(&format!("{place}.sysctls.\"{key}\""), problem);
        }
        one_line(&format!("{place}.sysctls.\"{key}\""), &value.to_string())?;
    }
    one_line(
        &format!("{place}.congestion_control"),
        &node.congestion_control,
    )?;
    for (key, lines) in [
        ("routes", &node.routes),
        ("rules", &node.rules),
        ("ip", &node.ip),
    ] {
        for (i, line) in lines.iter().enumerate() {
            one_line(&format!("{place}.{key}[{i}]"), line)?;
        }
    }
    Ok(())
}

/// Returns the path below `/proc/sys`. `sysctl` writes dots, and slashes for the dots within a
/// name.
pub(super) fn sysctl_path(key: &str) -> String {
    match key.contains('/') {
        true => key.to_owned(),
        false => key.replace('.', "/"),
    }
}

fn unique<'a>(section: &str, names: impl Iterator<Item = &'a str>) -> Checked {
    let mut seen = BTreeSet::new();
    for name in names {
        let is_plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.is_empty() || name.len() > 32 || !name.bytes().all(is_plain) {
            let problem =
                format!("`{name}` cannot be a name: use 1 to 32 lower-case letters, digits or `-`");
            return wrong(section, &problem);
        }
        if !seen.insert(name) {
            return wrong(section, &format!("two are called `{name}`; rename one"));
        }
    }
    Ok(())
}

fn check_mtu(place: &str, mtu: u32) -> Checked {
    // IPv6 needs 1280 (RFC 8200 §5). The field of an IP packet's length has 16 bits.
    if (1280..=65_535).contains(&mtu) {
        return Ok(());
    }
    wrong(
        &format!("{place}.mtu"),
        &format!("{mtu} is outside of 1280 to 65535 bytes"),
    )
}

fn one_line(place: &str, text: &str) -> Checked {
    if text.trim().is_empty() || text.chars().any(char::is_control) {
        return wrong(place, "must be one line of text");
    }
    Ok(())
}

fn wrong(place: &str, problem: &str) -> Checked {
    Err(SpecProblem {
        place: place.to_owned(),
        problem: problem.to_owned(),
    })
}
