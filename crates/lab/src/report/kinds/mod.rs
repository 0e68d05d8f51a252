//! Each kind of figure: from sessions to a section of the report.

mod boxes;
mod cdf;
mod choice;
mod compare;
mod gain;
mod heatmap;
mod lines;
mod numbers;
mod paper;
mod ratio;
mod regret;
mod series;
mod sessions;
mod shares;
mod zero_lines;

use super::axis;
use super::content::Section;
use super::data::Data;
use super::figure::{Axes, Common, Figure, Kind};
use super::goal::Verdict;
use super::metric::Metric;
use super::sample::{self, Sample};
use crate::experiment::{Axis, Cell};

/// Makes the section of a figure. A figure without data has a note.
pub(super) fn section(data: &Data, figure: &Figure) -> Section {
    let common = &figure.common;
    let mut section = Section {
        title: common.title.clone(),
        text: common.text.clone(),
        paper: common.paper.clone(),
        ..Section::default()
    };
    let view = View::new(data, common);
    if view.cells.is_empty() || view.arms.is_empty() {
        section.note("Nothing to show: no session of these cells and arms was measured.");
    } else {
        match &figure.kind {
            Kind::Heatmap(map) => heatmap::draw(&view, map, &mut section),
            Kind::ZeroLines(lines) => zero_lines::draw(&view, lines, &mut section),
            Kind::Lines(lines) => lines::draw(&view, lines, &mut section),
            Kind::Box(boxes) => boxes::draw(&view, boxes, &mut section),
            Kind::Cdf(cdf) => cdf::draw(&view, cdf, &mut section),
            Kind::Series(series) => series::draw(&view, series, &mut section),
            Kind::Table(numbers) => numbers::draw(&view, numbers, &mut section),
            Kind::Choice(choice) => choice::draw(&view, choice, &mut section),
            Kind::Sessions(sessions) => sessions::draw(&view, sessions, &mut section),
            Kind::Regret(regret) => regret::draw(&view, regret, &mut section),
            Kind::Shares(shares) => shares::draw(&view, shares, &mut section),
            Kind::Ratio(ratio) => ratio::draw(&view, ratio, &mut section),
            Kind::Gain(gain) => gain::draw(&view, gain, &mut section),
        }
        if section.blocks.is_empty() {
            section.note(format!(
                "Nothing to show: no session of these cells and arms has `{}`.",
                view.metric.name
            ));
        }
    }
    if data.conditions().is_some_and(|conditions| conditions.quick) {
        for goal in &mut section.goals {
            goal.verdict = Verdict::NotJudged;
        }
    }
    section
}

/// The data of a figure.
struct View<'a> {
    data: &'a Data,
    common: &'a Common,
    metric: Metric,
    cells: Vec<Cell>,
    arms: Vec<&'a str>,
}

/// Cells that share one plot: they differ only in the plot's own axes.
struct Panel {
    title: String,
    cells: Vec<Cell>,
}

/// Largest number of plots, since nobody looks at more.
const MAX_PANELS: usize = 36;

impl<'a> View<'a> {
    fn new(data: &'a Data, common: &'a Common) -> Self {
        Self {
            data,
            common,
            metric: Metric::named(&common.metric),
            cells: data.cells(common),
            arms: data.arms(common),
        }
    }

    fn sample(&self, cell: &Cell, arm: &str) -> Sample {
        self.data.sample(cell, arm, &self.metric)
    }

    /// Returns the samples of all cells and arms of the figure.
    fn samples<'s>(&'s self, metric: &'s Metric) -> impl Iterator<Item = Sample> + 's {
        let of_cell = move |cell: &'s Cell| {
            let of_arm = move |arm: &&str| self.data.sample(cell, arm, metric);
            self.arms.iter().map(of_arm)
        };
        self.cells.iter().flat_map(of_cell)
    }

    fn values(&self, axis: Axis) -> Vec<String> {
        self.data.values(axis, &self.cells)
    }

    /// Returns one plot for each combination of the values of the other axes; `first` gives their
    /// order.
    fn panels(&self, shown: &[Axis], first: &Axes, section: &mut Section) -> Vec<Panel> {
        let varied = self.data.varied(&self.cells);
        let mut split: Vec<Axis> = first.0.clone();
        split.extend(varied.iter().filter(|axis| !first.0.contains(axis)));
        split.retain(|axis| varied.contains(axis) && !shown.contains(axis));
        let mut groups = vec![self.cells.clone()];
        for axis in &split {
            let split_group = |group: Vec<Cell>| -> Vec<Vec<Cell>> {
                let values = self.data.values(*axis, &group);
                let of = |value: &String| {
                    let has = |cell: &&Cell| cell.get(*axis) == Some(value);
                    group.iter().filter(has).cloned().collect()
                };
                values.iter().map(of).collect()
            };
            groups = groups.into_iter().flat_map(split_group).collect();
        }
        if groups.len() > MAX_PANELS {
            section.note(format!(
                "The first {MAX_PANELS} of {} plots; `where` in the figure chooses others.",
                groups.len()
            ));
            groups.truncate(MAX_PANELS);
        }
        let panel = |cells: Vec<Cell>| Panel {
            title: cells
                .first()
                .map(|cell| axis::cell(cell, &split))
                .unwrap_or_default(),
            cells,
        };
        groups.into_iter().map(panel).collect()
    }
}

impl Panel {
    /// Returns the cell with these values; other axes have only one.
    fn cell(&self, values: &[(Axis, &str)]) -> Option<&Cell> {
        let has = |cell: &&Cell| {
            values
                .iter()
                .all(|(axis, value)| cell.get(*axis) == Some(value))
        };
        self.cells.iter().find(has)
    }

    /// Returns its title with an addition.
    fn titled(&self, more: &str) -> String {
        match (self.title.is_empty(), more.is_empty()) {
            (true, _) => more.to_owned(),
            (_, true) => self.title.clone(),
            _ => format!("{}, {more}", self.title),
        }
    }
}

/// Describes the confidence of the intervals of these samples' medians. It also explains `3 × 10`
/// if runs have several sessions.
fn confidence(samples: impl IntoIterator<Item = Sample>) -> String {
    let mut several = false;
    let mut coverages = vec![];
    for sample in samples {
        several |= sample.runs() < sample.len();
        coverages.extend(sample.interval().map(|interval| interval.coverage));
    }
    let mut words = sample::confidence(coverages);
    if several {
        words.push_str("; n: runs × sessions, of which only the runs are independent");
    }
    words
}

/// Width of a plot that stands alone.
const WIDTH: f64 = 960.0;

/// Returns width and height of a plot, by the number of plots side by side.
fn size(panels: usize) -> (f64, f64) {
    if panels > 1 {
        (474.0, 300.0)
    } else {
        (WIDTH, 380.0)
    }
}
