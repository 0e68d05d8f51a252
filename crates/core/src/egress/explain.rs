//! The knowledge of a client's routes and the choice that follows from it, for people and for the admin
//! API.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::decide::{Rules, Verdict};
use super::{
    Candidates, Criterion, EgressDrain, EgressId, EgressNames, EgressSet, Measure, Phase, Route,
    RouteDecision, RouteQuality, RouteView, Wants,
};
use crate::choice::{Group, Visit};
use crate::client::estimate::LossBounds;
use crate::policy::PolicyConfig;
use hikyaku_units::human;
use hikyaku_units::{Rate, duration};

/// The routes that a client may get for responses of one content class, and the choice.
///
/// `Display` lays it out for a terminal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoutesExplanation {
    /// The content class.
    pub class: String,
    /// The quality that the class wants.
    pub wants: Criterion,
    /// It is the choice for responses of which most is sent later than in their first second.
    pub long: bool,
    /// The chosen route: `plain`, an egress route's name, or `aggregate`.
    pub route: String,
    /// The egress route that plain packets take; `None` where that is none of the egress routes, or not known.
    pub plain_is: Option<String>,
    /// A clause on the drain of that egress route; `None` where nobody drains it.
    #[serde(default)]
    pub plain_drain: Option<String>,
    /// A clause on why the agent does not know that; `None` where it does or gives no reason.
    pub plain_unknown: Option<String>,
    /// The experimental group.
    pub group: Group,
    /// A stable name of the reason.
    pub reason_code: String,
    /// The choice with its reason as a sentence.
    pub reason: String,
    /// Each route with the reason for or against it. Plain comes first, then the agent's egress routes
    /// but the one that plain takes. Then come several together where the client has MPTCP or something
    /// is known of them.
    pub routes: Vec<RouteSummary>,
}

/// The knowledge of a route. Counts are faded to the present.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RouteSummary {
    /// `plain`, an egress route's name, or `aggregate`.
    pub route: String,
    /// Whether it is the chosen one.
    pub chosen: bool,
    /// Samples that the class looks at; those of the AS count half.
    pub samples: f32,
    /// Since the client last used it.
    #[serde(with = "duration::option")]
    pub age: Option<Duration>,
    /// Expected goodput: in a response's first second, or for long ones in the rest.
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
    /// Since the client's goodput was last seen to have fallen; older samples do not count.
    #[serde(with = "duration::option")]
    pub declined: Option<Duration>,
    /// It is used only while the others stall.
    pub backup: bool,
    /// A stable name of the reason for or against it.
    pub verdict_code: String,
    /// The reason for or against it, for people.
    pub verdict: String,
}

/// The agent's egress routes, as far as an explanation shows them.
#[derive(Clone, Copy, Debug)]
pub struct KnownEgresses<'a> {
    /// The names of the egress routes.
    pub names: &'a EgressNames,
    /// The egress routes that the agent has.
    pub present: EgressSet,
    /// The present egress routes that can be used, for clients that they reach.
    pub up: EgressSet,
    /// The drains of present egress routes.
    pub drains: &'a [(EgressId, EgressDrain)],
    /// A clause on why the agent does not know which egress route plain packets take; `None` where it
    /// does or gives no reason.
    pub plain_unknown: Option<&'a str>,
}

/// Explains the decision for a client and responses of a content class now. The arguments are those of
/// [`decide_route`](super::decide_route), with the agent's egress routes.
#[must_use]
pub fn explain_routes(
    view: &RouteView,
    (class, wants): (&str, Wants),
    candidates: &Candidates,
    egresses: KnownEgresses<'_>,
    policy: &PolicyConfig,
    (visit, seed): (Visit, u64),
) -> RoutesExplanation {
    let rules = Rules {
        view,
        wants,
        candidates,
        policy,
        visit,
        seed,
    };
    let decision = rules.decision();
    let names = egresses.names;
    let summary = |route: Route| {
        let (verdict_code, verdict) = egresses.verdict(&rules, route, &decision);
        RouteSummary {
            route: route.display(names).to_string(),
            chosen: route == decision.route,
            backup: candidates.is_backup(route),
            verdict_code: verdict_code.to_owned(),
            verdict,
            ..RouteSummary::of(rules.quality(route), wants)
        }
    };
    RoutesExplanation {
        class: class.to_owned(),
        wants: wants.criterion,
        long: wants.phase == Phase::Sustained,
        plain_is: candidates
            .plain_is
            .map(|egress| Route::Steered(egress).display(names).to_string()),
        plain_drain: candidates
            .plain_is
            .and_then(|egress| egresses.drain(egress))
            .map(ToString::to_string),
        plain_unknown: egresses.plain_unknown.map(str::to_owned),
        routes: routes(&rules, egresses.present).map(summary).collect(),
        ..RoutesExplanation::of(decision, names)
    }
}

/// The routes that an explanation is about.
fn routes(rules: &Rules<'_>, present: EgressSet) -> impl Iterator<Item = Route> {
    let candidates = rules.candidates;
    let singles = candidates.singles();
    let steered = move |egress| {
        let route = Route::Steered(egress);
        let is_plain = candidates.plain_is == Some(egress);
        let is_shown = singles.contains(route) || (present.contains(egress) && !is_plain);
        is_shown.then_some(route)
    };
    // Samples of connections with MPTCP are of interest for one without as well.
    let several = rules.quality(Route::Aggregated).samples(rules.wants) > 0.0;
    let several = several || candidates.aggregates();
    std::iter::once(Route::Plain)
        .chain(EgressSet::ALL.iter().filter_map(steered))
        .chain(several.then_some(Route::Aggregated))
}

impl KnownEgresses<'_> {
    /// The reason for or against a route: its code, and a sentence for people.
    fn verdict(
        self,
        rules: &Rules<'_>,
        route: Route,
        decision: &RouteDecision,
    ) -> (&'static str, String) {
        if let Route::Steered(egress) = route {
            if let Some(drain) = self.drain(egress) {
                return ("draining", drain.to_string());
            }
            if !self.up.contains(egress) {
                return ("not_up", "not up".to_owned());
            }
            if !rules.candidates.egresses.contains(egress) {
                return ("unreachable", "does not reach the client".to_owned());
            }
        }
        let verdict = rules.verdict(route, decision);
        (verdict.code(), self.sentence(rules, route, verdict))
    }

    fn drain(&self, egress: EgressId) -> Option<&EgressDrain> {
        let found = self.drains.iter().find(|(of, _)| *of == egress);
        found.map(|(_, drain)| drain)
    }

    fn sentence(self, rules: &Rules<'_>, route: Route, verdict: Verdict) -> String {
        match verdict {
            Verdict::Chosen => "chosen".to_owned(),
            Verdict::Otherwise => "chosen in sessions that do not explore".to_owned(),
            Verdict::RuledOut => "ruled out by policy".to_owned(),
            Verdict::NoMptcp => "only for connections with MPTCP".to_owned(),
            Verdict::HeldBack => "not compared, since the client is held back".to_owned(),
            Verdict::Avoided { left } => format!("avoided for {}", human::time(left)),
            Verdict::Backup => "backup, taken only while the others stall".to_owned(),
            Verdict::Full if route == Route::Aggregated => {
                "fewer than two of its ports have room".to_owned()
            }
            Verdict::Full => "its port is full".to_owned(),
            Verdict::TooFewSamples {
                of,
                samples,
                needed,
            } => {
                let of = match of == route {
                    true => String::new(),
                    false => format!(" of {}", of.display(self.names)),
                };
                format!("too few samples{of}: {samples:.0} of {needed}")
            }
            Verdict::NotBetter { than, gain } => {
                let figures =
                    [route, than].map(|of| figure(rules.quality(of), gain.by, rules.wants.phase));
                let than = than.display(self.names);
                let figures = match figures {
                    [Some(this), Some(that)] => format!("{this} against {that}"),
                    _ => return format!("not surely better than {than}: {gain}"),
                };
                if gain.gain.expected() <= 0.0 {
                    return format!("not better than {than}: {figures}");
                }
                let least = human::percent(rules.policy.min_gain_route);
                format!("not surely {least} better than {than}: {figures} ({gain})")
            }
            Verdict::Stalling => "better, and compared again after the stall".to_owned(),
        }
    }
}

/// The quality that a route is compared by, for people; `None` where it is not known.
fn figure(quality: &RouteQuality, by: Measure, phase: Phase) -> Option<String> {
    match by {
        Measure::Goodput => Some(human::rate(quality.goodput(phase)?).to_string()),
        Measure::Rtt => Some(format!("RTT {}", human::time(quality.rtt()?))),
        Measure::Loss => Some(format!("loss {}", human::loss(quality.loss()?.mean))),
        Measure::Stalls => quality.stalls_per_hour().map(stalls_shown),
    }
}

fn stalls_shown(per_hour: f32) -> String {
    match per_hour {
        0.0 => "no stalls".to_owned(),
        _ => format!("{per_hour:.1} stalls an hour"),
    }
}

impl RoutesExplanation {
    fn of(decision: RouteDecision, names: &EgressNames) -> Self {
        Self {
            class: String::new(),
            wants: Criterion::default(),
            long: false,
            route: decision.route.display(names).to_string(),
            plain_is: None,
            plain_drain: None,
            plain_unknown: None,
            group: decision.group,
            reason_code: decision.reason.code().to_owned(),
            reason: decision.display(names).to_string(),
            routes: Vec::new(),
        }
    }
}

impl RouteSummary {
    fn of(quality: &RouteQuality, wants: Wants) -> Self {
        Self {
            route: String::new(),
            chosen: false,
            samples: quality.samples(wants),
            age: quality.age,
            goodput: quality.goodput(wants.phase),
            rtt: quality.rtt(),
            loss: quality.loss(),
            stalls_per_hour: quality.stalls_per_hour(),
            avoided_for: quality.avoided_for,
            declined: quality.declined,
            backup: false,
            verdict_code: String::new(),
            verdict: String::new(),
        }
    }
}

impl fmt::Display for RoutesExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { class, wants, .. } = self;
        let long = if self.long { ", long responses" } else { "" };
        write!(
            f,
            "{:LABEL$}{class}{long}, wants {wants}: {}",
            "route", self.reason
        )?;
        match (&self.plain_is, &self.plain_unknown) {
            (Some(egress), _) => {
                let drain = self.plain_drain.as_ref();
                let drain = drain.map(|drain| format!(", which is {drain}"));
                writeln!(f, " (plain takes {egress}{})", drain.unwrap_or_default())?;
            }
            (None, Some(why)) => {
                writeln!(
                    f,
                    "\n{:LABEL$}which route plain takes is not known: {why}",
                    ""
                )?;
            }
            (None, None) => writeln!(f)?,
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
            self.stalls_per_hour.map(stalls_shown),
            Some(format!("{:.0} samples", self.samples)),
            self.age
                .map(|age| format!("last used {} ago", human::time(age))),
            self.declined
                .map(|ago| format!("slower since {} ago", human::time(ago))),
        ];
        let facts: Vec<String> = facts.into_iter().flatten().collect();
        write!(f, "{}; {}", facts.join(", "), self.verdict)
    }
}

/// Width of the labels, as in the rest of an explanation.
const LABEL: usize = 14;
