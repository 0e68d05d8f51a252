//! Times and sizes on the command line and in tables.

use std::time::Duration;

/// Parses `500ms`, `2s`, `1.5s`, `3m`; a unit is required.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let seconds_per_unit = match unit {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("`{text}` needs a unit: us, ms, s, m or h")),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| format!("`{number}` is not a number"))?;
    Duration::try_from_secs_f64(number * seconds_per_unit)
        .map_err(|_| format!("`{text}` is out of range"))
}

/// Parses a flow control window: `65535`, `256KiB`, `16MiB`. It is at least 64 KiB - 1, the
/// smallest that HTTP/2 starts with (RFC 9113 §6.9.2), and at most 2^31 - 1.
pub(super) fn window(text: &str) -> Result<u32, String> {
    const SMALLEST: u64 = 65_535;
    const LARGEST: u64 = (1 << 31) - 1;
    let (number, unit) = split(text);
    let unit: u64 = match unit {
        "" | "B" => 1,
        "kB" => 1_000,
        "KiB" => 1 << 10,
        "MB" => 1_000_000,
        "MiB" => 1 << 20,
        "GB" => 1_000_000_000,
        "GiB" => 1 << 30,
        _ => {
            return Err(format!(
                "`{unit}` is not a unit of size: B, KiB, MiB or GiB"
            ));
        }
    };
    let number: u64 = number
        .parse()
        .map_err(|_| format!("`{number}` is not a whole number"))?;
    number
        .checked_mul(unit)
        .filter(|bytes| (SMALLEST..=LARGEST).contains(bytes))
        .and_then(|bytes| u32::try_from(bytes).ok())
        .ok_or_else(|| format!("a window is {SMALLEST} to {LARGEST} bytes"))
}

fn split(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    text.split_at(end)
}

/// Formats a time in milliseconds with three decimals.
pub(super) fn ms(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64() * 1e3)
}

/// Returns a time in whole microseconds.
pub(super) fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Formats `1234567` as `1.23 MB`, in decimal units as network rates use.
pub(super) fn bytes(count: u64) -> String {
    scaled(count as f64, "B", ["B", "kB", "MB", "GB", "TB"])
}

/// Formats a rate in bit/s as `94.12 Mbit/s`.
pub(super) fn rate(bits_per_sec: u64) -> String {
    let units = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"];
    scaled(bits_per_sec as f64, "bit/s", units)
}

fn scaled(mut value: f64, whole: &str, units: [&str; 5]) -> String {
    let mut unit = units[0];
    for next in units {
        unit = next;
        if value < 1000.0 {
            break;
        }
        if next != units[4] {
            value /= 1000.0;
        }
    }
    if unit == whole {
        format!("{value:.0} {unit}")
    } else {
        format!("{value:.2} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let cases: &[(&str, Option<u64>)] = &[
            ("500ms", Some(500_000)),
            ("2s", Some(2_000_000)),
            ("1.5s", Some(1_500_000)),
            ("3m", Some(180_000_000)),
            ("7us", Some(7)),
            ("5", None),
            ("s", None),
            ("-1s", None),
            ("1e400s", None),
            ("99999999999999999999999h", None),
        ];
        for (text, want) in cases {
            assert_eq!(duration(text).ok().map(us), *want, "{text}");
        }
    }

    #[test]
    fn windows() {
        let cases: &[(&str, Option<u32>)] = &[
            ("65535", Some(65_535)),
            ("16MiB", Some(16 << 20)),
            ("1MB", Some(1_000_000)),
            ("65534", None),
            ("2GiB", None),
            ("18446744073709551615GiB", None),
            ("1.5MiB", None),
            ("16 apples", None),
        ];
        for (text, want) in cases {
            assert_eq!(window(text).ok(), *want, "{text}");
        }
    }

    #[test]
    fn sizes_and_rates() {
        let cases = [
            (bytes(0), "0 B"),
            (bytes(999), "999 B"),
            (bytes(1_234_567), "1.23 MB"),
            (bytes(5_000_000_000_000_000), "5000.00 TB"),
            (rate(94_120_000), "94.12 Mbit/s"),
            (rate(12), "12 bit/s"),
        ];
        for (got, want) in cases {
            assert_eq!(got, want);
        }
    }
}
