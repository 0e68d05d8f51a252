//! Savings of an adaptive arm against each fixed one, on average over all cells.

use super::View;
use crate::report::content::Table;
use crate::report::data::bootstrap_seed;
use crate::report::metric::digits;
use crate::report::sample::{Sample, Value};

/// The saving of an adaptive arm against one fixed arm.
struct Saving<'a> {
    fixed: &'a str,
    cells: usize,
    /// Mean over the cells of `1 - adaptive / fixed`; `None` if the adaptive arm timed out.
    mean: Option<f64>,
}

fn savings<'a>(view: &View, adaptive: &str, fixed: &[&'a str]) -> Vec<Saving<'a>> {
    let of = |arm: &&'a str| {
        let excesses: Sample = view
            .cells
            .iter()
            .filter_map(|cell| {
                let (ours, other) = (view.sample(cell, adaptive), view.sample(cell, arm));
                ours.excess(&other, bootstrap_seed(cell, &[adaptive, arm]))?
                    .known()
            })
            .collect();
        let mean = excesses.mean()?;
        Some(Saving {
            fixed: arm,
            cells: excesses.len(),
            mean: mean.exact().map(|excess| -excess),
        })
    };
    fixed.iter().filter_map(of).collect()
}

/// Returns the smallest mean saving of an adaptive arm against any fixed one; `None` if one is
/// unknown.
pub(super) fn smallest(view: &View, adaptive: &str, fixed: &[&str]) -> Option<Value> {
    let means = savings(view, adaptive, fixed)
        .into_iter()
        .map(|saving| saving.mean)
        .collect::<Option<Vec<f64>>>()?;
    means.into_iter().min_by(f64::total_cmp).map(Value::Exact)
}

pub(super) fn table(view: &View, adaptive: &str, fixed: &[&str]) -> Table {
    let row = |saving: Saving| {
        vec![
            saving.fixed.to_owned(),
            saving.cells.to_string(),
            saving.mean.map_or("not known".to_owned(), |mean| {
                format!("{} %", digits(mean * 100.0))
            }),
        ]
    };
    Table {
        caption: format!(
            "share of each fixed arm's time that {adaptive} saves, mean over the cells of 1 − {adaptive} / fixed"
        ),
        columns: ["fixed arm", "cells", "saved"].map(str::to_owned).to_vec(),
        rows: savings(view, adaptive, fixed)
            .into_iter()
            .map(row)
            .collect(),
        names: 1,
        folded: false,
    }
}
