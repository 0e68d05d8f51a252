//! Names and units of metrics, and the format of their values.

use std::fmt::Write as _;

use super::sample::{Interval, Value};

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Milliseconds.
    Millis,
    /// Seconds.
    Seconds,
    /// 10^6 bit/s.
    Mbps,
    /// Bytes.
    Bytes,
    /// Per cent.
    Percent,
    /// A share of 1, shown in per cent.
    Share,
    /// A number of things, or an index.
    Plain,
}

/// A metric of the records.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Metric {
    /// Name of the metric in records, such as `load_ms`.
    pub(super) name: String,
    /// Name of the metric for people: `load time`.
    pub(super) label: String,
    /// Unit of its recorded values.
    pub(super) unit: Unit,
}

const LABELS: [(&str, &str); 39] = [
    ("load_ms", "load time"),
    ("handshake_ms", "handshake"),
    ("first_byte_ms", "time to first byte"),
    ("response_p50_ms", "response time, median"),
    ("response_p95_ms", "response time, p95"),
    ("response_ms", "response time"),
    ("lcp_ms", "largest contentful paint"),
    ("css_ms", "last style sheet"),
    ("js_ms", "last script"),
    ("bmp_ms", "large picture"),
    ("png_ms", "last small picture"),
    ("size_bytes", "size"),
    ("goodput_mbps", "goodput"),
    ("loss", "loss"),
    ("least_second_mbps", "goodput of the worst second"),
    ("longest_gap_ms", "longest gap"),
    ("path_mbps", "throughput"),
    ("sent_megabits", "megabits sent"),
    ("server_min_rtt_ms", "min_rtt (server)"),
    ("server_packets_sent", "packets sent"),
    ("server_packets_lost", "packets lost"),
    ("server_rate_mbps", "delivery rate (server)"),
    ("penalty_ms", "penalty"),
    ("jain", "Jain's index"),
    ("queue_delay_p50_ms", "queueing delay, median"),
    ("queue_delay_p95_ms", "queueing delay, p95"),
    ("queue_delay_ms", "queueing delay"),
    ("queue_bytes", "queue"),
    ("rtt_ms", "RTT"),
    ("cwnd_bytes", "congestion window"),
    ("cwnd_mean_bytes", "mean congestion window"),
    ("cwnd_max_bytes", "largest congestion window"),
    ("bytes_in_flight", "bytes in flight"),
    ("epe_add_ms", "EPE route added"),
    ("epe_withdraw_ms", "EPE route removed"),
    ("best_add_ms", "best path after adding"),
    ("best_withdraw_ms", "best path after removing"),
    ("wrong_peer", "packets to a wrong peer"),
    ("longest_gap_ms", "longest gap"),
];

const SUFFIXES: [(&str, Unit); 7] = [
    ("_ms", Unit::Millis),
    ("_s", Unit::Seconds),
    ("_mbps", Unit::Mbps),
    ("_bytes", Unit::Bytes),
    ("bytes_in_flight", Unit::Bytes),
    ("_percent", Unit::Percent),
    ("_share", Unit::Share),
];

impl Metric {
    /// Returns the metric, or series, of that name: `goodput_mbps.FLOW` is that of one flow.
    pub(super) fn named(name: &str) -> Self {
        let (base, flow) = match name.split_once('.') {
            Some((base, flow)) => (base, Some(flow)),
            None => (name, None),
        };
        let suffix = SUFFIXES.iter().find(|(suffix, _)| base.ends_with(suffix));
        let known = LABELS.iter().find(|(known, _)| *known == base);
        let mut label = match known {
            Some((_, label)) => (*label).to_owned(),
            None => suffix
                .map_or(base, |(suffix, _)| base.trim_end_matches(suffix))
                .replace('_', " "),
        };
        if let Some(flow) = flow {
            let _ = write!(label, " of {flow}");
        }
        Self {
            name: name.to_owned(),
            label,
            unit: suffix.map_or(Unit::Plain, |(_, unit)| *unit),
        }
    }

    /// Whether a session that did not end counts as worse than all others by this metric.
    pub(super) fn ranks_failures(&self) -> bool {
        matches!(self.name.as_str(), "load_ms" | "response_ms")
    }

    /// Formats a value with its unit, or as `> 120 s` if the session was given up.
    pub(super) fn value(&self, value: Value) -> String {
        match value {
            Value::Exact(value) => self.unit.text(value),
            Value::Over(value) => format!("> {}", self.unit.text(value)),
            Value::Failed => "failed".to_owned(),
        }
    }

    /// Formats a median with its interval in brackets: `447 ms [440–452]`.
    pub(super) fn median(&self, median: Value, interval: Option<Interval>) -> String {
        let text = self.value(median);
        let Some(interval) = interval else {
            return text;
        };
        let known = (median.exact(), interval.low.exact(), interval.high.exact());
        // The limits share the median's unit if all three are known.
        match known {
            (Some(median), Some(low), Some(high)) => {
                let [low, high] = [low, high].map(|limit| self.unit.bare(limit, median));
                format!("{text} [{low}–{high}]")
            }
            _ => {
                let [low, high] = [interval.low, interval.high].map(|limit| self.value(limit));
                format!("{text} [{low} – {high}]")
            }
        }
    }
}

impl Unit {
    /// Returns the scales with their names, ascending: the first is for values below all others.
    const fn scales(self) -> &'static [(f64, &'static str)] {
        match self {
            Self::Millis => &[(1.0, "ms"), (1e3, "s")],
            Self::Seconds => &[(1e-3, "ms"), (1.0, "s")],
            Self::Mbps => &[(1e-3, "kbit/s"), (1.0, "Mbit/s"), (1e3, "Gbit/s")],
            Self::Bytes => &[(1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB")],
            Self::Percent => &[(1.0, "%")],
            Self::Share => &[(0.01, "%")],
            Self::Plain => &[(1.0, "")],
        }
    }

    fn scale(self, value: f64) -> (f64, &'static str) {
        let scales = self.scales();
        // Zero and values that round up to the next scale are written in the better one.
        let found = scales
            .iter()
            .rev()
            .find(|(scale, _)| value.abs() >= scale * 0.9995);
        if value == 0.0 && self == Self::Mbps {
            return scales[1];
        }
        *found.unwrap_or(&scales[0])
    }

    /// Formats a value with three significant digits: `447 ms`, `1.06 s`, `132 Mbit/s`.
    pub(super) fn text(self, value: f64) -> String {
        let (scale, name) = self.scale(value);
        let number = digits(value / scale);
        if name.is_empty() {
            number
        } else {
            format!("{number} {name}")
        }
    }

    /// Formats the number alone, in the scale of `reference`.
    pub(super) fn bare(self, value: f64, reference: f64) -> String {
        digits(value / self.scale(reference).0)
    }

    /// Formats a tick as [`Self::text`] does, without needless zeros.
    pub(super) fn tick(self, value: f64) -> String {
        let (scale, name) = self.scale(value);
        let number = trimmed(value / scale);
        match name {
            "" => number,
            _ if value == 0.0 => number,
            _ => format!("{number} {name}"),
        }
    }
}

/// Formats three significant digits, but at least all in front of the point.
pub(super) fn digits(value: f64) -> String {
    let magnitude = value.abs();
    let places = match magnitude {
        m if m < 1e-12 => 0,
        m if m < 0.0995 => 3,
        m if m < 9.995 => 2,
        m if m < 99.95 => 1,
        _ => 0,
    };
    // Adding zero turns -0 into 0.
    let rounded = (value * 10_f64.powi(places)).round() / 10_f64.powi(places) + 0.0;
    minus(&format!(
        "{rounded:.*}",
        usize::try_from(places).unwrap_or(0)
    ))
}

/// Replaces the minus by a real minus sign, as wide as a plus.
fn minus(number: &str) -> String {
    number.replace('-', "−")
}

/// Formats up to four significant digits, without zeros at the end.
pub(super) fn trimmed(value: f64) -> String {
    let text = format!("{value:.4}");
    match text.trim_end_matches('0').trim_end_matches('.') {
        "-0" => "0".to_owned(),
        text => minus(text),
    }
}

/// Formats a signed share: `+3.1 %`, `−12 %`, with a real minus sign.
pub(super) fn signed_percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent.is_infinite() {
        return "∞".to_owned();
    }
    let places = if percent.abs() < 9.95 { 1 } else { 0 };
    let number = format!("{:.places$}", percent.abs());
    let zero = number.chars().all(|c| c == '0' || c == '.');
    let sign = match percent {
        _ if zero => "",
        p if p < 0.0 => "−",
        _ => "+",
    };
    format!("{sign}{number} %")
}

/// Formats a share of 1: `97.3 %`.
pub(super) fn percent(share: f64) -> String {
    // Adding zero turns -0 into 0.
    let percent = share * 100.0 + 0.0;
    let places = usize::from((percent - percent.round()).abs() > 0.05);
    format!("{percent:.places$} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_give_label_and_unit() {
        let cases = [
            ("load_ms", "load time", Unit::Millis),
            ("goodput_mbps.ours", "goodput of ours", Unit::Mbps),
            ("probe_max_bytes", "probe max", Unit::Bytes),
            ("jain", "Jain's index", Unit::Plain),
            ("utilisation", "utilisation", Unit::Plain),
        ];
        for (name, label, unit) in cases {
            let metric = Metric::named(name);
            assert_eq!(
                (metric.label.as_str(), metric.unit),
                (label, unit),
                "{name}"
            );
        }
    }

    #[test]
    fn values_read_well() {
        let cases = [
            (Unit::Millis, 446.74, "447 ms"),
            (Unit::Millis, 12.54, "12.5 ms"),
            (Unit::Millis, 0.0312, "0.031 ms"),
            (Unit::Millis, 999.9, "1.00 s"),
            (Unit::Millis, 92_879.67, "92.9 s"),
            (Unit::Mbps, 0.3, "300 kbit/s"),
            (Unit::Mbps, 132.0, "132 Mbit/s"),
            (Unit::Bytes, 373_760.0, "374 kB"),
            (Unit::Plain, 0.983, "0.98"),
            (Unit::Plain, 0.0, "0"),
        ];
        for (unit, value, want) in cases {
            assert_eq!(unit.text(value), want, "{value}");
        }
        assert_eq!(Unit::Millis.text(-60.84), "−60.8 ms");
        assert_eq!(trimmed(-0.000_01), "0");
        assert_eq!(signed_percent(0.031), "+3.1 %");
        assert_eq!(signed_percent(-0.278), "−28 %");
        assert_eq!(signed_percent(0.000_01), "0.0 %");
        assert_eq!(percent(0.973), "97.3 %");
        assert_eq!(percent(1.0), "100 %");
    }

    #[test]
    fn intervals_share_the_median_s_unit() {
        let metric = Metric::named("load_ms");
        let interval = |low, high| {
            let coverage = 0.95;
            Some(Interval {
                low,
                high,
                coverage,
            })
        };
        let exact = Value::Exact;
        let cases = [
            (
                exact(447.0),
                interval(exact(440.0), exact(1002.0)),
                "447 ms [440–1002]",
            ),
            (
                exact(1060.0),
                interval(exact(990.0), exact(1200.0)),
                "1.06 s [0.99–1.20]",
            ),
            (
                exact(1060.0),
                interval(exact(990.0), Value::Over(120e3)),
                "1.06 s [990 ms – > 120 s]",
            ),
            (Value::Over(120e3), None, "> 120 s"),
            (Value::Failed, None, "failed"),
        ];
        for (median, interval, want) in cases {
            assert_eq!(metric.median(median, interval), want);
        }
    }
}
