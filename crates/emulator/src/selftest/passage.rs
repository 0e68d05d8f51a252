//! Checks of packets that must pass the link unchanged.

use std::fs;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::time::Duration;

use hikyaku_netsim::{LinkConfig, Loss, QueueLimit};
use hikyaku_units::{LossRate, Rate};
use quinn_udp::EcnCodepoint;
use socket2::Protocol;

use super::bench::Bench;
use super::traffic::{count_datagrams, receive_ecn, send_burst, stream, udp};
use super::{Check, CheckError, Finding, describe};
use crate::link::{CLIENT_V4, CLIENT_V6, Netns, SERVER_V4, SERVER_V6, Topology};

pub(super) fn checks() -> Vec<Check> {
    let content = "2 MB arrive unchanged, with loss";
    vec![
        Check::new("IPv4", content, |bench, seed| {
            whole(bench, seed, SERVER_V4.into())
        }),
        Check::new("IPv6", content, |bench, seed| {
            whole(bench, seed, SERVER_V6.into())
        }),
        Check::new("MPTCP", content, mptcp),
        Check::new("SRv6", "encapsulated, End.DT6", srv6),
        Check::new("ECN", "every field arrives unchanged", ecn),
        Check::new("UDP GSO", "each segment by itself", udp_gso),
    ]
}

/// Loss, delay and a rate that make the link split super-packets.
fn busy_link() -> LinkConfig {
    LinkConfig {
        rate: Rate::from_mbps(100).into(),
        one_way_delay: Duration::from_millis(1),
        loss: Loss::Bernoulli(LossRate::from_fraction(0.003)),
        queue: QueueLimit::Time(Duration::from_millis(20)),
        ..LinkConfig::default()
    }
}

/// Bytes of which no two segments are alike.
fn content() -> Vec<u8> {
    (0..250_000_u64)
        .flat_map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes())
        .collect()
}

fn whole(bench: &mut Bench, seed: u64, server: IpAddr) -> Result<Finding, CheckError> {
    let sent = content();
    let work = |topology: &_| stream(topology, server, Protocol::TCP, &sent);
    let (received, report) = bench.over(busy_link(), seed, work)?;
    Ok(compare(&sent, &received, report.faults))
}

fn compare(sent: &[u8], received: &[u8], faults: u64) -> Finding {
    let text = match (sent == received, faults) {
        (true, 0) => "unchanged".to_owned(),
        (true, faults) => format!("unchanged, but {faults} faulty frames"),
        (false, _) => format!("{} of {} B, or other bytes", received.len(), sent.len()),
    };
    Finding::reached(text, sent == received && faults == 0)
}

fn mptcp(bench: &mut Bench, seed: u64) -> Result<Finding, CheckError> {
    if !Path::new("/proc/sys/net/mptcp").exists() {
        return Ok(Finding::Unavailable("built without MPTCP".to_owned()));
    }
    let sent = content();
    let (received, report) = bench.over(busy_link(), seed, |topology| {
        let before = mptcp_connections(topology.client())?;
        let received = stream(topology, SERVER_V4.into(), Protocol::MPTCP, &sent)?;
        let after = mptcp_connections(topology.client())?;
        if after == before {
            return Err("the connection fell back to TCP".into());
        }
        Ok(received)
    })?;
    Ok(compare(&sent, &received, report.faults))
}

/// Returns the connections that the server has accepted as MPTCP, from the client's namespace.
fn mptcp_connections(client: &Netns) -> Result<u64, CheckError> {
    // The thread's file, since its namespace is not the process's.
    let netstat = client.enter(|| fs::read_to_string("/proc/thread-self/net/netstat"))??;
    let mut lines = netstat.lines().filter(|line| line.starts_with("MPTcpExt:"));
    let (names, values) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
    let counters = names.split_whitespace().zip(values.split_whitespace());
    let accepted = counters
        .filter(|(name, _)| *name == "MPCapableSYNACKRX")
        .find_map(|(_, value)| value.parse().ok());
    Ok(accepted.unwrap_or(0))
}

/// An address behind the client, reachable by a segment only.
const BEHIND_CLIENT: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x6879, 1, 0, 0, 0, 0, 1);

/// The client's segment.
const SEGMENT: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x6879, 2, 0, 0, 0, 0, 1);

fn srv6(bench: &mut Bench, seed: u64) -> Result<Finding, CheckError> {
    let (received, report) = bench.over(LinkConfig::default(), seed, |topology| {
        if let Err(error) = route_over_segment(topology) {
            return unsupported(error).map(Err);
        }
        let from = udp(topology.server(), SERVER_V6)?;
        let to = udp(topology.client(), BEHIND_CLIENT)?;
        send_burst(&from, to.local_addr()?, 1_000, 40, None)?;
        Ok(Ok(count_datagrams(&to, Duration::ZERO)?))
    })?;
    let received = match received {
        Ok(received) => received,
        Err(reason) => return Ok(Finding::Unavailable(reason)),
    };
    let bytes = report.down.delivered.bytes;
    // 40 B of inner IPv6, 8 B of UDP, 40 B of outer IPv6 and 24 B of routing header.
    let good = received == 40 && bytes == 40 * (1_000 + 48 + 64) && report.faults == 0;
    let text = format!("{received} of 40, {bytes} B on the link");
    Ok(Finding::reached(text, good))
}

/// Recognises the messages of `ip` and the kernel about missing features. Any other error is
/// returned.
fn unsupported(error: CheckError) -> Result<String, CheckError> {
    let text = describe(error.as_ref());
    let says = ["not supported", "No such file"];
    if says.iter().any(|says| text.contains(says)) {
        Ok(text)
    } else {
        Err(error)
    }
}

fn route_over_segment(topology: &Topology) -> Result<(), CheckError> {
    let (client, server) = (topology.client(), topology.server());
    for key in [
        "net/ipv6/conf/all/seg6_enabled",
        "net/ipv6/conf/hkyk0/seg6_enabled",
    ] {
        client.set_sysctl(key, "1")?;
    }
    client.set_sysctl("net/ipv6/conf/all/forwarding", "1")?;
    client.ip(&format!(
        "address replace {BEHIND_CLIENT}/128 dev lo nodad\n\
         route replace {SEGMENT}/128 encap seg6local action End.DT6 table 255 dev hkyk0\n"
    ))?;
    server.ip(&format!(
        "route replace {SEGMENT}/128 dev hkyk0\n\
         route replace {BEHIND_CLIENT}/128 encap seg6 mode encap segs {SEGMENT} dev hkyk0\n"
    ))?;
    Ok(())
}

fn ecn(bench: &mut Bench, seed: u64) -> Result<Finding, CheckError> {
    const EACH: usize = 20;
    let fields = [
        None,
        Some(EcnCodepoint::Ect0),
        Some(EcnCodepoint::Ect1),
        Some(EcnCodepoint::Ce),
    ];
    let ends: [[IpAddr; 2]; 2] = [
        [SERVER_V4.into(), CLIENT_V4.into()],
        [SERVER_V6.into(), CLIENT_V6.into()],
    ];
    let (changed, _) = bench.over(LinkConfig::default(), seed, |topology| {
        let mut changed = 0;
        for [server, client] in ends {
            let from = udp(topology.server(), server)?;
            let to = udp(topology.client(), client)?;
            // The options must be set before the first packet comes.
            receive_ecn(&to, 0)?;
            for field in fields {
                send_burst(&from, to.local_addr()?, 300, EACH, field)?;
                let seen = receive_ecn(&to, EACH)?;
                changed += seen.iter().filter(|&&other| other != field).count();
            }
        }
        Ok(changed)
    })?;
    let all = ends.len() * fields.len() * EACH;
    let text = format!("{changed} of {all} changed");
    Ok(Finding::reached(text, changed == 0))
}

fn udp_gso(bench: &mut Bench, seed: u64) -> Result<Finding, CheckError> {
    const SENT: usize = 2_000;
    let config = LinkConfig {
        loss: Loss::Bernoulli(LossRate::from_fraction(0.2)),
        ..LinkConfig::default()
    };
    let ((offload, received), report) = bench.over(config, seed, |topology| {
        let from = udp(topology.server(), SERVER_V4)?;
        let to = udp(topology.client(), CLIENT_V4)?;
        let offload = send_burst(&from, to.local_addr()?, 1_200, SENT, None)?;
        Ok((offload, count_datagrams(&to, Duration::ZERO)?))
    })?;
    if !offload {
        return Ok(Finding::Unavailable(
            "no UDP segmentation offload".to_owned(),
        ));
    }
    let down = report.down;
    let passed = down.delivered.packets + down.lost.packets;
    let good = passed == SENT as u64
        && received == down.delivered.packets
        // Super-packets lost as a whole would appear as a few of 50.
        && (0.15..0.25).contains(&(down.lost.packets as f64 / SENT as f64))
        && report.faults == 0;
    let text = format!("{received} of {SENT} segments, {} lost", down.lost.packets);
    Ok(Finding::reached(text, good))
}
