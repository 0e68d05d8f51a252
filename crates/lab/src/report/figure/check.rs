//! Consistency of a figure with its experiment.

use std::slice::from_ref;

use super::{Figure, Kind};
use crate::experiment::{Axis, Spec};
use crate::report::goal::Of;

/// Results that a goal can have, by kind.
const CHOICE: [&str; 4] = [
    "excess_worst",
    "excess_mean",
    "right_share",
    "right_share_worst",
];
const REGRET: [&str; 5] = [
    "regret_mean",
    "regret_p95",
    "regret_worst",
    "saving_least",
    "limit_mean",
];
const SESSIONS: [&str; 3] = ["until_worst", "until_median", "first_excess_worst"];
const PER_HOUR: &str = "per_hour_worst";
const RATIO: [&str; 2] = ["ratio_least", "ratio_most"];
const GAIN: [&str; 2] = ["covered_share", "error_worst"];
const SHARES: [&str; 3] = ["share_least", "share_p5", "share_median"];

impl Figure {
    /// Checks names against the experiment's, and goals against the kind's results.
    pub(super) fn check(&self, spec: &Spec) -> Result<(), String> {
        for (axis, values) in &self.common.cells.0 {
            let swept = swept(spec, *axis)?;
            if let Some(unknown) = values.all().iter().find(|value| !swept.contains(value)) {
                return Err(format!(
                    "`where`: the axis `{axis}` has no value `{unknown}`; it has {}",
                    swept.join(", ")
                ));
            }
        }
        for axis in self.axes() {
            swept(spec, axis)?;
        }
        for axis in self
            .common
            .paper_values
            .iter()
            .flat_map(|value| value.cell.keys())
        {
            swept(spec, *axis).map_err(|why| format!("`paper_values`: {why}"))?;
        }
        if let Some(unknown) = self.named_arms().find(|name| spec.arm(name).is_none()) {
            let names: Vec<&str> = spec.arms.iter().map(|arm| arm.name.as_str()).collect();
            return Err(format!(
                "there is no arm `{unknown}`; the experiment has {}",
                names.join(", ")
            ));
        }
        if let Kind::Sessions(sessions) = &self.kind
            && let Some(clock) = sessions.clock
            && (sessions.share.is_none() || clock.is_nan() || clock <= 0.0)
        {
            return Err("`clock` is a factor above 0 and needs `share`".to_owned());
        }
        if let Kind::Box(boxes) = &self.kind
            && boxes.x.is_some()
            && !boxes.metrics.is_empty()
        {
            return Err("groups of boxes are those of `x` or of `metrics`, not both".to_owned());
        }
        if let Kind::Shares(shares) = &self.kind {
            let is_alone = |name: &str| spec.arm(name).is_some_and(|arm| arm.alone);
            if !is_alone(&shares.alone) || is_alone(&shares.crowd) {
                return Err(
                    "`alone` is the arm that has `alone = true`, `crowd` one that has not"
                        .to_owned(),
                );
            }
        }
        if matches!(self.kind, Kind::Gain(_)) && !spec.workload.visits {
            return Err("a gain is that of a crowd's visits (`visits = true`)".to_owned());
        }
        self.check_goal()
    }

    fn check_goal(&self) -> Result<(), String> {
        if let Kind::Table(numbers) = &self.kind {
            return self.check_table_goal(&numbers.metrics(&self.common));
        }
        let results: Vec<&str> = match &self.kind {
            Kind::Choice(_) => CHOICE.to_vec(),
            Kind::Regret(_) => REGRET.to_vec(),
            Kind::Shares(_) => SHARES.to_vec(),
            Kind::Ratio(_) => RATIO.to_vec(),
            Kind::Gain(_) => GAIN.to_vec(),
            Kind::Sessions(sessions) if !sessions.fixed.is_empty() => SESSIONS.to_vec(),
            Kind::Sessions(sessions) if sessions.clock.is_some() => vec![PER_HOUR],
            _ => vec![],
        };
        let unknown = |name: &&String| !results.contains(&name.as_str());
        match self.common.goal.keys().find(unknown) {
            None => Ok(()),
            Some(unknown) if results.is_empty() => Err(format!(
                "`goal.{unknown}`: only choice, gain, ratio, regret, shares, table, and sessions with `adaptive` and `fixed` arms or with `clock` have goals"
            )),
            Some(unknown) => Err(format!(
                "`goal.{unknown}`: there is no such result; expected {}",
                results.join(", ")
            )),
        }
    }

    fn check_table_goal(&self, metrics: &[&str]) -> Result<(), String> {
        let unknown = |name: &&String| !metrics.contains(&Of::split(name).0);
        match self.common.goal.keys().find(unknown) {
            None => Ok(()),
            Some(unknown) => Err(format!(
                "`goal.{unknown}`: there is no such result; expected {}, or one of them with `_p99` or `_worst`",
                metrics.join(", ")
            )),
        }
    }

    fn axes(&self) -> Vec<Axis> {
        let (mut axes, panel) = match &self.kind {
            Kind::Heatmap(map) => (vec![map.x, map.y], Some(&map.panel)),
            Kind::ZeroLines(lines) => (vec![lines.x, lines.y, lines.by], Some(&lines.panel)),
            Kind::Lines(lines) => {
                let axes = [Some(lines.x), lines.by].into_iter().flatten();
                (axes.collect(), Some(&lines.panel))
            }
            Kind::Box(boxes) => (boxes.x.into_iter().collect(), Some(&boxes.panel)),
            Kind::Cdf(cdf) => (vec![], Some(&cdf.panel)),
            Kind::Series(series) => (vec![], Some(&series.panel)),
            Kind::Sessions(sessions) => (vec![], Some(&sessions.panel)),
            Kind::Regret(regret) => (vec![], Some(&regret.across)),
            Kind::Table(_) | Kind::Choice(_) | Kind::Shares(_) | Kind::Ratio(_) | Kind::Gain(_) => {
                (vec![], None)
            }
        };
        axes.extend(panel.iter().flat_map(|panel| &panel.0));
        axes
    }

    fn named_arms(&self) -> impl Iterator<Item = &String> {
        let (a, b): (&[String], &[String]) = match &self.kind {
            Kind::Heatmap(map) => (map.gain.as_ref().map_or(&[], |gain| gain), &[]),
            Kind::ZeroLines(lines) => (&lines.gain, &[]),
            Kind::Choice(choice) => (&choice.adaptive, &choice.fixed),
            Kind::Sessions(sessions) => (&sessions.adaptive, &sessions.fixed),
            Kind::Regret(regret) => (&regret.adaptive, &regret.fixed),
            Kind::Ratio(ratio) => (&ratio.of, &[]),
            Kind::Shares(shares) => (from_ref(&shares.crowd), from_ref(&shares.alone)),
            Kind::Gain(gain) => (from_ref(&gain.with), from_ref(&gain.without)),
            _ => (&[], &[]),
        };
        let assigned = match &self.kind {
            Kind::Gain(gain) => Some(&gain.assigned),
            _ => None,
        };
        let paper = self
            .common
            .paper_values
            .iter()
            .filter_map(|value| value.arm.as_ref());
        let figure = a.iter().chain(b).chain(assigned);
        self.common.arms.iter().chain(figure).chain(paper)
    }
}

fn swept(spec: &Spec, axis: Axis) -> Result<&[String], String> {
    spec.axes.get(&axis).map(Vec::as_slice).ok_or_else(|| {
        let names: Vec<&str> = spec.axes.keys().map(|axis| axis.name()).collect();
        format!(
            "the experiment does not sweep `{axis}`; its axes: {}",
            if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            }
        )
    })
}
