//! Configurations of the test bed's daemons and agents.

use std::net::Ipv6Addr;
use std::path::Path;

use super::Side;

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
pub(super) fn daemons() -> [(&'static str, String); 4] {
    [
        ("reflector", reflector()),
        ("isp", isp()),
        ("transit-a", transit(TRANSIT_A, "198.51.100.1", "a1", "e1")),
        ("transit-b", transit(TRANSIT_B, "198.51.100.2", "a2", "e2")),
    ]
}

/// Configuration of the agent on a node.
pub(super) fn agent(node: &str, socket: &Path, directory: &Path) -> String {
    let text = match node {
        "asbr1" => border(1, Side::A, TRANSIT_A),
        "asbr2" => border(2, Side::B, TRANSIT_B),
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

/// Configuration of the client's ISP, which prefers transit A for packets to it.
fn isp() -> String {
    let mut text = global(ISP, "198.51.100.9");
    text += "[global.apply-policy.config]\nexport-policy-list = [\"prefer-a\"]\n\
             default-export-policy = \"accept-route\"\n";
    text += &neighbor("2001:db8:e1::2", TRANSIT_A, Opens::They, &["ipv6-unicast"]);
    text += &neighbor("2001:db8:e2::2", TRANSIT_B, Opens::They, &["ipv6-unicast"]);
    text += "[[defined-sets.neighbor-sets]]\nneighbor-set-name = \"b\"\n\
             neighbor-info-list = [\"2001:db8:e2::2\"]\n\
             [[policy-definitions]]\nname = \"prefer-a\"\n\
             [[policy-definitions.statements]]\nname = \"longer\"\n\
             [policy-definitions.statements.conditions.match-neighbor-set]\n\
             neighbor-set = \"b\"\n\
             [policy-definitions.statements.actions.bgp-actions.set-as-path-prepend]\n";
    text + &format!("as = \"{ISP}\"\nrepeat-n = 1\n")
}

/// Configuration of a transit between the content AS and the ISP. Its networks differ in the parts
/// `csp` and `isp`.
fn transit(asn: u32, router_id: &str, csp: &str, isp: &str) -> String {
    let border = format!("2001:db8:{csp}::2");
    let isp = format!("2001:db8:{isp}::1");
    global(asn, router_id)
        + &neighbor(&border, ASN, Opens::They, &["ipv6-unicast"])
        + &neighbor(&isp, ISP, Opens::We, &["ipv6-unicast"])
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

fn border(number: u8, side: Side, transit: u32) -> String {
    format!(
        "[router]\nbest_paths = true\nannounce = [\"2001:db8:5::/48\"]\n\
         [import]\nmartians = true\n\
         [srv6]\nlocator = \"2001:db8:b{number}::/48\"\ninterfaces = [\"csp\"]\n\
         [[reflector]]\nname = \"rr\"\naddress = \"{REFLECTOR}\"\n\
         local_address = \"2001:db8:5::b{number}\"\n\
         [[peer]]\nname = \"{}\"\nnumber = 1\naddress = \"2001:db8:a{number}::1\"\nasn = {transit}\n",
        side.path()
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
