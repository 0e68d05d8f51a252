use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::{Explanation, explain};
use crate::bounded::TableConfig;
use crate::client::sample::{Observation, Outcome, TransportSample, UdpEvent};
use crate::client::table::ClientTable;
use crate::model::tests::synthetic;
use crate::policy::PolicyConfig;
use hikyaku_units::SavedPath;
use hikyaku_units::arm::{Arm, ByTransport, Congestion, CongestionSet, Version};
use hikyaku_units::{ByteSize, Rate, Timestamp};

const START: u64 = 1_800_000_000;

fn explained(clients: &[&str], events: &[UdpEvent], asked: &str) -> Explanation {
    let model = Arc::new(synthetic());
    let policy = Arc::new(PolicyConfig::default());
    let config = TableConfig {
        max_records: 99,
        hash_key: [0; 2],
        journal: false,
    };
    let mut table = ClientTable::new(config, Arc::clone(&policy), Arc::clone(&model));
    let now = Timestamp::from_secs(START);
    for client in clients {
        let client: IpAddr = client.parse().unwrap();
        for version in [Version::H2, Version::H3].repeat(8) {
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
        for event in events {
            table.observe(client, now, &Observation::Udp(*event));
        }
    }
    let later = Timestamp::from_secs(START + 90);
    explain(
        &table.knowledge(asked.parse().unwrap()),
        &model,
        &policy,
        &ByTransport::from_fn(|_| CongestionSet::ALL),
        later,
        1,
    )
}

#[test]
fn it_reads_as_aligned_text() {
    let text = explained(
        &["192.0.2.1", "192.0.2.2"],
        &[UdpEvent::Arrived],
        "192.0.2.1",
    )
    .to_string();
    assert_eq!(text, include_str!("explained.txt"));
}

#[test]
fn it_shows_how_udp_fails() {
    let events = [UdpEvent::Broke, UdpEvent::BackOnTcp];
    let explanation = explained(&["192.0.2.1", "192.0.2.2"], &events, "192.0.2.3");
    assert_eq!(explanation.udp.health, "QUIC connections break");
    assert_eq!(
        explanation.udp.prefix.map(|p| p.to_string()).as_deref(),
        Some("192.0.2.0/24")
    );
    assert_eq!(
        explanation.udp.next_probe_in,
        Some(Duration::from_secs(3510))
    );
    assert_eq!(explanation.decision.reason_code, "udp_broken");
    assert_eq!(
        explanation.decision.reason,
        "HTTP/2: in 192.0.2.0/24 QUIC broke 90 s ago; next probe in 59 min"
    );
}

#[test]
fn an_unknown_client_is_explained_too() {
    let explanation = explained(&[], &[], "2001:db8::1");
    assert!(explanation.levels.is_empty() && explanation.arms.is_empty());
    assert!(
        explanation
            .to_string()
            .contains("HTTP/3: the plain choice, 0 of 8 samples so far")
    );
}

#[test]
fn it_goes_through_json() {
    for asked in ["192.0.2.1", "192.0.2.9", "2001:db8::1"] {
        let explanation = explained(&["192.0.2.1", "192.0.2.2"], &[], asked);
        let json = serde_json::to_string(&explanation).unwrap();
        assert_eq!(
            serde_json::from_str::<Explanation>(&json).unwrap(),
            explanation
        );
    }
}

#[test]
fn the_start_of_a_connection_is_shown_where_it_is_known() {
    let known = Some(SavedPath {
        bdp: ByteSize::from_bytes(120_000),
        min_rtt: Duration::from_millis(20),
    });
    let line = "begin with    20 packets of 120 kB on ";
    let cases = [
        (None, None, None),
        (None, known, Some(format!("{line}QUIC"))),
        (known, None, Some(format!("{line}TCP"))),
        (
            known,
            known,
            Some(format!("{line}TCP, 20 packets of 120 kB on QUIC")),
        ),
    ];
    for (tcp, quic, want) in cases {
        let mut explanation = explained(&["192.0.2.1"], &[], "192.0.2.1");
        explanation.path.known = ByTransport { tcp, quic };
        let text = explanation.to_string();
        let found = text.lines().find(|line| line.starts_with("begin with"));
        assert_eq!(found, want.as_deref());
    }
}
