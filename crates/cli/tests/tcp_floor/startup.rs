//! Slow start of the fair floor: how fast it is, and what it leaves when it has overflowed the path.

use std::net::Shutdown;

use super::*;

/// A path without losses.
struct Route {
    mbps: u64,
    rtt: Duration,
    queue: Duration,
}

impl Route {
    fn link(&self, loss: f64) -> LinkPair {
        let mut both = link(loss);
        for direction in [&mut both.up, &mut both.down] {
            direction.rate = Capacity::Rate(Rate::from_bits_per_sec(self.mbps * 1_000_000));
            direction.one_way_delay = self.rtt / 2;
            direction.queue = QueueLimit::Time(self.queue);
        }
        both
    }

    fn lab(&self) -> Option<Lab> {
        Lab::on(self.link(0.0))
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

/// Nothing arrives for two timeouts and more, right after slow start has overflowed the path. Then slow
/// start begins with one packet. It goes up to the rest of the window before, whatever the number of timeouts.
#[test]
fn after_an_outage_slow_start_fills_the_path_again() {
    let rtt = Duration::from_millis(100);
    let route = Route {
        mbps: 40,
        rtt,
        queue: rtt / 2,
    };
    let Some(mut lab) = route.lab() else { return };
    let seen = [(), (), ()].map(|()| {
        let pair = lab.connect(&lab.listen());
        lab.set(&pair, FAIR);
        let bytes = 20_000_000;
        let [mut server, mut client] =
            [&pair.server, &pair.client].map(|of| of.try_clone().unwrap());
        thread::spawn(move || server.write_all(&vec![7; bytes]));
        thread::spawn(move || client.read_exact(&mut vec![0; bytes]));
        eventually("slow start has overflowed the path", || {
            (lab.see(&pair).retransmitted > 0).then_some(())
        });
        lab.topology.start_link(route.link(1.0), 1).unwrap();
        thread::sleep(Duration::from_millis(1500));
        lab.topology.start_link(route.link(0.0), 2).unwrap();
        let before = lab.see(&pair);
        eventually("something is acknowledged again", || {
            (lab.see(&pair).cwnd > 1).then_some(())
        });
        let after = (0..20).map(|_| {
            thread::sleep(rtt);
            lab.see(&pair).cwnd
        });
        let after = after.max().unwrap();
        pair.client.shutdown(Shutdown::Both).unwrap();
        (before.cwnd, after)
    });
    assert!(seen.iter().all(|(before, _)| *before == 1), "{seen:?}");
    let after = f64::from(median(seen.map(|(_, after)| after).to_vec()) * MSS);
    assert!(after > 0.5 * route.bdp(), "{seen:?}");
}

impl Lab {
    /// The window of a connection that has sent `before` bytes, lost what it sent within an `outage`, and sent
    /// 300 kB more: the median of three.
    fn window_after_outage(control: Control, before: usize, outage: Duration) -> Option<u32> {
        let windows = (0..3).map(|_| {
            let mut lab = Self::start(0.0)?;
            let mut pair = lab.connect(&lab.listen());
            lab.set(&pair, control);
            lab.send(&mut pair, before, |_| {});
            lab.topology.start_link(link(1.0), 1).unwrap();
            pair.server.write_all(&[7; 500]).unwrap();
            thread::sleep(outage);
            lab.topology.start_link(link(0.0), 2).unwrap();
            pair.client.read_exact(&mut [0; 500]).unwrap();
            assert!(lab.see(&pair).retransmitted > 0, "nothing was lost");
            lab.send(&mut pair, 300_000, |_| {});
            Some(lab.see(&pair).cwnd)
        });
        windows.collect::<Option<_>>().map(median)
    }
}

/// A packet that was sent alone is lost. The kernel's tail loss probe repairs it, or a timeout where the
/// probe is lost as well. The kernel reduces the window for both, as for congestion, which a loss without a
/// queue is not. The path carries 345 packets.
#[test]
fn a_loss_of_the_tail_without_a_queue_leaves_the_window() {
    let known = Some(SavedPath {
        bdp: ByteSize::from_bytes(u64::from(320 * MSS)),
        min_rtt: RTT,
    });
    let (probe, timeout) = (RTT, Duration::from_millis(300));
    let cases = [
        ("known, handshake, probe", known, 0, probe, 150),
        ("known, handshake, timeout", known, 0, timeout, 150),
        ("unknown, handshake, timeout", None, 0, timeout, 60),
        ("filled, probe", None, 6_000_000, probe, 150),
        ("filled, timeout", None, 6_000_000, timeout, 150),
    ];
    for (case, known, before, outage, least) in cases {
        let Some(window) = Lab::window_after_outage(Control::Fair { known }, before, outage) else {
            return;
        };
        assert!(window >= least, "{case}: {window}");
    }
}
