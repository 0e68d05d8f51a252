//! The surroundings of the server: configuration, kernel, clock, DNS, containers and upstreams.

use hikyaku_edge::config::ListenAddress;

use super::{Facts, Finding, or_ok};
use crate::doctor::facts::{Mapping, has_content};

pub(super) fn config(facts: &Facts) -> Vec<Finding> {
    if !has_content(&facts.config) {
        return vec![
            Finding::note(
                "config",
                "no configuration is given, so the defaults are checked",
            )
            .so("certificates, names and upstreams of the server are not looked at")
            .mend("hikyaku doctor --config FILE, or the options of hikyaku serve"),
        ];
    }
    let fault = |fault: &String| {
        Finding::fail("config", fault)
            .so("the server does not start")
            .mend("`hikyaku check` with the same options shows all errors; `hikyaku config` prints every key")
    };
    let faults = facts.faults.iter().map(fault).collect();
    or_ok(faults, "config", "the keys fit together")
}

/// Before this release there is no `openat2` with all that is used of it (docs/deploy.md).
const OLDEST: (u32, u32) = (5, 12);

pub(super) fn kernel(facts: &Facts) -> Vec<Finding> {
    let Some((major, minor)) = facts.kernel.release else {
        return Vec::new();
    };
    let state = format!("Linux {major}.{minor}");
    vec![match (major, minor) < OLDEST {
        false => Finding::ok("kernel.release", state),
        true => Finding::warn("kernel.release", state + " is older than 5.12")
            .so("files behind symbolic links are not found")
            .mend("a newer kernel, such as that of Debian 12 or later"),
    }]
}

pub(super) fn clock(facts: &Facts) -> Vec<Finding> {
    match facts.time.synchronised {
        None => Vec::new(),
        Some(true) => vec![Finding::ok("clock", "a time service keeps the clock right")],
        Some(false) => vec![
            Finding::note("clock", "no time service keeps the clock right")
                .so(
                    "a clock that is off expires certificates, cached responses and session \
                     tickets too early or too late",
                )
                .mend("systemctl enable --now systemd-timesyncd, or install chrony"),
        ],
    }
}

pub(super) fn https_records(facts: &Facts) -> Vec<Finding> {
    const ID: &str = "dns.https";
    let dns = &facts.dns;
    let Some(resolver) = dns.resolver else {
        return Vec::new();
    };
    let finding = |(name, answer): &(String, Result<Vec<String>, String>)| match answer {
        Err(why) => Some(
            Finding::note(
                ID,
                format!("asking {resolver} for the HTTPS record of {name}: {why}"),
            )
            .so("it may name `h3`, which would take the choice from hikyaku")
            .mend(format!(
                "look by hand: dig {name} HTTPS; or give --resolver ADDR"
            )),
        ),
        Ok(protocols) if protocols.iter().any(|protocol| protocol.starts_with("h3")) => Some(
            Finding::warn(
                ID,
                format!(
                    "the HTTPS record of {name} has alpn={}",
                    protocols.join(",")
                ),
            )
            .so(
                "browsers begin with HTTP/3 and ignore `Alt-Svc`: hikyaku can't choose for \
                     them, and where UDP fails they wait",
            )
            .mend(format!(
                "take h3 out of the record of {name} (alpn=\"h2\"), or the record away"
            )),
        ),
        Ok(_) => None,
    };
    let found: Vec<_> = dns.names.iter().filter_map(finding).collect();
    match dns.names.len() {
        0 => Vec::new(),
        count => or_ok(
            found,
            ID,
            format!("no HTTPS record of {count} names has h3"),
        ),
    }
}

pub(super) fn mapped_ports(facts: &Facts) -> Vec<Finding> {
    let ports: Vec<_> = facts.config.listen.iter().map(port).collect();
    let mut findings = unmapped_udp(facts, &ports);
    findings.extend(of_container(facts, &ports));
    findings
}

/// Ports of Docker on this machine that TCP alone is mapped of.
fn unmapped_udp(facts: &Facts, ports: &[u16]) -> Vec<Finding> {
    let mappings = &facts.container.mappings;
    let is_of_server = |mapping: &Mapping| {
        mapping.host == 443 || ports.contains(&mapping.host) || ports.contains(&mapping.container)
    };
    let has_udp = |host| {
        mappings
            .iter()
            .any(|other| other.is_udp && other.host == host)
    };
    let tcp = mappings.iter().filter(|mapping| !mapping.is_udp);
    let without = tcp.filter(|tcp| is_of_server(tcp) && !has_udp(tcp.host));
    let mut pairs: Vec<_> = without.map(|tcp| (tcp.host, tcp.container)).collect();
    // Docker has a proxy for each family of addresses.
    pairs.sort_unstable();
    pairs.dedup();
    let finding = |(host, container): (u16, u16)| {
        Finding::warn(
            "container.udp",
            format!("Docker maps TCP {host} to {container} of a container, and no UDP"),
        )
        .so("no client of that container gets HTTP/3")
        .mend(format!(
            "docker run --publish {host}:{container}/tcp --publish {host}:{container}/udp ..."
        ))
    };
    pairs.into_iter().map(finding).collect()
}

/// In a container, whose server can't see how its port is mapped.
fn of_container(facts: &Facts, ports: &[u16]) -> Option<Finding> {
    const ID: &str = "container.port";
    if !facts.container.inside {
        return None;
    }
    let port = ports.first().copied()?;
    if ports.contains(&443) || facts.config.behind.advertise.is_some() {
        return Some(Finding::ok(
            ID,
            "a container, whose clients use the port listened on or advertised",
        ));
    }
    Some(
        Finding::note(
            ID,
            format!("a container, in which port {port} is listened on and 443 is not"),
        )
        .so("clients get HTTP/3 only where UDP is mapped like TCP")
        .mend(format!(
            "docker run --publish 443:{port}/tcp --publish 443:{port}/udp ..., and \
                 behind.advertise = \":443\""
        )),
    )
}

/// The port of an address.
fn port(address: &ListenAddress) -> u16 {
    match address {
        ListenAddress::Ip(address) => address.port(),
        ListenAddress::Name { port, .. } => *port,
    }
}

pub(super) fn upstreams(facts: &Facts) -> Vec<Finding> {
    const ID: &str = "upstreams";
    if facts.upstreams.is_empty() {
        return Vec::new();
    }
    let finding = |(url, why): (&String, &String)| {
        Finding::warn(ID, format!("{url} takes no connection: {why}"))
            .so("requests for it get 502 or 504, or go to another upstream")
            .mend(format!(
                "start it, or correct `upstream`; curl -v {url} shows more"
            ))
    };
    let found = facts.upstreams.iter();
    let found = found.filter_map(|upstream| Some((&upstream.url, upstream.fault.as_ref()?)));
    let count = facts.upstreams.len();
    or_ok(
        found.map(finding).collect(),
        ID,
        format!("{count} take connections"),
    )
}
