//! A beacon: reading it, and checking that it can be true.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::ids::Page;
use crate::pages::{Seen, Transfers};

/// Protocols of which one beacon may report.
const MAX_PROTOCOLS: usize = 8;
/// Times beyond that are not kept.
const MAX_TIME: f64 = 600_000.0;
/// Resources and their bytes: more than any page has.
const MAX_RESPONSES: f64 = 100_000.0;
const MAX_BYTES: f64 = 1e12;
/// Bytes that browsers add for the header of each response (Resource Timing §4.4).
const HEADER: f64 = 300.0;
/// By how much a browser's times may exceed the server's: a request and a report take their time.
const SLACK: Duration = Duration::from_secs(2);

/// A beacon as the script writes it. Times are in milliseconds from the navigation's start on.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Report {
    #[serde(rename = "i", deserialize_with = "id")]
    pub(super) id: u64,
    #[serde(rename = "h")]
    hidden: u8,
    #[serde(rename = "t")]
    kind: String,
    /// Connection, request, first byte, last byte, interactive, load.
    #[serde(rename = "n")]
    navigation: [f64; 6],
    #[serde(rename = "l")]
    lcp: f64,
    /// Number, bytes, busy time and end of the last, by `nextHopProtocol`.
    #[serde(rename = "m")]
    transfers: BTreeMap<String, [f64; 4]>,
}

impl Report {
    /// Reads a beacon; `None` if it is none.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        let report: Self = serde_json::from_slice(text).ok()?;
        report.is_sane().then_some(report)
    }

    /// The times of `page`, which was given its id at `handed`; `None` if they cannot be true.
    pub(super) fn of(&self, page: &Page, handed: Instant, now: Instant) -> Option<Seen> {
        let [connected, requested, first, last, interactive, load] = self.navigation;
        let end = load.max(interactive).max(last);
        // No page is older than its request, nor loaded for longer than its id is there.
        let since = |at: Instant| (now.saturating_duration_since(at) + SLACK).as_secs_f64() * 1e3;
        if end - requested > since(page.asked) || end - last > since(handed) {
            return None;
        }
        let happened = |ms: f64| (ms > 0.0).then(|| micros(ms));
        Some(Seen {
            version: page.arm.version.name(),
            decision: page.chosen.version,
            reason: page.chosen.reason,
            group: page.chosen.group,
            kind: match self.kind.as_str() {
                "navigate" => "navigate",
                "reload" => "reload",
                "back_forward" => "back_forward",
                _ => "other",
            },
            hidden: self.hidden != 0,
            connected_us: micros(connected),
            requested_us: micros(requested),
            first_byte_us: micros(first),
            document_us: micros(last),
            interactive_us: happened(interactive),
            load_us: happened(load),
            lcp_us: happened(self.lcp),
            transfers: self.transfers(),
            counted: false,
        })
    }

    fn is_sane(&self) -> bool {
        let [connected, requested, first, last, interactive, load] = self.navigation;
        // A time of an event that has not happened is 0.
        let in_order = connected <= requested
            && requested <= first
            && (last == 0.0 || first <= last)
            && (interactive == 0.0 || first <= interactive)
            && (load == 0.0 || last.max(interactive) <= load);
        let is_time = |ms: &f64| (0.0..=MAX_TIME).contains(ms);
        let is_transfer = |[number, bytes, busy, end]: &[f64; 4]| {
            (0.0..=MAX_RESPONSES).contains(number)
                && (0.0..=MAX_BYTES).contains(bytes)
                && is_time(end)
                && (0.0..=*end).contains(busy)
        };
        in_order
            && self.hidden <= 1
            && self.navigation.iter().all(is_time)
            && is_time(&self.lcp)
            && self.transfers.len() <= MAX_PROTOCOLS
            && self.transfers.values().all(is_transfer)
    }

    fn transfers(&self) -> Vec<Transfers> {
        let all = self.transfers.iter();
        all.map(|(protocol, &[number, bytes, busy, _])| Transfers {
            hop: hop(protocol),
            responses: number as u32,
            bytes: (bytes - number * HEADER).max(0.0) as u64,
            busy_us: micros(busy),
        })
        .collect()
    }
}

/// The version that an ALPN protocol stands for.
fn hop(protocol: &str) -> &'static str {
    match protocol {
        "http/1.1" | "http/1.0" => "h1",
        "h2" => "h2",
        "h3" => "h3",
        _ => "other",
    }
}

fn micros(ms: f64) -> u64 {
    (ms * 1e3).round() as u64
}

/// Reads the id that stands in the page.
fn id<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let text = <std::borrow::Cow<'_, str>>::deserialize(from)?;
    let digits = text
        .strip_prefix("hk")
        .filter(|digits| digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    digits
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .ok_or_else(|| serde::de::Error::custom("no id"))
}

#[cfg(test)]
mod tests {
    use super::super::ids::tests::page;
    use super::*;

    const WHOLE: &str = r#"{"i":"hk00000000000000ff","h":0,"l":420.5,
        "m":{"h2":[3,21900,180.2,610],"h3":[1,1300,20,700]},"t":"navigate",
        "n":[80,81.5,150,160.2,300,720.4]}"#;

    #[test]
    fn a_beacon_becomes_what_was_seen() {
        let now = Instant::now();
        let report = Report::read(WHOLE.as_bytes()).unwrap();
        assert_eq!(report.id, 255);
        let later = now + Duration::from_secs(3);
        let seen = report.of(&page(now), now, later).unwrap();
        let json = serde_json::to_value(&seen).unwrap();
        let want = serde_json::json!({
            "version": "h2", "decision": "h3", "reason": "too_few_samples", "group": "plain",
            "type": "navigate", "hidden": false, "connected_us": 80_000, "requested_us": 81_500,
            "first_byte_us": 150_000, "document_us": 160_200, "interactive_us": 300_000,
            "load_us": 720_400, "lcp_us": 420_500,
            "transfers": [
                { "hop": "h2", "responses": 3, "bytes": 21_000, "busy_us": 180_200 },
                { "hop": "h3", "responses": 1, "bytes": 1000, "busy_us": 20_000 },
            ],
            "counted": false,
        });
        assert_eq!(json, want);
    }

    #[test]
    fn nonsense_is_refused() {
        let cases = [
            ("", "", "nothing"),
            ("\"h\":0", "\"h\":2", "hidden is 0 or 1"),
            ("\"h\":0", "\"h\":0,\"x\":1", "an unknown field"),
            ("hk00000000000000ff", "00000000000000ff", "no id"),
            (
                "hk00000000000000ff",
                "hk+0000000000000ff",
                "no hexadecimal id",
            ),
            ("hk00000000000000ff", "hkff", "a short id"),
            ("420.5", "-1", "a time before the start"),
            ("420.5", "1e9", "a time of days"),
            ("420.5", "null", "no number"),
            ("420.5", "1e999", "no finite number"),
            ("[80,", "[90,", "a request before its connection"),
            ("150,160.2", "150,140", "an end before the begin"),
            ("720.4]", "100]", "loaded before it is parsed"),
            ("720.4]", "720.4,1]", "seven times"),
            ("[3,21900", "[-3,21900", "a negative number"),
            ("180.2,610", "611,610", "busy for longer than there is"),
            ("21900", "1e13", "ten terabytes"),
            ("\"h3\"", "\"h2\",\"h3\"", "no JSON"),
        ];
        for (from, to, name) in cases {
            let text = match from {
                "" => String::new(),
                _ => WHOLE.replacen(from, to, 1),
            };
            assert!(Report::read(text.as_bytes()).is_none(), "{name}: {text}");
        }
        let many: String = (0..9).map(|n| format!("\"{n}\":[0,0,0,0],")).collect();
        let text = WHOLE.replace("\"m\":{", &format!("\"m\":{{{many}"));
        assert!(Report::read(text.as_bytes()).is_none(), "nine protocols");
    }

    #[test]
    fn a_page_cannot_be_older_than_its_request() {
        let asked = Instant::now();
        let at = |ms| asked + Duration::from_millis(ms);
        let long = WHOLE.replace("720.4", "60000");
        let report = Report::read(long.as_bytes()).unwrap();
        // when the id was given, and the report came; whether it can be true
        let cases = [
            (100, 57_000, false),
            (100, 58_500, true),
            (40_000, 58_500, false),
        ];
        for (handed, now, want) in cases {
            let seen = report.of(&page(asked), at(handed), at(now));
            assert_eq!(seen.is_some(), want, "{handed} {now}");
        }
    }

    #[test]
    fn a_page_that_was_left_has_no_load() {
        let text = WHOLE.replace("300,720.4", "0,0").replace("420.5", "0");
        let report = Report::read(text.as_bytes()).unwrap();
        let now = Instant::now();
        let seen = report.of(&page(now), now, now).unwrap();
        assert_eq!(
            (seen.load_us, seen.interactive_us, seen.lcp_us),
            (None, None, None)
        );
    }
}
