//! Checks of an experiment's file that no single key allows.

use std::collections::BTreeSet;
use std::time::Duration;

use hikyaku_netsim::LinkPatch;

use crate::report::figure::Figure;
use crate::table::of_table;

use super::axis::{Axis, Cell};
use super::error::{Fault, fault};
use super::spec::{
    Arm, Backend, Change, Filter, Flow, Kind, Measure, OneOrMany, Server, Spec, Workload,
};

/// Largest number of cells of an experiment: more would not be measured in days.
const MAX_CELLS: usize = 100_000;
/// Largest number of shards: one of a page's at most eight connections is its own.
const MAX_SHARDS: u8 = 7;

impl Spec {
    /// Checks values, and the consistency of keys.
    pub(super) fn check(&self) -> Result<(), Fault> {
        if self.repeats == 0 {
            return Err(fault("repeats", "must be at least 1"));
        }
        if self.timeout < Duration::from_millis(1) {
            return Err(fault("timeout", "must be at least 1ms"));
        }
        self.check_axes()?;
        self.workload.check()?;
        self.check_crowd()?;
        self.check_paths()?;
        self.check_fleet()?;
        self.check_arms()?;
        self.check_changes()?;
        // All cells share the link's keys; values of axes have been checked.
        let first = self
            .axes
            .iter()
            .map(|(axis, values)| (*axis, values[0].clone()));
        let first = Cell(first.collect());
        self.links(&first).map_err(|why| fault("link", why))?;
        for name in self.networks.keys() {
            self.links(&first.with(Axis::Network, name))
                .map_err(|why| fault(format!("network.{name}"), why))?;
        }
        Ok(())
    }

    fn check_axes(&self) -> Result<(), Fault> {
        let mut cells = 1_usize;
        for (axis, values) in &self.axes {
            let place = format!("axes.{axis}");
            if values.is_empty() {
                return Err(fault(
                    place,
                    "has no values: give one, or leave the axis out",
                ));
            }
            if values.iter().collect::<BTreeSet<_>>().len() < values.len() {
                return Err(fault(place, "has a value twice"));
            }
            for value in values {
                axis.check(value).map_err(|why| fault(place.clone(), why))?;
            }
            cells = cells.saturating_mul(values.len());
        }
        self.check_networks()?;
        if self.axes.contains_key(&Axis::Rtt) && self.axes.contains_key(&Axis::OneWayDelay) {
            return Err(fault(
                "axes",
                "`rtt` and `one_way_delay` set the same: keep one of them",
            ));
        }
        if cells > MAX_CELLS {
            return Err(fault(
                "axes",
                format!("{cells} cells are too many (at most {MAX_CELLS})"),
            ));
        }
        if self.cells == Some(0) {
            return Err(fault("cells", "must be at least 1"));
        }
        Ok(())
    }

    fn check_networks(&self) -> Result<(), Fault> {
        let values = self.axes.get(&Axis::Network);
        if values.is_none() && !self.networks.is_empty() {
            return Err(fault("network", "needs the axis `network`"));
        }
        for name in values.into_iter().flatten() {
            if !self.networks.contains_key(name) {
                let why = format!("there is no [network.{name}]");
                return Err(fault("axes.network", why));
            }
        }
        Ok(())
    }

    fn check_arms(&self) -> Result<(), Fault> {
        if self.arms.is_empty() {
            return Err(fault("arm", "at least one [[arm]] is needed"));
        }
        let mut seen = BTreeSet::new();
        for arm in &self.arms {
            if !seen.insert(&arm.name) {
                return Err(fault("arm", format!("there are two arms `{}`", arm.name)));
            }
            self.check_arm(arm)
                .map_err(|why| fault(format!("arm `{}`", arm.name), why))?;
        }
        Ok(())
    }

    fn check_arm(&self, arm: &Arm) -> Result<(), String> {
        if arm.name.is_empty() {
            return Err("the name is empty".to_owned());
        }
        if arm.server != Server::Hikyaku && !arm.set.is_empty() {
            return Err("`set` is for hikyaku's configuration, not for a peer's".to_owned());
        }
        let is_peers = arm.config.is_some() || arm.congestion.is_some();
        if arm.server == Server::Hikyaku && is_peers {
            return Err(
                "`config` and `congestion` are a peer's; hikyaku has `set`, such as `policy.congestion`"
                    .to_owned(),
            );
        }
        if arm.shards > 0 && arm.server != Server::Hikyaku {
            return Err("`shards` are hikyaku's alone".to_owned());
        }
        if arm.shards > MAX_SHARDS {
            return Err(format!("`shards` must be at most {MAX_SHARDS}"));
        }
        if arm.shards > 0 && arm.set.contains_key("shards.hosts") {
            return Err("`shards` sets `shards.hosts`: keep one of them".to_owned());
        }
        for (axis, key) in [
            (Axis::Congestion, "policy.congestion"),
            (Axis::MinCwnd, "policy.min_cwnd"),
        ] {
            if self.axes.contains_key(&axis) && arm.set.contains_key(key) {
                return Err(format!(
                    "`{key}` is set here and by the axis `{axis}`: keep one of them"
                ));
            }
        }
        if self.axes.contains_key(&Axis::Congestion) && arm.congestion.is_some() {
            return Err("`congestion` is set here and is an axis: keep one of them".to_owned());
        }
        if self.axes.contains_key(&Axis::Connections) && arm.connections.is_some() {
            return Err("`connections` is set here and is an axis: keep one of them".to_owned());
        }
        if arm.sessions == Some(0) {
            return Err("`sessions` must be at least 1".to_owned());
        }
        self.check_crowd_arm(arm)?;
        self.check_fleet_arm(arm)?;
        if arm.mptcp && self.workload.kind != Kind::Paths {
            return Err("`mptcp` needs `workload.kind = \"paths\"`".to_owned());
        }
        match (self.workload.kind, arm.flows.is_empty()) {
            (Kind::Flows, true) => Err("a workload of flows needs `flows`".to_owned()),
            (kind, false) if kind != Kind::Flows => {
                Err("`flows` need `workload.kind = \"flows\"`".to_owned())
            }
            (_, false) => self.check_flows(arm),
            (_, true) => Ok(()),
        }
    }

    /// Checks that the last flow starts before the end, since flows are measured from then on.
    fn check_flows(&self, arm: &Arm) -> Result<(), String> {
        let simulated = |flow: &Flow| {
            flow.size.is_some() || flow.initial_packets.is_some() || flow.rapid_start.is_some()
        };
        if self.backend == Backend::Link && arm.flows.iter().any(simulated) {
            return Err(
                "`size`, `initial_packets` and `rapid_start` of a flow need `backend = \"simulation\"`"
                    .to_owned(),
            );
        }
        let starts = self.flows(arm).into_iter().map(|(_, _, start)| start);
        match (starts.max(), self.workload.duration) {
            (None, _) => Err("`count` must be at least 1".to_owned()),
            (Some(last), Some(duration)) if last >= duration => Err(format!(
                "the last flow starts after {last:?}, when the run's `duration` of {duration:?} is over"
            )),
            _ => Ok(()),
        }
    }

    /// Checks that the sessions with a change of the link exist.
    fn check_changes(&self) -> Result<(), Fault> {
        let sessions = self.arms.iter().map(|arm| {
            let (warmup, measured) = self.sessions(arm);
            warmup.saturating_add(measured)
        });
        let sessions = sessions.max().unwrap_or_default();
        let beyond = |change: &&Change| change.session >= sessions;
        match self.workload.change.iter().find(beyond) {
            Some(change) => Err(fault(
                "workload.change",
                format!(
                    "there is no session {}: they are counted from 0, and there are {sessions} with the warm-up",
                    change.session
                ),
            )),
            None => Ok(()),
        }
    }

    /// Checks the report's figures, so that nobody measures for hours first.
    pub(super) fn check_figures(&self) -> Result<(), Fault> {
        let checked = Figure::all(self);
        checked
            .map(drop)
            .map_err(|error| fault(error.place(), error.why))
    }

    /// Checks that the names in `skip` and `adjust` exist.
    pub(super) fn check_filters(&self) -> Result<(), Fault> {
        let skip = self
            .skip
            .iter()
            .map(|skip| ("skip", &skip.cells, &skip.arms));
        let adjust = self
            .adjust
            .iter()
            .map(|adjust| ("adjust", &adjust.cells, &adjust.arms));
        for (place, cells, arms) in skip.chain(adjust) {
            for (axis, values) in &cells.0 {
                let swept = self.axes.get(axis);
                for value in values.all() {
                    if !swept.is_some_and(|swept| swept.contains(value)) {
                        let why = format!("the axis `{axis}` has no value `{value}`");
                        return Err(fault(format!("{place}.where"), why));
                    }
                }
            }
            if let Some(unknown) = arms.iter().find(|&name| self.arm(name).is_none()) {
                return Err(fault(
                    format!("{place}.arms"),
                    format!("there is no arm `{unknown}`"),
                ));
            }
        }
        Ok(())
    }
}

impl Workload {
    fn check_control(&self) -> Result<(), Fault> {
        let wrong = |why: &str| Err(fault("workload.control", why));
        let control = match (self.kind, &self.control) {
            (Kind::Control, Some(control)) => control,
            (Kind::Control, None) => return wrong("is needed for `kind = \"control\"`"),
            (_, Some(_)) => return wrong("is for `kind = \"control\"`"),
            (_, None) => return Ok(()),
        };
        if control.measure != Measure::Change && self.duration.is_none() {
            return Err(fault("workload.duration", "is needed to change routes for"));
        }
        let scale = control.measure == Measure::Scale;
        if scale != (control.routes > 0) || scale != (control.updates > 0) {
            return wrong("`routes` and `updates` are for `measure = \"scale\"`, which needs both");
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Fault> {
        let wrong = |key: &str, why: &str| Err(fault(format!("workload.{key}"), why));
        match self.kind {
            Kind::Load | Kind::Crowd | Kind::Fleet if self.files.is_empty() => {
                return wrong("files", "a session needs at least one file");
            }
            Kind::Load | Kind::Paths | Kind::Fleet if self.duration.is_some() => {
                return wrong(
                    "duration",
                    "is for `kind = \"flows\"`, `\"crowd\"` and `\"control\"`; a session ends with its files",
                );
            }
            Kind::Flows | Kind::Crowd if self.duration.is_none() => {
                return wrong("duration", "flows and crowds need one");
            }
            _ => {}
        }
        if self.sessions == 0 {
            return wrong("sessions", "must be at least 1");
        }
        self.check_control()?;
        for change in &self.change {
            for table in [&change.both, &change.up, &change.down] {
                of_table::<LinkPatch>(table)
                    .map_err(|error| fault("workload.change", error.message()))?;
            }
        }
        let mut seen = BTreeSet::new();
        for file in &self.files {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if file.name.is_empty() || file.name.starts_with('.') || !file.name.chars().all(plain) {
                return wrong("files", "a name has letters, digits, `-`, `_` and `.` only");
            }
            if !seen.insert(&file.name) {
                return wrong("files", "two files have the same name");
            }
            if file.copies == 0 {
                return wrong("files", "`copies` must be at least 1");
            }
        }
        if self.page
            && !self
                .files
                .first()
                .is_some_and(|file| file.name.ends_with(".html") && file.copies == 1)
        {
            return wrong(
                "files",
                "the first file of a page is its HTML, such as `index.html`",
            );
        }
        Ok(())
    }
}

impl Backend {
    /// Name of the backend: `link` or `simulation`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::Simulation => "simulation",
        }
    }

    /// The command that runs experiments of the backend.
    pub const fn command(self) -> &'static str {
        match self {
            Self::Link => "hikyaku lab run",
            Self::Simulation => "hikyaku lab sim",
        }
    }
}

impl Filter {
    /// Whether a cell has one of the values of each axis.
    pub fn matches(&self, cell: &Cell) -> bool {
        self.0.iter().all(|(axis, values)| {
            cell.get(*axis)
                .is_some_and(|value| values.all().iter().any(|wanted| wanted == value))
        })
    }
}

impl OneOrMany {
    /// All values.
    pub fn all(&self) -> &[String] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(values) => values,
        }
    }
}
