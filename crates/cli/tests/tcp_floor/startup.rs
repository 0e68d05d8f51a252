//! Slow start of the fair floor: how fast it is, and what it leaves when it has overflowed the path.

use super::*;

/// A path without losses.
struct Route {
    mbps: u64,
    rtt: Duration,
    queue: Duration,
}

impl Route {
    fn lab(&self) -> Option<Lab> {
        let mut both = link(0.0);
        for direction in [&mut both.up, &mut both.down] {
            direction.rate = Capacity::Rate(Rate::from_bits_per_sec(self.mbps * 1_000_000));
            direction.one_way_delay = self.rtt / 2;
            direction.queue = QueueLimit::Time(self.queue);
        }
        Lab::on(both)
    }

    /// Bytes that fill the path, without its queue.
    fn bdp(&self) -> f64 {
        (self.mbps * 1_000_000 / 8) as f64 * self.rtt.as_secs_f64()
    }
}

impl Lab {
    /// The window, in bytes, of a new connection that has sent `bytes`: the median of three.
    fn window_left_after(&self, control: Control, bytes: usize) -> f64 {
        let windows = (0..3).map(|_| {
            let mut pair = self.connect(&self.listen());
            self.set(&pair, control);
            self.send(&mut pair, bytes, |_| {});
            self.see(&pair).cwnd * MSS
        });
        f64::from(median(windows.collect()))
    }

    /// The largest window, in packets, that a new connection has within `time`: the median of three.
    fn largest_window_within(&self, control: Control, time: Duration) -> u32 {
        let largest = (0..3).map(|_| {
            let mut pair = self.connect(&self.listen());
            self.set(&pair, control);
            let began = Instant::now();
            let mut windows = Vec::new();
            self.send(&mut pair, 3_000_000, |seen| {
                if began.elapsed() < time {
                    windows.push(seen.cwnd);
                }
            });
            windows.into_iter().max().unwrap()
        });
        median(largest.collect())
    }
}

/// Slow start learns of an overflow when it has sent a multiple of the capacity. The number of such
/// overflows depends on the rate, and on the first window. One cut leaves 0.7 of path and queue; a
/// second one would leave 0.7 of that. The lost packets may not be sent again faster than the path is.
#[test]
fn an_overflow_of_slow_start_leaves_a_full_path() {
    let (short, long) = (Duration::from_millis(40), Duration::from_millis(120));
    let queue = Duration::from_millis(50);
    let cases = [
        (40, long, queue),
        (44, long, queue),
        (100, short, short / 4),
    ];
    for (mbps, rtt, queue) in cases {
        let route = Route { mbps, rtt, queue };
        let Some(lab) = route.lab() else { return };
        let known = SavedPath {
            bdp: ByteSize::from_bytes(route.bdp() as u64),
            min_rtt: rtt,
        };
        let left = 0.7 * (rtt + queue).as_secs_f64() / rtt.as_secs_f64();
        for known in [None, Some(known)] {
            let window = lab.window_left_after(Control::Fair { known }, 6_000_000) / route.bdp();
            assert!(
                window > 0.85 * left,
                "{mbps} Mbit/s, {known:?}: {window} BDP"
            );
        }
    }
}

/// draft-kazuho-ccwg-rapid-start: three windows a round while no queue shows. Four rounds after ten
/// packets a window that doubles has 160.
#[test]
fn slow_start_triples_its_window_in_a_round() {
    let rtt = Duration::from_millis(200);
    let route = Route {
        mbps: 50,
        rtt,
        queue: rtt,
    };
    let Some(lab) = route.lab() else { return };
    let largest = |control| lab.largest_window_within(control, rtt * 9 / 2);
    let (plain, rapid) = (largest(Control::Plain(Congestion::Cubic)), largest(FAIR));
    assert!(rapid >= plain * 3 / 2, "{rapid} and {plain} packets");
}
