//! `[[figure]]`: what a report shows. `docs/reports.md` describes every key.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Table, Value};

pub use self::kind::{
    Axes, Boxes, Cdf, Choice, Heatmap, Kind, Lines, Numbers, Ratio, Regret, Repeat, Series,
    Sessions, Share, Shares, ZeroLines,
};
use super::goal::Bound;
use crate::experiment::{Axis, Filter, Spec};

mod check;
mod kind;
#[cfg(test)]
mod tests;

/// Why a `[[figure]]` cannot be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}", self.place())]
pub struct FigureError {
    /// Which, counted from 1.
    pub number: usize,
    /// Its title, if it has one.
    pub title: Option<String>,
    /// What is wrong, and what is expected.
    pub why: String,
}

impl FigureError {
    /// `figure 2 (`Load times`)`.
    pub fn place(&self) -> String {
        match &self.title {
            Some(title) => format!("figure {} (`{title}`)", self.number),
            None => format!("figure {}", self.number),
        }
    }
}

/// One figure of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The keys that every kind takes.
    pub common: Common,
    /// What is drawn.
    pub kind: Kind,
}

/// The keys that every kind of figure takes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Common {
    /// Its heading.
    pub title: String,
    /// What to see in it.
    pub text: Option<String>,
    /// Only these cells.
    #[serde(default, rename = "where")]
    pub cells: Filter,
    /// What is shown. Default `load_ms`.
    #[serde(default = "load_ms")]
    pub metric: String,
    /// Only these arms, in this order. Default all, in the order of the file.
    #[serde(default)]
    pub arms: Vec<String>,
    /// What the paper says, in words.
    pub paper: Option<String>,
    /// The paper's numbers, in the metric's unit.
    #[serde(default)]
    pub paper_values: Vec<PaperValue>,
    /// What is to be reached: result and bound, such as `excess_worst = "<= 2%"`.
    #[serde(default)]
    pub goal: BTreeMap<String, Bound>,
}

fn load_ms() -> String {
    "load_ms".to_owned()
}

const COMMON: [&str; 8] = [
    "title",
    "text",
    "where",
    "metric",
    "arms",
    "paper",
    "paper_values",
    "goal",
];

/// A number of the paper.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperValue {
    /// Where in the sweep; axes that are not given do not matter.
    #[serde(default)]
    pub cell: BTreeMap<Axis, String>,
    /// The arm of ours that corresponds; not given for a gain.
    pub arm: Option<String>,
    /// In the metric's unit; a gain in per cent.
    pub value: f64,
    /// Share of the sessions that had the figure's label, per cent.
    pub share: Option<f64>,
}

impl Figure {
    /// The figures of an experiment, in order.
    ///
    /// # Errors
    /// If a key is unknown, missing or wrong, or names an arm or axis that the experiment
    /// does not have.
    pub fn all(spec: &Spec) -> Result<Vec<Self>, FigureError> {
        let parse = |(i, table): (usize, &Table)| {
            let error = |why| FigureError {
                number: i + 1,
                title: table
                    .get("title")
                    .and_then(Value::as_str)
                    .map(str::to_owned),
                why,
            };
            let figure = Self::parse(table).map_err(error)?;
            figure.check(spec).map_err(error)?;
            Ok(figure)
        };
        spec.figures.iter().enumerate().map(parse).collect()
    }

    fn parse(table: &Table) -> Result<Self, String> {
        let mut own = table.clone();
        let mut common = Table::new();
        for key in COMMON {
            if let Some(value) = own.remove(key) {
                common.insert(key.to_owned(), value);
            }
        }
        let why = |error: toml::de::Error| error.message().to_owned();
        Ok(Self {
            kind: Kind::deserialize(own).map_err(why)?,
            common: Common::deserialize(common).map_err(why)?,
        })
    }
}
