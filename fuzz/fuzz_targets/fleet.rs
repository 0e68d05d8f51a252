//! Knowledge from others: fields of a fleet's store, and summaries that clients carry. Whatever it says, a
//! decision must come without a panic. Checks are corrected, since no input would get past them otherwise.
#![no_main]

mod sealed;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, LazyLock};

use hikyaku_core::bounded::TableConfig;
use hikyaku_core::client::estimate::Estimate;
use hikyaku_core::client::key::Prefix;
use hikyaku_core::client::shared::{Contribution, Contributions};
use hikyaku_core::client::table::ClientTable;
use hikyaku_core::egress::{EgressNames, RouteContribution, RouteContributions};
use hikyaku_core::fleet::{Pop, Register};
use hikyaku_core::model::Model;
use hikyaku_core::policy::PolicyConfig;
use hikyaku_core::transport::decide;
use hikyaku_units::Timestamp;
use hikyaku_units::arm::{ByTransport, CongestionSet};
use libfuzzer_sys::fuzz_target;
use sealed::seal;

fuzz_target!(|data: &[u8]| {
    let Some((&kind, data)) = data.split_first() else {
        return;
    };
    match kind % 3 {
        0 => of_clients(&fields(data)),
        1 => of_routes(&fields(data)),
        _ => carried(data),
    }
});

/// The fields of four edges: each as long as the byte before it says.
fn fields(mut data: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut fields = Vec::new();
    while let Some((&len, rest)) = data.split_first()
        && fields.len() < 4
    {
        let (field, rest) = rest.split_at(usize::from(len).min(rest.len()));
        let mut field = field.to_vec();
        seal(&mut field);
        fields.push((fields.len() as u8, field));
        data = rest;
    }
    fields
}

fn of_clients(fields: &[(u8, Vec<u8>)]) {
    let borrowed = fields.iter().map(|(edge, field)| (*edge, &field[..]));
    let (contributions, _) = Contributions::<u8>::read(borrowed, now());
    for (_, field) in fields {
        same_again::<Contribution>(field);
    }
    let mut table = table();
    let prefix = Prefix::around(CLIENT, 24).expect("a length of IPv4");
    table.set_remote(prefix, &contributions.remote(&0, pop(), now(), &POLICY));
    choose(&table);
}

fn of_routes(fields: &[(u8, Vec<u8>)]) {
    let borrowed = fields.iter().map(|(edge, field)| (*edge, &field[..]));
    let (contributions, _) = RouteContributions::<u8>::read(borrowed, now());
    for (_, field) in fields {
        same_again::<RouteContribution>(field);
    }
    let mut names = EgressNames::default();
    names.update(&["transit-a", "transit-b"]);
    let remote = contributions.remote(&0, pop(), &names, now(), &POLICY);
    assert!(usize::from(remote.edges()) <= fields.len());
}

fn carried(data: &[u8]) {
    let Ok(estimate) = Estimate::carried(data) else {
        return;
    };
    if let Some(bytes) = estimate.carry() {
        Estimate::carried(&bytes).expect("its own summary is accepted");
    }
    let mut table = table();
    table.carry(CLIENT, now(), &estimate);
    choose(&table);
}

/// What was read is written so that it is read as the same.
fn same_again<C: Register>(field: &[u8]) {
    let Ok(contribution) = C::decode(field, now()) else {
        return;
    };
    let encoded = contribution.encode();
    let again = C::decode(&encoded, now()).expect("its own encoding is accepted");
    assert_eq!(again.encode(), encoded);
}

/// A table of an edge that shares, and knows nothing itself.
fn table() -> ClientTable {
    let config = TableConfig {
        max_records: 16,
        hash_key: [1, 2],
        journal: false,
    };
    let mut table = ClientTable::new(config, Arc::clone(&POLICY), Arc::clone(&MODEL));
    table.share(pop(), config);
    table
}

fn choose(table: &ClientTable) {
    let available = ByTransport::from_fn(|_| CongestionSet::ALL);
    for seconds in [0, NOW, NOW + 86_400, u64::from(u32::MAX)] {
        let now = Timestamp::from_secs(seconds);
        let _ = decide(&table.view(CLIENT, now), &MODEL, &POLICY, &available, now, 1);
    }
}

fn pop() -> Pop {
    Pop::named("fra1")
}

fn now() -> Timestamp {
    Timestamp::from_secs(NOW)
}

const NOW: u64 = 1_800_000_000;
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

static POLICY: LazyLock<Arc<PolicyConfig>> = LazyLock::new(Arc::default);

static MODEL: LazyLock<Arc<Model>> = LazyLock::new(|| {
    let json = include_str!("../../models/default.json");
    Arc::new(Model::from_json(json).expect("the shipped model is sound"))
});
