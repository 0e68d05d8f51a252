//! Tests that the documents point to things that exist.
//!
//! These are the table "Where is ..." of ARCHITECTURE.md, the paths in its text, and all links.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn each_row_names_a_file_with_its_symbol() {
    let text = read(&root().join("ARCHITECTURE.md"));
    let rows = rows(&text);
    let wrong: Vec<String> = rows.iter().filter_map(|row| fault(row)).collect();
    assert!(
        wrong.is_empty(),
        "rows of ARCHITECTURE.md:\n{}",
        wrong.join("\n")
    );
    assert!(
        rows.len() >= MIN_ROWS,
        "ARCHITECTURE.md has {} rows only",
        rows.len()
    );
}

#[test]
fn each_path_in_the_text_exists() {
    let text = read(&root().join("ARCHITECTURE.md"));
    let prose = text.split(WHERE_IS).next().unwrap_or_default();
    let missing: Vec<&str> = code_spans(prose)
        .filter(|span| {
            is_path(span) && !PLACES.iter().any(|at| root().join(at).join(span).exists())
        })
        .collect();
    assert!(
        missing.is_empty(),
        "ARCHITECTURE.md names what is not there: {missing:?}"
    );
}

#[test]
fn links_lead_somewhere() {
    let mut documents = markdown_below(&root().join("docs"));
    documents
        .extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root().join(name)));
    let broken: Vec<String> = documents
        .iter()
        .flat_map(|document| {
            let text = without_code(&read(document));
            let broken = links(&text).filter_map(|link| Some((link, dead(document, link)?)));
            let name = document.strip_prefix(root()).unwrap_or(document).display();
            broken
                .map(|(link, why)| format!("{name}: {link}: {why}"))
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(broken.is_empty(), "links:\n{}", broken.join("\n"));
}

#[test]
fn faults_are_found() {
    let row = |file, symbol| vec!["it", file, symbol, "RFC 1", "-"];
    assert_eq!(fault(&row("`Cargo.toml`", "`resolver`")), None);
    assert!(
        fault(&row("`Cargo.toml`", "`solver`")).is_some(),
        "a part of a word"
    );
    assert!(
        fault(&row("`Cargo.lisp`", "`resolver`")).is_some(),
        "no such file"
    );
    assert!(
        fault(&vec!["it", "`Cargo.toml`"]).is_some(),
        "too few cells"
    );
    let document = root().join("README.md");
    assert_eq!(dead(&document, "CONTRIBUTING.md#code"), None);
    assert!(
        dead(&document, "CONTRIBUTING.md#cod").is_some(),
        "no such heading"
    );
    assert!(
        dead(&document, "CONTRIBUTE.md").is_some(),
        "no such document"
    );
}

/// A row: mechanism, file, symbol, source, guide.
type Row<'a> = Vec<&'a str>;

fn rows(text: &str) -> Vec<Row<'_>> {
    let section = text.split(WHERE_IS).nth(1).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    let lines = section.lines().filter(|line| line.starts_with("| "));
    lines
        .map(|line| {
            line.trim_matches('|')
                .split('|')
                .map(str::trim)
                .collect::<Row<'_>>()
        })
        .filter(|row| row[0] != "mechanism" && !row[0].starts_with("---"))
        .collect()
}

fn fault(row: &Row<'_>) -> Option<String> {
    let &[mechanism, file, symbol, _source, _guide] = row.as_slice() else {
        return Some(format!("{row:?} has {} cells instead of 5", row.len()));
    };
    let (Some(file), Some(symbol)) = (code(file), code(symbol)) else {
        return Some(format!(
            "{mechanism}: its file and its symbol need backticks"
        ));
    };
    let Ok(text) = fs::read_to_string(root().join(file)) else {
        return Some(format!("{mechanism}: there is no file {file}"));
    };
    (!has_word(&text, symbol)).then(|| format!("{mechanism}: {file} has no `{symbol}`"))
}

fn code(cell: &str) -> Option<&str> {
    cell.strip_prefix('`')?.strip_suffix('`')
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    let outside_blocks = text.split("```").step_by(2);
    outside_blocks.flat_map(|part| part.split('`').skip(1).step_by(2))
}

fn is_path(span: &str) -> bool {
    let plain = span
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    plain
        && !span.starts_with('/')
        && (span.contains('/') || ENDINGS.iter().any(|ending| span.ends_with(ending)))
}

fn markdown_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_dir());
    let files = files
        .into_iter()
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    files
        .chain(folders.iter().flat_map(|folder| markdown_below(folder)))
        .collect()
}

/// The text without code, in which brackets are no links.
fn without_code(text: &str) -> String {
    let outside_blocks: String = text.split("```").step_by(2).collect();
    outside_blocks.split('`').step_by(2).collect()
}

fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', ' ']).next());
    targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
}

/// Why a link of a document leads nowhere.
fn dead(document: &Path, link: &str) -> Option<&'static str> {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match path {
        "" => document.to_path_buf(),
        path => document.parent()?.join(path),
    };
    if !target.exists() {
        return Some("there is no such file");
    }
    let is_document = target.extension().is_some_and(|ending| ending == "md");
    let has_anchor = anchor.is_empty() || !is_document || anchors(&read(&target)).contains(anchor);
    (!has_anchor).then_some("there is no such heading")
}

/// The anchors that GitHub gives to headings.
fn anchors(text: &str) -> HashSet<String> {
    let outside_blocks: String = text.split("```").step_by(2).collect();
    let mut anchors = HashSet::new();
    for heading in outside_blocks.lines().filter(|line| line.starts_with('#')) {
        let title = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = title
            .chars()
            .filter(|&c| c.is_alphanumeric() || " -_".contains(c));
        let slug: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let again = (1..).map(|n| format!("{slug}-{n}"));
        let free = std::iter::once(slug.clone())
            .chain(again)
            .find(|name| !anchors.contains(name));
        anchors.extend(free);
    }
    anchors
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("reading {}: {error}", path.display()))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

const WHERE_IS: &str = "\n## Where is ...\n";
/// So that a table that cannot be parsed does not pass.
const MIN_ROWS: usize = 60;
/// Where the paths in the text of ARCHITECTURE.md begin.
const PLACES: [&str; 5] = ["", "crates", "crates/edge/src", "crates/lab/src", "egress"];
const ENDINGS: [&str; 6] = [".rs", ".go", ".toml", ".md", ".json", ".c"];
