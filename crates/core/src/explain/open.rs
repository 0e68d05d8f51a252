//! A client's connections that are open now.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::egress::Scheduling;
use hikyaku_units::arm::Version;
use hikyaku_units::human;
use hikyaku_units::{ByteSize, duration};

/// A connection that is open now, as its transport reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenConnection {
    /// The HTTP version.
    pub version: Version,
    /// The client's port.
    pub port: u16,
    /// The balancer or proxy at its other end, to which the figures of its path belong; `None` where
    /// that is the client.
    #[serde(default)]
    pub via: Option<IpAddr>,
    /// Since its handshake.
    #[serde(with = "duration")]
    pub age: Duration,
    /// The congestion control in force: on TCP the kernel's name of it.
    pub algorithm: String,
    /// The congestion window.
    pub cwnd: ByteSize,
    /// Smoothed round-trip time; of MPTCP the smallest of all subflows. `None` before the first.
    #[serde(default, with = "duration::option")]
    pub rtt: Option<Duration>,
    /// It still looks for the path's rate.
    pub slow_start: bool,
    /// State of the floor; `None` where there is no floor, as on TCP.
    pub floor: Option<FloorState>,
    /// Its route: `plain`, a path's name, or `aggregate`; `None` where a server has no paths.
    pub route: Option<String>,
    /// Which subflows carry its data, where MPTCP has several paths.
    pub scheduling: Option<SchedulingState>,
    /// The subflows of MPTCP (RFC 8684); empty of other transports.
    pub subflows: Vec<SubflowState>,
}

/// Which subflows of MPTCP are to carry the data of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedulingState {
    /// The scheduling.
    pub scheduling: Scheduling,
    /// The class of content that wants it, empty for none; `None` where the operator wants it for all.
    pub class: Option<String>,
}

/// A subflow of an MPTCP connection: a TCP connection over one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubflowState {
    /// The server's end.
    pub local: SocketAddr,
    /// The client's end.
    pub remote: SocketAddr,
    /// The egress path of the server's address; `None` where that is of none alone.
    pub path: Option<String>,
    /// It carries data only while no other can, as either end has asked; `None` where the kernel does
    /// not report it.
    pub backup: Option<bool>,
    /// TCP's state (RFC 9293 §3.3.2), as `established`.
    pub state: String,
    /// Bytes that the client has acknowledged on it.
    pub acked: ByteSize,
    /// Bytes that it has not, in whole packets.
    pub in_flight: ByteSize,
    /// Smoothed round-trip time; `None` before the first.
    #[serde(with = "duration::option")]
    pub rtt: Option<Duration>,
    /// The congestion window.
    pub cwnd: ByteSize,
    /// Timeouts in a row that nothing was heard after.
    pub timeouts: u8,
}

/// The state that holds a floor under a congestion window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FloorState {
    /// Bytes below which the window does not fall; `None` while no floor is in force.
    pub bytes: Option<ByteSize>,
    /// Round trips for which losses count as answers to the sender's own rate, as at a policer; 0
    /// while they do not.
    pub doubt_rounds: u16,
}

impl fmt::Display for OpenConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (age, cwnd) = (human::time(self.age), human::size(self.cwnd));
        let Self {
            port, algorithm, ..
        } = self;
        write!(f, "{} from port {port} for {age}", self.version)?;
        if let Some(via) = self.via {
            write!(f, " through {via}, whose path is not learnt")?;
        }
        write!(f, ": {algorithm}, window {cwnd}")?;
        if self.slow_start {
            f.write_str(", slow start")?;
        }
        if let Some(floor) = self.floor {
            write!(f, ", {floor}")?;
        }
        if let Some(route) = &self.route {
            write!(f, ", by {route}")?;
        }
        match &self.scheduling {
            None => Ok(()),
            Some(scheduling) => write!(f, ", {scheduling}"),
        }
    }
}

impl fmt::Display for SchedulingState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.scheduling {
            Scheduling::Capacity => "data on all subflows",
            Scheduling::LowestRtt => "data on the subflow of the lowest RTT",
        })?;
        match self.class.as_deref() {
            None => f.write_str(" by policy.scheduling"),
            Some("") => f.write_str(" as content without a class wants"),
            Some(class) => write!(f, " as class {class} wants"),
        }
    }
}

impl fmt::Display for SubflowState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            local,
            remote,
            state,
            ..
        } = self;
        write!(f, "subflow {local} to {remote}")?;
        if let Some(path) = &self.path {
            write!(f, " by {path}")?;
        }
        if self.backup == Some(true) {
            f.write_str(", backup")?;
        }
        let acked = human::size(self.acked);
        write!(f, ": {state}, {acked} acknowledged")?;
        if self.in_flight.bytes() > 0 {
            write!(f, ", {} in flight", human::size(self.in_flight))?;
        }
        if let Some(rtt) = self.rtt {
            write!(f, ", RTT {}", human::time(rtt))?;
        }
        write!(f, ", window {}", human::size(self.cwnd))?;
        match self.timeouts {
            0 => Ok(()),
            timeouts => write!(f, ", {timeouts} timeouts in a row"),
        }
    }
}

impl fmt::Display for FloorState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.bytes, self.doubt_rounds) {
            (Some(bytes), 0) => write!(f, "floor {}", human::size(bytes)),
            (None, 0) => f.write_str("no floor yet"),
            (Some(bytes), rounds) => {
                write!(
                    f,
                    "floor {}, losses doubted for {rounds} round trips",
                    human::size(bytes)
                )
            }
            (None, rounds) => {
                write!(f, "no floor: losses doubted for {rounds} round trips")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_printed_in_a_line() {
        let floor = |bytes: Option<u64>, doubt_rounds| {
            Some(FloorState {
                bytes: bytes.map(ByteSize::from_bytes),
                doubt_rounds,
            })
        };
        // floor, slow start, the text behind the window
        let cases = [
            (None, false, ""),
            (None, true, ", slow start"),
            (floor(None, 0), true, ", slow start, no floor yet"),
            (floor(Some(1_200_000), 0), false, ", floor 1.2 MB"),
            (
                floor(None, 12),
                false,
                ", no floor: losses doubted for 12 round trips",
            ),
        ];
        for (floor, slow_start, want) in cases {
            let connection = OpenConnection {
                version: Version::H3,
                port: 4433,
                via: None,
                age: Duration::from_secs(12),
                algorithm: "floor".to_owned(),
                cwnd: ByteSize::from_bytes(1_500_000),
                rtt: None,
                slow_start,
                floor,
                route: None,
                scheduling: None,
                subflows: Vec::new(),
            };
            let begin = "HTTP/3 from port 4433 for 12 s";
            let end = format!(": floor, window 1.5 MB{want}");
            assert_eq!(connection.to_string(), format!("{begin}{end}"));
            let balanced = OpenConnection {
                via: Some([192, 0, 2, 9].into()),
                ..connection
            };
            let through = "through 192.0.2.9, whose path is not learnt";
            assert_eq!(balanced.to_string(), format!("{begin} {through}{end}"));
        }
    }

    #[test]
    fn scheduling_is_printed_with_its_reason() {
        let cases = [
            (
                Scheduling::LowestRtt,
                Some("interactive"),
                "data on the subflow of the lowest RTT as class interactive wants",
            ),
            (
                Scheduling::Capacity,
                Some(""),
                "data on all subflows as content without a class wants",
            ),
            (
                Scheduling::Capacity,
                None,
                "data on all subflows by policy.scheduling",
            ),
        ];
        for (scheduling, class, want) in cases {
            let class = class.map(str::to_owned);
            assert_eq!(SchedulingState { scheduling, class }.to_string(), want);
        }
    }

    #[test]
    fn a_subflow_is_printed_in_a_line() {
        let whole = SubflowState {
            local: "[2001:db8:5::b1]:443".parse().unwrap(),
            remote: "[2001:db8:9::1]:4433".parse().unwrap(),
            path: Some("transit-b".to_owned()),
            backup: Some(true),
            state: "established".to_owned(),
            acked: ByteSize::from_bytes(12_000_000),
            in_flight: ByteSize::from_bytes(90_000),
            rtt: Some(Duration::from_millis(20)),
            cwnd: ByteSize::from_bytes(120_000),
            timeouts: 3,
        };
        let ends = "subflow [2001:db8:5::b1]:443 to [2001:db8:9::1]:4433";
        assert_eq!(
            whole.to_string(),
            format!(
                "{ends} by transit-b, backup: established, 12 MB acknowledged, 90 kB in flight, RTT 20 ms, \
                 window 120 kB, 3 timeouts in a row"
            )
        );
        let new = SubflowState {
            path: None,
            backup: None,
            state: "syn-received".to_owned(),
            acked: ByteSize::from_bytes(0),
            in_flight: ByteSize::from_bytes(0),
            rtt: None,
            timeouts: 0,
            ..whole
        };
        assert_eq!(
            new.to_string(),
            format!("{ends}: syn-received, 0 B acknowledged, window 120 kB")
        );
    }
}
