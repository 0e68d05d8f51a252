//! From an experiment's file to its cells and their values.

use std::time::Duration;

use toml::Table;

use super::axis::{Axis, Cell, choose};
use super::error::{Fault, SpecError, fault};
use super::link;
use super::record::Links;
use super::spec::{Adjust, Arm, Flow, Kind, Server, Spec};

impl Spec {
    /// Parses an experiment's text; with `quick`, its `[quick]` part applies.
    ///
    /// # Errors
    /// If a key is unknown or a value wrong, also in an unused part. The error shows its place.
    pub fn parse(name: &str, text: &str, quick: bool) -> Result<Self, SpecError> {
        let parse = |error: toml::de::Error| SpecError::Parse {
            name: name.to_owned(),
            why: error.to_string(),
        };
        let invalid = |(place, why): Fault| SpecError::Invalid {
            name: name.to_owned(),
            place,
            why,
        };
        let full: Self = toml::from_str(text).map_err(parse)?;
        full.check().map_err(invalid)?;
        full.check_filters().map_err(invalid)?;
        full.check_figures().map_err(invalid)?;
        let Some(reduced) = &full.quick else {
            let without = || {
                fault(
                    "quick",
                    "there is no [quick] part: run it without `--quick`",
                )
            };
            return if quick {
                Err(invalid(without()))
            } else {
                Ok(full)
            };
        };
        let reduced = reduced
            .apply(toml::from_str(text).map_err(parse)?)
            .map_err(invalid)?;
        Ok(if quick { reduced } else { full })
    }

    /// Returns all cells, in the order of the axes' values. With [`Self::cells`] it returns a
    /// choice of them by `seed`. Cells in which every arm is skipped are left out.
    pub fn cells(&self, seed: u64) -> Vec<Cell> {
        let mut cells = vec![Cell::default()];
        for (axis, values) in &self.axes {
            cells = cells
                .iter()
                .flat_map(|cell| values.iter().map(|value| cell.with(*axis, value)))
                .collect();
        }
        cells.retain(|cell| {
            self.arms
                .iter()
                .any(|arm| self.skipped(cell, arm).is_none())
        });
        choose(cells, self.cells, seed)
    }

    /// Returns the reason why an arm is skipped in a cell, if it is.
    pub fn skipped(&self, cell: &Cell, arm: &Arm) -> Option<&str> {
        self.skip
            .iter()
            .find(|skip| skip.cells.matches(cell) && names(&skip.arms, arm))
            .map(|skip| skip.reason.as_str())
    }

    /// Number of repeats of an arm in a cell.
    pub fn repeats(&self, cell: &Cell, arm: &Arm) -> u32 {
        self.adjusted(cell, arm, |adjust| adjust.repeats)
            .unwrap_or(self.repeats)
    }

    /// Time limit of a session of an arm in a cell.
    pub fn timeout(&self, cell: &Cell, arm: &Arm) -> Duration {
        self.adjusted(cell, arm, |adjust| adjust.timeout)
            .unwrap_or(self.timeout)
    }

    fn adjusted<T>(
        &self,
        cell: &Cell,
        arm: &Arm,
        value: impl Fn(&Adjust) -> Option<T>,
    ) -> Option<T> {
        self.adjust
            .iter()
            .rev()
            .filter(|adjust| adjust.cells.matches(cell) && names(&adjust.arms, arm))
            .find_map(value)
    }

    /// Whether no session of an arm affects the next one. A server that chooses or adapts does, and
    /// so does a returning client. A crowd's sessions have a server and clients of their own each. Those of
    /// a fleet share its edges.
    pub fn memoryless(&self, arm: &Arm) -> bool {
        if self.workload.kind == Kind::Crowd {
            return true;
        }
        if self.workload.kind == Kind::Fleet {
            return false;
        }
        let returns = arm.returning.unwrap_or(self.workload.returning);
        !self.learns(arm) && !returns
    }

    /// Whether an arm's server acts on its knowledge of a client.
    pub fn learns(&self, arm: &Arm) -> bool {
        arm.chooses() || arm.spreads() || arm.chooses_path() || self.adapts(arm)
    }

    /// Whether an arm's server chooses congestion control or a window floor by its knowledge of a
    /// client, in any cell.
    fn adapts(&self, arm: &Arm) -> bool {
        let adaptive = |axis: Axis, key: &str| match (self.axes.get(&axis), arm.set.get(key)) {
            (Some(values), _) => values.iter().any(|value| value == "adaptive"),
            (None, setting) => setting.is_none_or(|setting| setting == "adaptive"),
        };
        arm.server == Server::Hikyaku
            && arm.flows.is_empty()
            && (adaptive(Axis::Congestion, "policy.congestion")
                || adaptive(Axis::MinCwnd, "policy.min_cwnd"))
    }

    /// Numbers of sessions of one run of an arm: those of the warm-up, and the measured ones. A
    /// memoryless arm has no warm-up. In a crowd all clients are one session, and each kind that is
    /// measured alone is one.
    pub fn sessions(&self, arm: &Arm) -> (u32, u32) {
        if arm.alone {
            return (0, self.client_kinds().len() as u32);
        }
        let warmup = arm.warmup.unwrap_or(self.workload.warmup);
        (warmup, arm.sessions.unwrap_or(self.workload.sessions))
    }

    /// Returns all flows of an arm. Each comes with its number from 1 among those of its name, and
    /// its start.
    pub fn flows<'a>(&self, arm: &'a Arm) -> Vec<(&'a Flow, u32, Duration)> {
        let mut next = Duration::ZERO;
        let copies = arm
            .flows
            .iter()
            .flat_map(|flow| (1..=flow.count).map(move |copy| (flow, copy)));
        copies
            .map(|(flow, copy)| {
                let start = flow.start.unwrap_or(next);
                next = start + self.workload.stagger;
                (flow, copy, start)
            })
            .collect()
    }

    /// Returns the arm of this name.
    pub fn arm(&self, name: &str) -> Option<&Arm> {
        self.arms.iter().find(|arm| arm.name == name)
    }

    /// Returns both directions' links in a cell, before any change; of [`Kind::Paths`] those by
    /// transit A.
    ///
    /// # Errors
    /// Never for a spec from [`Self::parse`]; otherwise those of its checks.
    pub fn links(&self, cell: &Cell) -> Result<Links, String> {
        match self.workload.kind {
            Kind::Paths => self.path_links(cell).map(|[a, _]| a),
            _ => link::resolve(&self.link_keys(cell), cell),
        }
    }

    /// Returns the keys of the link in a cell, without those of axes.
    pub(super) fn link_keys(&self, cell: &Cell) -> Table {
        let network = cell.get(Axis::Network);
        let own = network.and_then(|name| self.networks.get(name));
        let mut keys = self.link.clone();
        keys.extend(own.cloned().unwrap_or_default());
        keys
    }
}

impl Arm {
    /// Whether its server chooses the version by its knowledge of a client.
    pub fn chooses(&self) -> bool {
        let version = self.set.get("policy.version");
        self.server == Server::Hikyaku
            && self.flows.is_empty()
            && version.is_none_or(|version| version == "adaptive")
    }

    /// Whether its server chooses the egress route by its knowledge of a client.
    pub fn chooses_path(&self) -> bool {
        let path = self.set.get("policy.route");
        path.is_some_and(|path| path == "adaptive")
    }

    /// Whether its server chooses the number of connections by its knowledge of a client.
    pub fn spreads(&self) -> bool {
        let connections = self.set.get("policy.connections");
        self.shards > 0 && connections.is_none_or(|connections| connections == "adaptive")
    }
}

/// Whether a list of arms has this one; an empty list means all.
fn names(arms: &[String], arm: &Arm) -> bool {
    arms.is_empty() || arms.contains(&arm.name)
}
