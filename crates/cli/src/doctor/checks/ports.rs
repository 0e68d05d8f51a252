//! The addresses to listen on.

use hikyaku_edge::config::ListenAddress;

use super::{Facts, Finding, or_ok};
use crate::doctor::facts::{Bound, Owner, Port};

pub(super) fn taken(facts: &Facts) -> Vec<Finding> {
    const ID: &str = "ports.taken";
    let finding = |port: &Port| match &port.bound {
        Bound::Taken(owners) if owners.iter().any(Owner::is_server) => None,
        Bound::Taken(owners) => {
            let (name, who) = (name(port), owners_of(owners));
            Some(
                Finding::fail(ID, format!("{name} belongs to {who}"))
                    .so("the server does not start")
                    .mend(format!(
                        "stop it (ss -ltunp shows all), or listen elsewhere: {}",
                        key(facts, &port.address)
                    )),
            )
        }
        Bound::Failed(why) => Some(
            Finding::fail(ID, format!("{} can't be bound: {why}", name(port)))
                .so("the server does not start")
                .mend(format!("correct {}", key(facts, &port.address))),
        ),
        _ => None,
    };
    let found = facts.ports.iter().filter_map(finding).collect();
    let state = match facts.process.server {
        Some(id) => format!("a server runs (process {id})"),
        None => "the addresses are free".to_owned(),
    };
    or_ok(found, ID, state)
}

pub(super) fn denied(facts: &Facts) -> Vec<Finding> {
    const ID: &str = "ports.denied";
    let first = facts.kernel.first_open_port.unwrap_or(1024);
    let denied = facts
        .ports
        .iter()
        .filter(|port| port.bound == Bound::Denied);
    let finding =
        |port: &Port| {
            Finding::fail(
            ID,
            format!("{} needs CAP_NET_BIND_SERVICE, as all ports below {first}", name(port)),
        )
        .so("the server does not start as this user")
        .mend(
            "AmbientCapabilities=CAP_NET_BIND_SERVICE in the unit (conf/hikyaku.service has it); \
             or a port from 1024 on",
        )
        };
    or_ok(denied.map(finding).collect(), ID, "the ports are allowed")
}

pub(super) fn absent(facts: &Facts) -> Vec<Finding> {
    const ID: &str = "ports.absent";
    let absent = facts
        .ports
        .iter()
        .filter(|port| port.bound == Bound::Absent);
    let finding = |port: &Port| {
        Finding::fail(
            ID,
            format!("this machine lacks the address of {}", name(port)),
        )
        .so("the server does not start")
        .mend(format!(
            "`ip address` shows the addresses; correct {}, or use the wildcard (\":443\")",
            key(facts, &port.address)
        ))
    };
    or_ok(
        absent.map(finding).collect(),
        ID,
        "the machine has the addresses",
    )
}

pub(super) fn ipv6(facts: &Facts) -> Vec<Finding> {
    const ID: &str = "net.ipv6";
    let mut wanted = facts.config.listen.iter();
    let Some(address) =
        wanted.find(|address| matches!(address, ListenAddress::Ip(a) if a.is_ipv6()))
    else {
        return Vec::new();
    };
    vec![match facts.kernel.ipv6 {
        true => Finding::ok(ID, "the kernel has IPv6"),
        false => Finding::note(
            ID,
            format!("{address} is listened on, and IPv6 is switched off"),
        )
        .so("only clients with IPv4 can come; those that try an AAAA record first wait")
        .mend(super::sysctl("net.ipv6.conf.all.disable_ipv6", 0)),
    }]
}

fn name(port: &Port) -> String {
    format!("{} {}", port.transport, port.address)
}

fn owners_of(owners: &[Owner]) -> String {
    let owner = |owner: &Owner| format!("{} (process {})", owner.name, owner.id);
    match owners {
        [] => "a process that this user may not see".to_owned(),
        owners => owners.iter().map(owner).collect::<Vec<_>>().join(", "),
    }
}

/// The key that an address comes from.
fn key(facts: &Facts, address: &ListenAddress) -> &'static str {
    let config = &facts.config;
    if config.listen.contains(address) {
        "`listen`"
    } else if config.http.listen.contains(address) {
        "`http.listen`"
    } else {
        "`admin.listen`"
    }
}
