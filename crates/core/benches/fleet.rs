//! The cost of sharing a prefix with a fleet: of a contribution, and of the total of 100 edges.
//!
//! Prints one JSON line and one for people.
#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::disallowed_types
)]

use std::hint::black_box;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hikyaku_core::bounded::TableConfig;
use hikyaku_core::client::sample::{Observation, Outcome, TransportSample, UdpEvent};
use hikyaku_core::client::shared::{Contribution, Contributions};
use hikyaku_core::client::table::ClientTable;
use hikyaku_core::fleet::{Pop, Register};
use hikyaku_core::model::Model;
use hikyaku_core::policy::PolicyConfig;
use hikyaku_units::arm::{Arm, Congestion, Version};
use hikyaku_units::{Rate, Timestamp};

const EDGES: usize = 100;
const ROUNDS: u32 = 200;

fn main() {
    let (pop, now) = (Pop::named("fra1"), Timestamp::from_secs(1_800_000_000));
    let (policy, bytes) = (PolicyConfig::default(), contribution(pop, now));
    let fields: Vec<_> = (1..=EDGES).map(|edge| (edge, &*bytes)).collect();
    let (read, _) = Contributions::read(fields.iter().copied(), now);
    let own = Contribution::decode(&bytes, now).expect("what was written is read");
    let encode = cost(|| black_box(&own).encode());
    let decode = cost(|| Contributions::read(fields.iter().copied(), now));
    let total = cost(|| read.remote(&0, pop, now, &policy));
    let len = bytes.len();
    println!(
        "{{\"bench\":\"fleet\",\"bytes\":{len},\"encode_ns\":{encode:.0},\"read_100_ns\":{decode:.0},\
         \"total_100_ns\":{total:.0}}}"
    );
    println!(
        "a contribution: {len} bytes, written in {encode:.0} ns; {EDGES} edges: read in {:.1} µs, added in \
         {:.1} µs",
        decode / 1e3,
        total / 1e3,
    );
}

/// Mean time of a call in ns.
fn cost<T>(mut call: impl FnMut() -> T) -> f64 {
    black_box(call());
    let start = Instant::now();
    (0..ROUNDS).for_each(|_| drop(black_box(call())));
    start.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS)
}

/// That of an edge which has measured a prefix on both transports.
fn contribution(pop: Pop, now: Timestamp) -> Box<[u8]> {
    let config = TableConfig {
        max_records: 16,
        hash_key: [1, 2],
        journal: false,
    };
    let model = Model::from_json(include_str!("../../../models/default.json"));
    let model = Arc::new(model.expect("the model is sound"));
    let mut table = ClientTable::new(config, Arc::new(PolicyConfig::default()), model);
    table.share(pop, config);
    let client = IpAddr::from([192, 0, 2, 1]);
    table.observe(client, now, &Observation::Udp(UdpEvent::Arrived));
    for version in [Version::H2, Version::H3].repeat(10) {
        let path = TransportSample {
            version,
            congestion: Congestion::Cubic,
            packets_sent: 1000,
            packets_lost: 10,
            min_rtt: Duration::from_millis(20),
            srtt: Duration::from_millis(25),
            delivery_rate: Some(Rate::from_mbps(20)),
            app_limited: false,
        };
        let outcome = Outcome {
            arm: Arm::new(version, Congestion::Cubic),
            size: 1_000_000,
            duration: Duration::from_millis(700),
            shared: false,
        };
        table.observe(client, now, &Observation::Path(path));
        table.observe(client, now, &Observation::Outcome(outcome));
    }
    let (_, bytes) = table.drain_shared(1).remove(0);
    bytes
}
