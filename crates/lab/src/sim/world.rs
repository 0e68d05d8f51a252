//! The event loop: hosts and a link under one virtual clock.

use std::time::Duration;

use hikyaku_netsim::{Capacity, Link, LinkConfig, PacketInfo, derive_seed};
use hikyaku_units::Timestamp;
use quinn_proto::EcnCodepoint;

use super::host::{Clock, Datagram};
use super::running::Running;
use super::sampler::Sampler;
use super::scenario::{Outcome, Scenario, Wait};

/// Bytes of IPv4 and UDP headers.
const HEADERS: u32 = 28;

/// Runs a scenario to its end.
#[must_use]
pub fn simulate(scenario: &Scenario) -> Outcome {
    let mut world = World::new(scenario);
    while let Some(next) = world.next() {
        world.sample_before(next);
        world.now = next;
        world.step();
    }
    world.end()
}

struct World {
    now: Timestamp,
    until: Timestamp,
    up: Path,
    down: Path,
    flows: Vec<Running>,
    sampler: Sampler,
    waits: Vec<Wait>,
}

/// One direction.
struct Path {
    link: Link<Packet>,
}

struct Packet {
    flow: usize,
    sent: Timestamp,
    datagram: Datagram,
}

impl World {
    fn new(scenario: &Scenario) -> Self {
        let clock = Clock::new();
        let seed = scenario.seed;
        let flows = scenario.flows.iter().enumerate();
        let zero = Timestamp::default();
        Self {
            now: zero,
            until: zero.saturating_add(scenario.until),
            up: Path::new(&scenario.up, derive_seed(seed, &[UP])),
            down: Path::new(&scenario.down, derive_seed(seed, &[DOWN])),
            flows: flows
                .map(|(i, flow)| Running::new(clock, flow, derive_seed(seed, &[HOSTS, i as u64])))
                .collect(),
            sampler: Sampler::new(),
            waits: Vec::new(),
        }
    }

    /// Returns the time of the next event; `None` at the end.
    fn next(&self) -> Option<Timestamp> {
        if self.flows.iter().all(Running::ended) {
            return None;
        }
        let links = [self.up.link.next_due(), self.down.link.next_due()];
        let next = links
            .into_iter()
            .flatten()
            .chain(self.flows.iter().filter_map(Running::next))
            .min()?;
        (next <= self.until).then_some(next.max(self.now))
    }

    /// Handles everything that is due now.
    fn step(&mut self) {
        let now = self.now;
        while let Some((packet, _)) = self.up.poll(now) {
            let flow = &mut self.flows[packet.flow];
            flow.server.receive(now, packet.datagram);
            flow.woken = true;
        }
        while let Some((packet, wait)) = self.down.poll(now) {
            self.sampler.on_packet(wait.micros);
            self.waits.push(wait);
            let flow = &mut self.flows[packet.flow];
            flow.client.receive(now, packet.datagram);
            flow.woken = true;
        }
        for (i, flow) in self.flows.iter_mut().enumerate() {
            if flow.wake(now) {
                flow.client.drive(now, |sent| self.up.send(now, i, sent));
                flow.server.drive(now, |sent| self.down.send(now, i, sent));
            }
        }
    }

    fn sample_before(&mut self, next: Timestamp) {
        let flows = &self.flows;
        self.sampler
            .before(next, || flows.iter().map(Running::sample).collect());
    }

    fn end(mut self) -> Outcome {
        // All packets until then have come; endless flows go on to it.
        if !self.flows.iter().all(Running::ended) {
            self.sample_before(self.until);
            self.now = self.until;
        }
        let samples = self.flows.iter().map(Running::sample).collect();
        Outcome {
            ended: self.now.since(Timestamp::default()),
            up: self.up.link.counters(),
            down: self.down.link.counters(),
            samples: self.sampler.end(self.now, samples),
            waits: self.waits,
            flows: self.flows.into_iter().map(Running::outcome).collect(),
        }
    }
}

/// Coordinates of derived seeds.
const UP: u64 = 0;
const DOWN: u64 = 1;
const HOSTS: u64 = 2;

impl Path {
    fn new(config: &LinkConfig, seed: u64) -> Self {
        Self {
            link: Link::new(config, seed),
        }
    }

    fn send(&mut self, now: Timestamp, flow: usize, datagram: Datagram) {
        let info = PacketInfo {
            len: datagram.bytes.len() as u32 + HEADERS,
            udp: true,
            ect: matches!(datagram.ecn, Some(EcnCodepoint::Ect0 | EcnCodepoint::Ect1)),
        };
        let packet = Packet {
            flow,
            sent: now,
            datagram,
        };
        // The link counts its drops.
        let _ = self.link.enqueue(now, info, packet);
    }

    /// Returns the next packet that has arrived, and its wait.
    fn poll(&mut self, now: Timestamp) -> Option<(Packet, Wait)> {
        let delivery = self.link.poll(now)?;
        let mut packet = delivery.payload;
        if delivery.mark_ce {
            packet.datagram.ecn = Some(EcnCodepoint::Ce);
        }
        let wait = Wait {
            at: delivery.due,
            micros: self.waited(&packet, delivery.due),
        };
        Some((packet, wait))
    }

    /// Returns the time in µs that a packet due at `due` waited for the transmitter.
    fn waited(&self, packet: &Packet, due: Timestamp) -> u32 {
        let config = self.link.config();
        let wire_bytes = packet.datagram.bytes.len() as u64 + u64::from(HEADERS + config.overhead);
        let sending = match &config.rate {
            Capacity::Rate(rate) => wire_bytes * 8_000_000 / rate.bits_per_sec().max(1),
            // At once, or at the trace's next opportunity.
            Capacity::Unlimited | Capacity::Trace(_) => 0,
        };
        let under_way = config.one_way_delay + Duration::from_micros(sending);
        let waited = due.since(packet.sent).saturating_sub(under_way).as_micros();
        u32::try_from(waited).unwrap_or(u32::MAX)
    }
}
