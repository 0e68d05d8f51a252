//! Limits of the system on the server: files, memory and flows.

use hikyaku_units::ByteSize;
use hikyaku_units::human::size;

use super::{Facts, Finding, sysctl};
use crate::doctor::facts::Conntrack;

/// Descriptors besides those of clients: files, upstreams, logs and listening sockets.
const OTHER_FILES: u64 = 4096;
/// Bytes of a remembered client at most (`limits.clients`).
const CLIENT: u64 = 256;

pub(super) fn files(facts: &Facts) -> Vec<Finding> {
    const ID: &str = "limits.files";
    let connections = facts.config.limits.connections as u64;
    let needed = connections + OTHER_FILES;
    let name = facts.process.name();
    let state = match facts.process.files {
        None => format!("{name} may have any number of files open"),
        Some(max) => format!("{name} may have {max} files open"),
    };
    vec![match facts.process.files {
        Some(max) if max < needed => Finding::warn(
            ID,
            format!("{state}, and limits.connections is {connections}"),
        )
        .so(format!(
            "from about {max} connections on, new TCP connections wait"
        ))
        .mend(format!(
            "LimitNOFILE={needed} in the unit (systemctl edit hikyaku), or limits.connections = {}",
            max.saturating_sub(OTHER_FILES).max(max / 2)
        )),
        _ => Finding::ok(ID, state),
    }]
}

pub(super) fn memory(facts: &Facts) -> Vec<Finding> {
    const ID: &str = "limits.memory";
    let Some((max, file)) = &facts.process.memory else {
        return Vec::new();
    };
    let config = &facts.config;
    let limits = &config.limits;
    let compression = match config.compression.encodings.is_empty() {
        true => 0,
        false => config.compression.memory.bytes(),
    };
    let clients = CLIENT * limits.clients as u64;
    let needed = limits.memory.bytes() + limits.upload_memory.bytes() + compression + clients;
    let human = |bytes| size(ByteSize::from_bytes(bytes)).to_string();
    let state = format!(
        "{} of memory ({file}); the limits allow {}",
        human(*max),
        human(needed)
    );
    vec![match needed > *max {
        false => Finding::ok(ID, state),
        true => Finding::warn(ID, state)
            .so("under load the kernel ends the server, and all connections with it")
            .mend(
                "lower limits.memory, limits.upload_memory, compression.memory or limits.clients; \
                 or raise MemoryMax of the unit or the container's limit",
            ),
    }]
}

pub(super) fn conntrack(facts: &Facts) -> Vec<Finding> {
    const ID: &str = "net.conntrack";
    let Some(Conntrack {
        count,
        max,
        udp_timeout,
    }) = facts.kernel.conntrack
    else {
        return Vec::new();
    };
    let state = format!("{count} of {max} tracked connections");
    if count * 10 >= max * 8 {
        return vec![
            Finding::warn(ID, state)
                .so("when the table is full, the kernel drops packets of new clients")
                .mend(format!(
                    "{}; or leave out the server's ports: nft add rule inet filter raw udp dport 443 notrack",
                    sysctl("net.netfilter.nf_conntrack_max", max * 4)
                )),
        ];
    }
    vec![match udp_timeout {
        // QUIC keeps an idle connection for 30 s at most.
        Some(seconds) if seconds <= 30 => {
            Finding::warn(ID, format!("UDP flows are forgotten after {seconds} s"))
                .so("idle connections of HTTP/3 break, and clients wait before they come anew")
                .mend(sysctl("net.netfilter.nf_conntrack_udp_timeout_stream", 120))
        }
        _ => Finding::ok(ID, state),
    }]
}
