//! The experiments that measurements are credited to.

use std::ops::Range;
use std::time::Instant;

use hikyaku_core::choice::Group;
use hikyaku_core::client::sample::{Observation, Outcome};
use hikyaku_core::egress::{Phase, RouteObservation, RoutesExplanation};
use hikyaku_units::arm::{Arm, Congestion, Version};

use super::*;
use crate::clock;
use crate::conn::Conn;
use crate::fakes::{Server, policy};
use crate::sections::{Limits, Timeouts};

/// A connection whose client the agent knows.
async fn connected(edge: &Edge) -> (Server, Arc<Conn>) {
    let egress = Some(Arc::clone(&edge.egress));
    let (limits, timeouts) = (Limits::default(), Timeouts::default());
    let server = Server::with_egress(&policy(), limits, timeouts, egress);
    let conn = server.connection(Version::H2);
    let route = Arc::clone(conn.route().unwrap());
    edge.until_on(&route, "plain").await;
    let known = || !edge.explained(&conn).is_empty();
    until("the agent has answered", known).await;
    route.update(Session(0).into());
    (server, conn)
}

impl Edge {
    fn explained(&self, conn: &Conn) -> Vec<RoutesExplanation> {
        self.egress.explain(conn.client(), false, Session(0).into())
    }

    /// Samples of the plain way.
    fn samples(&self, conn: &Conn) -> f32 {
        let bulk = self.explained(conn).into_iter();
        let mut bulk = bulk.filter(|of| of.class == "bulk" && !of.long);
        bulk.next().unwrap().routes[0].samples
    }
}

fn response() -> RouteObservation {
    RouteObservation {
        bytes: 1_000_000,
        duration: Duration::from_millis(100),
        phase: Phase::Startup,
        rtt: Some(Duration::from_millis(20)),
        packets_sent: 700,
        ..RouteObservation::default()
    }
}

/// The time in which something is done, apart from all before and after.
fn during(done: impl FnOnce()) -> Range<Instant> {
    let begin = apart();
    done();
    begin..apart()
}

/// An instant that no other one equals.
fn apart() -> Instant {
    let before = clock::now();
    let mut later = std::iter::repeat_with(clock::now).skip_while(|now| *now == before);
    let instant = later.next().unwrap();
    later.find(|now| *now > instant);
    instant
}

#[tokio::test]
async fn goodput_in_a_trial_says_nothing_of_routes_when_it_is_learnt_later() {
    let agent = Agent::start();
    let edge = Edge::start(&agent, &["policy.holdback=0", "policy.exploration=0"]);
    let (_server, conn) = connected(&edge).await;
    let normal = conn.decision();
    let mut trial = normal;
    trial.group = Group::Explore;

    conn.adopt(trial);
    let of_trial = during(|| ());
    conn.adopt(normal);
    conn.observe_route(&response(), &of_trial);
    assert_eq!(edge.samples(&conn), 0.0, "observed in the trial");

    let after = during(|| ());
    conn.adopt(trial);
    conn.observe_route(&response(), &after);
    assert!(edge.samples(&conn) > 0.0, "observed before the next trial");
}

#[tokio::test]
async fn load_times_over_an_explored_route_say_nothing_of_versions_when_they_are_learnt_later() {
    let agent = Agent::start();
    agent.reach(&["transit-a", "transit-b"]);
    let edge = Edge::start(&agent, &["policy.holdback=0", "policy.exploration=0.02"]);
    let (server, conn) = connected(&edge).await;
    let route = conn.route().unwrap();
    // Nothing is explored before the client has shown something of the plain way.
    let before = during(|| ());
    (0..4).for_each(|_| conn.observe_route(&response(), &before));

    let group = |session| {
        let update = route.update(Session(session).into());
        update.decided.decision.group
    };
    let explored = during(|| {
        let session = (1..10_000).find(|session| group(*session) == Group::Explore);
        assert!(session.is_some(), "{:?}", edge.explained(&conn));
    });
    let normal = (1..100).find(|session| group(*session) != Group::Explore);
    assert!(normal.is_some());
    let outcome = Outcome {
        arm: Arm::new(Version::H2, Congestion::Cubic),
        size: 1_000_000,
        duration: Duration::from_millis(100),
        shared: false,
    };
    let typical = || {
        server
            .shared
            .clients
            .explain(conn.client())
            .levels
            .first()?
            .size
    };
    let learn = |during| conn.observe(std::iter::once((Observation::Outcome(outcome), during)));
    learn(explored);
    assert_eq!(typical(), None, "measured over the explored route");
    learn(during(|| ()));
    assert!(typical().is_some(), "measured later");
}
