//! Rate, loss, delay, queue and CPU time.

use std::time::Duration;

use hikyaku_netsim::{LinkConfig, Loss, QueueLimit, derive_seed};
use hikyaku_units::{LossRate, Rate};

use super::bench::{Bench, cpu_share};
use super::traffic::{Flow, count_datagrams, round_trips, send_burst, tcp_goodput, udp};
use super::{Check, CheckError, Finding};
use crate::link::{CLIENT_V4, SERVER_V4};

pub(super) fn checks() -> Vec<Check> {
    let mut checks = Vec::new();
    checks.extend([1, 10, 100, 200, 600, 1_000].map(rate_check));
    checks.extend([1_000, 10_000, 50_000].map(loss_check));
    checks.extend([1, 25, 175].map(rtt_check));
    checks.extend(queue_checks());
    checks.extend([(200, 0.35), (600, 0.45)].map(|(mbps, limit)| cpu_check(mbps, limit)));
    checks
}

/// A full segment with timestamps carries 1448 B of payload in 1514 B of wire.
const WIRE_PER_PAYLOAD: f64 = 1514.0 / 1448.0;

/// Relative error of the rate.
const RATE_LIMIT: f64 = 0.005;

/// A link on which a flow with [`flow`] is never idle and loses nothing.
fn link_of(mbps: u64) -> LinkConfig {
    LinkConfig {
        rate: Rate::from_mbps(mbps).into(),
        one_way_delay: Duration::from_millis(1),
        queue: QueueLimit::Bytes(256 << 20),
        ..LinkConfig::default()
    }
}

fn flow(mbps: u64, bench: &Bench) -> Flow {
    let in_60_ms = mbps as usize * 1_000_000 / 8 * 60 / 1_000;
    let (full, quick) = (Duration::from_secs(5), Duration::from_millis(1_500));
    Flow {
        buffer: 2 * in_60_ms.max(40_000),
        warm_up: bench.either(Duration::from_secs(1), Duration::from_millis(500)),
        time: bench.either(full, quick),
    }
}

fn rate_check(mbps: u64) -> Check {
    let measure = move |bench: &mut Bench, seed| {
        let flow = flow(mbps, bench);
        let work = |topology: &_| tcp_goodput(topology, &flow);
        let (goodput, _) = bench.over(link_of(mbps), seed, work)?;
        let error = goodput * WIRE_PER_PAYLOAD / (mbps as f64 * 1e6) - 1.0;
        let text = format!("{:+.3} %", error * 100.0);
        Ok(Finding::reached(text, error.abs() <= RATE_LIMIT))
    };
    let goal = format!("error at most {} %", RATE_LIMIT * 100.0);
    Check::new(format!("rate {mbps} Mbit/s"), goal, measure)
}

fn cpu_check(mbps: u64, limit: f64) -> Check {
    let measure = move |bench: &mut Bench, seed| {
        let flow = flow(mbps, bench);
        let work = |topology: &_| tcp_goodput(topology, &flow);
        let (_, report) = bench.over(link_of(mbps), seed, work)?;
        let share = cpu_share(&report);
        let text = format!("{:.0} % of a core", share * 100.0);
        Ok(Finding::reached(text, share <= limit))
    };
    let goal = format!("at most {:.0} % of a core", limit * 100.0);
    Check::new(format!("CPU at {mbps} Mbit/s"), goal, measure)
}

fn loss_check(ppm: u32) -> Check {
    let loss = LossRate::from_fraction(f64::from(ppm) / 1e6);
    let half_width =
        move |sent: u64| 1.96 * (loss.fraction() * (1.0 - loss.fraction()) / sent as f64).sqrt();
    let measure = move |bench: &mut Bench, _| {
        let sent = bench.either(100_000, 30_000);
        let config = LinkConfig {
            loss: Loss::Bernoulli(loss),
            ..LinkConfig::default()
        };
        // One seed for all attempts, since another draw must not improve the result.
        let seed = derive_seed(0x5e1f, &[ppm.into()]);
        let (received, report) = bench.over(config, seed, |topology| {
            let from = udp(topology.server(), SERVER_V4)?;
            let to = udp(topology.client(), CLIENT_V4)?;
            let target = to.local_addr()?;
            std::thread::scope(|scope| {
                let receiver = scope.spawn(|| count_datagrams(&to, Duration::ZERO));
                for _ in 0..sent / 50 {
                    send_burst(&from, target, 200, 50, None)?;
                    std::thread::sleep(Duration::from_millis(1));
                }
                let received = receiver
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                Ok(received?)
            })
        })?;
        let missing = sent - received;
        let lost = report.down.lost.packets;
        if lost != missing {
            let text = format!("{missing} are missing, the link lost {lost}");
            return Ok(Finding::reached(text, false));
        }
        let share = missing as f64 / sent as f64;
        let good = (share - loss.fraction()).abs() <= half_width(sent);
        Ok(Finding::reached(format!("{:.3} %", share * 100.0), good))
    };
    Check::new(format!("loss {loss}"), "within its 95 % interval", measure)
}

fn rtt_check(rtt_ms: u64) -> Check {
    let measure = move |bench: &mut Bench, seed| {
        let config = LinkConfig {
            one_way_delay: Duration::from_micros(rtt_ms * 500),
            ..LinkConfig::default()
        };
        let count = bench.either(1_500, 400);
        let gap = Duration::from_millis(2);
        let work = |topology: &_| round_trips(topology, count, gap);
        let (mut rtts, _) = bench.over(config, seed, work)?;
        rtts.sort_by(f64::total_cmp);
        let error_ms = |rtt: f64| rtt * 1e3 - rtt_ms as f64;
        let mean = error_ms(rtts.iter().sum::<f64>() / rtts.len() as f64);
        let p99 = error_ms(rtts[rtts.len() * 99 / 100]);
        let early = rtts.first().is_some_and(|&first| error_ms(first) < 0.0);
        let text = format!("mean {mean:+.2} ms, p99 {p99:+.2} ms");
        Ok(Finding::reached(text, !early && mean <= 0.5 && p99 <= 1.0))
    };
    let goal = "mean +0.50 ms, p99 +1.00 ms";
    Check::new(format!("RTT {rtt_ms} ms"), goal, measure)
}

/// The queue checks send a burst to an idle link: one packet is being sent, and as many wait as
/// have room. 1 Mbit/s sends none during the burst.
fn queue_checks() -> Vec<Check> {
    const WIRE_BYTES: u64 = 1_514;
    let queues = [
        ("packets", QueueLimit::Packets(60), 61),
        ("bytes", QueueLimit::Bytes(60 * WIRE_BYTES), 61),
        // A packet takes 12.112 ms, and the last one with room waits for 50.
        (
            "time",
            QueueLimit::Time(Duration::from_micros(50 * 12_112)),
            51,
        ),
    ];
    let check = |(unit, queue, want): (&str, QueueLimit, u64)| {
        let measure = move |bench: &mut Bench, seed| {
            let config = LinkConfig {
                rate: Rate::from_mbps(1).into(),
                queue,
                ..LinkConfig::default()
            };
            let (received, report) = bench.over(config, seed, |topology| {
                let from = udp(topology.server(), SERVER_V4)?;
                let to = udp(topology.client(), CLIENT_V4)?;
                send_burst(&from, to.local_addr()?, 1_472, 100, None)?;
                Ok::<u64, CheckError>(count_datagrams(&to, Duration::ZERO)?)
            })?;
            let dropped = report.down.dropped.packets;
            let text = format!("{received} passed, {dropped} dropped");
            Ok(Finding::reached(
                text,
                received == want && dropped == 100 - want,
            ))
        };
        let goal = format!("of 100 packets {want} pass");
        Check::new(format!("queue in {unit}"), goal, measure)
    };
    queues.map(check).into()
}
