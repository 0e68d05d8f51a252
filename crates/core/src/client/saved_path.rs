//! The path that the estimate of a returning client lets a new connection begin with.
use crate::client::estimate::Estimate;
use crate::client::view::Knowledge;
use crate::policy::PolicyConfig;
use crate::stat::faded;
use hikyaku_units::arm::Transport;
use hikyaku_units::{ByteSize, SavedPath, Timestamp};

impl Knowledge {
    /// The knowledge of the path over a transport, from the nearest level that knows enough; `None`
    /// when none does.
    ///
    /// The other transport's rate stands in where this one was never seen, but not for one that was and
    /// carries less.
    #[must_use]
    pub fn saved_path(
        &self,
        transport: Transport,
        now: Timestamp,
        policy: &PolicyConfig,
    ) -> Option<SavedPath> {
        self.levels()
            .find_map(|level| of_level(level, transport, now, policy))
    }
}

fn of_level(
    level: &Estimate,
    transport: Transport,
    now: Timestamp,
    policy: &PolicyConfig,
) -> Option<SavedPath> {
    let age = now.since(level.last_seen()?);
    if age > policy.half_life.rate * LIFETIME {
        return None;
    }
    let seen = |transport: Transport| level.rate[transport.index()].weight > 0.0;
    let of = if seen(transport) {
        transport
    } else {
        transport.other()
    };
    // Weights are as of the last observation: the age counts once.
    if level.rate[of.index()].weight < ENOUGH_SAMPLES {
        return None;
    }
    let bits_per_sec = level.open_rate[of.index()].get()?.exp();
    let min_rtt = level.min_rtt.get()?;
    let share = faded(age.as_secs_f32(), policy.half_life.rate.as_secs_f32());
    let bdp = (share * bits_per_sec / 8.0 * min_rtt.as_secs_f32()) as u64;
    (bdp >= MIN_BDP).then_some(SavedPath {
        bdp: ByteSize::from_bytes(bdp),
        min_rtt,
    })
}

/// Half-lives of the rate after which a path is not known any more. This is the Lifetime of
/// RFC 9959 §3.1.
pub(super) const LIFETIME: u32 = 4;
/// Samples of the rate that are needed: one may be a burst's.
const ENOUGH_SAMPLES: f32 = 2.0;
/// Bytes that any connection may begin with (RFC 6928 §2): knowing less says nothing.
const MIN_BDP: u64 = 14_600;

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::Duration;

    use crate::client::estimate::Estimate;
    use crate::client::key::Prefix;
    use crate::client::sample::TransportSample;
    use crate::client::view::Knowledge;
    use crate::policy::PolicyConfig;
    use hikyaku_units::arm::{Congestion, Transport, Version};
    use hikyaku_units::{Rate, SavedPath, Timestamp};

    const START: u64 = 1_800_000_000;
    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn seen(samples: usize, version: Version, mbps: u64, app_limited: bool) -> Estimate {
        let mut estimate = Estimate::default();
        for _ in 0..samples {
            let sample = TransportSample {
                version,
                congestion: Congestion::Floor,
                packets_sent: 1000,
                packets_lost: 10,
                min_rtt: Duration::from_millis(40),
                srtt: Duration::from_millis(41),
                delivery_rate: Some(Rate::from_mbps(mbps)),
                app_limited,
            };
            let now = Timestamp::from_secs(START);
            estimate.on_path(&sample, now, &PolicyConfig::default());
        }
        estimate
    }

    #[test]
    fn it_is_recent_and_shrinks_with_age() {
        let six_hours = 6 * 3600;
        let own = |estimate| Knowledge {
            own: Some(estimate),
            ..Knowledge::none(CLIENT)
        };
        let neighbour = Knowledge {
            prefixes: [
                Prefix::around(CLIENT, 24).map(|p| (p, seen(9, Version::H3, 50, false))),
                None,
            ],
            ..own(seen(1, Version::H3, 10, false))
        };
        let mut both = seen(4, Version::H2, 80, false);
        both.rate[1] = seen(4, Version::H3, 20, false).rate[1];
        both.open_rate[1] = seen(4, Version::H3, 20, false).open_rate[1];
        // name, knowledge, transport, age in s, BDP in kB within 1 %
        type Case<'a> = (&'a str, Knowledge, Transport, u64, Option<u64>);
        let cases: &[Case<'_>] = &[
            ("nothing", Knowledge::none(CLIENT), Transport::Quic, 0, None),
            (
                "50 Mbit/s x 40 ms",
                own(seen(4, Version::H3, 50, false)),
                Transport::Quic,
                0,
                Some(250),
            ),
            (
                "six hours later",
                own(seen(4, Version::H3, 50, false)),
                Transport::Quic,
                six_hours,
                Some(125),
            ),
            (
                "1 Gbit/s a day later",
                own(seen(4, Version::H3, 1000, false)),
                Transport::Quic,
                4 * six_hours,
                Some(312),
            ),
            (
                "beyond the lifetime",
                own(seen(4, Version::H3, 1000, false)),
                Transport::Quic,
                4 * six_hours + 1,
                None,
            ),
            (
                "after two days",
                own(seen(4, Version::H3, 50, false)),
                Transport::Quic,
                8 * six_hours,
                None,
            ),
            (
                "one sample",
                own(seen(1, Version::H3, 50, false)),
                Transport::Quic,
                0,
                None,
            ),
            (
                "app-limited",
                own(seen(9, Version::H3, 50, true)),
                Transport::Quic,
                0,
                None,
            ),
            (
                "TCP stands in",
                own(seen(4, Version::H2, 80, false)),
                Transport::Quic,
                0,
                Some(400),
            ),
            (
                "but not for a slower QUIC",
                own(both),
                Transport::Quic,
                0,
                Some(100),
            ),
            ("a neighbour's", neighbour, Transport::Quic, 0, Some(250)),
        ];
        for (name, knowledge, transport, age, want) in cases {
            let now = Timestamp::from_secs(START + age);
            let known = knowledge.saved_path(*transport, now, &PolicyConfig::default());
            let kilobytes = known.map(|SavedPath { bdp, .. }| (bdp.bytes() + 500) / 1000);
            let near = |(got, want): (u64, u64)| got.abs_diff(want) * 100 <= want;
            assert_eq!(kilobytes.is_some(), want.is_some(), "{name}: {known:?}");
            assert!(kilobytes.zip(*want).is_none_or(near), "{name}: {known:?}");
        }
    }
}
