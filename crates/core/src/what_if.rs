//! The load times that another policy would have given, by the log of the one that was in force.
//!
//! Each logged response shows the knowledge of its client, the treatment, and how likely that was. The
//! decision is made again by the other policy. Where both policies may give the same, the response counts for
//! the other one, weighted by the ratio of the probabilities.
//!
//! The model's expected load times are a control variate, so that the weights bear only its error. Such an
//! estimate is doubly robust: it is right if either the probabilities or the model are. See Dudík, Langford,
//! Li, "Doubly robust policy evaluation and learning", ICML 2011.
//!
//! A client's other sessions show how far the model is off for it by all arms alike. That part is taken out of
//! the weights of a session's own draws. It changes no expectation, since it does not depend on them. The
//! assignment is drawn for all sessions, and keeps it.
//!
//! Clients are the units, since the responses of one are alike. Load times are compared as logarithms, so that
//! means are geometric.

mod report;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::choice::{Assignment, Session};
use crate::model::Model;
use crate::policy::PolicyConfig;
use crate::transport::{State, Treatment, loads, treatments};
use hikyaku_units::arm::{ARMS, Arm, Congestion, Transport, Version};

pub use report::{Answer, Refusal, Report};

/// A response of the log.
#[derive(Clone, Copy, Debug)]
pub struct Response {
    /// The client.
    pub client: IpAddr,
    /// The state that its decision was made from, and what it gave.
    pub state: State,
    /// The probability of that, as logged.
    pub probability: f64,
    /// The transport that carried it.
    pub transport: Transport,
    /// Bytes of its body.
    pub bytes: u64,
    /// From the request's arrival until the last byte was acknowledged.
    pub time: Duration,
}

/// An estimate that takes a log's responses one by one.
#[derive(Debug)]
pub struct WhatIf<'a> {
    model: &'a Model,
    /// The policy that was in force.
    logged: &'a PolicyConfig,
    other: &'a PolicyConfig,
    clients: BTreeMap<IpAddr, Client>,
    counts: Counts,
}

/// Of all responses.
#[derive(Clone, Debug, Default)]
struct Counts {
    responses: f64,
    /// Responses whose logged probability is not that of the policy in force.
    foreign: f64,
    /// Part of the responses that the other policy decides otherwise.
    changed: f64,
    /// Part of the responses for which the other policy gives what the log never drew.
    unseen: [f64; ARMS],
    /// Responses that the other policy mostly decides otherwise, with the sum and squares of their weights.
    mostly: f64,
    weights: f64,
    weights_sq: f64,
}

/// Sums over the responses of a client, by session.
#[derive(Clone, Debug, Default)]
struct Client {
    ln_time: f64,
    sessions: Vec<(Session, Sums)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    responses: f64,
    /// The change by the model.
    predicted: f64,
    /// How far the model is off.
    residual: f64,
    /// The same by weights less one.
    weighted: f64,
    /// Weights less those of the client's assignment alone.
    by_session: f64,
}

/// The part of a treatment that decides about a response's time: the arm of the preferred version, and of the one in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Effect {
    assignment: Assignment,
    version: Version,
    congestion: [Congestion; 2],
}

impl Effect {
    fn of(treatment: &Treatment, used: Transport) -> Self {
        let transports = [treatment.version.transport(), used];
        Self {
            assignment: treatment.assignment,
            version: treatment.version,
            congestion: transports.map(|transport| *treatment.congestion.get(transport)),
        }
    }

    fn arm(&self) -> Arm {
        Arm::over(self.version.transport(), self.congestion[0])
    }
}

impl<'a> WhatIf<'a> {
    /// An estimate of what `other` would have given, by a log of `logged`.
    #[must_use]
    pub fn new(model: &'a Model, logged: &'a PolicyConfig, other: &'a PolicyConfig) -> Self {
        Self {
            model,
            logged,
            other,
            clients: BTreeMap::new(),
            counts: Counts::default(),
        }
    }

    /// Takes a response.
    pub fn add(&mut self, response: &Response) {
        let State {
            view,
            treatment,
            available,
        } = &response.state;
        let is_drawn = response.probability > 0.0;
        if response.time.is_zero() || !is_drawn {
            return;
        }
        let effects = |policy| {
            let drawn = treatments(view, self.model, policy, available);
            let probability = drawn.iter().filter(|(other, _)| other == treatment);
            let probability: f64 = probability.map(|(_, probability)| probability).sum();
            (probability, by_effect(&drawn, response.transport))
        };
        let ((replayed, logged), (_, other)) = (effects(self.logged), effects(self.other));
        self.counts.responses += 1.0;
        if !is_near(replayed, response.probability) {
            self.counts.foreign += 1.0;
            return;
        }
        let expected = self.expected(response);
        let mut predicted = 0.0;
        let mut apart = 0.0;
        for (effect, probability) in logged.iter().chain(&other) {
            let is_of = |(of, _): &&(Effect, f64)| of == effect;
            let both = [&logged, &other].map(|all| all.iter().find(is_of).map_or(0.0, |(_, p)| *p));
            // Those of both come twice.
            let part = if both[0] > 0.0 && both[1] > 0.0 {
                0.5
            } else {
                1.0
            };
            let change = part * (both[1] - both[0]);
            predicted += change * expected(effect);
            apart += change.abs() / 2.0;
            if both[0] == 0.0 {
                self.counts.unseen[effect.arm().index()] += probability;
            }
        }
        let got = Effect::of(treatment, response.transport);
        let share = |all: &[(Effect, f64)]| {
            let found = all.iter().find(|(effect, _)| *effect == got);
            found.map_or(0.0, |(_, probability)| *probability)
        };
        let weight = share(&other) / share(&logged);
        let residual = ln_ratio(response.time, response.bytes) - expected(&got);
        let of_client = self.of_client(treatment.assignment);
        self.count(apart, weight);
        let client = self.clients.entry(response.client).or_default();
        client.ln_time += response.time.as_secs_f64().ln();
        let sums = client.session(view.session);
        sums.responses += 1.0;
        sums.predicted += predicted;
        sums.residual += residual;
        sums.by_session += weight - of_client;
        sums.weighted += (weight - 1.0) * residual;
    }

    /// The part of a weight that all of a client's sessions have in common.
    fn of_client(&self, assignment: Assignment) -> f64 {
        assignment.share(self.other) / assignment.share(self.logged)
    }

    fn count(&mut self, apart: f64, weight: f64) {
        self.counts.changed += apart;
        if apart > 0.5 {
            self.counts.mostly += 1.0;
            self.counts.weights += weight;
            self.counts.weights_sq += weight * weight;
        }
    }

    /// The logarithm of the load time that the model expects of an effect, as [`ln_ratio`] has it; 0 where it
    /// knows nothing.
    fn expected(&self, response: &Response) -> impl Fn(&Effect) -> f64 + use<> {
        let State {
            view, available, ..
        } = &response.state;
        let size = view.size.unwrap_or(self.other.typical_size).bytes();
        let loads = loads(view, self.model, available);
        move |effect| {
            let load = loads[effect.arm().index()];
            load.map_or(0.0, |load| ln_ratio(load.time, size))
        }
    }
}

impl Client {
    /// The sums of a session. Responses mostly come in the order of sessions.
    fn session(&mut self, session: Session) -> &mut Sums {
        let at = self
            .sessions
            .iter()
            .rposition(|(other, _)| *other == session);
        let at = at.unwrap_or_else(|| {
            self.sessions.push((session, Sums::default()));
            self.sessions.len() - 1
        });
        &mut self.sessions[at].1
    }
}

/// The effects of treatments on a response over `used`, each once.
fn by_effect(drawn: &[(Treatment, f64)], used: Transport) -> Vec<(Effect, f64)> {
    let mut effects: Vec<(Effect, f64)> = Vec::with_capacity(drawn.len());
    for (treatment, probability) in drawn {
        let effect = Effect::of(treatment, used);
        match effects.iter_mut().find(|(other, _)| *other == effect) {
            Some((_, sum)) => *sum += probability,
            None => effects.push((effect, *probability)),
        }
    }
    effects
}

/// The logarithm of a load time by that of 0.1 s and 20 Mbit/s, which takes out most of the size.
fn ln_ratio(time: Duration, bytes: u64) -> f64 {
    let usual = 0.1 + bytes as f64 / 2.5e6;
    (time.as_secs_f64().clamp(0.001, 300.0) / usual).ln()
}

/// Whether a probability is the logged one, but for digits that the log leaves out. Near a threshold these
/// may decide.
fn is_near(replayed: f64, logged: f64) -> bool {
    (replayed - logged).abs() < 0.001 + 0.01 * logged
}

#[cfg(test)]
mod tests;
