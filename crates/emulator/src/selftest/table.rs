//! The self-test's results, as a table for people or as JSON for programs.

use std::io::{self, Write};

use serde::Serialize;

use super::{Check, Finding, Row};

/// Writes rows as they come, and counts the failed ones.
pub(super) struct Table {
    json: bool,
    failed: usize,
    rows: usize,
}

#[derive(Serialize)]
struct Json<'a> {
    check: &'a str,
    goal: &'a str,
    reached: Option<&'a str>,
    /// `ok`, `failed` or `unavailable`.
    verdict: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    attempts: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    disturbed: Option<&'a str>,
}

impl Table {
    pub(super) fn begin(json: bool, out: &mut dyn Write) -> io::Result<Self> {
        if !json {
            write_line(out, "check", "goal", "reached", "")?;
        }
        Ok(Self {
            json,
            failed: 0,
            rows: 0,
        })
    }

    pub(super) fn row(&mut self, check: &Check, row: &Row, out: &mut dyn Write) -> io::Result<()> {
        self.rows += 1;
        let (reached, verdict, reason) = match &row.finding {
            Finding::Reached { text, good: true } => (Some(text.as_str()), "ok", None),
            Finding::Reached { text, good: false } => {
                self.failed += 1;
                (Some(text.as_str()), "failed", None)
            }
            Finding::Unavailable(reason) => (None, "unavailable", Some(reason.as_str())),
        };
        if self.json {
            let json = Json {
                check: &check.name,
                goal: &check.goal,
                reached,
                verdict,
                reason,
                attempts: row.attempts,
                disturbed: row.disturbed.as_deref(),
            };
            writeln!(out, "{}", serde_json::to_string(&json)?)?;
        } else {
            let unavailable = "not available in this kernel";
            let verdict = if verdict == "failed" {
                "FAILED"
            } else {
                verdict
            };
            let mut notes = match reason {
                None => verdict.to_owned(),
                Some(reason) => format!("({reason})"),
            };
            if row.attempts > 1 {
                notes.push_str(&format!(", attempt {}", row.attempts));
            }
            if let Some(disturbed) = &row.disturbed {
                notes.push_str(&format!("; disturbed: {disturbed}"));
            }
            write_line(
                out,
                &check.name,
                &check.goal,
                reached.unwrap_or(unavailable),
                &notes,
            )?;
        }
        // Each row takes seconds, so it is shown at once.
        out.flush()
    }

    pub(super) fn end(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        match self.failed {
            0 => writeln!(out, "all {} checks are good", self.rows),
            failed => writeln!(
                out,
                "{failed} of {} checks FAILED: do not trust measurements on this machine that \
                 depend on them",
                self.rows
            ),
        }
    }

    pub(super) fn failed(&self) -> bool {
        self.failed > 0
    }
}

fn write_line(
    out: &mut dyn Write,
    check: &str,
    goal: &str,
    reached: &str,
    verdict: &str,
) -> io::Result<()> {
    let line = format!("{check:<24}  {goal:<32}  {reached:<32}  {verdict}");
    writeln!(out, "{}", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(json: bool, rows: &[Row]) -> (String, bool) {
        let check = Check::new("rate 10 Mbit/s", "±0.5 %", |_, _| unreachable!());
        let mut out = Vec::new();
        let mut table = Table::begin(json, &mut out).unwrap();
        for row in rows {
            table.row(&check, row, &mut out).unwrap();
        }
        table.end(&mut out).unwrap();
        (String::from_utf8(out).unwrap(), table.failed())
    }

    fn rows() -> [Row; 3] {
        let row = |finding, attempts| Row {
            finding,
            attempts,
            disturbed: (attempts > 1).then(|| "late".to_owned()),
        };
        [
            row(Finding::reached("+0.01 %", true), 1),
            row(Finding::reached("+2.00 %", false), 3),
            row(Finding::Unavailable("no MPTCP".to_owned()), 1),
        ]
    }

    #[test]
    fn people_see_a_table() {
        let (text, failed) = written(false, &rows());
        let lines: Vec<&str> = text.lines().collect();
        assert!(failed);
        assert!(lines[0].starts_with("check  "));
        assert!(lines[1].ends_with("+0.01 %                           ok"));
        assert!(lines[2].ends_with("FAILED, attempt 3; disturbed: late"));
        assert!(lines[3].contains("not available in this kernel"), "{text}");
        assert!(lines[4].starts_with("1 of 3 checks FAILED"));
        assert!(!written(false, &rows()[..1]).1);
    }

    #[test]
    fn machines_read_json() {
        let (text, _) = written(true, &rows());
        let verdicts: Vec<String> = text
            .lines()
            .map(|line| {
                let row: serde_json::Value = serde_json::from_str(line).unwrap();
                row["verdict"].as_str().unwrap().to_owned()
            })
            .collect();
        assert_eq!(verdicts, ["ok", "failed", "unavailable"]);
    }
}
