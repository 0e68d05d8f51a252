//! A world in which other policies are really run beside their estimates.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::{Refusal, Report, Response, WhatIf};
use crate::bounded::TableConfig;
use crate::client::sample::{Observation, Outcome, TransportSample, UdpEvent};
use crate::client::table::ClientTable;
use crate::model::Model;
use crate::model::tests::synthetic;
use crate::policy::PolicyConfig;
use crate::transport::{Decision, State, decide};
use hikyaku_units::arm::{Arm, ByTransport, CongestionSet, Version};
use hikyaku_units::mix::draw;
use hikyaku_units::{LossRate, Rate, Timestamp};

const CLIENTS: u32 = 500;
const SESSIONS: u32 = 14;
const RESPONSES: u32 = 3;
const SIZE: u64 = 1_000_000;
const START: u64 = 1_800_000_000;
/// With these draws, each share of hold-back is held back: an estimate is for the share that is expected.
const SEED: u64 = 287;
const EVERYTHING: ByTransport<CongestionSet> = ByTransport {
    tcp: CongestionSet::ALL,
    quic: CongestionSet::ALL,
};

/// The numbers of a draw that no policy changes, so that runs by several policies can be compared.
fn normal(what: [u64; 3]) -> f64 {
    let [u, v] = [0, 1].map(|n| draw([what[0], what[1], what[2], n]));
    (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// A client and its network.
struct Client {
    number: u64,
    address: IpAddr,
    loss: f64,
    mbps: u64,
}

impl Client {
    fn new(number: u32) -> Self {
        // Each has a prefix of its own.
        let [a, b] = (number as u16).to_be_bytes();
        let pick = |which: u64, of: &[f64]| {
            let place = draw([SEED, which, number.into(), 5]);
            of[(place * of.len() as f64) as usize]
        };
        Self {
            number: number.into(),
            address: IpAddr::from([10, a, b, 1]),
            loss: pick(1, &[0.0, 0.002, 0.0045, 0.01, 0.03]),
            mbps: pick(2, &[20.0, 100.0, 200.0]) as u64,
        }
    }

    /// The real load time. The model is off for the client, for each of its arms, and for each response.
    fn load(&self, model: &Model, arm: Arm, session: u32, response: u32) -> Duration {
        let loss = LossRate::from_fraction(self.loss);
        let (rtt, rate) = (RTT, Rate::from_mbps(self.mbps));
        let predicted = model.predict(arm, rtt, loss, rate, SIZE).unwrap().load_time;
        let of_arm = 10 + arm.index() as u64;
        let of_response = u64::from(100 + session * RESPONSES + response);
        let off = 0.3 * normal([SEED, self.number, 1])
            + 0.15 * normal([SEED, self.number, of_arm])
            + 0.25 * normal([SEED, self.number, of_response]);
        predicted.mul_f64(off.exp())
    }
}

/// Runs a policy, and gives the mean over clients of the mean logarithm of their load times.
fn run(policy: &PolicyConfig, mut log: impl FnMut(&Response)) -> f64 {
    let model = Arc::new(synthetic());
    let config = TableConfig {
        max_records: 64,
        hash_key: [0; 2],
        journal: false,
    };
    let mut total = 0.0;
    for client in (0..CLIENTS).map(Client::new) {
        let mut table = ClientTable::new(config, Arc::new(policy.clone()), Arc::clone(&model));
        let mut now = Timestamp::from_secs(START);
        for session in 0..SESSIONS {
            now = now.saturating_add(Duration::from_secs(1800));
            for response in 0..RESPONSES {
                now = now.saturating_add(Duration::from_secs(2));
                let view = table.view(client.address, now);
                let decision = decide(&view, &model, policy, &EVERYTHING, now, SEED);
                let decided = Observation::Decided(decision.decided());
                table.observe(client.address, now, &decided);
                let arm = arm(&decision);
                let time = client.load(&model, arm, session, response);
                total += time.as_secs_f64().ln();
                log(&Response {
                    client: client.address,
                    state: State::parse(client.address, &State::of(&decision).code()).unwrap(),
                    probability: (decision.probability * 1e6).round() / 1e6,
                    transport: arm.version.transport(),
                    bytes: SIZE,
                    time,
                });
                for seen in observations(&client, arm, time) {
                    table.observe(client.address, now, &seen);
                }
            }
        }
    }
    total / f64::from(CLIENTS * SESSIONS * RESPONSES)
}

fn arm(decision: &Decision) -> Arm {
    let transport = decision.version.transport();
    Arm::over(transport, decision.congestion.get(transport).congestion)
}

fn observations(client: &Client, arm: Arm, time: Duration) -> Vec<Observation> {
    let path = TransportSample {
        version: arm.version,
        congestion: arm.congestion,
        packets_sent: 700,
        packets_lost: (700.0 * client.loss).round() as u32,
        min_rtt: RTT,
        srtt: RTT + Duration::from_millis(2),
        delivery_rate: Some(Rate::from_mbps(client.mbps)),
        app_limited: false,
    };
    let outcome = Outcome {
        arm,
        size: SIZE,
        duration: time,
        shared: false,
    };
    let mut seen = vec![Observation::Path(path), Observation::Outcome(outcome)];
    if arm.version == Version::H3 {
        seen.insert(0, Observation::Udp(UdpEvent::Arrived));
    }
    seen
}

fn policy(settings: &str) -> PolicyConfig {
    let policy: PolicyConfig = serde_json::from_str(settings).unwrap();
    assert_eq!(policy.validate(), Ok(()), "{settings}");
    policy
}

struct Log {
    policy: PolicyConfig,
    responses: Vec<Response>,
    mean: f64,
}

impl Log {
    fn of(settings: &str) -> Self {
        let (policy, mut responses) = (policy(settings), Vec::new());
        let mean = run(&policy, |response| responses.push(*response));
        Self {
            policy,
            responses,
            mean,
        }
    }

    fn what_if(&self, other: &PolicyConfig) -> Report {
        let model = synthetic();
        let mut what_if = WhatIf::new(&model, &self.policy, other);
        self.responses
            .iter()
            .for_each(|response| what_if.add(response));
        what_if.report()
    }
}

#[test]
fn an_estimate_is_near_what_a_policy_really_gives() {
    let log = Log::of(r#"{"holdback": 0.3}"#);
    let settings = [
        r#"{"holdback": 0}"#,
        r#"{"holdback": 0.1}"#,
        r#"{"holdback": 0.2}"#,
        r#"{"holdback": 0.5}"#,
        r#"{"holdback": 0.7}"#,
        r#"{"holdback": 0.3, "min_gain": 0}"#,
        r#"{"holdback": 0.3, "min_gain": 0.05}"#,
        r#"{"holdback": 0.3, "min_gain": 0.1}"#,
        r#"{"holdback": 0.3, "min_gain": 0.2}"#,
        r#"{"holdback": 0.3, "min_gain": 0.5}"#,
        r#"{"holdback": 0.3, "min_gain_bbr": 0.05}"#,
        r#"{"holdback": 0.3, "min_gain_bbr": 0.15}"#,
        r#"{"holdback": 0.3, "min_gain_bbr": 0.2}"#,
        r#"{"holdback": 0.3, "min_gain_bbr": 0.5}"#,
        r#"{"holdback": 0.3, "min_gain_bbr": 1}"#,
        r#"{"holdback": 0.3, "trials": 1}"#,
        r#"{"holdback": 0.3, "trials": 2}"#,
        r#"{"holdback": 0.3, "exploration": 0}"#,
        r#"{"holdback": 0.3, "exploration": 0.01}"#,
        r#"{"holdback": 0.1, "exploration": 0.005, "min_gain": 0.05, "min_gain_bbr": 0.2}"#,
    ];
    let mut covered = 0;
    for settings in settings {
        let other = policy(settings);
        let real = (run(&other, |_| ()) - log.mean).exp();
        let report = log.what_if(&other);
        let answer = report.answer.clone();
        let answer = answer.unwrap_or_else(|refusal| panic!("{settings}: {refusal}\n{report}"));
        let error = answer.mean / real - 1.0;
        // By other settings something else would have been learnt, which no log shows.
        let learnt = 0.01;
        let held = (answer.low - learnt..=answer.high + learnt).contains(&real);
        covered += u32::from(held);
        assert!(error.abs() <= 0.05, "{settings}: {error:.3}\n{report}");
    }
    assert!(covered >= 18, "{covered} of 20 intervals hold");
}

#[test]
fn a_log_refuses_what_it_cannot_know() {
    let log = Log::of("{}");
    let refused = |settings: &str| log.what_if(&policy(settings)).answer.unwrap_err();
    let text = refused(r#"{"unknown": "h2"}"#).to_string();
    assert!(
        text.contains("h2-floor, which was never drawn there"),
        "{text}"
    );
    assert!(matches!(
        refused(r#"{"congestion": "bbr"}"#),
        Refusal::Unseen { .. }
    ));
    let other = policy(r#"{"exploration": 0.01}"#);
    let mut few = WhatIf::new(Box::leak(Box::new(synthetic())), &log.policy, &other);
    log.responses[..60]
        .iter()
        .for_each(|response| few.add(response));
    assert_eq!(few.report().answer, Err(Refusal::Clients(2)));
    let wrong = Log {
        policy: policy(r#"{"holdback": 0.3}"#),
        responses: log.responses.clone(),
        mean: 0.0,
    };
    let answer = wrong.what_if(&other).answer.unwrap_err();
    assert!(
        matches!(answer, Refusal::Foreign(part) if part > 0.5),
        "{answer}"
    );
}

#[test]
fn the_same_policy_gives_the_same() {
    let log = Log::of("{}");
    let report = log.what_if(&log.policy);
    assert_eq!(report.changed, 0.0);
    let answer = report.answer.unwrap();
    assert!((answer.mean - 1.0).abs() < 1e-9 && (answer.high - answer.low).abs() < 1e-9);
}

const RTT: Duration = Duration::from_millis(10);
