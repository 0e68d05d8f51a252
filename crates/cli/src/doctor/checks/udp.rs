//! UDP, which carries HTTP/3.

use hikyaku_edge::UDP_BUFFER;
use hikyaku_units::ByteSize;
use hikyaku_units::human::size;

use super::{Facts, Finding, or_ok, sysctl};

pub(super) fn buffers(facts: &Facts) -> Vec<Finding> {
    const ID: &str = "udp.buffers";
    if facts.config.listen.is_empty() {
        return Vec::new();
    }
    let human = |bytes: usize| size(ByteSize::from_bytes(bytes as u64)).to_string();
    let asked = human(UDP_BUFFER);
    let udp = &facts.udp;
    let sides = [
        ("receive", udp.receive_buffer, "net.core.rmem_max"),
        ("send", udp.send_buffer, "net.core.wmem_max"),
    ];
    let small = sides
        .into_iter()
        .filter(|(_, granted, _)| *granted < UDP_BUFFER);
    let finding = |(side, granted, key): (&str, usize, &str)| {
        Finding::warn(
            ID,
            format!(
                "the kernel grants {} of {side} buffer, and the server asks for {asked}",
                human(granted)
            ),
        )
        .so("the kernel drops packets of fast HTTP/3 paths, which then look lossy")
        .mend(sysctl(key, UDP_BUFFER))
    };
    or_ok(
        small.map(finding).collect(),
        ID,
        format!("the kernel grants {asked}"),
    )
}

pub(super) fn offload(facts: &Facts) -> Vec<Finding> {
    const ID: &str = "udp.offload";
    if facts.config.listen.is_empty() {
        return Vec::new();
    }
    let udp = &facts.udp;
    let missing = match (udp.send_segments > 1, udp.receive_segments > 1) {
        (true, true) => {
            let state = format!("{} datagrams leave by one call", udp.send_segments);
            return vec![Finding::ok(ID, state)];
        }
        (false, true) => "segmentation (GSO)",
        (true, false) => "coalescing (GRO)",
        (false, false) => "segmentation (GSO) nor coalescing (GRO)",
    };
    vec![
        Finding::note(ID, format!("the kernel has no {missing} of UDP"))
            .so("HTTP/3 costs about twice the CPU time")
            .mend("Linux 5.0 or later, without a sandbox such as gVisor that lacks it"),
    ]
}
