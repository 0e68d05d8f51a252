//! When a connection's decision is made anew.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hikyaku_core::client::sample::Observation;
use hikyaku_core::transport::Decision;

use super::Conn;
use super::choice::Choice;
use crate::clock;
use crate::egress::Reroute;
use crate::events::Event;

/// Age above which a request has the decision taken anew. Other connections of the client, or of its
/// neighbours, may have brought samples and outcomes since.
const DECISION_AGE: Duration = Duration::from_secs(1);

/// Of a connection's age, the part for which it does not decide again by what itself has learnt, and the
/// longest such time.
const PAUSE_PART: u32 = 8;
const PAUSE: Duration = Duration::from_millis(25);

impl Conn {
    /// Learns from observations of this connection, each with the time it was made in, and decides anew if
    /// there are any.
    pub(crate) fn observe(
        &self,
        observations: impl Iterator<Item = (Observation, Range<Instant>)>,
    ) {
        // The measured path to a balancer or proxy says nothing of its clients.
        if !self.is_validated() || !self.through.measures_client() {
            return;
        }
        // In an experiment with the route, load times say nothing of versions. Asked for outcomes alone,
        // which are few: the answer takes the route's lock.
        let tried_route = |during: &Range<Instant>| {
            let route = self.route.as_ref();
            route.is_some_and(|route| route.was_experiment(during))
        };
        let counts = |(it, during): &(Observation, Range<Instant>)| {
            !(matches!(it, Observation::Outcome(_)) && tried_route(during))
        };
        let mut any = false;
        for (observation, _) in observations.filter(counts) {
            self.shared.clients.observe(self.client(), &observation);
            any = true;
        }
        if any {
            self.learnt.store(true, Ordering::Relaxed);
            self.renew();
        }
    }

    /// Decides anew if that may change the decision.
    pub(super) fn renew(&self) {
        let choice = self.choice.load();
        let age = clock::since(choice.at);
        let is_due = age > DECISION_AGE
            || choice.epoch != self.shared.clients.epoch(self.client())
            || self.learnt.load(Ordering::Relaxed) && age >= self.pause();
        drop(choice);
        if is_due {
            self.decide();
        }
    }

    /// Age of a decision from which on it follows new observations. A response changes little on
    /// a connection that had many: there decisions for each would take more CPU time than the responses.
    fn pause(&self) -> Duration {
        (self.age() / PAUSE_PART).min(PAUSE)
    }

    pub(super) fn decide(&self) {
        self.learnt.store(false, Ordering::Relaxed);
        let clients = &self.shared.clients;
        let decision = match self.is_of_client() {
            true => clients.decide(self.client(), self.server_name()),
            false => clients.preview(self.client(), self.server_name()),
        };
        self.adopt(decision);
    }

    /// Puts a new decision into force.
    pub(crate) fn adopt(&self, decision: Decision) {
        let clients = &self.shared.clients;
        let former = self.choice.load();
        let congestion = |decision: &Decision| {
            let choices = [decision.congestion.tcp, decision.congestion.quic];
            choices.map(|choice| choice.congestion)
        };
        let switches = congestion(&former.decision) != congestion(&decision);
        if former.decision.alt_svc != decision.alt_svc || switches {
            clients.changed(self.client());
        }
        let epoch = clients.epoch(self.client());
        let changes = former.decision.reason.code() != decision.reason.code();
        if changes {
            self.shared.metrics.on_decision(&decision);
        }
        if changes || switches {
            self.shared
                .events
                .send(|| Event::decision(self.client(), &decision));
        }
        let choice = Choice::new(
            decision,
            &self.peer,
            self.shared.terms().behind.advertise.as_ref(),
            epoch,
            former.experiments,
        );
        self.choice.store(Arc::new(choice));
        if let Some(route) = &self.route {
            // The session may be another, and other connections may have taught something.
            route.reroute();
        }
    }
}
