//! The checks. Each is a function of the facts alone.

mod around;
mod certificates;
mod limits;
mod places;
mod ports;
mod tcp;
mod udp;

#[cfg(test)]
mod tests;

use super::facts::Facts;
use super::finding::Finding;

/// All checks, in the order in which their findings are printed.
const CHECKS: [fn(&Facts) -> Vec<Finding>; 24] = [
    around::config,
    around::kernel,
    ports::taken,
    ports::denied,
    ports::absent,
    ports::ipv6,
    certificates::files,
    certificates::keys,
    certificates::time,
    certificates::names,
    certificates::chains,
    certificates::secrets,
    around::clock,
    around::https_records,
    around::mapped_ports,
    limits::files,
    limits::memory,
    limits::conntrack,
    udp::buffers,
    udp::offload,
    tcp::settings,
    places::writable,
    places::lasting,
    around::upstreams,
];

/// The findings of all checks: at least one of each that applies.
pub(crate) fn all(facts: &Facts) -> Vec<Finding> {
    CHECKS.iter().flat_map(|check| check(facts)).collect()
}

/// Facts that this user may not see.
pub(crate) fn unseen(facts: &Facts) -> Vec<String> {
    if facts.process.sees_all {
        return Vec::new();
    }
    let sees = [
        "which processes of other users have a port",
        "whether the server's user may read and write what this user may",
        "the rules of the firewall (nft list ruleset)",
    ];
    let all = sees.map(|what| format!("{what}; run it as root"));
    all.to_vec()
}

/// The command that sets a setting of the kernel, now and for all starts.
fn sysctl(key: &str, value: impl std::fmt::Display) -> String {
    format!(
        "sysctl -w \"{key}={value}\", and the line `{key} = {value}` in /etc/sysctl.d/80-hikyaku.conf"
    )
}

/// The findings, or that all is well where there are none.
fn or_ok(findings: Vec<Finding>, id: &'static str, state: impl Into<String>) -> Vec<Finding> {
    match findings.is_empty() {
        true => vec![Finding::ok(id, state)],
        false => findings,
    }
}
