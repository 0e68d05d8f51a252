//! The output of `tc -s -j qdisc show`.

use hikyaku_netsim::{Counters, Tally};
use serde::Deserialize;

use crate::link::report::DirectionState;

/// Ethernet's header, which qdiscs count.
const HEADER: u64 = 14;

#[derive(Deserialize)]
struct Qdisc {
    kind: String,
    #[serde(default)]
    bytes: u64,
    #[serde(default)]
    packets: u64,
    #[serde(default)]
    drops: u64,
    /// Bytes of waiting packets.
    #[serde(default)]
    backlog: u64,
    /// Number of waiting packets.
    #[serde(default)]
    qlen: u64,
}

/// The state of a direction, from the qdiscs of its queue and its wire. Qdiscs count no bytes of
/// discarded packets.
pub(super) fn direction(queue: &str, wire: &str) -> Result<DirectionState, String> {
    let queue = parse(queue)?.into_iter().find(|qdisc| qdisc.kind == "tbf");
    let wire = parse(wire)?
        .into_iter()
        .find(|qdisc| ["netem", "pfifo"].contains(&qdisc.kind.as_str()))
        .ok_or("the wire has neither netem nor pfifo")?;
    let without_headers = |packets: u64, bytes: u64| Tally {
        packets,
        bytes: bytes.saturating_sub(packets * HEADER),
    };
    let packets = |packets| Tally { packets, bytes: 0 };
    Ok(DirectionState {
        counters: Counters {
            delivered: without_headers(wire.packets, wire.bytes),
            lost: packets(wire.drops),
            dropped: packets(queue.as_ref().map_or(0, |queue| queue.drops)),
            ..Counters::default()
        },
        queued: queue.map_or_else(Tally::default, |queue| {
            without_headers(queue.qlen, queue.backlog)
        }),
    })
}

fn parse(json: &str) -> Result<Vec<Qdisc>, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direction_is_read_from_two_interfaces() {
        let queue = r#"[{"kind":"tbf","handle":"1:","root":true,"options":{"rate":1250000},
            "bytes":30280,"packets":20,"drops":4,"overlimits":9,"requeues":0,"backlog":3028,"qlen":2},
            {"kind":"clsact","handle":"ffff:","bytes":99,"packets":1,"drops":7,"backlog":0,"qlen":0}]"#;
        let wire = r#"[{"kind":"netem","handle":"8001:","root":true,"options":{"limit":1000000},
            "bytes":27252,"packets":18,"drops":2,"backlog":0,"qlen":0}]"#;
        let tally = |packets, bytes| Tally { packets, bytes };
        let want = DirectionState {
            counters: Counters {
                delivered: tally(18, 27_000),
                lost: tally(2, 0),
                dropped: tally(4, 0),
                ..Counters::default()
            },
            queued: tally(2, 3_000),
        };
        assert_eq!(direction(queue, wire), Ok(want));
        assert_eq!(direction("[]", wire).unwrap().queued, Tally::default());
        assert!(direction(queue, "[]").is_err());
    }
}
