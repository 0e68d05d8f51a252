//! The cost of decisions about transport and egress routes. Decisions about transport run over many
//! prepared views of a client table, on a model of the shipped size.
//!
//! The median comes from batches, where the timer's own cost vanishes; the 99th percentile from single
//! calls less the cost of reading the timer. Prints one JSON line and one for people.
#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::disallowed_types
)]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hikyaku_core::bounded::TableConfig;
use hikyaku_core::choice::Session;
use hikyaku_core::client::sample::{Observation, Outcome, TransportSample, UdpEvent};
use hikyaku_core::client::table::ClientTable;
use hikyaku_core::client::view::ClientView;
use hikyaku_core::egress::{
    Candidates, Criterion, EgressId, EgressSet, Mptcp, Route, RouteObservation, RouteTable,
    RouteView, decide_route,
};
use hikyaku_core::model::{ArmTable, AxesFile, FORMAT, Model, ModelFile, Source};
use hikyaku_core::policy::PolicyConfig;
use hikyaku_core::transport::decide;
use hikyaku_units::arm::{Arm, ByTransport, Congestion, CongestionSet, Version};
use hikyaku_units::{Rate, Timestamp};

const CLIENTS: u32 = 20_000;
const ROUNDS: usize = 50;
const BATCH: usize = 500;

fn main() {
    let (model, policy) = (Arc::new(model()), Arc::new(PolicyConfig::default()));
    let now = Timestamp::from_secs(1_800_003_600);
    let available = ByTransport::from_fn(|_| CongestionSet::ALL);
    let table = table(&model, &policy, now);
    let views: Vec<ClientView> = (0..CLIENTS).map(|n| table.view(address(n), now)).collect();
    let mut batches = Vec::new();
    let mut singles = Vec::with_capacity(ROUNDS * views.len());
    let timer = timer_cost();
    for _ in 0..ROUNDS {
        for batch in views.chunks(BATCH) {
            let start = Instant::now();
            for view in batch {
                black_box(decide(black_box(view), &model, &policy, &available, now, 1));
            }
            batches.push(start.elapsed().as_secs_f64() * 1e9 / batch.len() as f64);
        }
        for view in &views {
            let start = Instant::now();
            black_box(decide(black_box(view), &model, &policy, &available, now, 1));
            singles.push(start.elapsed().saturating_sub(timer).as_secs_f64() * 1e9);
        }
    }
    let (median, p99) = (quantile(&mut batches, 0.5), quantile(&mut singles, 0.99));
    let view_ns = view_cost(&table, now);
    let routes = routes(&policy, now);
    println!(
        "{{\"bench\":\"decide\",\"median_ns\":{median:.0},\"p99_ns\":{p99:.0},\"view_ns\":{view_ns:.0}}}"
    );
    println!(
        "one decision: median {median:.0} ns (goal 1000), p99 {p99:.0} ns (goal 5000); \
         looking the client up: mean {view_ns:.0} ns"
    );
    let [decide_ns, view_ns, learn_ns] = routes;
    println!(
        "{{\"bench\":\"decide_route\",\"median_ns\":{decide_ns:.0},\"view_ns\":{view_ns:.0},\
         \"learn_ns\":{learn_ns:.0}}}"
    );
    println!(
        "one egress route of 4 paths: median {decide_ns:.0} ns (goal 1000); looking the client up: \
         median {view_ns:.0} ns; learning: median {learn_ns:.0} ns"
    );
}

/// The time to choose a route, to look up the knowledge that the choice needs, and to learn of a
/// response: medians of batches.
fn routes(policy: &Arc<PolicyConfig>, now: Timestamp) -> [f64; 3] {
    let config = TableConfig {
        max_records: 1_000_000,
        hash_key: [1, 2],
        journal: true,
    };
    let mut table = RouteTable::new(config, Arc::clone(policy));
    let paths: EgressSet = (0..4).filter_map(EgressId::new).collect();
    let candidates = Candidates {
        plain_is: EgressId::new(0),
        egresses: paths,
        mptcp: Mptcp::Taken,
        ..Candidates::default()
    };
    let several = [Route::Plain, Route::Aggregated].into_iter();
    let routes: Vec<Route> = several.chain(paths.iter().map(Route::Steered)).collect();
    let mut costs = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..ROUNDS as u32 {
        for batch in 0..CLIENTS / BATCH as u32 {
            let clients = batch * BATCH as u32..(batch + 1) * BATCH as u32;
            let route = routes[(round + batch) as usize % routes.len()];
            let carrier = route.carrier(candidates.plain_is);
            let learn = |n| table.learn(address(n), asn(n), carrier, &response(n, round), now);
            costs[2].push(per_call(clients.clone(), learn));
            let view = |n| table.view(address(n), asn(n), now);
            costs[1].push(per_call(clients.clone(), view));
            let views: Vec<RouteView> = clients.map(view).collect();
            let views = views.iter().zip(Criterion::ALL.into_iter().cycle());
            costs[0].push(per_call(views, |(view, wants)| {
                decide_route(
                    view,
                    wants.into(),
                    &candidates,
                    policy,
                    Session(round).into(),
                    1,
                )
            }));
        }
    }
    costs.map(|mut costs| quantile(&mut costs, 0.5))
}

/// Mean time of a call in nanoseconds.
fn per_call<A, B>(all: impl Iterator<Item = A>, mut call: impl FnMut(A) -> B) -> f64 {
    let start = Instant::now();
    for argument in all {
        black_box(call(argument));
    }
    start.elapsed().as_secs_f64() * 1e9 / BATCH as f64
}

const fn asn(n: u32) -> Option<u32> {
    Some(n % 500)
}

fn response(n: u32, round: u32) -> RouteObservation {
    RouteObservation {
        bytes: 1_000_000,
        duration: Duration::from_millis(u64::from(50 + n % 97 + round)),
        rtt: Some(Duration::from_millis(u64::from(10 + n % 31))),
        packets_sent: 700,
        ..RouteObservation::default()
    }
}

/// The median cost of reading the clock twice.
fn timer_cost() -> Duration {
    let mut costs: Vec<f64> = (0..10_000)
        .map(|_| Instant::now().elapsed().as_secs_f64())
        .collect();
    Duration::from_secs_f64(quantile(&mut costs, 0.5))
}

fn view_cost(table: &ClientTable, now: Timestamp) -> f64 {
    let start = Instant::now();
    for n in 0..CLIENTS {
        black_box(table.view(address(n.wrapping_mul(7919) % CLIENTS), now));
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(CLIENTS)
}

fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(share * (values.len() - 1) as f64) as usize]
}

fn address(n: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0a00_0000 + n * 37).into()
}

/// Clients with all sorts of paths, well known on both versions.
fn table(model: &Arc<Model>, policy: &Arc<PolicyConfig>, now: Timestamp) -> ClientTable {
    let config = TableConfig {
        max_records: 1_000_000,
        hash_key: [1, 2],
        journal: false,
    };
    let mut table = ClientTable::new(config, Arc::clone(policy), Arc::clone(model));
    for n in 0..CLIENTS {
        let addr = address(n);
        table.observe(addr, now, &Observation::Udp(UdpEvent::Arrived));
        for version in [Version::H2, Version::H3].repeat(5) {
            let rtt = Duration::from_micros(500 + u64::from(n % 977) * 300);
            table.observe(
                addr,
                now,
                &Observation::Path(TransportSample {
                    version,
                    congestion: Congestion::Cubic,
                    packets_sent: 1000,
                    packets_lost: n % 61,
                    min_rtt: rtt,
                    srtt: rtt,
                    delivery_rate: Some(Rate::from_bits_per_sec(
                        1_000_000 + u64::from(n % 631) * 1_000_000,
                    )),
                    app_limited: false,
                }),
            );
            table.observe(
                addr,
                now,
                &Observation::Outcome(Outcome {
                    arm: Arm::new(version, Congestion::Cubic),
                    size: 1000 + u64::from(n) * 997,
                    duration: Duration::from_millis(50 + u64::from(n % 50) * 10),
                    shared: false,
                }),
            );
        }
    }
    table
}

/// Ten points on each of four axes: more than is shipped.
fn model() -> Model {
    let scale = |first: f64, last: f64| -> Vec<f64> {
        (0..10)
            .map(|n| first * (last / first).powf(f64::from(n) / 9.0))
            .collect()
    };
    let axes = AxesFile {
        rtt_ms: scale(0.5, 300.0),
        loss: scale(1e-5, 0.1),
        rate_mbps: scale(1.0, 1000.0),
        size_bytes: scale(1e3, 1e8),
    };
    let table = |factor: f64| {
        let load_ms: Vec<f64> = (0..10_000).map(|n| factor * (1.0 + f64::from(n))).collect();
        ArmTable {
            spread: vec![0.03; load_ms.len()],
            scatter: vec![0.1; load_ms.len()],
            load_ms,
        }
    };
    let factors = [1.0, 0.9, 0.95, 1.1, 1.0, 1.05];
    let arms = Arm::ALL.into_iter().zip(factors);
    let arms = arms.map(|(arm, factor)| (arm.to_string(), table(factor)));
    let none = String::new;
    let source = Source {
        data_sha256: none(),
        command: none(),
        commit: none(),
        date: none(),
    };
    let file = ModelFile {
        format: FORMAT,
        description: none(),
        source,
        axes,
        arms: arms.collect::<BTreeMap<_, _>>(),
    };
    Model::new(file).expect("the model above is sound")
}
