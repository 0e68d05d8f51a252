use proptest::prelude::*;

use super::*;

const MTU: u16 = 1_200;
const RTT: Duration = Duration::from_millis(40);

/// A path that carries `rate` packets a round trip and queues the rest, up to `queue` packets;
/// every `loss`th packet is lost besides.
struct Link {
    adaptive: Adaptive,
    now: Instant,
    begun: Instant,
    rate: f64,
    queue: f64,
    loss: u64,
    sent: u64,
    /// When the transmitter is free.
    free: Instant,
    lost: u64,
}

impl Link {
    fn new(rate: f64, queue: f64, loss: u64, known: Option<Known>) -> Self {
        let now = Instant::now();
        Self {
            adaptive: Adaptive::new(MTU, known),
            now,
            begun: now,
            rate,
            queue,
            loss,
            sent: 0,
            free: now,
            lost: 0,
        }
    }

    fn window(&self) -> f64 {
        self.adaptive.current() / f64::from(MTU)
    }

    /// A flight of a window, paced over a round trip, and what becomes of it.
    fn round(&mut self) {
        let count = self.window().floor().max(1.0) as u64;
        let apart = RTT.div_f64(count as f64 * 1.25);
        let one = RTT.div_f64(self.rate);
        let mut arrivals = Vec::new();
        let mut losses = Vec::new();
        for _ in 0..count {
            self.now += apart;
            self.sent += 1;
            self.adaptive.delivery.on_sent(self.now, u64::from(MTU));
            self.adaptive.cubic.on_sent(self.now, u64::from(MTU), self.sent);
            let waits = self.free.saturating_duration_since(self.now);
            let random = self.loss > 0 && self.sent.is_multiple_of(self.loss);
            if random || waits > one.mul_f64(self.queue) {
                losses.push((self.now + waits + RTT, self.now));
            } else {
                self.free = self.free.max(self.now) + one;
                arrivals.push((self.free + RTT, self.now));
            }
        }
        self.lost += losses.len() as u64;
        let mut in_flight = count * u64::from(MTU);
        let mut losses = losses.into_iter().peekable();
        for (at, sent) in arrivals {
            while let Some((_, sent)) = losses.next_if(|(lost, _)| *lost < at) {
                in_flight -= u64::from(MTU);
                self.adaptive.congested(at, sent, false, u64::from(MTU));
            }
            in_flight -= u64::from(MTU);
            let bytes = u64::from(MTU);
            self.adaptive.acked(at, sent, bytes, false, RTT);
            self.adaptive.on_end_acks(at, in_flight, false, Some(self.sent));
            self.now = self.now.max(at);
        }
    }

    fn rounds(&mut self, count: u32) -> &mut Self {
        (0..count).for_each(|_| self.round());
        self
    }
}

#[test]
fn a_lossy_path_is_filled() {
    let mut link = Link::new(400.0, 400.0, 40, None);
    link.rounds(60);
    let windows: Vec<f64> = (0..20).map(|_| { link.round(); link.window() }).collect();
    assert!(windows.iter().all(|window| *window > 280.0), "{windows:?}");
    assert!(windows.iter().all(|window| *window < 620.0), "{windows:?}");
    // CUBIC alone: 1.2 / sqrt(1/40) = 8 packets.
}

#[test]
fn slow_start_survives_losses_without_a_queue() {
    let mut link = Link::new(1_000.0, 1_000.0, 50, None);
    link.rounds(7);
    assert!(link.window() > 600.0, "{}", link.window());
}

#[test]
fn a_loss_in_a_queue_is_cubics() {
    let mut link = Link::new(200.0, 400.0, 0, None);
    link.rounds(30);
    let before = link.adaptive.cubic.window_bytes();
    let now = link.now + Duration::from_millis(1);
    for _ in 0..10 {
        let sample = Sample {
            rate: 1e6,
            loss: 0.0,
            rtt: RTT * 2,
            sent: now,
            prior: 0,
            limited: false,
        };
        link.adaptive.path.on_sample(now, &sample, 0);
    }
    link.adaptive.congested(now, now, false, u64::from(MTU));
    let after = link.adaptive.cubic.window_bytes();
    assert!((after / before - 0.7).abs() < 0.01, "{before} {after}");
}

#[test]
fn marks_are_always_congestion() {
    let mut link = Link::new(400.0, 400.0, 40, None);
    link.rounds(40);
    let before = link.adaptive.cubic.window_bytes();
    let now = link.now + Duration::from_millis(1);
    link.adaptive.congested(now, now, false, 0);
    assert!(link.adaptive.cubic.window_bytes() < before * 0.71);
}

#[test]
fn a_known_path_is_resumed_with_half_of_it() {
    let known = Known { bdp: 400 * u64::from(MTU), min_rtt: RTT };
    let mut link = Link::new(400.0, 400.0, 0, Some(known));
    link.rounds(1);
    assert!(link.window() >= 200.0, "{}", link.window());
    let mut other = Link::new(400.0, 400.0, 0, Some(Known { min_rtt: RTT * 5, ..known }));
    other.rounds(1);
    assert!(other.window() < 30.0, "another path: {}", other.window());
}

proptest! {
    #[test]
    fn windows_stay_within_bounds(
        rate in 5.0_f64..2_000.0,
        queue in 0.01_f64..4.0,
        loss in 0_u64..200,
    ) {
        let mut link = Link::new(rate, rate * queue, if loss < 3 { 0 } else { loss }, None);
        for _ in 0..60 {
            link.round();
            prop_assert!(link.window() >= 2.0);
            prop_assert!(link.window().is_finite());
            prop_assert!(link.window() < 40.0 + 3.0 * rate * (1.0 + queue));
        }
    }
}
