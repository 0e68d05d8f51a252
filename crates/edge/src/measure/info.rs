//! The kernel's account of a TCP or MPTCP connection.

use std::io;
use std::time::Duration;

use hikyaku_core::explain::SubflowState;
use hikyaku_units::{ByteSize, Rate};
use rustix::net::sockopt;
use tokio::net::TcpStream;

use super::SubflowFlight;
use super::diag::Diagnostics;
use crate::clock;
use crate::egress::SubflowEnds;
use crate::sys::{self, Subflow, TcpInfo};
use crate::transport::{Flight, Snapshot, Window};

/// Reads the state of a connection.
pub(super) fn read(stream: &TcpStream, mptcp: bool) -> io::Result<Snapshot> {
    if mptcp {
        let (info, subflows) = sys::mptcp_info(stream)?;
        return Ok(of_subflows(info.snd_una, &subflows));
    }
    sys::tcp_info(stream).map(|info| of_tcp(&info))
}

/// Reads the congestion window of a connection.
pub(super) fn window(stream: &TcpStream, mptcp: bool) -> io::Result<Window> {
    let subflows = match mptcp {
        true => sys::mptcp_info(stream)?.1,
        false => vec![sys::tcp_info(stream)?],
    };
    let bytes = |info: &TcpInfo| u64::from(info.snd_cwnd) * u64::from(info.snd_mss);
    let rtt = |info: &TcpInfo| {
        let micros = Some(u64::from(info.rtt_us)).filter(|micros| *micros > 0);
        micros.map(Duration::from_micros)
    };
    Ok(Window {
        algorithm: sockopt::tcp_congestion(stream)?,
        bytes: subflows.iter().map(bytes).sum(),
        rtt: subflows.iter().filter_map(rtt).min(),
        slow_start: subflows
            .iter()
            .any(|info| info.snd_cwnd < info.snd_ssthresh),
    })
}

/// Reads the packets under way on a TCP connection. `None` before there is a round-trip time, and once
/// the connection is over.
pub(super) fn flight(stream: &TcpStream) -> Option<Flight> {
    flight_of(&sys::tcp_info(stream).ok()?)
}

/// Reads the packets under way on each subflow of an MPTCP connection.
pub(super) fn subflows(stream: &TcpStream) -> Vec<SubflowFlight> {
    let subflows = sys::mptcp_subflows(stream).map(|(_, subflows)| subflows);
    let flight = |subflow: &Subflow| {
        Some(SubflowFlight {
            id: subflow.id,
            ends: SubflowEnds {
                local: subflow.local?,
                remote: subflow.remote?,
            },
            flight: flight_of(&subflow.tcp)?,
            idle: Duration::from_millis(subflow.tcp.last_data_sent_ms.into()),
        })
    };
    subflows.iter().flatten().filter_map(flight).collect()
}

fn flight_of(info: &TcpInfo) -> Option<Flight> {
    if info.rtt_us == 0 || info.state == TCP_CLOSE {
        return None;
    }
    let left = info.sacked + info.lost;
    Some(Flight {
        sent: info.data_segs_out.into(),
        in_flight: (info.unacked + info.retrans).saturating_sub(left).into(),
        acked: info.delivered.into(),
        acked_at: clock::now().checked_sub(Duration::from_millis(info.last_ack_recv_ms.into())),
        srtt: Duration::from_micros(info.rtt_us.into()),
        rttvar: Duration::from_micros(info.rttvar_us.into()),
        min_rtt: min_rtt(info.min_rtt_us),
        mark: 0,
        packet: 1,
        repairing: info.ca_state >= TCP_CA_RECOVERY,
        // In bytes: packets of another path may have another size.
        former: info.bytes_acked,
        former_packet: info.snd_mss.into(),
        resent: info.total_retrans.into(),
        duplicates: info.dsack_dups.into(),
    })
}

fn of_tcp(info: &TcpInfo) -> Snapshot {
    // A retransmission that the receiver reports as a duplicate was of no lost segment.
    let lost = info.total_retrans.saturating_sub(info.dsack_dups);
    Snapshot {
        packets_sent: info.data_segs_out.into(),
        packets_lost: lost.into(),
        min_rtt: min_rtt(info.min_rtt_us),
        srtt: Duration::from_micros(info.rtt_us.into()),
        delivery_rate: rate(info.delivery_rate),
        app_limited: info.delivery_rate_app_limited & 1 == 1,
        acked: info.bytes_acked,
        since_ack: Duration::from_millis(info.last_ack_recv_ms.into()),
        closed: info.state == TCP_CLOSE,
    }
}

/// Reads what each subflow of an MPTCP connection does, without the paths that they take.
pub(super) fn subflow_states(stream: &TcpStream) -> Vec<SubflowState> {
    let Ok((_, subflows)) = sys::mptcp_subflows(stream) else {
        return Vec::new();
    };
    let diagnostics = Diagnostics::open().ok();
    let state = |subflow| state_of(subflow, diagnostics.as_ref());
    subflows.iter().filter_map(state).collect()
}

fn state_of(subflow: &Subflow, diagnostics: Option<&Diagnostics>) -> Option<SubflowState> {
    let info = &subflow.tcp;
    let (local, remote) = (subflow.local?, subflow.remote?);
    let packets = |count: u32| ByteSize::from_bytes(u64::from(count) * u64::from(info.snd_mss));
    Some(SubflowState {
        local,
        remote,
        path: None,
        backup: diagnostics.and_then(|diagnostics| diagnostics.is_backup(local, remote)),
        state: state_name(info.state).to_owned(),
        acked: ByteSize::from_bytes(info.bytes_acked),
        in_flight: packets(info.unacked),
        rtt: (info.rtt_us > 0).then(|| Duration::from_micros(info.rtt_us.into())),
        cwnd: packets(info.snd_cwnd),
        timeouts: info.retransmits,
    })
}

/// A state of `net/tcp_states.h`.
const fn state_name(state: u8) -> &'static str {
    match state {
        1 => "established",
        2 => "syn-sent",
        3 | 12 => "syn-received",
        4 => "fin-wait-1",
        5 => "fin-wait-2",
        6 => "time-wait",
        TCP_CLOSE => "closed",
        8 => "close-wait",
        9 => "last-ack",
        10 => "listen",
        11 => "closing",
        _ => "unknown",
    }
}

/// Lost packets are sent again, after acknowledgements or (a larger number) a timeout revealed them
/// (`enum tcp_ca_state` of `linux/tcp.h`).
const TCP_CA_RECOVERY: u8 = 3;

/// State of a connection that is over (`net/tcp_states.h`).
const TCP_CLOSE: u8 = 7;

/// An MPTCP connection as one path: what its subflows send and deliver together, with
/// the round-trip times of the fastest.
fn of_subflows(snd_una: u64, subflows: &[TcpInfo]) -> Snapshot {
    let mut whole = Snapshot {
        acked: snd_una,
        app_limited: true,
        since_ack: Duration::MAX,
        closed: subflows.is_empty(),
        ..Snapshot::default()
    };
    let mut delivered = 0;
    for one in subflows.iter().map(of_tcp) {
        whole.packets_sent += one.packets_sent;
        whole.packets_lost += one.packets_lost;
        whole.min_rtt = shorter(whole.min_rtt, one.min_rtt);
        whole.srtt = shorter(whole.srtt, one.srtt);
        whole.app_limited &= one.app_limited;
        whole.since_ack = whole.since_ack.min(one.since_ack);
        delivered += one.delivery_rate.map_or(0, Rate::bits_per_sec);
    }
    whole.delivery_rate = (delivered > 0).then(|| Rate::from_bits_per_sec(delivered));
    if subflows.is_empty() {
        whole.since_ack = Duration::ZERO;
    }
    whole
}

/// The shorter of two round-trip times, of which zero means unknown.
fn shorter(a: Duration, b: Duration) -> Duration {
    match (a.is_zero(), b.is_zero()) {
        (true, _) => b,
        (_, true) => a,
        _ => a.min(b),
    }
}

/// The kernel says `~0` before there is a sample.
fn min_rtt(us: u32) -> Duration {
    if us == u32::MAX {
        Duration::ZERO
    } else {
        Duration::from_micros(us.into())
    }
}

fn rate(bytes_per_sec: u64) -> Option<Rate> {
    (bytes_per_sec > 0).then(|| Rate::from_bits_per_sec(bytes_per_sec.saturating_mul(8)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaller_packets_are_no_more_that_came() {
        let flight = |snd_mss| {
            let info = TcpInfo {
                rtt_us: 20_000,
                bytes_acked: 100_000_000,
                snd_mss,
                ..TcpInfo::default()
            };
            flight_of(&info).unwrap()
        };
        assert_eq!(flight(1396).former, flight(1460).former);
        assert_eq!(flight(1396).former_packet, 1396);
    }
}
