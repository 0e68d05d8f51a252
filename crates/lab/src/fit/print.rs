//! Text form of a check.

use std::fmt;
use std::io::{self, Write};

use hikyaku_units::ByteSize;
use hikyaku_units::human;

use super::check::{Check, Prediction, Worst};

impl Check {
    /// Prints the check as a table.
    pub(super) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "held out: {}\n", self.held_out)?;
        writeln!(
            out,
            "arm               cells  error: median      p95     bias"
        )?;
        for (arm, prediction) in &self.prediction {
            let Prediction {
                cells,
                median,
                p95,
                bias,
            } = prediction;
            let [median, p95, bias] = [median, p95, bias].map(|ln| percent(ln.exp_m1()));
            writeln!(out, "{arm:16} {cells:6} {median:>14} {p95:>8} {bias:>8}")?;
        }
        writeln!(
            out,
            "\nchoice            cells  differ > 5 %    right   regret: mean      p95    worst   \
             best fixed arm"
        )?;
        for (name, choice) in &self.choice {
            let [right, mean, p95, worst] = [
                choice.right,
                choice.regret_mean,
                choice.regret_p95,
                choice.regret_worst,
            ]
            .map(percent);
            let fixed = choice.regret_fixed.iter().min_by(|a, b| a.1.total_cmp(b.1));
            let fixed = fixed.map(|(arm, regret)| format!("{arm} {}", percent(*regret)));
            let fixed = fixed.unwrap_or_default();
            let (cells, differing) = (choice.cells, choice.differing);
            writeln!(
                out,
                "{name:16} {cells:6} {differing:13} {right:>8} {mean:>14} {p95:>8} {worst:>8}   {fixed}"
            )?;
        }
        if !self.worst.is_empty() {
            writeln!(out, "\nwhere choices cost most")?;
        }
        for worst in &self.worst {
            writeln!(out, "{worst}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Worst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let loads: Vec<String> = self
            .load_ms
            .iter()
            .map(|(arm, ms)| {
                let share = self.chosen.get(arm).copied().unwrap_or_default();
                format!("{arm} {ms} ms (chosen in {})", percent(share))
            })
            .collect();
        write!(
            f,
            "{:>7}  {} over {}, {}: {} ({} repeats)",
            percent(self.regret),
            human::size(ByteSize::from_bytes(self.size_bytes)),
            self.path,
            self.of,
            loads.join(", "),
            self.repeats,
        )
    }
}

/// Formats a share with aligned digits, unlike `human::percent`.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
