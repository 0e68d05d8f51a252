//! Routes that other edges of the PoP have observed.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hikyaku_core::client::key::Prefix;
use hikyaku_core::egress::{Route, RouteContributions, RouteObservation};
use hikyaku_core::fleet::Pop;

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
    let quality = || {
        let newcomer = IpAddr::from([192, 0, 2, 9]);
        let view = egress.table.lock().view(newcomer, None, egress.clock.now());
        *view.quality(Route::Plain, None)
    };
    let before = quality();
    egress.set_remote(prefix, &fields, &"other", Pop::named("fra1"));
    assert_eq!(quality(), before, "its own does not count twice");
    egress.set_remote(prefix, &fields, &"me", Pop::named("fra1"));
    assert_ne!(quality(), before);
    assert_eq!(egress.remote_age(prefix), Some(Duration::ZERO));
    assert!(egress.drain_shared(10).is_empty(), "no echo");
}
