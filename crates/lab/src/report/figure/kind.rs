//! The kinds of figures, with the keys of each.

use serde::Deserialize;
use serde::de::value::StrDeserializer;
use toml::Value;

use super::Common;
use crate::experiment::{Axis, OneOrMany};

/// The kind of a figure, with its own keys.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Kind {
    /// A value or gain over two axes.
    Heatmap(Heatmap),
    /// The points at which the gain is zero, for each value of an axis.
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
    /// Values from session to session.
    Sessions(Sessions),
    /// An adaptive arm against the best fixed one, over all cells.
    Regret(Regret),
    /// Each crowd client's goodput as a share of its goodput alone.
    Shares(Shares),
    /// Medians of arms as a share of other arms' sum.
    Ratio(Ratio),
    /// The gain that a server has found, beside the true one.
    Gain(Gain),
}

/// A value or gain over two axes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heatmap {
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Axes with one map for each value; other axes with several values follow.
    #[serde(default)]
    pub panel: Axes,
    /// Arms of the gain: `[a, b]` shows `(median(a) - median(b)) / median(b)`. Without it each arm
    /// has a map.
    pub gain: Option<[String; 2]>,
}

/// The points at which the gain is zero, for each value of an axis.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZeroLines {
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Axis with one line for each value.
    pub by: Axis,
    /// Axes with one plot for each value; other axes with several values follow.
    #[serde(default)]
    pub panel: Axes,
    /// Arms of the gain, as in [`Heatmap::gain`].
    pub gain: [String; 2],
}

/// Medians over an axis.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lines {
    /// Horizontal axis.
    pub x: Axis,
    /// Axis with one line for each value and arm.
    pub by: Option<Axis>,
    /// Axes with one plot for each value; other axes with several values follow.
    #[serde(default)]
    pub panel: Axes,
    /// Whether the horizontal axis is logarithmic; zero keeps a place of its own.
    #[serde(default)]
    pub log_x: bool,
    /// Whether the vertical axis is logarithmic.
    #[serde(default)]
    pub log_y: bool,
}

/// Boxes and whiskers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Boxes {
    /// Axis with a group of boxes for each value.
    pub x: Option<Axis>,
    /// Metrics of the same unit with a group of boxes each, in place of [`Common::metric`] and `x`.
    #[serde(default)]
    pub metrics: Vec<String>,
    /// Axes with one plot for each value; other axes with several values follow.
    #[serde(default)]
    pub panel: Axes,
    /// Whether the vertical axis is logarithmic.
    #[serde(default)]
    pub log_y: bool,
}

/// Distribution functions.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cdf {
    /// Axes with one plot for each value; other axes with several values follow.
    #[serde(default)]
    pub panel: Axes,
    /// Whether the horizontal axis is logarithmic.
    #[serde(default)]
    pub log_x: bool,
}

/// Values over time.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Name of the series, which includes those of flows, `NAME.FLOW`.
    pub series: String,
    /// Repeat of the series. Default the first.
    #[serde(default)]
    pub repeat: Repeat,
    /// Session of the repeat. Default the first after the warm-up.
    pub session: Option<u32>,
    /// Axes with one plot for each value; other axes with several values follow.
    #[serde(default)]
    pub panel: Axes,
    /// Whether the vertical axis is logarithmic.
    #[serde(default)]
    pub log_y: bool,
}

/// One repeat, or the median of all.
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
    /// Metrics in place of [`Common::metric`]: a column each, and a row for each cell and arm.
    /// `goodput_mbps.*` stands for all with that prefix.
    #[serde(default)]
    pub metrics: Vec<String>,
    /// Label whose share of sessions is added.
    pub share: Option<Share>,
}

impl Numbers {
    /// Returns the metrics of the figure.
    pub fn metrics<'a>(&'a self, common: &'a Common) -> Vec<&'a str> {
        match self.metrics.is_empty() {
            true => vec![common.metric.as_str()],
            false => self.metrics.iter().map(String::as_str).collect(),
        }
    }
}

/// Sessions with one value of a label.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// Name of the label, such as `http`.
    pub label: String,
    /// Value of the label, such as `3`.
    pub value: String,
}

/// An adaptive arm against the best fixed one, cell by cell.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// Arms that choose.
    pub adaptive: Vec<String>,
    /// Fixed arms. Default all others of the figure.
    #[serde(default)]
    pub fixed: Vec<String>,
    /// Label of the choice.
    #[serde(default = "http")]
    pub label: String,
    /// Value whose share is shown, beside the paper's. Default `3`.
    #[serde(default = "three")]
    pub value: String,
    /// Distance of medians in per cent above which arms differ.
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

/// Values from session to session.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sessions {
    /// Label whose share of runs replaces the metric.
    pub share: Option<Share>,
    /// With `share`: adds the number of such sessions in an hour of the server. The experiment's
    /// settings make its clock this many times as fast.
    pub clock: Option<f64>,
    /// Adaptive arms, whose time until the right choice is counted.
    #[serde(default)]
    pub adaptive: Vec<String>,
    /// Fixed arms.
    #[serde(default)]
    pub fixed: Vec<String>,
    /// Label of the choice.
    #[serde(default = "http")]
    pub label: String,
    /// The label's right value. Default that of the best fixed arm in each phase.
    pub right: Option<String>,
    /// Distance of medians in per cent above which arms differ, as in [`Choice::differ`].
    #[serde(default = "five")]
    pub differ: f64,
    /// Axes with one plot for each value; other axes with several values follow.
    #[serde(default)]
    pub panel: Axes,
    /// Whether the vertical axis is logarithmic.
    #[serde(default)]
    pub log_y: bool,
}

/// An adaptive arm against the best fixed one, over all cells.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Regret {
    /// Adaptive arms.
    pub adaptive: Vec<String>,
    /// Fixed arms. Default all others of the figure.
    #[serde(default)]
    pub fixed: Vec<String>,
    /// Axes across which the best fixed arm is sought, in cells that are equal otherwise. With
    /// `across = "congestion"` the congestion control is chosen, too.
    #[serde(default)]
    pub across: Axes,
    /// Number of worst cells in the list. Default 10.
    #[serde(default = "ten")]
    pub worst: usize,
}

const fn ten() -> usize {
    10
}

/// Each crowd client's goodput as a share of its goodput alone.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shares {
    /// The arm whose clients run all at once.
    pub crowd: String,
    /// The arm whose clients run alone.
    pub alone: String,
}

/// Medians of arms as a share of other arms' sum.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// Arms of the sum.
    pub of: Vec<String>,
}

/// The gain that a server has found, beside the true one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gain {
    /// The arm whose clients all get what the server chooses.
    pub with: String,
    /// The arm whose clients are all held back.
    pub without: String,
    /// The arm that assigns its clients, and reports the gain.
    pub assigned: String,
}

/// One axis or several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "OneOrMany")]
pub struct Axes(pub Vec<Axis>);

impl TryFrom<OneOrMany> for Axes {
    type Error = serde::de::value::Error;

    fn try_from(names: OneOrMany) -> Result<Self, Self::Error> {
        let axis = |name: &String| Axis::deserialize(StrDeserializer::new(name));
        names
            .all()
            .iter()
            .map(axis)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}
