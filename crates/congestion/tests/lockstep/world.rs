//! Paths, and QUIC's side on them: what happens there is what both sides get.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hikyaku_congestion::rule::{Answer, Path, Rule, Sample, Snapshot, Step as RoundStep};

use crate::native::{BEGIN, CUT, DOUBT, Event, LOST, SAMPLE};

/// Bytes of a packet.
pub(crate) const MSS: f64 = 1_200.0;

/// Bytes a second that are one of TCP's units: packets a microsecond, in 2^-24.
pub(crate) const RATE: f64 = MSS * 1e6 / (1 << 24) as f64;

/// Behaviour of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Loses by chance, and delays packets above its rate.
    Lossy,
    /// Loses packets above its rate, without a queue that is seen.
    Policed,
    /// Has a queue of up to four round trips, and few losses by chance.
    Queued,
    /// RTT, rate and losses change.
    Changing,
    /// The application has mostly less to send.
    Limited,
    /// Timeouts and marks besides.
    Disturbed,
    /// No path: acknowledgements and losses by chance alone.
    Noise,
}

impl Kind {
    pub(crate) const ALL: [Self; 7] = [
        Self::Lossy,
        Self::Policed,
        Self::Queued,
        Self::Changing,
        Self::Limited,
        Self::Disturbed,
        Self::Noise,
    ];
}

/// Decision of QUIC's side at an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Round(RoundStep),
    Loss(Answer),
    /// None: at the beginning, a timeout or a mark.
    None,
}

/// An event, and what QUIC's side has after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) event: Event,
    pub(crate) decision: Decision,
    pub(crate) round: u64,
    pub(crate) rule: Snapshot,
    /// Microseconds.
    pub(crate) min_rtt: f64,
    pub(crate) threshold: f64,
    /// Bytes a second.
    pub(crate) rate: f64,
    pub(crate) last_rate: f64,
    pub(crate) growing: bool,
    /// Bytes.
    pub(crate) bdp: f64,
}

/// A packet under way.
#[derive(Clone, Copy, Debug)]
struct Packet {
    sent: u64,
    /// When it is acknowledged, or would be.
    due: u64,
    lost: bool,
    /// Packets delivered when it was sent, and when the last of them was.
    prior: u64,
    prior_at: u64,
    limited: bool,
}

/// A connection over a path, with a window that follows the rule. Times are in microseconds.
pub(crate) struct World {
    kind: Kind,
    random: Random,
    begin: Instant,
    path: Path,
    rule: Rule,
    steps: Vec<Step>,
    now: u64,
    rtt: u64,
    jitter: u64,
    /// Between packets at the bottleneck.
    spacing: f64,
    /// Microseconds of the longest queue.
    queue: f64,
    loss: f64,
    free: f64,
    window: f64,
    ssthresh: f64,
    /// When the next packet may be sent.
    paced: f64,
    delivered: u64,
    delivered_at: u64,
    under_way: VecDeque<Packet>,
}

impl World {
    pub(crate) fn new(kind: Kind, seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (kind as u64 + 1) << 32);
        (0..8).for_each(|_| {
            random.next();
        });
        let rtt = [1_000, 5_000, 20_000, 60_000, 200_000][random.below(5) as usize];
        let rtt = rtt + random.below(rtt);
        let carried = 5.0 + random.part() * random.part() * 300.0;
        let mut world = Self {
            kind,
            begin: Instant::now(),
            path: Path::default(),
            rule: Rule::default(),
            steps: Vec::new(),
            now: 1_000_000,
            rtt,
            jitter: 0,
            spacing: rtt as f64 / carried,
            queue: rtt as f64,
            loss: 0.0,
            free: 0.0,
            window: 10.0,
            ssthresh: f64::INFINITY,
            paced: 0.0,
            delivered: 0,
            delivered_at: 1_000_000,
            under_way: VecDeque::new(),
            random,
        };
        world.draw();
        world
    }

    /// Losses, jitter and queue for its kind.
    fn draw(&mut self) {
        let random = &mut self.random;
        let rtt = self.rtt as f64;
        self.loss = match self.kind {
            Kind::Queued => random.part() * 0.01,
            _ => random.part() * 0.1,
        };
        self.jitter = match random.below(3) {
            0 => 0,
            _ => random.below(self.rtt / 8 + 1),
        };
        self.queue = match self.kind {
            Kind::Policed => 0.02 * rtt,
            Kind::Queued => (0.1 + 4.0 * random.part()) * rtt,
            _ => (0.02 + 2.0 * random.part()) * rtt,
        };
    }

    /// So many events, the first of which begins the connection.
    pub(crate) fn steps(mut self, events: usize) -> Vec<Step> {
        self.note(event_of(BEGIN), Decision::None);
        while self.steps.len() < events {
            if self.kind == Kind::Noise {
                self.make_noise();
                continue;
            }
            self.send();
            self.receive();
            self.disturb();
        }
        self.steps
    }

    fn at(&self, time: u64) -> Instant {
        self.begin + Duration::from_micros(time)
    }

    fn note(&mut self, event: Event, decision: Decision) {
        let round = self.path.round();
        let rule = self.rule.snapshot(round);
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        self.steps.push(Step {
            event,
            decision,
            round,
            rule,
            min_rtt: self.path.min_rtt().map_or(0.0, micros),
            threshold: micros(self.path.threshold()),
            rate: self.path.rate().unwrap_or(0.0),
            last_rate: self.path.last_rate().unwrap_or(0.0),
            growing: self.path.growing(),
            bdp: self.path.bdp(rule.loss).unwrap_or(0.0),
        });
    }

    /// Sends the packets for which the window has room until the next one under way is due.
    fn send(&mut self) {
        let probe = if self.rule.probing() { 1.25 } else { 1.0 };
        let window = (self.window * probe).max(2.0);
        let limited = self.kind == Kind::Limited && self.random.below(4) > 0;
        let window = if limited { window.min(8.0) } else { window };
        while (self.under_way.len() as f64) < window {
            let at = self.paced.max(self.now as f64);
            if self
                .under_way
                .front()
                .is_some_and(|next| at > next.due as f64)
            {
                return;
            }
            self.paced = at + self.rtt as f64 / (window * 1.25);
            let sent = at as u64;
            let by_chance = self.random.part() < self.loss;
            let lost = by_chance || self.free - at > self.queue;
            if !lost {
                self.free = self.free.max(at) + self.spacing;
            }
            let waits = (self.free - at).max(0.0) as u64;
            let late = self.random.below(self.jitter + 1);
            let last = self.under_way.back().map_or(0, |last| last.due);
            self.under_way.push_back(Packet {
                sent,
                due: (sent + self.rtt + waits + late).max(last),
                lost,
                prior: self.delivered,
                prior_at: self.delivered_at,
                limited,
            });
        }
    }

    /// One acknowledgement, of up to four packets, and the losses that it shows.
    fn receive(&mut self) {
        let most = 1 + self.random.below(4);
        let (mut acked, mut lost, mut lost_at) = (0, 0, 0);
        let mut newest = None;
        while acked < most {
            let Some(packet) = self.under_way.front().copied() else {
                break;
            };
            if newest.is_some() && packet.due > self.now + self.rtt / 16 {
                break;
            }
            self.under_way.pop_front();
            self.now = self.now.max(packet.due);
            if packet.lost {
                lost += 1;
                lost_at = packet.sent;
            } else {
                acked += 1;
                newest = Some(packet);
            }
        }
        self.delivered += acked;
        if let Some(newest) = newest {
            self.delivered_at = self.now;
            self.sample(newest, acked);
        }
        if lost > 0 {
            let met = self.path.queued(self.at(lost_at));
            self.lose(lost, met);
        }
    }

    fn sample(&mut self, newest: Packet, acked: u64) {
        let event = Event {
            rtt: self.now - newest.sent,
            delivered: self.delivered - newest.prior,
            interval: (self.now - newest.prior_at).max(1),
            prior: newest.prior,
            limited: u64::from(newest.limited),
            acked,
            ..event_of(SAMPLE)
        };
        self.acknowledge(event);
    }

    /// Both sides get `event` of an acknowledgement.
    fn acknowledge(&mut self, event: Event) {
        let searching = self.window < self.ssthresh;
        let event = Event {
            now: self.now,
            total: self.delivered,
            searching: u64::from(searching),
            ..event
        };
        // Whole as on TCP: rates that are equal, or a tenth apart, are so on both sides.
        let rate = (event.delivered << 24) / event.interval;
        let sample = Sample {
            rate: rate as f64 * RATE,
            rtt: Duration::from_micros(event.rtt),
            sent: self.at(self.now - event.rtt),
            prior: event.prior * MSS as u64,
            limited: event.limited > 0,
        };
        let delivered = self.delivered * MSS as u64;
        let ended = self.path.on_sample(self.at(self.now), &sample, delivered);
        self.rule.acked(event.acked as f64);
        let step = self.rule.sampled(&self.path, ended, searching);
        self.note(event, Decision::Round(step));
        let bdp = self.bdp();
        match step {
            RoundStep::None if searching => self.window += event.acked as f64,
            RoundStep::None => self.window += event.acked as f64 / self.window,
            RoundStep::Doubt => self.settle(self.window * 0.7),
            RoundStep::Plateau => self.settle(bdp.max(10.0)),
            RoundStep::Raise => self.settle(bdp.max(self.window)),
        }
        self.window = self.window.min(600.0);
    }

    fn lose(&mut self, lost: u64, met: bool) {
        let event = Event {
            now: self.now,
            lost,
            met: u64::from(met),
            ..event_of(LOST)
        };
        let answer = self.rule.lost(lost as f64, met, &self.path);
        self.note(event, Decision::Loss(answer));
        match answer {
            Answer::Forgiven if self.window < self.ssthresh => {}
            Answer::Forgiven => self.settle((self.window * 0.7).max(self.bdp())),
            Answer::Probe => {}
            Answer::Congestion => self.settle(self.window * 0.7),
        }
    }

    fn bdp(&self) -> f64 {
        self.path.bdp(self.rule.loss()).unwrap_or(0.0) / MSS
    }

    fn settle(&mut self, window: f64) {
        self.window = window.max(2.0);
        self.ssthresh = self.window;
    }

    /// A timeout, a mark, or another path, now and then.
    fn disturb(&mut self) {
        let disturbed = matches!(self.kind, Kind::Disturbed);
        if disturbed && self.random.below(400) == 0 {
            self.rule.doubt(self.path.round());
            self.note(event_of(DOUBT), Decision::None);
            self.settle(2.0);
        }
        if disturbed && self.random.below(60) == 0 {
            self.rule.give_up_probe();
            self.note(event_of(CUT), Decision::None);
            self.settle(self.window * 0.7);
        }
        if self.kind == Kind::Changing && self.random.below(200) == 0 {
            self.rtt = (self.rtt * (50 + self.random.below(150)) / 100).clamp(300, 1_000_000);
            let carried = 5.0 + self.random.part() * 100.0;
            self.spacing = self.rtt as f64 / carried;
            self.draw();
        }
    }

    /// An acknowledgement and losses that no path would have.
    fn make_noise(&mut self) {
        self.now += self.random.below(20_000);
        let acked = self.random.below(12);
        let under_way = self.random.below(40);
        self.delivered += acked;
        let rtt = 1 + self.random.below(100_000);
        let event = Event {
            rtt,
            delivered: 1 + self.random.below(200),
            interval: 1 + self.random.below(200_000),
            prior: self.delivered.saturating_sub(under_way),
            limited: self.random.below(2),
            acked,
            ..event_of(SAMPLE)
        };
        self.acknowledge(event);
        if self.random.below(3) == 0 {
            let lost = 1 + self.random.below(3);
            let met = self.random.below(3) == 0;
            self.lose(lost, met);
        }
    }
}

fn event_of(kind: u64) -> Event {
    Event {
        kind,
        ..Event::default()
    }
}

/// xorshift64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 16) % bound.max(1)
    }

    /// 0 to 1.
    fn part(&mut self) -> f64 {
        self.below(1 << 40) as f64 / (1_u64 << 40) as f64
    }
}
