//! The content of a report, before it is HTML or Markdown.

use super::goal::Goal;

/// One figure of a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Section {
    /// Heading of the figure.
    pub(super) title: String,
    /// Explanation of the figure.
    pub(super) text: Option<String>,
    /// The paper's result.
    pub(super) paper: Option<String>,
    /// Goals of the figure.
    pub(super) goals: Vec<Goal>,
    /// Content of the figure, from top to bottom.
    pub(super) blocks: Vec<Block>,
}

/// A part of a section.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Block {
    /// Pictures; Markdown leaves them out.
    Chart(Chart),
    /// Numbers.
    Table(Table),
    /// A remark in a sentence or two.
    Note(String),
}

/// Pictures that share a legend.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Chart {
    /// Meaning of the colours.
    pub(super) legend: Vec<Key>,
    /// SVG elements.
    pub(super) panels: Vec<String>,
}

/// One entry of a legend.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Key {
    /// Sign of the entry.
    pub(super) mark: Mark,
    /// Meaning of the sign.
    pub(super) text: String,
}

/// A sign of a legend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// A line of these classes.
    Line(String),
    /// A dashed line with hollow diamonds, for the paper's numbers.
    Paper,
    /// The zero line.
    Zero,
    /// A triangle: sessions that were given up.
    Up,
    /// Colours from the first to the last.
    Gradient(Vec<String>),
    /// No sign: a remark.
    None,
}

/// Numbers in rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Table {
    /// Content of the table, if its section does not describe it.
    pub(super) caption: String,
    /// Heads of the columns.
    pub(super) columns: Vec<String>,
    /// Cells; each row is as long as `columns`.
    pub(super) rows: Vec<Vec<String>>,
    /// Number of columns from the left that name the row.
    pub(super) names: usize,
    /// Whether the page hides it until a click, since a chart shows the same.
    pub(super) folded: bool,
}

impl Table {
    /// Removes the columns that are empty in every row.
    pub(super) fn without_empty_columns(mut self) -> Self {
        for i in (0..self.columns.len()).rev() {
            if self.rows.iter().all(|row| row[i].is_empty()) {
                self.columns.remove(i);
                self.names -= usize::from(i < self.names);
                for row in &mut self.rows {
                    row.remove(i);
                }
            }
        }
        self
    }
}

impl Section {
    /// Adds a remark.
    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Note(text.into()));
    }
}
