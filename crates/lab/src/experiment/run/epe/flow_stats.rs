//! Byte counts of SRv6 FlowStats at the content server.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::super::error::{Attempt, RunError};
use super::arrivals::rounded;
use super::{CLIENT, Side};
use crate::experiment::record::Point;

/// Time between two readings of FlowStats, in seconds.
pub(super) const INTERVAL: f64 = 0.1;

/// Time of a point of a series, in seconds.
pub(super) const STEP: f64 = 1.0;

/// Packets that follow BGP's best path, without SRv6.
pub(super) const BEST: &str = "best";

/// Bytes that SRv6 adds to a packet: an IPv6 header and a routing header of one segment.
const ENCAPSULATION: u64 = 40 + 24;

/// The fields of the JSON output that matter here.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Line {
    time: String,
    sid: Option<Ipv6Addr>,
    dst: Option<Ipv6Addr>,
    packets: u64,
    bytes: u64,
}

/// The output file of FlowStats, from the end of the last session on.
#[derive(Debug)]
pub(super) struct FlowStats {
    path: PathBuf,
    read: u64,
}

impl FlowStats {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            read: 0,
        }
    }

    /// Returns the lines since the last call.
    ///
    /// # Errors
    /// If the file cannot be read or has other lines.
    pub(super) fn lines(&mut self) -> Result<Vec<Line>, RunError> {
        let what = || format!("reading the output of FlowStats in {}", self.path.display());
        let mut file = File::open(&self.path).attempt(what)?;
        file.seek(SeekFrom::Start(self.read)).attempt(what)?;
        let mut text = String::new();
        file.read_to_string(&mut text).attempt(what)?;
        // The last line may not be complete yet.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        self.read += whole as u64;
        let parse = |line| {
            serde_json::from_str(line).map_err(|error| RunError::Report {
                program: "`hikyaku-egress flows`",
                why: format!("{error} in the line {line}"),
            })
        };
        text[..whole].lines().map(parse).collect()
    }
}

/// Returns the rates in Mbit/s to the client by path over each [`STEP`] since `began`, at its end.
/// They are of inner frames, as without SRv6.
pub(super) fn by_path(lines: &[Line], began: OffsetDateTime) -> BTreeMap<&'static str, Vec<Point>> {
    let mut bytes: BTreeMap<&'static str, BTreeMap<usize, u64>> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.dst == Some(CLIENT)) {
        let Ok(at) = OffsetDateTime::parse(&line.time, &Rfc3339) else {
            continue;
        };
        // A reading is of the interval before it.
        let at = (at - began).as_seconds_f64() - INTERVAL / 2.0;
        if at < 0.0 {
            continue;
        }
        let (path, added) = match path_of(line.sid) {
            Some(path) => (path, ENCAPSULATION * line.packets),
            None => (BEST, 0),
        };
        let slot = bytes.entry(path).or_default();
        *slot.entry((at / STEP) as usize).or_default() += line.bytes.saturating_sub(added);
    }
    let last = bytes.values().filter_map(|slots| slots.keys().last());
    let end = last.max().map_or(0, |last| last + 1);
    let series = |slots: BTreeMap<usize, u64>| {
        let rate = |slot| {
            let bytes = slots.get(&slot).copied().unwrap_or_default();
            rounded(bytes as f64 * 8e-6 / STEP)
        };
        let point = |slot| (rounded((slot + 1) as f64 * STEP), rate(slot));
        (0..end).map(point).collect()
    };
    bytes
        .into_iter()
        .map(|(path, slots)| (path, series(slots)))
        .collect()
}

/// Sums up all paths, which have the same times.
pub(super) fn sum<'a>(paths: impl Iterator<Item = &'a Vec<Point>>) -> Vec<Point> {
    let mut sum: Vec<Point> = Vec::new();
    for series in paths {
        sum.resize(series.len(), (0.0, 0.0));
        for (total, (at, mbps)) in sum.iter_mut().zip(series) {
            *total = (*at, rounded(total.1 + mbps));
        }
    }
    sum
}

/// Returns the path of a SID; `None` without a SID.
fn path_of(sid: Option<Ipv6Addr>) -> Option<&'static str> {
    let sid = sid?;
    let side = Side::ALL.into_iter().find(|side| side.sid() == sid)?;
    Some(side.path())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn line(ms: u32, sid: &str, dst: &str, packets: u64, bytes: u64) -> String {
        let sid = match sid {
            "" => String::new(),
            sid => format!("\"sid\":\"{sid}\","),
        };
        format!(
            "{{\"time\":\"2026-01-02T03:04:{:02}.{:03}Z\",\"interface\":\"eth0\",\"kind\":\"flow\",{sid}\"src\":\"2001:db8:5::10\",\"dst\":\"{dst}\",\"proto\":\"tcp\",\"sport\":1,\"dport\":2,\"packets\":{packets},\"bytes\":{bytes},\"total_packets\":1,\"total_bytes\":1}}\n",
            5 + ms / 1_000,
            ms % 1_000
        )
    }

    #[test]
    fn bytes_are_counted_by_path_and_time_without_srv6() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("flows.jsonl");
        let client = "2001:db8:c::1";
        let mut file = File::create(&path).unwrap();
        file.write_all(line(50, "", client, 1, 1_000_000).as_bytes())
            .unwrap();
        let mut stats = FlowStats::new(&path);
        assert_eq!(stats.lines().unwrap().len(), 1);
        let lines = [
            line(200, "", client, 100, 125_000),
            line(200, "2001:db8:b2:1::", client, 10, 125_000 + 640),
            line(300, "", "2001:db8:5::b1", 10, 99_999),
            line(2_400, "", client, 200, 250_000),
        ];
        file.write_all(lines.concat().as_bytes()).unwrap();
        file.write_all(b"{\"time\":").unwrap();
        let lines = stats.lines().unwrap();
        let began = OffsetDateTime::parse("2026-01-02T03:04:05.1Z", &Rfc3339).unwrap();
        let series = by_path(&lines, began);
        let names: Vec<_> = series.keys().copied().collect();
        assert_eq!(names, [BEST, "transit-b"]);
        assert_eq!(series[BEST], [(1.0, 1.0), (2.0, 0.0), (3.0, 2.0)]);
        assert_eq!(sum(series.values()), [(1.0, 2.0), (2.0, 0.0), (3.0, 2.0)]);
        assert_eq!(series["transit-b"], [(1.0, 1.0), (2.0, 0.0), (3.0, 0.0)]);
    }
}
