//! A report in one sentence.

use hikyaku_units::human::percent;

use super::MIN_CLIENTS;
use super::report::{Ratio, Report, Verdict};

/// The report's main statement.
pub(super) fn sentence(report: &Report) -> String {
    let all = grouped(report.clients.hikyaku + report.clients.hold_back);
    let since = report.since.get(..10).unwrap_or_default();
    let of = format!("{all} clients since {since}");
    match (report.verdict, report.ratio) {
        (Verdict::Sooner, Some(Ratio { mean, low, high })) => format!(
            "Responses arrive {} sooner ({} to {}): {of}.",
            percent(1.0 - mean),
            number(1.0 - high),
            percent(1.0 - low),
        ),
        (Verdict::Later, Some(Ratio { mean, low, high })) => format!(
            "Responses arrive {} later ({} to {}): {of}.",
            percent(mean - 1.0),
            number(low - 1.0),
            percent(high - 1.0),
        ),
        (_, Some(Ratio { low, high, .. })) => {
            let between = format!(
                "between {} sooner and {} later",
                percent(1.0 - low),
                percent(high - 1.0)
            );
            match &report.until_5_percent {
                Some(until) => format!(
                    "Too early to say: {between}, from {of}; about {} more will show 5 %.",
                    grouped(until.clients)
                ),
                None => format!("No difference shows: {between}, from {of}."),
            }
        }
        (Verdict::NoHoldBack, None) => {
            "No client is held back (`policy.holdback` is 0), so there is nothing to compare with."
                .to_owned()
        }
        (_, None) => format!(
            "Too few clients to compare: {} with hikyaku and {} held back, and each group needs \
             {MIN_CLIENTS}.",
            grouped(report.clients.hikyaku),
            grouped(report.clients.hold_back)
        ),
    }
}

/// A share of 1 in percent, without the sign.
fn number(share: f64) -> String {
    let text = percent(share).to_string();
    text.trim_end_matches(" %").to_owned()
}

/// A number with commas: `41,000`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn long_numbers_have_commas() {
        let cases = [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ];
        for (number, want) in cases {
            assert_eq!(grouped(number), want);
        }
    }
}
