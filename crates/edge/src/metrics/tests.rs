use std::sync::Arc;

use super::*;
use crate::clock::Clock;
use crate::config::Config;
use crate::egress::{Classes, Egress, RouteCount};
use crate::tls::{Certificate, Source};
use hikyaku_core::egress::Route;

/// Names, labels, types and help texts of all metrics in the order of their lines, without values.
fn exposed() -> String {
    let provider = rustls::crypto::ring::default_provider();
    let names = vec!["localhost".to_owned()];
    let certificate = Certificate::load(Source::SelfSigned { names }, &provider).unwrap();
    let mut config = Config::default();
    config.egress.socket = Some("/nowhere/api.sock".into());
    let classes = Classes::new(&config.classes).unwrap();
    let egress = Egress::new(
        &config.egress,
        false,
        &config.policy,
        false,
        classes,
        Clock::start(),
    )
    .unwrap();
    for what in [
        RouteCount::Responses,
        RouteCount::Bytes,
        RouteCount::Begun,
        RouteCount::Moved,
        RouteCount::Stalls,
    ] {
        egress.counts.add(what, Route::Plain, 1);
    }
    let metrics = Metrics::default();
    let health = StoreHealth {
        available: true.into(),
        failures: 0.into(),
    };
    metrics.store.get_or_init(|| Arc::new(health));
    let gauges = Gauges {
        clients: 1,
        response_memory: 2,
        tasks: 3,
    };
    let mut registry = registry();
    metrics.register(&mut registry, gauges);
    certificate.register(&mut registry);
    egress.register(&mut registry);
    metrics.register_failovers(&mut registry);
    let text = encode(&registry).unwrap();
    let mut lines: Vec<_> = text
        .lines()
        .map(|line| match line.rsplit_once(' ') {
            Some((name, _)) if !line.starts_with('#') => name,
            _ => line,
        })
        .collect();
    // Labels come in any order.
    lines.sort_unstable();
    lines.join("\n") + "\n"
}

#[test]
fn names_labels_and_help_stay_what_scrapers_know() {
    let kept = include_str!("exposition.txt");
    let exposed = exposed();
    let missing: Vec<_> = kept
        .lines()
        .filter(|line| !exposed.lines().any(|other| other == *line))
        .collect();
    let new: Vec<_> = exposed
        .lines()
        .filter(|line| !kept.lines().any(|other| other == *line))
        .collect();
    assert!(
        missing.is_empty() && new.is_empty(),
        "missing {missing:#?}, new {new:#?}"
    );
}
