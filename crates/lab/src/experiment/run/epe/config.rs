//! Configurations of the test bed's daemons and agents.

use std::net::Ipv6Addr;
use std::path::Path;

use super::Side;
use crate::experiment::spec::Borders;
use hikyaku_units::Rate;

/// Address of the client.
pub(crate) const CLIENT: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xc, 0, 0, 0, 0, 1);

/// Prefix that the client's ISP announces.
pub(crate) const CLIENT_PREFIX: &str = "2001:db8:c::/48";

/// The content server's default address, whose packets take BGP's best path.
pub(crate) const SERVER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 5, 0, 0, 0, 0, 0x10);

/// Address at which each GoBGP daemon waits for `gobgp`, in its own namespace.
pub(super) const GOBGP_API: &str = "127.0.0.1:50051";

/// Output file of FlowStats, in the test bed's directory.
pub(super) const FLOW_STATS: &str = "flows.jsonl";

/// The content AS.
const ASN: u32 = 64_500;
const TRANSIT_A: u32 = 64_601;
const TRANSIT_B: u32 = 64_602;
const ISP: u32 = 64_701;

const REFLECTOR: &str = "2001:db8:5::53";

/// Configurations of GoBGP by node.
pub(super) fn daemons(borders: Borders) -> [(&'static str, String); 4] {
    // Each transit has a shorter AS path unless the ISP makes it longer.
    let longer = match borders {
        Borders::Agents => Side::B,
        Borders::Frr => Side::A,
    };
    [
        ("reflector", reflector()),
        ("isp", isp(longer)),
        ("transit-a", transit(Side::A)),
        ("transit-b", transit(Side::B)),
    ]
}

/// Configuration of the agent on a node.
pub(super) fn agent(node: &str, socket: &Path, directory: &Path, borders: Borders) -> String {
    let text = match node {
        "asbr1" => border(Side::A, borders),
        "asbr2" => border(Side::B, borders),
        _ => server(&directory.join(FLOW_STATS)),
    };
    let state = directory.join(format!("{node}-state"));
    let role = if node == "server" { "server" } else { "border" };
    let router_id = match node {
        "asbr1" => "192.0.2.1",
        "asbr2" => "192.0.2.2",
        _ => "192.0.2.11",
    };
    format!(
        "role = \"{role}\"\nasn = {ASN}\nrouter_id = \"{router_id}\"\napi.socket = {socket:?}\nstate.dir = {state:?}\n\
         [bgp]\nconnect_retry = \"1s\"\n{text}"
    )
}

/// Configuration of GoBGP as a reflector of the content AS's VPN routes and the borders' best
/// paths.
fn reflector() -> String {
    let mut text = global(ASN, "192.0.2.53");
    for client in ["2001:db8:5::b1", "2001:db8:5::b2", "2001:db8:5::10"] {
        text += &neighbor(client, ASN, Opens::They, &FAMILIES);
        text += "[neighbors.route-reflector.config]\nroute-reflector-client = true\n\
                 route-reflector-cluster-id = \"192.0.2.53\"\n";
    }
    text
}

const FAMILIES: [&str; 3] = ["ipv6-unicast", "l3vpn-ipv6-unicast", "l3vpn-ipv4-unicast"];

/// Configuration of the client's ISP, which makes its AS path by one transit longer.
fn isp(longer: Side) -> String {
    let mut text = global(ISP, "198.51.100.9");
    text += "[global.apply-policy.config]\nexport-policy-list = [\"prepend\"]\n\
             default-export-policy = \"accept-route\"\n";
    text += &neighbor("2001:db8:e1::2", TRANSIT_A, Opens::They, &["ipv6-unicast"]);
    text += &neighbor("2001:db8:e2::2", TRANSIT_B, Opens::They, &["ipv6-unicast"]);
    text += &format!(
        "[[defined-sets.neighbor-sets]]\nneighbor-set-name = \"longer\"\n\
         neighbor-info-list = [\"2001:db8:e{}::2\"]\n\
         [[policy-definitions]]\nname = \"prepend\"\n\
         [[policy-definitions.statements]]\nname = \"longer\"\n\
         [policy-definitions.statements.conditions.match-neighbor-set]\n\
         neighbor-set = \"longer\"\n\
         [policy-definitions.statements.actions.bgp-actions.set-as-path-prepend]\n\
         as = \"{ISP}\"\nrepeat-n = 1\n",
        number(longer)
    );
    text
}

/// Configuration of a transit between the content AS and the ISP. The border may have two sessions
/// with it.
fn transit(side: Side) -> String {
    let number = number(side);
    let border = |end| {
        let address = format!("2001:db8:a{number}::{end}");
        neighbor(&address, ASN, Opens::They, &["ipv6-unicast"])
    };
    let isp = format!("2001:db8:e{number}::1");
    global(asn(side), &format!("198.51.100.{number}"))
        + &border(2)
        + &border(3)
        + &neighbor(&isp, ISP, Opens::We, &["ipv6-unicast"])
}

/// The number of a side in addresses.
const fn number(side: Side) -> u8 {
    match side {
        Side::A => 1,
        Side::B => 2,
    }
}

/// The AS of a side's transit.
const fn asn(side: Side) -> u32 {
    match side {
        Side::A => TRANSIT_A,
        Side::B => TRANSIT_B,
    }
}

/// The command of `ip` that gives a border the address that FRR has towards the transit. It is
/// never a default source, so that the agent's session has the first one.
pub(super) fn second_address(side: Side) -> String {
    let number = number(side);
    format!("addr add 2001:db8:a{number}::3/64 dev transit nodad preferred_lft 0")
}

/// Configuration of FRR's `bgpd` on a border. It prefers transit A by LOCAL_PREF, and hands its
/// best paths to the other border.
pub(super) fn frr(side: Side) -> String {
    let (number, asn) = (number(side), asn(side));
    let (other, preference) = match side {
        Side::A => (2, 110),
        Side::B => (1, 100),
    };
    format!(
        "router bgp {ASN}\n bgp router-id 192.0.2.10{number}\n no bgp default ipv4-unicast\n \
         no bgp ebgp-requires-policy\n \
         neighbor 2001:db8:a{number}::1 remote-as {asn}\n \
         neighbor 2001:db8:a{number}::1 update-source 2001:db8:a{number}::3\n \
         neighbor 2001:db8:a{number}::1 timers connect 1\n \
         neighbor 2001:db8:5::b{other} remote-as {ASN}\n \
         neighbor 2001:db8:5::b{other} update-source 2001:db8:5::b{number}\n \
         neighbor 2001:db8:5::b{other} timers connect 1\n \
         address-family ipv6 unicast\n  \
         neighbor 2001:db8:a{number}::1 activate\n  \
         neighbor 2001:db8:a{number}::1 route-map PREFERENCE in\n  \
         neighbor 2001:db8:5::b{other} activate\n  \
         neighbor 2001:db8:5::b{other} next-hop-self\n \
         exit-address-family\n\
         route-map PREFERENCE permit 10\n set local-preference {preference}\n"
    )
}

fn global(asn: u32, router_id: &str) -> String {
    format!("[global.config]\nas = {asn}\nrouter-id = \"{router_id}\"\n")
}

/// The side that opens a session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opens {
    We,
    They,
}

fn neighbor(address: &str, asn: u32, opens: Opens, families: &[&str]) -> String {
    let mut text = format!(
        "[[neighbors]]\n[neighbors.config]\nneighbor-address = \"{address}\"\npeer-as = {asn}\n\
         [neighbors.transport.config]\npassive-mode = {}\n\
         [neighbors.timers.config]\nconnect-retry = 1\n",
        opens == Opens::They
    );
    // GoBGP marks the end of its routes with graceful restart alone, and agents are ready only
    // then. Transits do without it, since their lost routes must vanish at once.
    let marks_end = asn == ASN && families.len() > 1;
    if marks_end {
        text += "[neighbors.graceful-restart.config]\nenabled = true\nrestart-time = 5\n";
    }
    for family in families {
        text += "[[neighbors.afi-safis]]\n[neighbors.afi-safis.config]\n";
        text += &format!("afi-safi-name = \"{family}\"\n");
        if marks_end {
            text += "[neighbors.afi-safis.mp-graceful-restart.config]\nenabled = true\n";
        }
    }
    text
}

fn border(side: Side, borders: Borders) -> String {
    let (number, transit) = (number(side), asn(side));
    let router = match borders {
        Borders::Agents => "[router]\nbest_paths = true\nannounce = [\"2001:db8:5::/48\"]\n",
        Borders::Frr => "",
    };
    format!(
        "{router}[import]\nmartians = true\n\
         [srv6]\nlocator = \"2001:db8:b{number}::/48\"\ninterfaces = [\"csp\"]\n\
         [[reflector]]\nname = \"rr\"\naddress = \"{REFLECTOR}\"\n\
         local_address = \"2001:db8:5::b{number}\"\n\
         [[peer]]\nname = \"{}\"\nnumber = 1\naddress = \"2001:db8:a{number}::1\"\nasn = {transit}\n",
        side.path()
    )
}

/// The port of a border, whose link has this rate.
pub(super) fn port(capacity: Rate) -> String {
    let bits = capacity.bits_per_sec();
    format!(
        "[[port]]\nname = \"transit\"\nnumber = 1\ninterface = \"transit\"\ncapacity = \"{bits}bps\"\n"
    )
}

/// Returns the part of the content server's configuration that its role needs. Runs follow each
/// other too closely for a border to prove itself for longer each time.
fn server(flow_stats: &Path) -> String {
    let mut text = format!(
        "[srv6]\ninterface = \"eth0\"\ntunnel_source = \"{SERVER}\"\n\
         locators = [\"2001:db8:b1::/48\", \"2001:db8:b2::/48\"]\n\
         [probe]\nhold = \"0s\"\n\
         [mptcp]\nmode = \"userspace\"\n\
         [[reflector]]\nname = \"rr\"\naddress = \"{REFLECTOR}\"\nlocal_address = \"{SERVER}\"\n\
         [flows]\nplain = true\njson = {flow_stats:?}\n"
    );
    for (i, side) in Side::ALL.into_iter().enumerate() {
        let (name, number, address) = (side.path(), i + 1, side.epe_address());
        text += &format!(
            "[[path]]\nname = \"{name}\"\nnumber = {number}\nborder = \"192.0.2.{number}\"\n\
             peer = 1\naddresses = [\"{address}\"]\n"
        );
    }
    text
}
