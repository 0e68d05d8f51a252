use std::sync::Arc;

use super::*;
use crate::clock::Clock;
use crate::config::Config;
use crate::egress::{Classes, Egress, RouteCount, Rules};
use crate::fakes::{in_force, part};
use crate::tls::{Certificate, Certificates, Source};
use hikyaku_acme::{State, Status};
use hikyaku_content::{CacheOutcome, CacheStatus, UpstreamStatus};
use hikyaku_core::egress::Route;
use hikyaku_core::gain::{Question, Report, Sample, report};
use hikyaku_fleet::Status as FleetStatus;
use hikyaku_units::Timestamp;

/// Names, labels, types and help texts of all metrics in the order of their lines, without values.
fn exposed() -> String {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let names = vec!["localhost".to_owned()];
    let certificate = Certificate::load(Source::SelfSigned { names }, &provider).unwrap();
    let mut config = Config::default();
    config.egress.socket = Some("/nowhere/api.sock".into());
    let classes = Classes::new(&config.classes).unwrap();
    let rules = part(&in_force(Rules::new(config.policy, classes)));
    let egress = Egress::new(&config.egress, false, rules, false, Clock::start()).unwrap();
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
        unwritten: 0.into(),
    };
    metrics.store.get_or_init(|| Arc::new(health));
    let gauges = Gauges {
        clients: 1,
        unstored: 2,
        response_memory: 3,
        tasks: 4,
    };
    let mut registry = registry();
    metrics.register(&mut registry, gauges);
    let certificates =
        Certificates::new(Arc::new(certificate), &[], None, None, &provider).unwrap();
    certificates.register(&mut registry);
    let status = Status {
        names: vec!["a.example".to_owned()],
        state: State::Waiting,
        directory: None,
        next_order: 1,
        failures: 0,
        error: None,
    };
    register_acme(&mut registry, (1, 2), &[status]);
    let upstream = UpstreamStatus {
        url: "http://a".to_owned(),
        ..UpstreamStatus::default()
    };
    register_upstreams(&mut registry, &[upstream]);
    let cache = CacheStatus {
        site: "a.example".to_owned(),
        requests: CacheOutcome::ALL.map(|outcome| (outcome, 0)),
        evictions: 0,
        disk: Some((0, 0)),
        bytes: 0,
        entries: 0,
    };
    register_caches(&mut registry, &[cache]);
    register_fleet(&mut registry, &FleetStatus::default());
    register_gain(&mut registry, &gain());
    register_spans(&mut registry, [1, 2]);
    egress.register(&mut registry);
    metrics.register_failovers(&mut registry);
    let text = encode(&registry, &Process::example()).unwrap();
    let mut lines: Vec<_> = text
        .lines()
        .map(|line| match line.rsplit_once(' ') {
            Some((name, _)) if !line.starts_with('#') => name,
            _ => line,
        })
        .collect();
    // Labels come in any order.
    lines.sort_unstable();
    let version = concat!("version=\"", env!("CARGO_PKG_VERSION"), "\"");
    lines.join("\n").replace(version, "version=\"0.0.0\"") + "\n"
}

/// A report without a client.
fn gain() -> Report {
    let now = Timestamp::from_secs(0);
    let question = Question {
        since: now,
        until: now,
        by: None,
        holdback: 0.0,
        edges: 1,
    };
    report(&Sample::default(), &question, &|_| None)
}

#[test]
fn names_labels_and_help_stay_as_scrapers_know_them() {
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

#[test]
fn every_metric_is_described() {
    let described = include_str!("../../../../docs/metrics.md");
    let kinds = include_str!("exposition.txt").lines();
    let names = kinds.filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let missing: Vec<_> = names.filter(|name| !described.contains(*name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_action_and_refusal_is_counted_at_its_index() {
    let next = |action| match action {
        AltSvcAction::Advertise => Some(AltSvcAction::Withhold),
        AltSvcAction::Withhold => Some(AltSvcAction::Clear),
        AltSvcAction::Clear => None,
    };
    let first = Some(AltSvcAction::Advertise);
    let actions = std::iter::successors(first, |action| next(*action));
    assert!(actions.eq(AltSvcAction::ALL));
    assert_eq!(AltSvcAction::ALL.map(AltSvcAction::index), [0, 1, 2]);
    let next = |refusal| match refusal {
        Refusal::Connections => Some(Refusal::PerAddress),
        Refusal::PerAddress => Some(Refusal::Stalled),
        Refusal::Stalled => Some(Refusal::Flood),
        Refusal::Flood => None,
    };
    let first = Some(Refusal::Connections);
    let refusals = std::iter::successors(first, |refusal| next(*refusal));
    assert!(refusals.eq(Refusal::ALL));
    assert_eq!(Refusal::ALL.map(Refusal::index), [0, 1, 2, 3]);
}

#[test]
fn counts_show_under_their_names() {
    let metrics = Metrics::default();
    for (at, event) in UdpEvent::ALL.into_iter().enumerate() {
        (0..=at).for_each(|_| metrics.on_udp(event));
    }
    for (at, refusal) in Refusal::ALL.into_iter().enumerate() {
        (0..=at).for_each(|_| metrics.on_refusal(refusal));
    }
    metrics.on_congestion(Transport::Quic, Congestion::Bbr);
    let gauges = Gauges {
        clients: 0,
        unstored: 0,
        response_memory: 0,
        tasks: 0,
    };
    let mut registry = registry();
    metrics.register(&mut registry, gauges);
    let text = encode(&registry, &Process::example()).unwrap();
    for line in [
        "hikyaku_udp_events_total{event=\"advertised\"} 1",
        "hikyaku_udp_events_total{event=\"session_ended\"} 2",
        "hikyaku_udp_events_total{event=\"arrived\"} 3",
        "hikyaku_udp_events_total{event=\"broke\"} 4",
        "hikyaku_udp_events_total{event=\"back_on_tcp\"} 5",
        "hikyaku_connections_refused_total{limit=\"connections\"} 1",
        "hikyaku_connections_refused_total{limit=\"connections_per_address\"} 2",
        "hikyaku_connections_refused_total{limit=\"stalled\"} 3",
        "hikyaku_connections_refused_total{limit=\"flood\"} 4",
        "hikyaku_congestion_controls_total{transport=\"quic\",congestion=\"bbr\"} 1",
    ] {
        assert!(text.lines().any(|other| other == line), "{line} in {text}");
    }
    let decisions = "hikyaku_decisions_total{reason=\"";
    let reasons = text.lines().filter_map(|line| line.strip_prefix(decisions));
    let mut reasons: Vec<_> = reasons.filter_map(|line| line.split('"').next()).collect();
    let mut codes = VersionReasonCode::ALL.map(VersionReasonCode::name);
    reasons.sort_unstable();
    codes.sort_unstable();
    assert_eq!(reasons, codes, "each code, and nothing else");
}
