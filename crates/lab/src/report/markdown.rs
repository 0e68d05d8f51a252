//! A report as Markdown: its tables and goals, for a repository.

use std::fmt::Write as _;

use super::content::{Block, Section, Table};
use super::goal::{Goal, Verdict};
use super::page::Page;

/// Returns the report in Markdown.
pub(super) fn page(page: &Page) -> String {
    let mut out = format!("# {}\n\n{}\n\n", text(&page.title), text(&page.question));
    if let Some(paper) = &page.paper {
        let _ = writeln!(out, "Paper: {}.\n", text(paper));
    }
    let _ = writeln!(out, "{}.\n", page.sessions());
    for warning in &page.warnings {
        let _ = writeln!(out, "> {}\n", text(warning));
    }
    if page.goals().next().is_some() {
        out.push_str("## Goals\n\n");
        goals(&mut out, page.goals());
    }
    for shown in &page.sections {
        section(&mut out, shown);
    }
    out.push_str("## Conditions\n\n");
    table(&mut out, &page.conditions);
    let _ = writeln!(
        out,
        "Again: {}. Medians with confidence intervals in brackets (order statistics; of ratios, and of runs of several sessions, by bootstrap over the runs; of few by rank sums); docs/reports.md says how everything is computed.",
        page.commands
            .iter()
            .map(|command| format!("`{command}`"))
            .collect::<Vec<_>>()
            .join(", then ")
    );
    out
}

fn goals<'a>(out: &mut String, goals: impl Iterator<Item = &'a Goal>) {
    out.push_str("| | goal | reached | |\n| --- | --- | --- | --- |\n");
    for goal in goals {
        let reached = goal.reached.as_deref().unwrap_or("not measured");
        let met = match goal.verdict {
            Verdict::NotMeasured => "",
            Verdict::NotJudged => "not judged",
            Verdict::Reached => "yes",
            Verdict::Missed => "**no**",
        };
        let _ = writeln!(
            out,
            "| {} | {} | {reached} | {met} |",
            text(&goal.what),
            goal.bound
        );
    }
    out.push('\n');
}

fn section(out: &mut String, section: &Section) {
    let _ = writeln!(out, "## {}\n", text(&section.title));
    if let Some(shown) = &section.text {
        let _ = writeln!(out, "{}\n", text(shown));
    }
    if let Some(paper) = &section.paper {
        let _ = writeln!(out, "The paper: {}\n", text(paper));
    }
    for block in &section.blocks {
        match block {
            Block::Chart(_) => {}
            Block::Note(note) => {
                let _ = writeln!(out, "{}\n", text(note));
            }
            Block::Table(shown) => {
                if !shown.caption.is_empty() {
                    let _ = writeln!(out, "{}:\n", text(&capitalised(&shown.caption)));
                }
                table(out, shown);
            }
        }
    }
}

fn table(out: &mut String, table: &Table) {
    let row = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| text(cell)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    out.push_str(&row(&table.columns));
    let rule = (0..table.columns.len()).map(|i| if i < table.names { "---" } else { "--:" });
    let _ = writeln!(out, "| {} |", rule.collect::<Vec<_>>().join(" | "));
    for cells in &table.rows {
        out.push_str(&row(cells));
    }
    out.push('\n');
}

/// Formats a text on one line, without characters that end a table's cell or begin an element.
fn text(text: &str) -> String {
    text.replace('|', "\\|")
        .replace('<', "&lt;")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns the text with an upper-case first letter.
pub(super) fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    // A name with digits, such as `h2-cubic` or `200 Mbit/s`, stays as it is.
    let first_word = text.split([' ', ',', ':']).next().unwrap_or_default();
    match chars.next() {
        Some(first)
            if !first_word.contains(|c: char| c.is_ascii_digit() || c == '-' || c == '_') =>
        {
            first.to_uppercase().chain(chars).collect()
        }
        _ => text.to_owned(),
    }
}
