use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::{Explanation, explain};
use crate::bounded::TableConfig;
use crate::client::sample::{Observation, Outcome, TransportSample, UdpEvent};
use crate::client::shared::{Contribution, Contributions};
use crate::client::table::ClientTable;
use crate::egress::RoutesElsewhere;
use crate::fleet::{Pop, Register};
use crate::model::tests::synthetic;
use crate::policy::{Plain, PlainCongestion, PolicyConfig};
use hikyaku_units::SavedPath;
use hikyaku_units::arm::{Arm, ByTransport, Congestion, CongestionSet, Version};
use hikyaku_units::{ByteSize, Rate, Timestamp};

const START: u64 = 1_800_000_000;

const CONFIG: TableConfig = TableConfig {
    max_records: 99,
    hash_key: [0; 2],
    journal: false,
};

fn table() -> ClientTable {
    let policy = Arc::new(PolicyConfig::default());
    ClientTable::new(CONFIG, policy, Arc::new(synthetic()))
}

fn learn(table: &mut ClientTable, clients: &[&str], events: &[UdpEvent]) {
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
}

fn asked_of(table: &ClientTable, asked: &str) -> Explanation {
    by_policy(table, asked, &PolicyConfig::default())
}

fn by_policy(table: &ClientTable, asked: &str, policy: &PolicyConfig) -> Explanation {
    explain(
        &table.knowledge(asked.parse().unwrap()),
        &synthetic(),
        policy,
        &ByTransport::from_fn(|_| CongestionSet::ALL),
        Timestamp::from_secs(START + 90),
        1,
    )
}

fn explained(clients: &[&str], events: &[UdpEvent], asked: &str) -> Explanation {
    let mut table = table();
    learn(&mut table, clients, events);
    asked_of(&table, asked)
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
fn a_client_whose_tcp_is_not_measured_has_a_note() {
    let mut explanation = explained(&[], &[], "192.0.2.1");
    assert!(!explanation.to_string().contains("balancer"));
    explanation.tcp_is_hidden = true;
    let note =
        "balancer      no TCP connection came directly; the path to a balancer is not learnt";
    assert!(explanation.to_string().lines().any(|line| line == note));
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

#[test]
fn knowledge_of_other_edges_is_named_where_it_counts() {
    let prefix = "192.0.2.0/24".parse().unwrap();
    let mut others = Contributions::default();
    for edge in 1..=2 {
        let mut table = table();
        table.share(Pop::named("fra1"), CONFIG);
        learn(
            &mut table,
            &["192.0.2.1", "192.0.2.2"],
            &[UdpEvent::Arrived],
        );
        for (_, bytes) in table.drain_shared(9) {
            let now = Timestamp::from_secs(START);
            others.put(edge, Contribution::decode(&bytes, now).unwrap());
        }
    }
    let policy = PolicyConfig::default();
    let shared = |pop: &str, clients: &[&str], asked: &str| {
        let mut table = table();
        table.share(Pop::named(pop), CONFIG);
        let now = Timestamp::from_secs(START);
        table.set_remote(prefix, &others.remote(&0, Pop::named(pop), now, &policy));
        learn(&mut table, clients, &[]);
        let text = asked_of(&table, asked).to_string();
        let lines = text.lines().filter(|line| line.starts_with("shared"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let pop = "shared        RTT 20 ms, 20 Mbit/s, loss of 57683 packets from 2 other edges of this PoP, in 192.0.2.0/24";
    let fleet = "from 2 other edges of the fleet, in 192.0.2.0/24";
    let times = "times of 64 responses";
    let newcomer = format!("shared        responses of 1 MB, {times} {fleet}");
    assert_eq!(shared("fra1", &[], "192.0.2.9"), [pop, &newcomer]);
    assert_eq!(shared("sin1", &[], "192.0.2.9"), [&*newcomer]);
    let known = shared("fra1", &["192.0.2.9"], "192.0.2.9");
    let beside = pop.replace("RTT 20 ms, ", "");
    assert_eq!(known, [beside, format!("shared        {times} {fleet}")]);
    assert!(shared("fra1", &[], "198.51.100.1").is_empty());

    let routes = RoutesElsewhere {
        prefix,
        edges: 1,
        routes: 2,
    };
    let explanation = explained(&[], &[], "192.0.2.9").with_routes_from(Some(routes));
    let line =
        "shared        the quality of 2 routes from 1 other edge of this PoP, in 192.0.2.0/24";
    assert!(explanation.to_string().lines().any(|found| found == line));
    let json = serde_json::to_string(&explanation).unwrap();
    assert_eq!(
        serde_json::from_str::<Explanation>(&json).unwrap(),
        explanation
    );
    let alone = serde_json::to_string(&explained(&[], &[], "192.0.2.9")).unwrap();
    assert!(!alone.contains("from_edges"));
}

#[test]
fn the_first_line_says_what_a_client_gets_and_what_it_saves() {
    let two = ["192.0.2.1", "192.0.2.2"];
    let failing = [UdpEvent::Broke, UdpEvent::BackOnTcp];
    // who was seen, what of UDP, who is asked for, the line
    let cases: &[(&[&str], &[UdpEvent], &str, &str)] = &[
        (
            &two,
            &[UdpEvent::Arrived],
            "192.0.2.1",
            "Gets HTTP/2 with CUBIC and a floor: 0.51 s for 1 MB, 27 % sooner than HTTP/3 with CUBIC, which an \
             ordinary server gives (0.7 s).",
        ),
        (
            &two,
            &failing,
            "192.0.2.3",
            "Gets HTTP/2 with CUBIC and a floor: QUIC connections break, so this saves its waits for HTTP/3 that \
             fails.",
        ),
        (
            &[],
            &[],
            "2001:db8::1",
            "Gets HTTP/3 with CUBIC and a floor: too little is known of it, by 0 samples, to say what that saves.",
        ),
    ];
    for (clients, events, asked, line) in cases {
        let explanation = explained(clients, events, asked);
        assert_eq!(explanation.sentence(), *line, "{asked}");
        let text = explanation.to_string();
        assert_eq!(text.lines().next(), Some(*line), "{asked}");
    }
}

#[test]
fn an_ordinary_server_is_that_of_the_policy() {
    let mut table = table();
    learn(&mut table, &["192.0.2.1"], &[UdpEvent::Arrived]);
    let mut policy = PolicyConfig::default();
    policy.plain.version = Plain::H2;
    policy.plain.congestion = PlainCongestion::Bbr;
    let explanation = by_policy(&table, "192.0.2.1", &policy);
    let sentence = explanation.sentence();
    let compared = "about as fast as HTTP/2 with BBR, which an ordinary server gives";
    assert!(sentence.contains(compared), "{sentence}");
    let usual = asked_of(&table, "192.0.2.1");
    assert_ne!(explanation.saves(), usual.saves());
}

#[test]
fn the_saving_is_that_of_the_decision() {
    let explanation = explained(&["192.0.2.1"], &[UdpEvent::Arrived], "192.0.2.1");
    let saves = explanation.saves().unwrap();
    assert!((0.2..0.4).contains(&saves), "{saves}");
    let mut table = table();
    learn(&mut table, &["192.0.2.1"], &[UdpEvent::Arrived]);
    let policy = PolicyConfig::default();
    let now = Timestamp::from_secs(START + 90);
    let view = table
        .knowledge("192.0.2.1".parse().unwrap())
        .view(now, &policy);
    let available = ByTransport::from_fn(|_| CongestionSet::ALL);
    let decision = crate::transport::decide(&view, &synthetic(), &policy, &available, now, 1);
    let of_decision = decision
        .saves(view.min_rtt.unwrap(), policy.plain.arm())
        .unwrap();
    assert!((saves - of_decision).abs() < 1e-6, "{saves}, {of_decision}");
}
