//! Stored estimates. Whatever the store has, a decision must come without a panic. The check at the
//! end is corrected, since no input would get past it otherwise.
#![no_main]

mod sealed;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, LazyLock};

use hikyaku_units::arm::{ByTransport, CongestionSet};
use hikyaku_core::transport::decide;
use hikyaku_core::client::estimate::{ENCODED_LEN, Estimate};
use hikyaku_core::client::key::Key;
use hikyaku_core::model::Model;
use hikyaku_core::policy::PolicyConfig;
use hikyaku_core::bounded::TableConfig;
use hikyaku_core::client::table::ClientTable;
use hikyaku_units::Timestamp;
use libfuzzer_sys::fuzz_target;
use sealed::seal;

fuzz_target!(|data: &[u8]| {
    let _ = Estimate::decode(data);
    let mut bytes = [0; ENCODED_LEN];
    let len = data.len().min(ENCODED_LEN);
    bytes[..len].copy_from_slice(&data[..len]);
    bytes[0] = Estimate::default().encode()[0];
    seal(&mut bytes);
    let Ok(estimate) = Estimate::decode(&bytes) else {
        return;
    };
    let encoded = estimate.encode();
    let again = Estimate::decode(&encoded).expect("its own encoding is accepted");
    assert_eq!(again.encode(), encoded);
    choose(&encoded);
});

/// Decides for a client of which only this estimate is known.
fn choose(encoded: &[u8]) {
    let client = IpAddr::from(Ipv4Addr::new(192, 0, 2, 7));
    let config = TableConfig {
        max_records: 16,
        hash_key: [1, 2],
        journal: false,
    };
    let mut table = ClientTable::new(config, Arc::clone(&POLICY), Arc::clone(&MODEL));
    let inserted = table.insert_encoded(Key::address(client), encoded);
    inserted.expect("it was decoded before");
    let available = ByTransport::from_fn(|_| CongestionSet::ALL);
    for seconds in [0, 1_800_000_000, u64::from(u32::MAX)] {
        let now = Timestamp::from_secs(seconds);
        let _ = decide(&table.view(client, now), &MODEL, &POLICY, &available, now, 1);
    }
}

static POLICY: LazyLock<Arc<PolicyConfig>> = LazyLock::new(Arc::default);

static MODEL: LazyLock<Arc<Model>> = LazyLock::new(|| {
    let json = include_str!("../../models/default.json");
    Arc::new(Model::from_json(json).expect("the shipped model is sound"))
});
