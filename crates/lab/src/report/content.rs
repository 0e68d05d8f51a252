//! What a report says, before it is HTML or Markdown.

use super::goal::Goal;

/// One figure of a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Section {
    /// Its heading.
    pub(super) title: String,
    /// What to see in it.
    pub(super) text: Option<String>,
    /// What the paper says.
    pub(super) paper: Option<String>,
    /// What is to be reached.
    pub(super) goals: Vec<Goal>,
    /// What it shows, from top to bottom.
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
    /// What the colours mean.
    pub(super) legend: Vec<Key>,
    /// SVG elements.
    pub(super) panels: Vec<String>,
}

/// One entry of a legend.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Key {
    /// Which sign stands for it.
    pub(super) mark: Mark,
    /// What it is.
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
    /// What it holds, if its section does not say.
    pub(super) caption: String,
    /// The heads of the columns.
    pub(super) columns: Vec<String>,
    /// Cells; each row as long as `columns`.
    pub(super) rows: Vec<Vec<String>>,
    /// How many columns from the left name the row.
    pub(super) names: usize,
    /// The page shows it only when asked: a chart says the same.
    pub(super) folded: bool,
}

impl Table {
    /// Without the columns in which no row has anything.
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
