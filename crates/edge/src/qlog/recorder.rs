//! Records that quinn writes of one connection, one by one.

use std::io::{self, Write};
use std::sync::{Arc, OnceLock};

use hikyaku_congestion::{Handle, State};
use serde_json::json;

use super::pipe::Feed;
use super::record;

/// Takes one connection's records from quinn, mends them, and adds what the controller does.
///
/// quinn names the connection by the identifier that the client chose for itself, which is empty with
/// many browsers. It gives times of `recovery:metrics_updated` in seconds where qlog has milliseconds
/// (draft-ietf-quic-qlog-quic-events, recovery_metrics_updated). Its header goes: the trace has one
/// already, for all its connections.
pub(super) struct Recorder {
    feed: Feed,
    /// As it stands in a record.
    group: String,
    controller: Arc<OnceLock<Handle>>,
    /// The state of the controller in the last record.
    written: Option<State>,
    /// The record that is being written.
    partial: Vec<u8>,
    headed: bool,
}

impl Recorder {
    pub(super) fn new(feed: Feed, group: &str, controller: Arc<OnceLock<Handle>>) -> Self {
        Self {
            feed,
            group: group.to_owned(),
            controller,
            written: None,
            partial: Vec::new(),
            headed: false,
        }
    }

    fn finish(&mut self) {
        let whole = std::mem::take(&mut self.partial);
        if !std::mem::replace(&mut self.headed, true) {
            return;
        }
        let whole = String::from_utf8_lossy(&whole);
        let mended = in_millis(&whole);
        self.feed.push(grouped(&mended, &self.group).as_bytes());
        self.follow(time(&whole));
    }

    /// Records the controller's state where that has changed, as of the event before.
    fn follow(&mut self, time: f64) {
        let Some(state) = self.controller.get().map(Handle::state) else {
            return;
        };
        // Fewer rounds of doubt, and another floor, are the course of things.
        let essence = |state: State| State {
            doubt_rounds: state.doubt_rounds.min(1),
            floor: state.floor.map(|_| 1),
            ..state
        };
        let former = self.written.replace(state);
        if former.map(essence) == Some(essence(state)) {
            return;
        }
        let phase = |state: State| match state.slow_start {
            true => "slow_start",
            false => "congestion_avoidance",
        };
        if former.map(phase) != Some(phase(state)) {
            self.event(
                time,
                "recovery:congestion_state_updated",
                &json!({ "old": former.map(phase), "new": phase(state) }),
            );
        }
        self.event(
            time,
            "hikyaku:congestion_control_updated",
            &json!({
                "algorithm": state.algorithm.name(),
                "slow_start": state.slow_start,
                "floor": state.floor,
                "doubt_rounds": state.doubt_rounds,
            }),
        );
    }

    fn event(&self, time: f64, name: &str, data: &serde_json::Value) {
        self.feed.push(&record(&json!({
            "time": time,
            "name": name,
            "data": data,
            "group_id": self.group,
        })));
    }
}

impl Write for Recorder {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        if !self.feed.is_open() {
            // An error would make quinn warn of each packet.
            self.partial = Vec::new();
            return Ok(piece.len());
        }
        self.partial.extend_from_slice(piece);
        // JSON has no line break of its own.
        if piece.ends_with(b"\n") {
            self.finish();
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The number that follows `key` in a record, with the text before and after it.
fn number_of<'a>(record: &'a str, key: &str) -> Option<(&'a str, f64, &'a str)> {
    let (before, rest) = record.split_once(key)?;
    let end = rest.find([',', '}'])?;
    let number = rest[..end].parse().ok()?;
    Some((before, number, &rest[end..]))
}

/// The time of a record.
fn time(record: &str) -> f64 {
    number_of(record, "\"time\":").map_or(0.0, |(_, time, _)| time)
}

/// A record with its times in milliseconds.
fn in_millis(record: &str) -> String {
    let mut mended = record.to_owned();
    if !record.contains("recovery:metrics_updated") {
        return mended;
    }
    for key in [
        "\"min_rtt\":",
        "\"smoothed_rtt\":",
        "\"latest_rtt\":",
        "\"rtt_variance\":",
    ] {
        if let Some((before, secs, after)) = number_of(&mended, key) {
            // To the microsecond.
            let millis = (secs * 1e6).round() / 1e3;
            mended = format!("{before}{key}{millis}{after}");
        }
    }
    mended
}

/// A record with the name of its connection.
fn grouped(record: &str, group: &str) -> String {
    const KEY: &str = "\"group_id\":\"";
    let parts = record.split_once(KEY).and_then(|(before, rest)| {
        let (_, after) = rest.split_once('"')?;
        Some((before, after))
    });
    match parts {
        Some((before, after)) => format!("{before}{KEY}{group}\"{after}"),
        None => record.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_mended() {
        let metrics = "\x1e{\"time\":12.5,\"name\":\"recovery:metrics_updated\",\"data\":\
                       {\"min_rtt\":0.0252,\"smoothed_rtt\":1.5e-5,\"bytes_in_flight\":7},\
                       \"group_id\":\"\"}\n";
        let want = "\x1e{\"time\":12.5,\"name\":\"recovery:metrics_updated\",\"data\":\
                    {\"min_rtt\":25.2,\"smoothed_rtt\":0.015,\"bytes_in_flight\":7},\
                    \"group_id\":\"ab\"}\n";
        assert_eq!(grouped(&in_millis(metrics), "ab"), want);
        assert!((time(metrics) - 12.5).abs() < 1e-9);
        let sent = "\x1e{\"time\":1.0,\"name\":\"transport:packet_sent\",\"data\":{},\
                    \"group_id\":\"01\"}\n";
        assert_eq!(in_millis(sent), sent);
    }
}
