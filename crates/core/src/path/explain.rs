//! What is known of a client's routes and what follows from it, for people and for the admin API.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    Candidates, Criterion, PathNames, Route, RouteDecision, RouteQuality, RouteView, decide_route,
};
use crate::decide::{Group, Session};
use crate::estimate::LossBounds;
use crate::human;
use crate::policy::PolicyConfig;
use crate::units::{Rate, duration};

/// The routes that a client may get for one content class, and the choice.
///
/// `Display` lays it out for a terminal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoutesExplanation {
    /// The content class.
    pub class: String,
    /// What it wants.
    pub wants: Criterion,
    /// The chosen route: `plain`, a path's name, or `aggregate`.
    pub route: String,
    /// The path that plain packets take; `None` where that is none of the paths, or not known.
    pub plain_is: Option<String>,
    /// The experimental group.
    pub group: Group,
    /// A stable name of the reason.
    pub reason_code: String,
    /// The choice with its reason as a sentence.
    pub reason: String,
    /// Each route that may be chosen, plain first; several paths also where only connections with MPTCP
    /// may have them, once they are known.
    pub routes: Vec<RouteSummary>,
}

/// What is known of a route. Counts are faded to the present.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RouteSummary {
    /// `plain`, a path's name, or `aggregate`.
    pub route: String,
    /// Whether it is the chosen one.
    pub chosen: bool,
    /// Samples that the class looks at; those of the AS count half.
    pub samples: f32,
    /// Since the client last used it.
    #[serde(with = "duration::option")]
    pub age: Option<Duration>,
    /// Expected goodput.
    pub goodput: Option<Rate>,
    /// Expected smoothed round-trip time.
    #[serde(with = "duration::option")]
    pub rtt: Option<Duration>,
    /// Packets lost.
    pub loss: Option<LossBounds>,
    /// Stalls in an hour of sending.
    pub stalls_per_hour: Option<f32>,
    /// For how much longer it is avoided, since it has stalled.
    #[serde(with = "duration::option")]
    pub avoided_for: Option<Duration>,
    /// It is used only while the others stall.
    pub backup: bool,
}

/// Explains what is decided for a client and a content class now. The arguments are those of
/// [`decide_route`], with the paths' names.
#[must_use]
pub fn explain_routes(
    view: &RouteView,
    (class, wants): (&str, Criterion),
    candidates: &Candidates,
    names: &PathNames,
    policy: &PolicyConfig,
    (session, seed): (Session, u64),
) -> RoutesExplanation {
    let decision = decide_route(view, wants, candidates, policy, session, seed);
    // What connections with MPTCP have shown is of interest for one without as well.
    let known = view.quality(Route::Aggregated, None).samples(wants) > 0.0;
    let several = (known || candidates.aggregates()).then_some(Route::Aggregated);
    let routes = candidates.singles().iter().chain(several);
    let summary = |route: Route| RouteSummary {
        route: route.display(names).to_string(),
        chosen: route == decision.route,
        backup: candidates.is_backup(route),
        ..RouteSummary::of(view.quality(route, candidates.plain_is), wants)
    };
    RoutesExplanation {
        class: class.to_owned(),
        wants,
        plain_is: candidates
            .plain_is
            .map(|path| Route::Steered(path).display(names).to_string()),
        routes: routes.map(summary).collect(),
        ..RoutesExplanation::of(decision, names)
    }
}

impl RoutesExplanation {
    fn of(decision: RouteDecision, names: &PathNames) -> Self {
        Self {
            class: String::new(),
            wants: Criterion::default(),
            route: decision.route.display(names).to_string(),
            plain_is: None,
            group: decision.group,
            reason_code: decision.reason.code().to_owned(),
            reason: decision.display(names).to_string(),
            routes: Vec::new(),
        }
    }
}

impl RouteSummary {
    fn of(quality: &RouteQuality, wants: Criterion) -> Self {
        Self {
            route: String::new(),
            chosen: false,
            samples: quality.samples(wants),
            age: quality.age,
            goodput: quality.goodput(),
            rtt: quality.rtt(),
            loss: quality.loss(),
            stalls_per_hour: quality.stalls_per_hour(),
            avoided_for: quality.avoided_for,
            backup: false,
        }
    }
}

impl fmt::Display for RoutesExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { class, wants, .. } = self;
        write!(
            f,
            "{:LABEL$}{class}, wants {wants}: {}",
            "route", self.reason
        )?;
        match &self.plain_is {
            Some(path) => writeln!(f, " (plain takes {path})")?,
            None => writeln!(f)?,
        }
        let width = self.routes.iter().map(|route| route.route.chars().count());
        let width = width.max().unwrap_or(0);
        for route in &self.routes {
            writeln!(f, "{:LABEL$}{:width$}  {route}", "", route.route)?;
        }
        Ok(())
    }
}

impl fmt::Display for RouteSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = [
            self.goodput.map(|rate| human::rate(rate).to_string()),
            self.rtt.map(|rtt| format!("RTT {}", human::time(rtt))),
            self.loss
                .map(|loss| format!("loss {}", human::loss(loss.mean))),
            self.stalls_per_hour.map(|stalls| match stalls {
                0.0 => "no stalls".to_owned(),
                _ => format!("{stalls:.1} stalls an hour"),
            }),
            Some(format!("{:.0} samples", self.samples)),
            self.age
                .map(|age| format!("last used {} ago", human::time(age))),
            self.avoided_for
                .map(|left| format!("avoided for {}", human::time(left))),
            self.backup.then(|| "backup".to_owned()),
            self.chosen.then(|| "chosen".to_owned()),
        ];
        let facts: Vec<String> = facts.into_iter().flatten().collect();
        f.write_str(&facts.join(", "))
    }
}

/// Width of the labels, as in the rest of an explanation.
const LABEL: usize = 14;
