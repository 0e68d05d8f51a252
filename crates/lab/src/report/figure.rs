//! `[[figure]]`: the figures of a report. `docs/reports.md` describes every key.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Table, Value};

pub use self::kind::{
    Axes, Boxes, Cdf, Choice, Gain, Heatmap, Kind, Lines, Numbers, Ratio, Regret, Repeat, Series,
    Sessions, Share, Shares, ZeroLines,
};
use super::goal::Bound;
use crate::experiment::{Axis, Filter, Spec};
use crate::table::of_table;

mod check;
mod kind;
#[cfg(test)]
mod tests;

/// The reason why a `[[figure]]` cannot be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}", self.place())]
pub struct FigureError {
    /// Number of the figure, counted from 1.
    pub number: usize,
    /// Title of the figure, if it has one.
    pub title: Option<String>,
    /// The mistake, and the expected value.
    pub why: String,
}

impl FigureError {
    /// Formats the figure's place as `figure 2 (`Load times`)`.
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
    /// Kind of the figure.
    pub kind: Kind,
}

/// The keys that every kind of figure takes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Common {
    /// Heading of the figure.
    pub title: String,
    /// Explanation of the figure.
    pub text: Option<String>,
    /// Only these cells.
    #[serde(default, rename = "where")]
    pub cells: Filter,
    /// Metric of the figure. Default `load_ms`.
    #[serde(default = "load_ms")]
    pub metric: String,
    /// Only these arms, in this order. Default all, in the order of the file.
    #[serde(default)]
    pub arms: Vec<String>,
    /// The paper's result, in words.
    pub paper: Option<String>,
    /// The paper's numbers, in the metric's unit.
    #[serde(default)]
    pub paper_values: Vec<PaperValue>,
    /// Goals by result and bound, such as `excess_worst = "<= 2%"`.
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
    /// Cell of the number; missing axes do not matter.
    #[serde(default)]
    pub cell: BTreeMap<Axis, String>,
    /// Our arm that corresponds to it; missing for a gain.
    pub arm: Option<String>,
    /// Value in the metric's unit; a gain is in per cent.
    pub value: f64,
    /// Share of the sessions with the figure's label, in per cent.
    pub share: Option<f64>,
}

impl Figure {
    /// Returns the figures of an experiment, in order.
    ///
    /// # Errors
    /// If a key is unknown, missing or wrong, or names an arm or axis that the experiment lacks.
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
            kind: of_table(&own).map_err(why)?,
            common: of_table(&common).map_err(why)?,
        })
    }
}
