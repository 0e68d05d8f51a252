//! A client that visits over one path, from the server's view.
//!
//! Measurements go through the server's own `ClientTable`. So the model is fitted and checked on
//! the server's own input.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use hikyaku_core::bounded::TableConfig;
use hikyaku_core::client::sample::{Observation, Outcome, TransportSample, UdpEvent};
use hikyaku_core::client::table::ClientTable;
use hikyaku_core::client::view::ClientView;
use hikyaku_core::model::Model;
use hikyaku_core::policy::PolicyConfig;
use hikyaku_core::transport::{Decision, decide};
use hikyaku_units::arm::{Arm, ByTransport, CongestionSet, Version};
use hikyaku_units::{Rate, Timestamp};

use super::data::{Measured, Response};

/// A client and the server's memory of it.
pub(super) struct Visitor {
    table: ClientTable,
    policy: Arc<PolicyConfig>,
    model: Arc<Model>,
    now: Timestamp,
}

/// Documentation address (RFC 5737).
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// Begin of the visits; any time is suitable.
const BEGIN: Timestamp = Timestamp::from_secs(1_800_000_000);
/// Interval of the server's samples of a busy connection.
const INTERVAL: Duration = Duration::from_secs(1);
/// Smallest number of packets in a sample before the last.
const MIN_PACKETS: u32 = 10;
/// Visits after which the server knows a path: about as many as it remembers.
const VISITS: usize = 8;
/// Packets of a small page and the handshake.
const GREETING_PACKETS: u32 = 5;
const GREETING_BYTES: u64 = 125;
/// Pause between two visits.
const PAUSE: Duration = Duration::from_secs(1);

impl Visitor {
    /// A client that the server has never seen.
    pub(super) fn new(policy: Arc<PolicyConfig>, model: Arc<Model>) -> Self {
        let config = TableConfig {
            max_records: 16,
            hash_key: [0; 2],
            journal: false,
        };
        Self {
            table: ClientTable::new(config, Arc::clone(&policy), Arc::clone(&model)),
            policy,
            model,
            now: BEGIN,
        }
    }

    /// Returns the server's decision among the available arms, which it remembers.
    pub(super) fn decide(&mut self, available: CongestionSet) -> Decision {
        let available = ByTransport::from_fn(|_| available);
        let view = self.view();
        let decision = decide(&view, &self.model, &self.policy, &available, self.now, 0);
        self.observe(&Observation::Decided(decision.decided()));
        decision
    }

    /// Fetches a small page over HTTP/2, as a client does without an advertisement of HTTP/3. It
    /// takes a round trip over a path like that of `response`.
    pub(super) fn greet(&mut self, response: &Response) {
        let Some(measured) = response.measured else {
            return;
        };
        let rtt = Duration::from_secs_f64(measured.min_rtt.clamp(0.0, 86_400.0));
        self.now = self.now.saturating_add(rtt);
        let bits = f64::from(GREETING_PACKETS) * 1_460.0 * 8.0 / rtt.as_secs_f64().max(1e-6);
        let arm = Arm::new(Version::H2, response.arm.congestion);
        self.observe(&Observation::Path(TransportSample {
            version: arm.version,
            packets_sent: GREETING_PACKETS,
            packets_lost: 0,
            delivery_rate: Some(Rate::from_bits_per_sec(bits as u64)),
            app_limited: true,
            ..path_sample(response, &measured)
        }));
        self.observe(&Observation::Outcome(Outcome {
            arm,
            size: GREETING_BYTES,
            duration: rtt,
            shared: false,
        }));
    }

    /// Fetches a response with the load time and path of this one.
    pub(super) fn visit(&mut self, response: &Response) {
        if response.arm.version == Version::H3 {
            self.observe(&Observation::Udp(UdpEvent::Arrived));
        }
        let load = Duration::from_secs_f64(response.load.clamp(0.0, 86_400.0));
        self.sample(response, load);
        self.observe(&Observation::Outcome(Outcome {
            arm: response.arm,
            size: response.size,
            duration: load,
            shared: false,
        }));
        self.now = self.now.saturating_add(PAUSE);
    }

    /// Returns the server's view after visits with responses of `first` and `second` in turn.
    /// Either list may be empty.
    pub(super) fn knowing(mut self, first: &[&Response], second: &[&Response]) -> ClientView {
        for i in 0..VISITS.max(first.len()).max(second.len()) {
            for responses in [first, second] {
                if !responses.is_empty() {
                    self.visit(responses[i % responses.len()]);
                }
            }
        }
        self.view()
    }

    /// Returns the server's present view.
    fn view(&self) -> ClientView {
        self.table.view(CLIENT, self.now)
    }

    /// Samples the connection while it is busy and at its end. All samples have the same loss and
    /// rate, since records have only those of the end.
    fn sample(&mut self, response: &Response, load: Duration) {
        let end = self.now.saturating_add(load);
        let Some(measured) = response.measured else {
            self.now = end;
            return;
        };
        let intervals = load.as_secs_f64() / INTERVAL.as_secs_f64();
        let samples = (intervals as u32).min(measured.sent / MIN_PACKETS) + 1;
        for i in 1..=samples {
            let share = |packets: u32| part(packets, i, samples);
            let last = i == samples;
            self.now = if last {
                end
            } else {
                self.now.saturating_add(INTERVAL)
            };
            self.observe(&Observation::Path(TransportSample {
                packets_sent: share(measured.sent),
                packets_lost: share(measured.lost),
                app_limited: measured.app_limited && last,
                ..path_sample(response, &measured)
            }));
        }
    }

    fn observe(&mut self, observation: &Observation) {
        self.table.observe(CLIENT, self.now, observation);
    }
}

/// Returns the `i`-th of `count` nearly equal parts of the packets, counted from 1.
fn part(packets: u32, i: u32, count: u32) -> u32 {
    let before = |i: u32| u64::from(packets) * u64::from(i) / u64::from(count);
    (before(i) - before(i - 1)) as u32
}

fn path_sample(response: &Response, measured: &Measured) -> TransportSample {
    let min_rtt = Duration::from_secs_f64(measured.min_rtt.clamp(0.0, 86_400.0));
    TransportSample {
        version: response.arm.version,
        congestion: response.arm.congestion,
        packets_sent: measured.sent,
        packets_lost: measured.lost,
        min_rtt,
        srtt: min_rtt,
        delivery_rate: measured.rate,
        app_limited: measured.app_limited,
    }
}
