//! The physical limit: the shortest possible load time over a path.
//!
//! It is `n_rtt × RTT + wire bytes / (rate × (1 − loss))`. No arm that obeys slow start can be
//! faster.
//!
//! - `n_rtt` counts one round trip for the handshake (QUIC's, RFC 9001; TCP and TLS take two). It
//!   counts one more for each request that waits for the response before it. It also counts the
//!   idle time of slow start, whose window of ten packets (RFC 6928) doubles each round trip. A
//!   round that sends `W` packets over a bandwidth-delay product of `B` leaves `1 − W / B` of it
//!   idle. That ends once the window fills the path or all has been sent.
//! - Wire bytes are the bodies in packets of 1500 B, and the link's addition to each packet. A
//!   packet has 1448 B of payload (IPv4 and TCP with timestamps; QUIC carries a little less).
//! - Each lost packet is sent again: `1 − loss` of the rate remains.

use hikyaku_units::ByteSize;

use super::metric::Metric;
use crate::experiment::{Axis, Cell, Links, Spec};

const PACKET: f64 = 1500.0;
const PAYLOAD: f64 = 1448.0;
const INITIAL_WINDOW: f64 = 10.0;
/// Default of a link, see `hikyaku_netsim::LinkConfig`.
const OVERHEAD: i64 = 14;

/// Returns the limit of a metric in a cell, in ms. It is `None` for metrics that are no load times,
/// and for links without a rate.
pub(super) fn limit_ms(spec: &Spec, cell: &Cell, metric: &Metric) -> Option<f64> {
    let links = spec.links(cell).ok()?;
    match metric.name.as_str() {
        "load_ms" => {
            let waits = if spec.workload.page {
                spec.workload.files.len().min(2)
            } else {
                spec.workload.files.len()
            };
            of_transfer(&links, bodies(spec, cell), 1.0 + waits as f64)
        }
        // From the request's arrival to the acknowledgement of the last byte.
        "response_ms" => of_transfer(&links, last_file(spec, cell)?, 1.0),
        _ => None,
    }
}

/// Returns the bytes of all bodies of a session.
fn bodies(spec: &Spec, cell: &Cell) -> f64 {
    let Some((last, others)) = spec.workload.files.split_last() else {
        return 0.0;
    };
    let others = others
        .iter()
        .map(|file| file.size.bytes() as f64 * f64::from(file.copies));
    let images = cell.get(Axis::Images).and_then(|text| text.parse().ok());
    let copies = images.unwrap_or_else(|| f64::from(last.copies));
    others.sum::<f64>() + copies * last_file(spec, cell).unwrap_or(0.0)
}

fn last_file(spec: &Spec, cell: &Cell) -> Option<f64> {
    let swept = cell
        .get(Axis::Size)
        .and_then(|text| text.parse::<ByteSize>().ok());
    let size = swept.or_else(|| spec.workload.files.last().map(|file| file.size))?;
    Some(size.bytes() as f64)
}

fn of_transfer(links: &Links, bytes: f64, round_trips: f64) -> Option<f64> {
    let rate = links.rate()?.bits_per_sec() as f64 / 8e3;
    let loss = links.loss().fraction();
    if rate <= 0.0 || loss >= 1.0 {
        return None;
    }
    let rtt = links.rtt().as_secs_f64() * 1e3;
    let overhead = links.down.get("overhead").and_then(toml::Value::as_integer);
    let wire_packet = PACKET + overhead.unwrap_or(OVERHEAD) as f64;
    let packets = (bytes / PAYLOAD).ceil();
    let idle = slow_start(packets, rate * rtt / wire_packet);
    Some((round_trips + idle) * rtt + packets * wire_packet / (rate * (1.0 - loss)))
}

/// Returns the idle round trips of slow start, while it sends `packets` over a path that holds
/// `bdp` packets.
fn slow_start(packets: f64, bdp: f64) -> f64 {
    let (mut window, mut sent, mut idle) = (INITIAL_WINDOW, 0.0, 0.0);
    while window < bdp && sent + window < packets {
        idle += 1.0 - window / bdp;
        sent += window;
        window *= 2.0;
    }
    idle
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(rate: &str, delay: &str, loss: &str) -> Links {
        let text = format!("rate = '{rate}'\none_way_delay = '{delay}'\nloss = '{loss}'");
        let direction: toml::Table = toml::from_str(&text).unwrap();
        Links {
            up: direction.clone(),
            down: direction,
        }
    }

    #[test]
    fn a_path_without_delay_takes_the_wire_s_time() {
        // 1000 packets of 1514 B at 12.112 Mbit/s take 1 ms each.
        let bytes = 1000.0 * PAYLOAD;
        let limit = of_transfer(&links("12112kbps", "0ms", "0%"), bytes, 2.0).unwrap();
        assert!((limit - 1000.0).abs() < 1e-9, "{limit}");
        let lossy = of_transfer(&links("12112kbps", "0ms", "50%"), bytes, 2.0).unwrap();
        assert!((lossy - 2000.0).abs() < 1e-9, "{lossy}");
    }

    #[test]
    fn round_trips_and_slow_start_add_up() {
        // A path of 20 packets: one round of ten leaves half of it idle, the next fills it.
        assert_eq!(slow_start(1000.0, 20.0), 0.5);
        // 10 packets at 1 ms, RTT 20 ms: the first window holds all.
        let ten = of_transfer(&links("12112kbps", "10ms", "0%"), 10.0 * PAYLOAD, 2.0).unwrap();
        assert!((ten - 50.0).abs() < 1e-9, "{ten}");
        // 30 packets: 10 ms of the first round trip are idle.
        let thirty = of_transfer(&links("12112kbps", "10ms", "0%"), 30.0 * PAYLOAD, 2.0).unwrap();
        assert!((thirty - 80.0).abs() < 1e-9, "{thirty}");
    }

    #[test]
    fn without_a_rate_there_is_no_limit() {
        let mut links = links("1Mbps", "1ms", "0%");
        links.down.remove("rate");
        assert_eq!(of_transfer(&links, 1e6, 2.0), None);
    }
}
