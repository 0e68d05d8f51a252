//! Routes that other edges of the PoP have observed.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hikyaku_core::client::key::Prefix;
use hikyaku_core::egress::{Route, RouteContributions, RouteObservation};
use hikyaku_core::fleet::Pop;

use hikyaku_units::Timestamp;

use super::Egress;
use crate::config::Config;
use crate::egress::tests::{open, rules};

/// An edge whose agent never comes.
fn edge() -> Arc<Egress> {
    let mut config = Config::load(None, &[]).unwrap();
    config.egress.socket = Some("/nonexistent/agent.sock".into());
    let egress = open(&config, &rules(&config)).unwrap();
    egress.share(Pop::named("fra1"), 1000);
    egress
}

#[tokio::test(start_paused = true)]
async fn contributions_go_from_one_edge_to_another() {
    let (other, egress) = (edge(), edge());
    tokio::time::advance(Duration::from_secs(5)).await;
    let client = IpAddr::from([192, 0, 2, 1]);
    let prefix = Prefix::around(client, 24).unwrap();
    let (plain, now) = (Route::Plain.carrier(None), other.clock.now());
    let seen = RouteObservation {
        packets_sent: 1000,
        packets_lost: 100,
        duration: Duration::from_secs(1),
        ..RouteObservation::default()
    };
    other.table.lock().learn(client, None, plain, &seen, now);
    let drained = other.drain_shared(10);
    assert_eq!(
        drained.iter().map(|(of, _)| *of).collect::<Vec<_>>(),
        [prefix]
    );
    assert!(other.drain_shared(10).is_empty());
    other.mark_all_shared();
    assert_eq!(other.drain_shared(10), drained);

    assert_eq!(egress.remote_age(prefix), None);
    let fields = [("other", &*drained[0].1)];
    let (fields, unread) = RouteContributions::read(fields, egress.clock.now());
    assert_eq!(unread, 0);
    let quality_at = |egress: &Egress| {
        let newcomer = IpAddr::from([192, 0, 2, 9]);
        let view = egress.table.lock().view(newcomer, None, egress.clock.now());
        *view.quality(Route::Plain, None)
    };
    let quality = || quality_at(&egress);
    let before = quality();
    egress.set_remote(prefix, &fields, &"other", Pop::named("fra1"));
    assert_eq!(quality(), before, "its own does not count twice");
    egress.set_remote(prefix, &fields, &"me", Pop::named("fra1"));
    assert_ne!(quality(), before);
    assert_eq!(egress.remote_age(prefix), Some(Duration::ZERO));
    assert!(egress.drain_shared(10).is_empty(), "no echo");

    let (former, restarted) = (edge(), edge());
    let ago = former.clock.now().as_secs() - 60;
    let mut table = former.table.lock();
    table.learn(client, None, plain, &seen, Timestamp::from_secs(ago));
    drop(table);
    let drained = former.drain_shared(10);
    let fields = [("me", &*drained[0].1)];
    let (fields, _) = RouteContributions::read(fields, restarted.clock.now());
    restarted.set_remote(prefix, &fields, &"me", Pop::named("fra1"));
    assert_ne!(quality_at(&restarted), before, "its own of before");
    assert!(restarted.drain_shared(10).is_empty(), "it is written");
}
