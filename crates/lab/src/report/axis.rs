//! The sweep's axes for readers: names, units and numbers.

use hikyaku_units::{ByteSize, LossRate, Rate, duration};

use crate::experiment::{Axis, Cell};

/// The unit of an axis's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dimension {
    /// 10^6 bit/s.
    Mbps,
    /// Per cent.
    Percent,
    /// Milliseconds.
    Millis,
    /// Bytes.
    Bytes,
    /// Bandwidth-delay products.
    Bdp,
    /// Packets.
    Packets,
    /// A plain number.
    Count,
}

impl Dimension {
    /// The unit behind a number; empty for plain numbers.
    pub(super) const fn unit(self) -> &'static str {
        match self {
            Self::Mbps => "Mbit/s",
            Self::Percent => "%",
            Self::Millis => "ms",
            Self::Bytes => "B",
            Self::Bdp => "BDP",
            Self::Packets => "packets",
            Self::Count => "",
        }
    }
}

/// Returns the axis's name for people.
pub(super) const fn name(axis: Axis) -> &'static str {
    match axis {
        Axis::Rate => "rate",
        Axis::Loss => "loss",
        Axis::OneWayDelay => "one-way delay",
        Axis::Rtt => "RTT",
        Axis::Jitter => "jitter",
        Axis::Queue => "queue",
        Axis::Udp => "UDP",
        Axis::Size => "size",
        Axis::Images => "images",
        Axis::Connections => "connections",
        Axis::Clients => "clients",
        Axis::Network => "network",
        Axis::Pattern => "pattern",
        Axis::Traffic => "traffic",
        Axis::Congestion => "congestion control",
        Axis::MinCwnd => "min_cwnd",
    }
}

/// Returns a value as a number with its dimension; `None` for names such as `cubic`.
pub(super) fn number(axis: Axis, text: &str) -> Option<(f64, Dimension)> {
    let millis = |text: &str| {
        let time = duration::parse(text).ok()?;
        Some((time.as_secs_f64() * 1e3, Dimension::Millis))
    };
    let bytes = |text: &str| {
        let size: ByteSize = text.parse().ok()?;
        Some((size.bytes() as f64, Dimension::Bytes))
    };
    let suffixed = |text: &str, suffix: &str, dimension| {
        let number: f64 = text.strip_suffix(suffix)?.trim_end().parse().ok()?;
        Some((number, dimension))
    };
    match axis {
        Axis::Rate => {
            let rate: Rate = text.parse().ok()?;
            Some((rate.bits_per_sec() as f64 / 1e6, Dimension::Mbps))
        }
        Axis::Loss => {
            let loss: LossRate = text.parse().ok()?;
            Some((loss.fraction() * 100.0, Dimension::Percent))
        }
        Axis::OneWayDelay | Axis::Rtt | Axis::Jitter => millis(text),
        Axis::Size => bytes(text),
        Axis::Images | Axis::Connections | Axis::Clients => {
            text.parse().ok().map(|n| (n, Dimension::Count))
        }
        Axis::Queue | Axis::MinCwnd => suffixed(text, "bdp", Dimension::Bdp)
            .or_else(|| suffixed(text, "packets", Dimension::Packets))
            .or_else(|| suffixed(text, "xMSS", Dimension::Packets))
            .or_else(|| millis(text))
            .or_else(|| bytes(text)),
        Axis::Udp | Axis::Network | Axis::Congestion | Axis::Pattern | Axis::Traffic => None,
    }
}

/// Returns the numbers of several values, if all are numbers of the same dimension.
pub(super) fn numbers(axis: Axis, texts: &[String]) -> Option<(Vec<f64>, Dimension)> {
    let (_, dimension) = number(axis, texts.first()?)?;
    let values = texts
        .iter()
        .map(|text| number(axis, text).filter(|(_, other)| *other == dimension))
        .map(|found| found.map(|(value, _)| value))
        .collect::<Option<Vec<f64>>>()?;
    Some((values, dimension))
}

/// Formats a value with a space before its unit: `200 Mbit/s`, `0.5 %`. Other texts stay unchanged.
pub(super) fn value(axis: Axis, text: &str) -> String {
    match number(axis, text) {
        Some((number, Dimension::Bytes)) => super::metric::Unit::Bytes.tick(number),
        Some((number, dimension)) => {
            let number = super::metric::trimmed(number);
            format!("{number} {}", dimension.unit())
                .trim_end()
                .to_owned()
        }
        None => text.to_owned(),
    }
}

/// Formats a value without its unit, for a tick of an axis that names the unit.
pub(super) fn tick(axis: Axis, text: &str) -> String {
    match number(axis, text) {
        Some((_, Dimension::Bytes)) | None => value(axis, text),
        Some((number, _)) => super::metric::trimmed(number),
    }
}

/// Returns the title of an axis: `loss (%)`.
pub(super) fn title(axis: Axis, texts: &[String]) -> String {
    match numbers(axis, texts) {
        Some((_, Dimension::Bytes | Dimension::Count)) | None => name(axis).to_owned(),
        Some((_, dimension)) => format!("{} ({})", name(axis), dimension.unit()),
    }
}

/// Formats the values of a cell that `shown` contains: `200 Mbit/s, loss 1 %`.
pub(super) fn cell(cell: &Cell, shown: &[Axis]) -> String {
    let one = |axis: &Axis| {
        let text = value(*axis, cell.get(*axis)?);
        Some(match axis {
            Axis::Rate | Axis::Size | Axis::Congestion => text,
            _ => format!("{} {text}", name(*axis)),
        })
    };
    let parts: Vec<String> = shown.iter().filter_map(one).collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_numbers() {
        let cases = [
            (Axis::Rate, "200Mbps", Some((200.0, Dimension::Mbps))),
            (Axis::Loss, "0.1%", Some((0.1, Dimension::Percent))),
            (Axis::OneWayDelay, "12.5ms", Some((12.5, Dimension::Millis))),
            (Axis::Size, "10MB", Some((1e7, Dimension::Bytes))),
            (Axis::Queue, "0.5bdp", Some((0.5, Dimension::Bdp))),
            (Axis::Queue, "50ms", Some((50.0, Dimension::Millis))),
            (
                Axis::Queue,
                "100 packets",
                Some((100.0, Dimension::Packets)),
            ),
            (
                Axis::MinCwnd,
                "373760B",
                Some((373_760.0, Dimension::Bytes)),
            ),
            (Axis::Connections, "6", Some((6.0, Dimension::Count))),
            (Axis::Congestion, "cubic", None),
            (Axis::Udp, "drop", None),
        ];
        for (axis, text, want) in cases {
            assert_eq!(number(axis, text), want, "{axis} {text}");
        }
        let mixed = ["50ms".to_owned(), "1bdp".to_owned()];
        assert_eq!(numbers(Axis::Queue, &mixed), None);
    }

    #[test]
    fn values_read_well() {
        let cases = [
            (Axis::Rate, "1Gbps", "1000 Mbit/s", "1000"),
            (Axis::Loss, "0.01%", "0.01 %", "0.01"),
            (Axis::Size, "1000kB", "1 MB", "1 MB"),
            (Axis::Images, "12", "12", "12"),
            (Axis::Udp, "2Mbps", "2Mbps", "2Mbps"),
        ];
        for (axis, text, want, want_tick) in cases {
            assert_eq!(value(axis, text), want);
            assert_eq!(tick(axis, text), want_tick);
        }
    }
}
