//! Bytes that the client table needs for a million clients, by a counting allocator.
//!
//! Clients alone in their prefixes have records of their own only. Two clients to a prefix are the
//! worst case, with a record of the prefix for two clients. Prints one JSON line for each case.
#![allow(missing_docs, clippy::print_stdout)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use hikyaku_core::bounded::TableConfig;
use hikyaku_core::client::sample::{Observation, TransportSample};
use hikyaku_core::client::table::ClientTable;
use hikyaku_core::model::Model;
use hikyaku_core::policy::PolicyConfig;
use hikyaku_units::arm::{Congestion, Version};
use hikyaku_units::{Rate, Timestamp};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed to the system's allocator unchanged; only sizes are counted.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        // SAFETY: the caller's obligations are those of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: `pointer` came from `System.alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const CLIENTS: u32 = 1_000_000;

fn main() {
    type Address = fn(u32) -> IpAddr;
    let cases: [(&str, Address); 6] = [
        ("ipv4, alone in a /24", |n| v4(n, 0)),
        ("ipv4, 2 to a /24", |n| v4(n >> 1, n & 1)),
        ("ipv4, 8 to a /24", |n| v4(n >> 3, n & 7)),
        ("ipv6, alone in a /48", |n| v6(n, 0, 0)),
        ("ipv6, 2 to a /56, alone in a /48", |n| v6(n >> 1, 0, n & 1)),
        ("ipv6, 2 to a /48, in two /56", |n| v6(n >> 1, n & 1, 0)),
    ];
    let model = Arc::new(model());
    for (name, address) in cases {
        let (live, peak, records) = fill(address, &model);
        let per_client = |bytes: usize| bytes as f64 / f64::from(CLIENTS);
        println!(
            "{{\"case\":\"{name}\",\"clients\":{CLIENTS},\"records\":{records},\
             \"bytes_per_client\":{:.1},\"peak_bytes_per_client\":{:.1}}}",
            per_client(live),
            per_client(peak)
        );
    }
}

fn v4(network: u32, host: u32) -> IpAddr {
    Ipv4Addr::from_bits(network << 8 | host).into()
}

fn v6(site: u32, subnet: u32, host: u32) -> IpAddr {
    Ipv6Addr::from_bits(u128::from(site) << 80 | u128::from(subnet) << 72 | u128::from(host)).into()
}

fn fill(address: fn(u32) -> IpAddr, model: &Arc<Model>) -> (usize, usize, usize) {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let config = TableConfig {
        max_records: 4_000_000,
        hash_key: [1, 2],
        journal: true,
    };
    let policy = Arc::new(PolicyConfig::default());
    let mut table = ClientTable::new(config, policy, Arc::clone(model));
    let sample = Observation::Path(TransportSample {
        version: Version::H2,
        congestion: Congestion::Cubic,
        packets_sent: 100,
        packets_lost: 1,
        min_rtt: Duration::from_millis(20),
        srtt: Duration::from_millis(20),
        delivery_rate: Some(Rate::from_mbps(20)),
        app_limited: false,
    });
    for n in 0..CLIENTS {
        table.observe(address(n), Timestamp::from_secs(1_800_000_000), &sample);
    }
    (
        LIVE.load(Relaxed) - before,
        PEAK.load(Relaxed) - before,
        table.len(),
    )
}

fn model() -> Model {
    let json = r#"{
        "format": 1, "description": "one point",
        "source": {"data_sha256": "", "command": "", "commit": "", "date": ""},
        "axes": {"rtt_ms": [10], "loss": [0], "rate_mbps": [20], "size_bytes": [1000000]},
        "arms": {
            "h2-cubic": {"load_ms": [400], "spread": [0.1], "scatter": [0.1]},
            "h3-cubic": {"load_ms": [400], "spread": [0.1], "scatter": [0.1]}
        }
    }"#;
    Model::from_json(json).expect("the model above is sound")
}
