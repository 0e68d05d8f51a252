//! Quantities for people: two or three significant digits and a unit. No parser reads them back.

use std::fmt;
use std::time::Duration;

use crate::{ByteSize, LossRate, Rate};

/// Prints a time: `12 ms`, `0.49 s`, `38 min`, `2.5 h`, `3 d`.
#[must_use]
pub fn time(time: Duration) -> impl fmt::Display {
    let secs = time.as_secs_f64();
    scaled(
        secs,
        &[
            (1e-6, "µs"),
            (1e-3, "ms"),
            (0.1, "s"),
            (120.0, "min"),
            (7200.0, "h"),
            (172_800.0, "d"),
        ],
        &[1e-6, 1e-3, 1.0, 60.0, 3600.0, 86_400.0],
    )
}

/// Prints a rate: `180 Mbit/s`.
#[must_use]
pub fn rate(rate: Rate) -> impl fmt::Display {
    let bits = rate.bits_per_sec() as f64;
    scaled(
        bits,
        &[
            (1.0, "bit/s"),
            (1e3, "kbit/s"),
            (1e6, "Mbit/s"),
            (1e9, "Gbit/s"),
        ],
        &[1.0, 1e3, 1e6, 1e9],
    )
}

/// Prints a size in decimal units: `1.2 MB`.
#[must_use]
pub fn size(size: ByteSize) -> impl fmt::Display {
    let bytes = size.bytes() as f64;
    scaled(
        bytes,
        &[
            (1.0, "B"),
            (1e3, "kB"),
            (1e6, "MB"),
            (1e9, "GB"),
            (1e12, "TB"),
        ],
        &[1.0, 1e3, 1e6, 1e9, 1e12],
    )
}

/// Prints a loss: `0.1 %`.
#[must_use]
pub fn loss(loss: LossRate) -> impl fmt::Display {
    percent(loss.fraction())
}

/// Prints a share of 1: `9.2 %`, `-4 %`.
#[must_use]
pub fn percent(share: f64) -> impl fmt::Display {
    fmt::from_fn(move |f| {
        digits(share * 100.0, f)?;
        f.write_str(" %")
    })
}

/// Prints a change by a share of 1, with its sign: `+9.2 %`, `-4 %`.
#[must_use]
pub fn change(share: f64) -> impl fmt::Display {
    let sign = if share > 0.0 { "+" } else { "" };
    fmt::from_fn(move |f| write!(f, "{sign}{}", percent(share)))
}

/// Prints `value` in the last unit of `scales` that it reaches. `scales` has the size of each unit
/// and its name, ascending.
fn scaled<const N: usize>(
    value: f64,
    starts: &[(f64, &'static str); N],
    scales: &[f64; N],
) -> impl fmt::Display + use<N> {
    let unit = starts
        .iter()
        .rposition(|(start, _)| value >= *start)
        .unwrap_or(0);
    let (value, name) = (value / scales[unit], starts[unit].1);
    fmt::from_fn(move |f| {
        digits(value, f)?;
        write!(f, " {name}")
    })
}

/// Prints two decimals below 1, one below 10, and else none. Drops trailing zeros.
fn digits(value: f64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let step = match value.abs() {
        v if v < 0.995 => 100.0,
        v if v < 9.95 => 10.0,
        _ => 1.0,
    };
    // Adding zero turns -0 into 0.
    write!(f, "{}", (value * step).round() / step + 0.0)
}

#[cfg(test)]
mod tests {
    use super::{ByteSize, Duration, Rate, percent, rate, size, time};

    #[test]
    fn quantities_read_well() {
        let times = [
            (0.0, "0 µs"),
            (0.000_25, "250 µs"),
            (0.0123, "12 ms"),
            (0.493, "0.49 s"),
            (7.44, "7.4 s"),
            (90.0, "90 s"),
            (2280.0, "38 min"),
            (9000.0, "2.5 h"),
            (259_200.0, "3 d"),
        ];
        for (secs, want) in times {
            assert_eq!(time(Duration::from_secs_f64(secs)).to_string(), want);
        }
        assert_eq!(rate(Rate::from_mbps(180)).to_string(), "180 Mbit/s");
        assert_eq!(
            rate(Rate::from_bits_per_sec(2_540_000)).to_string(),
            "2.5 Mbit/s"
        );
        assert_eq!(size(ByteSize::from_bytes(1_000_000)).to_string(), "1 MB");
        assert_eq!(size(ByteSize::from_bytes(125)).to_string(), "125 B");
        assert_eq!(percent(0.001).to_string(), "0.1 %");
        assert_eq!(percent(-0.0412).to_string(), "-4.1 %");
        assert_eq!(percent(-0.000_001).to_string(), "0 %");
    }
}
