//! A report as one self-contained HTML page.

use std::fmt::Write as _;

use super::content::{Block, Chart, Key, Mark, Section, Table};
use super::goal::Verdict;
use super::markdown::capitalised;
use super::page::Page;
use super::plot::escape;

const STYLE: &str = include_str!("style.css");

/// Returns the report in HTML.
pub(super) fn page(page: &Page) -> String {
    let mut body = header(page);
    for warning in &page.warnings {
        let _ = writeln!(body, r#"<p class="warning">{}</p>"#, escape(warning));
    }
    goals(&mut body, page);
    for (i, shown) in page.sections.iter().enumerate() {
        section(&mut body, i + 1, shown);
    }
    footer(&mut body, page);
    document(&page.title, &body)
}

/// Returns a page with links to the reports of several experiments, as file and report.
pub(super) fn index(pages: &[(String, Page)]) -> String {
    let mut body = String::from("<header><h1>Reports</h1></header>\n<ul class=\"index\">\n");
    for (href, page) in pages {
        let (reached, all) = page.judged();
        let goals = match all {
            0 => String::new(),
            _ => format!(
                r#" · <span class="{}">{reached} of {all} goals reached</span>"#,
                if reached == all { "met" } else { "missed" }
            ),
        };
        let _ = writeln!(
            body,
            r#"<li><a href="{}">{}</a> <code>{}</code><p>{}</p><p class="small">{}{goals}</p></li>"#,
            escape(href),
            escape(&page.title),
            escape(&page.name),
            escape(&page.question),
            escape(&page.sessions())
        );
    }
    body.push_str("</ul>\n");
    document("Reports", &body)
}

fn document(title: &str, body: &str) -> String {
    format!(
        r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{}</title>
<style>
{STYLE}</style>
</head>
<body>
<main>
{body}</main>
</body>
</html>
"#,
        escape(title)
    )
}

fn header(page: &Page) -> String {
    let mut out = String::from("<header>\n");
    let _ = writeln!(
        out,
        r#"<p class="small">hikyaku lab · <code>{}</code></p>"#,
        escape(&page.name)
    );
    let _ = writeln!(out, "<h1>{}</h1>", escape(&page.title));
    let _ = writeln!(out, r#"<p class="question">{}</p>"#, escape(&page.question));
    let paper = page
        .paper
        .as_ref()
        .map(|paper| format!("Repeats {}. ", escape(paper)));
    let _ = writeln!(
        out,
        r#"<p class="small">{}{}.</p>"#,
        paper.unwrap_or_default(),
        escape(&page.sessions())
    );
    out.push_str("</header>\n");
    out
}

fn section(out: &mut String, number: usize, section: &Section) {
    let _ = writeln!(
        out,
        r#"<section id="figure-{number}"><h2><span class="number">{number}</span>{}</h2>"#,
        escape(&section.title)
    );
    if let Some(text) = &section.text {
        let _ = writeln!(out, "<p>{}</p>", escape(text));
    }
    if let Some(paper) = &section.paper {
        let _ = writeln!(
            out,
            r#"<p class="paper"><b>The paper</b> {}</p>"#,
            escape(paper)
        );
    }
    for block in &section.blocks {
        match block {
            Block::Chart(drawn) => chart(out, drawn),
            Block::Note(note) => {
                let _ = writeln!(out, r#"<p class="remark">{}</p>"#, escape(note));
            }
            Block::Table(_) => {}
        }
    }
    tables(out, section);
    out.push_str("</section>\n");
}

fn chart(out: &mut String, chart: &Chart) {
    if !chart.legend.is_empty() {
        out.push_str("<ul class=\"legend\">\n");
        for entry in &chart.legend {
            let _ = writeln!(out, "<li>{}{}</li>", sign(entry), escape(&entry.text));
        }
        out.push_str("</ul>\n");
    }
    let class = if chart.panels.len() > 1 {
        "charts several"
    } else {
        "charts"
    };
    let _ = writeln!(out, r#"<div class="{class}">"#);
    for panel in &chart.panels {
        out.push_str(panel);
    }
    out.push_str("</div>\n");
}

/// Returns the sign of a legend's entry as a small picture.
fn sign(entry: &Key) -> String {
    let picture = |body: &str| {
        format!(
            r#"<svg class="sign" viewBox="0 0 26 12" width="26" height="12" aria-hidden="true">{body}</svg>"#
        )
    };
    match &entry.mark {
        Mark::Line(class) => picture(&format!(
            r#"<path class="line {class}" d="M1 6L25 6"/><circle class="dot {class}" cx="13" cy="6" r="3.2"/>"#
        )),
        Mark::Paper => picture(
            r#"<path class="paper-line" d="M1 6L25 6"/><polygon class="hollow" points="13,1 18,6 13,11 8,6"/>"#,
        ),
        Mark::Zero => picture(r#"<path class="zero" d="M1 6L25 6"/>"#),
        Mark::Up => picture(r#"<polygon class="neutral" points="13,1 17.5,9.5 8.5,9.5"/>"#),
        Mark::Gradient(shades) => {
            let bars = shades.iter().enumerate().map(|(i, shade)| {
                format!(
                    r#"<rect x="{}" y="0" width="14" height="12" fill="{shade}"/>"#,
                    i * 14
                )
            });
            let width = shades.len() * 14;
            format!(
                r#"<svg class="sign" viewBox="0 0 {width} 12" width="{width}" height="12" aria-hidden="true">{}</svg>"#,
                bars.collect::<String>()
            )
        }
        Mark::None => String::new(),
    }
}

/// Writes the tables that repeat a chart together, hidden until a click.
fn tables(out: &mut String, section: &Section) {
    let all = || {
        section.blocks.iter().filter_map(|block| match block {
            Block::Table(table) => Some(table),
            _ => None,
        })
    };
    for shown in all().filter(|table| !table.folded) {
        table(out, shown);
    }
    if all().any(|table| table.folded) {
        out.push_str("<details><summary>Numbers</summary>\n");
        for shown in all().filter(|table| table.folded) {
            table(out, shown);
        }
        out.push_str("</details>\n");
    }
}

fn table(out: &mut String, table: &Table) {
    let class = match table.columns.iter().all(String::is_empty) {
        true => r#" class="pairs""#,
        // Intervals go below their medians in tables with many of them.
        false if table.columns.len() > 7 => r#" class="wide""#,
        false => "",
    };
    let _ = writeln!(out, r#"<div class="scroll"><table{class}>"#);
    if !table.caption.is_empty() {
        let _ = writeln!(
            out,
            "<caption>{}</caption>",
            escape(&capitalised(&table.caption))
        );
    }
    if table.columns.iter().any(|column| !column.is_empty()) {
        out.push_str("<thead><tr>");
        for (i, column) in table.columns.iter().enumerate() {
            let _ = write!(
                out,
                r#"<th scope="col"{}>{}</th>"#,
                name_class(i, table),
                escape(column)
            );
        }
        out.push_str("</tr></thead>\n");
    }
    out.push_str("<tbody>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for (i, cell) in row.iter().enumerate() {
            let _ = match i < table.names {
                true => write!(out, r#"<th scope="row" class="name">{}</th>"#, escape(cell)),
                false => write!(out, "<td>{}</td>", median(cell)),
            };
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

fn name_class(column: usize, table: &Table) -> &'static str {
    if column < table.names {
        r#" class="name""#
    } else {
        ""
    }
}

/// Formats a cell, with the brackets behind a number in a smaller font.
fn median(cell: &str) -> String {
    match cell.split_once(" [") {
        Some((value, interval)) => format!(
            r#"{} <span class="interval">[{}</span>"#,
            escape(value),
            escape(interval)
        ),
        None => escape(cell),
    }
}

/// Writes all goals, each with its figure.
fn goals(out: &mut String, page: &Page) {
    if page.goals().next().is_none() {
        return;
    }
    out.push_str(
        "<section><h2>Goals</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th class=\"name\">Goal</th>\
         <th>to reach</th><th>reached</th><th></th><th></th></tr></thead>\n<tbody>\n",
    );
    for (i, section) in page.sections.iter().enumerate() {
        for goal in &section.goals {
            let reached = goal.reached.as_deref().unwrap_or("not measured");
            let (class, word) = match goal.verdict {
                Verdict::NotMeasured => ("", ""),
                Verdict::NotJudged => ("", "not judged"),
                Verdict::Reached => ("met", "✓ reached"),
                Verdict::Missed => ("missed", "✗ missed"),
            };
            let _ = writeln!(
                out,
                r##"<tr><th scope="row" class="name">{}</th><td>{}</td><td>{}</td><td class="{class}">{word}</td><td><a href="#figure-{number}">figure {number}</a></td></tr>"##,
                escape(&goal.what),
                escape(&goal.bound),
                escape(reached),
                number = i + 1
            );
        }
    }
    out.push_str("</tbody></table></div>\n</section>\n");
}

fn footer(out: &mut String, page: &Page) {
    out.push_str("<section><h2>How it was measured</h2>\n");
    table(out, &page.conditions);
    let _ = writeln!(
        out,
        "<p>To run it again:</p>\n<pre>{}</pre>",
        escape(&page.commands.join("\n"))
    );
    out.push_str(
        "<p class=\"small\">Medians, with confidence intervals in brackets, by order statistics; where runs have \
         several sessions only the runs are independent, and intervals are by a bootstrap over them. Below six \
         values or runs an interval is their whole range, whose confidence stands beside it. Intervals of ratios \
         are bootstraps, too, and below six values or runs those of an exact rank-sum test; those of shares are \
         Wilson's. Sessions that were given up at the time limit rank behind all \
         that ended, failed ones behind these: a median that falls on one is shown as “&gt;” the limit. Warm-up \
         is left out of everything but plots over sessions.</p>\n</section>\n",
    );
}
