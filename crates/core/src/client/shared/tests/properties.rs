//! Joins and totals do not depend on order, and one field moves a total by no more than its share.

use std::net::IpAddr;
use std::sync::Arc;

use proptest::array::uniform6;
use proptest::collection::vec;
use proptest::prelude::*;

use super::super::contributions::sum;
use super::super::statistic::{OF_PART, PARTS};
use super::super::stats::Stats;
use super::{Contribution, Contributions, START, Statistic, here, now, policy, read};
use crate::bounded::TableConfig;
use crate::client::estimate::{Estimate, LossCount, MinRtt, OpenRate, Outcomes};
use crate::client::key::Prefix;
use crate::client::sample::{Observation, UdpEvent};
use crate::client::table::ClientTable;
use crate::client::udp::{UdpHealth, UdpState};
use crate::codec::{CHECK_LEN, seal};
use crate::explain::explain;
use crate::fleet::{Moments, Reach, Register};
use crate::model::tests::synthetic;
use crate::stat::Stat;
use crate::transport::decide;
use hikyaku_units::arm::{ByTransport, CongestionSet};
use hikyaku_units::{Secs, Timestamp};

fn stat(range: std::ops::Range<f32>) -> impl Strategy<Value = Stat> {
    (range, 0f32..1.0, 0f32..300.0).prop_map(|(mean, var, weight)| Stat { mean, var, weight })
}

fn loss() -> impl Strategy<Value = LossCount> {
    (0f32..200_000.0, 0f32..1.0).prop_map(|(sent, share)| LossCount {
        sent,
        lost: sent * share,
    })
}

fn health() -> impl Strategy<Value = UdpHealth> {
    (0u8..6, 0u32..1_000_000, 0u32..1_000_000).prop_map(|(kind, before, after)| {
        let since = Secs::new(START - before);
        let next_probe = Secs::new(START - before + after);
        let state = match kind {
            0 => UdpState::Unknown,
            1 => UdpState::Working { since, seen: since },
            2 => UdpState::Suspect {
                since,
                delivered: false,
            },
            3 => UdpState::NeverCame { next_probe },
            4 => UdpState::Broken { since, next_probe },
            _ => UdpState::Throttled { since, next_probe },
        };
        UdpHealth {
            state,
            ..UdpHealth::default()
        }
    })
}

/// The knowledge of one edge.
fn estimate() -> impl Strategy<Value = Estimate> {
    let path = (
        0u32..1_000_000,
        0f32..2000.0,
        1u32..2_000_000,
        1u32..2_000_000,
        [loss(), loss()],
        [stat(7.0..27.0), stat(7.0..27.0)],
    );
    let outcomes = (uniform6(-2f32..2.0), uniform6(0f32..300.0), 0f32..1.0);
    let rest = (outcomes, stat(0.0..25.0), health(), 7f32..27.0);
    (path, rest).prop_map(|(path, (outcomes, size, udp, open))| {
        let (ago, samples, current, srtt, loss, rate) = path;
        let (mean, weight, var) = outcomes;
        let at = Secs::new(START - ago);
        Estimate {
            at,
            samples,
            min_rtt: MinRtt {
                current,
                previous: 0,
                begun: at,
            },
            srtt,
            loss,
            rate,
            open_rate: [OpenRate(open), OpenRate::default()],
            outcome: Outcomes { mean, weight, var },
            size: size.mean,
            size_weight: size.weight,
            udp,
            ..Estimate::default()
        }
    })
}

fn contribution() -> impl Strategy<Value = Contribution> {
    estimate().prop_map(|own| read(&own, here()))
}

/// Any contribution that decodes: an edge that sends nonsense.
fn nonsense() -> impl Strategy<Value = Contribution> {
    let bytes = vec(any::<u8>(), 256);
    (any::<u32>(), 0u32..1_000_000, bytes).prop_filter_map("decodes", |(bits, ago, noise)| {
        let bits = bits % (1 << PARTS);
        let head = [1u8].into_iter().chain(noise[..8].iter().copied());
        let head = head.chain((START - ago).to_le_bytes());
        let head: Vec<u8> = head.chain(bits.to_le_bytes()).collect();
        // The length follows from the bits: exactly one fits.
        let lengths = 0..noise.len() - 8;
        lengths.into_iter().find_map(|len| {
            let mut bytes = head.clone();
            bytes.extend(&noise[8..8 + len]);
            bytes.extend([0; CHECK_LEN]);
            seal(&mut bytes);
            let mut read = Contribution::decode(&bytes, now()).ok()?;
            read.head.pop = here();
            Some(read)
        })
    })
}

fn writes() -> impl Strategy<Value = Vec<(u8, Contribution)>> {
    vec((0u8..4, contribution()), 0..8)
}

fn of(writes: &[(u8, Contribution)]) -> Contributions<u8> {
    let mut contributions = Contributions::default();
    for (edge, contribution) in writes {
        contributions.put(*edge, *contribution);
    }
    contributions
}

fn joined(a: &Contributions<u8>, b: &Contributions<u8>) -> Contributions<u8> {
    let mut joined = a.clone();
    joined.join(b.clone());
    joined
}

fn near(a: &Moments, b: &Moments) -> bool {
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()));
    close(a.weight, b.weight)
        && match (a.mean(), b.mean()) {
            (Some(mean), Some(other)) => {
                let scale = 1.0 + mean * mean;
                close(mean, other) && (a.variance() - b.variance()).abs() <= 1e-9 * scale
            }
            (None, None) => true,
            // At the edge of what speaks.
            _ => close(a.weight, 0.001),
        }
}

fn all_near(a: &Stats, b: &Stats) -> Result<(), TestCaseError> {
    for (place, statistic) in OF_PART.into_iter().enumerate() {
        let (a, b) = (&a.0[place], &b.0[place]);
        prop_assert!(near(a, b), "{:?}: {a:?} {b:?}", statistic);
    }
    Ok(())
}

fn total(contributions: &[Contribution], at: Secs) -> Stats {
    let policy = policy();
    let [mut pop, fleet] =
        [Reach::Pop, Reach::Fleet].map(|reach| sum(contributions.iter(), reach, at, &policy).0);
    pop.add(&fleet);
    pop
}

proptest! {
    #[test]
    fn a_join_is_commutative_associative_and_idempotent(a in writes(), b in writes(), c in writes()) {
        let [a, b, c] = [a, b, c].map(|writes| of(&writes));
        prop_assert_eq!(joined(&a, &b), joined(&b, &a));
        prop_assert_eq!(joined(&joined(&a, &b), &c), joined(&a, &joined(&b, &c)));
        prop_assert_eq!(joined(&a, &a), a.clone());
        let remote = |of: &Contributions<u8>| of.remote(&9, here(), now(), &policy());
        prop_assert_eq!(remote(&joined(&a, &b)), remote(&joined(&b, &a)));
    }

    #[test]
    fn writes_may_come_in_any_order_and_again(writes in writes(), seed in any::<usize>()) {
        let want = of(&writes);
        let mut others = writes.clone();
        others.reverse();
        let turn = seed % others.len().max(1);
        others.rotate_left(turn);
        others.extend(writes);
        prop_assert_eq!(of(&others), want);
    }

    #[test]
    fn a_late_write_changes_nothing(newer in contribution(), mut late in contribution(), other in contribution()) {
        late.head.at = Secs::new(newer.head.at.get() - 1);
        let before = of(&[(1, newer), (2, other)]);
        let mut after = before.clone();
        after.put(1, late);
        prop_assert_eq!(after, before);
    }

    #[test]
    fn a_total_does_not_depend_on_the_order(mut edges in vec(contribution(), 1..20), seed in any::<usize>()) {
        let at = Secs::new(START);
        let want = total(&edges, at);
        edges.reverse();
        let turn = seed % edges.len();
        edges.rotate_left(turn);
        all_near(&total(&edges, at), &want)?;
    }

    #[test]
    fn fading_a_total_is_fading_its_parts(edges in vec(contribution(), 1..8), more in 0u32..100_000) {
        let (at, later) = (Secs::new(START), Secs::new(START + more));
        let half_life = policy().half_life;
        let faded = total(&edges, at).faded(later.since(at), &half_life);
        // Without the test for parts that are too old to count.
        let parts = edges.iter().map(|edge| edge.stats.faded(later.since(edge.head.at), &half_life));
        let mut want = Stats::default();
        parts.for_each(|part| want.add(&part));
        for (place, statistic) in OF_PART.into_iter().enumerate() {
            let (a, b) = (&faded.0[place], &want.0[place]);
            let dust = edges.len() as f64 * 0.001;
            prop_assert!(near(a, b) || b.weight < a.weight + dust, "{:?}", statistic);
            // After a thousand half-lives numbers have no full precision left.
            prop_assert!(a.weight <= b.weight * (1.0 + 1e-9) + 1e-200);
        }
    }

    #[test]
    fn as_bytes_it_keeps_its_values_within_a_step(own in estimate()) {
        let written = Contribution::of(&own, here(), &policy().half_life).unwrap();
        let bytes = written.encode();
        let read = Contribution::decode(&bytes, now()).unwrap();
        prop_assert_eq!(read.encode(), bytes, "what was read is written the same");
        for (place, statistic) in OF_PART.into_iter().enumerate() {
            let bounds = statistic.bounds();
            let (was, is) = (&written.stats.0[place], &read.stats.0[place]);
            let weight = was.weight.min(bounds.weight);
            prop_assert!((is.weight - weight).abs() <= 0.001 + 2e-4 * weight, "{was:?} {is:?}");
            if let (Some([low, high]), Some(was), Some(is)) = (bounds.mean, was.mean(), is.mean()) {
                let is_time = statistic == Statistic::UdpFails;
                let origin = if is_time { f64::from(own.at.get()) } else { 0.0 };
                let was = (was - origin).clamp(low, high);
                prop_assert!((is - origin - was).abs() <= (high - low) / 65_535.0, "{was} {is}");
            }
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in vec(any::<u8>(), 0..200), is_sealed in any::<bool>()) {
        if is_sealed && bytes.len() > CHECK_LEN {
            bytes[0] = 1;
            seal(&mut bytes);
        }
        if let Ok(read) = Contribution::decode(&bytes, now()) {
            prop_assert!(read.head.at <= Secs::new(START + 300));
        }
    }

    #[test]
    fn nonsense_is_within_the_bounds(nonsense in nonsense()) {
        for (statistic, part) in OF_PART.iter().zip(&nonsense.stats.0) {
            let bounds = statistic.bounds();
            prop_assert!(part.weight >= 0.0 && part.weight <= bounds.weight * (1.0 + 1e-9));
            prop_assert!(part.mean().is_none_or(f64::is_finite) && part.variance().is_finite());
        }
    }

    /// With honest edges of the weight W, one of the most weight w moves a mean by at most w / (W + w) of
    /// its range.
    #[test]
    fn one_field_moves_a_total_by_no_more_than_its_share(
        honest in vec(contribution(), 1..10), nonsense in nonsense(),
    ) {
        let at = Secs::new(START);
        let before = total(&honest, at);
        let mut all = honest;
        all.push(nonsense);
        let after = total(&all, at);
        for (place, statistic) in OF_PART.into_iter().enumerate() {
            let bounds = statistic.bounds();
            let (was, is) = (&before.0[place], &after.0[place]);
            prop_assert!(is.weight - was.weight <= bounds.weight * (1.0 + 1e-9));
            let Some(([low, high], (mean, moved))) = bounds.mean.zip(was.mean().zip(is.mean())) else {
                continue;
            };
            let share = bounds.weight / (was.weight + bounds.weight);
            // Times of probes are counted from the last observation of their edge.
            let is_time = statistic == Statistic::UdpFails;
            let range = if is_time { high - low + 2e6 } else { high - low };
            prop_assert!(
                (moved - mean).abs() <= share * range * (1.0 + 1e-9),
                "{:?} from {mean} to {moved}", statistic,
            );
        }
    }

    #[test]
    fn votes_on_udp_need_a_majority(works in 1u32..8, nonsense in nonsense()) {
        let at = Secs::new(START);
        let working = super::udp(UdpState::Working { since: at, seen: at }, 0);
        let mut edges: Vec<_> = (0..works).map(|_| read(&working, here())).collect();
        edges.push(nonsense);
        let health = total(&edges, at).estimate(at, &policy()).udp;
        let is_working = matches!(health.state, UdpState::Working { .. });
        prop_assert!(is_working, "{health:?}");
    }

    /// Whatever other edges send, it is kept as it was added, and a decision comes.
    #[test]
    fn a_decision_comes_whatever_others_send(
        edges in vec(nonsense(), 1..4), more in 0u64..4_000_000, quic: bool,
    ) {
        let (policy, model) = (Arc::new(policy()), Arc::new(synthetic()));
        let config = TableConfig { max_records: 16, hash_key: [1, 2], journal: false };
        let mut table = ClientTable::new(config, Arc::clone(&policy), Arc::clone(&model));
        table.share(here(), config);
        let client: IpAddr = "192.0.2.1".parse().unwrap();
        let mut edges = of(&(0..).zip(edges).collect::<Vec<_>>());
        edges.put(9, read(&super::path(8.0, 20, 0), here()));
        let remote = edges.remote(&8, here(), now(), &policy);
        table.set_remote(Prefix::around(client, 24).unwrap(), &remote);
        if quic {
            table.observe(client, now(), &Observation::Udp(UdpEvent::Arrived));
        }
        let (pop, fleet) = (remote.pop.unwrap(), remote.fleet.unwrap());
        let knowledge = table.knowledge(client);
        let held = [knowledge.pop.unwrap(), knowledge.fleet.unwrap()];
        prop_assert_eq!(held.map(|from| from.edges), [pop.edges, fleet.edges]);
        prop_assert_eq!(held[0].estimate.samples, pop.estimate.samples);
        prop_assert_eq!(held[0].estimate.loss, pop.estimate.loss);
        prop_assert_eq!(held[1].estimate.size_weight, fleet.estimate.size_weight);
        prop_assert_eq!(held[1].estimate.udp, fleet.estimate.udp);
        let later = Timestamp::from_secs(u64::from(START) + more);
        let view = table.view(client, later);
        prop_assert!(view.samples.is_finite() && view.outcome.iter().all(|stat| stat.mean.is_finite()));
        let available = ByTransport::from_fn(|_| CongestionSet::ALL);
        let _ = decide(&view, &model, &policy, &available, later, 1);
        let knowledge = table.knowledge(client);
        let _ = explain(&knowledge, &model, &policy, &available, later, 1).to_string();
    }
}
