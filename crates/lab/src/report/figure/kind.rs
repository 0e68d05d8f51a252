//! The kinds of figures, with the keys of each.

use serde::Deserialize;
use toml::Value;

use super::Common;
use crate::experiment::{Axis, OneOrMany};

/// What is drawn, with the keys of its own.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Kind {
    /// A value or gain over two axes.
    Heatmap(Heatmap),
    /// Where the gain is zero, for each value of an axis.
    ZeroLines(ZeroLines),
    /// Medians over an axis.
    Lines(Lines),
    /// Boxes and whiskers.
    Box(Boxes),
    /// Distribution functions.
    Cdf(Cdf),
    /// Values over time.
    Series(Series),
    /// Medians of all cells in numbers.
    Table(Numbers),
    /// An adaptive arm against the best fixed one, cell by cell.
    Choice(Choice),
    /// What happens from session to session.
    Sessions(Sessions),
    /// An adaptive arm against the best fixed one, over all cells.
    Regret(Regret),
    /// What each client of a crowd got of what it gets alone.
    Shares(Shares),
    /// Arms by the sum of others.
    Ratio(Ratio),
}

/// A value or gain over two axes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heatmap {
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// One map for each value of these; other axes that have several values follow.
    #[serde(default)]
    pub panel: Axes,
    /// `[a, b]` shows `(median(a) - median(b)) / median(b)`; without it one map an arm.
    pub gain: Option<[String; 2]>,
}

/// Where the gain is zero, for each value of an axis.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZeroLines {
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// One line for each value.
    pub by: Axis,
    /// One plot for each value of these; other axes that have several values follow.
    #[serde(default)]
    pub panel: Axes,
    /// As [`Heatmap::gain`].
    pub gain: [String; 2],
}

/// Medians over an axis.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lines {
    /// To the right.
    pub x: Axis,
    /// One line for each value of it and each arm.
    pub by: Option<Axis>,
    /// One plot for each value of these; other axes that have several values follow.
    #[serde(default)]
    pub panel: Axes,
    /// Logarithmic axis to the right; zero keeps a place of its own.
    #[serde(default)]
    pub log_x: bool,
    /// Logarithmic axis upwards.
    #[serde(default)]
    pub log_y: bool,
}

/// Boxes and whiskers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Boxes {
    /// A group of boxes for each value.
    pub x: Option<Axis>,
    /// A group of boxes for each of these metrics, which have the same unit, instead of
    /// [`Common::metric`] and `x`.
    #[serde(default)]
    pub metrics: Vec<String>,
    /// One plot for each value of these; other axes that have several values follow.
    #[serde(default)]
    pub panel: Axes,
    /// Logarithmic axis upwards.
    #[serde(default)]
    pub log_y: bool,
}

/// Distribution functions.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cdf {
    /// One plot for each value of these; other axes that have several values follow.
    #[serde(default)]
    pub panel: Axes,
    /// Logarithmic axis to the right.
    #[serde(default)]
    pub log_x: bool,
}

/// Values over time.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Name of the series; those of flows, `NAME.FLOW`, belong to it.
    pub series: String,
    /// Which repeat is shown. Default the first.
    #[serde(default)]
    pub repeat: Repeat,
    /// Which session of it. Default the first that is not warm-up.
    pub session: Option<u32>,
    /// One plot for each value of these; other axes that have several values follow.
    #[serde(default)]
    pub panel: Axes,
    /// Logarithmic axis upwards.
    #[serde(default)]
    pub log_y: bool,
}

/// A repeat, or what all repeats have in the middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub enum Repeat {
    /// This one, from 0.
    One(u32),
    /// The median over all, at each time.
    Median,
}

impl Default for Repeat {
    fn default() -> Self {
        Self::One(0)
    }
}

impl TryFrom<Value> for Repeat {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match &value {
            Value::Integer(number) => u32::try_from(*number).ok().map(Self::One),
            Value::String(text) if text == "median" => Some(Self::Median),
            _ => None,
        }
        .ok_or_else(|| format!("`repeat` is {value}, expected a number from 0 or \"median\""))
    }
}

/// Medians of all cells in numbers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numbers {
    /// Several metrics instead of [`Common::metric`]: a column each, and a row for each
    /// cell and arm. `goodput_mbps.*` stands for all that begin so.
    #[serde(default)]
    pub metrics: Vec<String>,
    /// Adds the share of sessions that have this label.
    pub share: Option<Share>,
}

impl Numbers {
    /// The metrics that are shown.
    pub fn metrics<'a>(&'a self, common: &'a Common) -> Vec<&'a str> {
        match self.metrics.is_empty() {
            true => vec![common.metric.as_str()],
            false => self.metrics.iter().map(String::as_str).collect(),
        }
    }
}

/// Sessions of which a label has one value.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// Name of the label, such as `http`.
    pub label: String,
    /// Its value, such as `3`.
    pub value: String,
}

/// An adaptive arm against the best fixed one, cell by cell.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// Arms that choose.
    pub adaptive: Vec<String>,
    /// Arms that do not. Default all others that are shown.
    #[serde(default)]
    pub fixed: Vec<String>,
    /// The label that tells what was chosen.
    #[serde(default = "http")]
    pub label: String,
    /// A share of this value is shown, beside the paper's. Default `3`.
    #[serde(default = "three")]
    pub value: String,
    /// Arms differ where their medians are further apart than this, per cent.
    #[serde(default = "five")]
    pub differ: f64,
}

fn http() -> String {
    "http".to_owned()
}

fn three() -> String {
    "3".to_owned()
}

const fn five() -> f64 {
    5.0
}

/// What happens from session to session.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sessions {
    /// Shows the share of runs with this label instead of the metric.
    pub share: Option<Share>,
    /// With `share`: also how many such sessions there are in an hour of the server, whose
    /// clock the experiment's settings make this many times as fast.
    pub clock: Option<f64>,
    /// Arms that choose: how long until they choose right is counted.
    #[serde(default)]
    pub adaptive: Vec<String>,
    /// Arms that do not.
    #[serde(default)]
    pub fixed: Vec<String>,
    /// The label that tells what was chosen.
    #[serde(default = "http")]
    pub label: String,
    /// The label's right value. Default that of the best fixed arm in each phase.
    pub right: Option<String>,
    /// As [`Choice::differ`].
    #[serde(default = "five")]
    pub differ: f64,
    /// One plot for each value of these; other axes that have several values follow.
    #[serde(default)]
    pub panel: Axes,
    /// Logarithmic axis upwards.
    #[serde(default)]
    pub log_y: bool,
}

/// An adaptive arm against the best fixed one, over all cells.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Regret {
    /// Arms that choose.
    pub adaptive: Vec<String>,
    /// Arms that do not. Default all others that are shown.
    #[serde(default)]
    pub fixed: Vec<String>,
    /// The best fixed arm is that of cells that are equal but for these axes: with
    /// `across = "congestion"` also the congestion control is chosen.
    #[serde(default)]
    pub across: Axes,
    /// How many of the worst cells are listed. Default 10.
    #[serde(default = "ten")]
    pub worst: usize,
}

const fn ten() -> usize {
    10
}

/// What each client of a crowd got of what it gets alone.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shares {
    /// The arm whose clients are all there at once.
    pub crowd: String,
    /// The arm whose clients are alone.
    pub alone: String,
}

/// Arms by the sum of others.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// Arms whose medians are summed up.
    pub of: Vec<String>,
}

/// One axis or several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "OneOrMany")]
pub struct Axes(pub Vec<Axis>);

impl TryFrom<OneOrMany> for Axes {
    type Error = toml::de::Error;

    fn try_from(names: OneOrMany) -> Result<Self, Self::Error> {
        let axis = |name: &String| Axis::deserialize(Value::String(name.clone()));
        names
            .all()
            .iter()
            .map(axis)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}
