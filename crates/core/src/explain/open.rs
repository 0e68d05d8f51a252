//! A client's connections that are open now.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::arm::Version;
use crate::human;
use crate::units::{ByteSize, duration};

/// A connection that is open now, as its transport tells of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenConnection {
    /// The HTTP version.
    pub version: Version,
    /// The client's port.
    pub port: u16,
    /// Since its handshake.
    #[serde(with = "duration")]
    pub age: Duration,
    /// The congestion control in force: on TCP the kernel's name of it.
    pub algorithm: String,
    /// The congestion window.
    pub cwnd: ByteSize,
    /// It still looks for the path's rate.
    pub slow_start: bool,
    /// Of the floor; `None` where there is none to tell of, as on TCP.
    pub floor: Option<FloorState>,
}

/// What holds a floor under a congestion window.
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
        let version = self.version;
        write!(
            f,
            "{version} from port {port} for {age}: {algorithm}, window {cwnd}"
        )?;
        if self.slow_start {
            f.write_str(", slow start")?;
        }
        match self.floor {
            None => Ok(()),
            Some(floor) => write!(f, ", {floor}"),
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
    fn a_connection_is_told_in_a_line() {
        let floor = |bytes: Option<u64>, doubt_rounds| {
            Some(FloorState {
                bytes: bytes.map(ByteSize::from_bytes),
                doubt_rounds,
            })
        };
        // floor, slow start, what is said behind the window
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
                age: Duration::from_secs(12),
                algorithm: "floor".to_owned(),
                cwnd: ByteSize::from_bytes(1_500_000),
                slow_start,
                floor,
            };
            let text = connection.to_string();
            let begin = "HTTP/3 from port 4433 for 12 s: floor, window 1.5 MB";
            assert_eq!(text, format!("{begin}{want}"));
        }
    }
}
