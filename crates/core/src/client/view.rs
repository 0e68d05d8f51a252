//! The knowledge of a client, blended from its own address and its prefixes.

use std::net::IpAddr;
use std::time::Duration;

use crate::choice::{Assignment, Draw, Session};
use crate::client::estimate::{Choice, Estimate, LossBounds, LossCount};
use crate::client::key::{Key, Prefix};
use crate::client::udp::{UdpState, Verdict};
use crate::policy::PolicyConfig;
use crate::stat::Stat;
use hikyaku_units::arm::{ARMS, Arm, ByTransport, Congestion, Transport, Version};
use hikyaku_units::mix::mix;
use hikyaku_units::{ByteSize, LossRate, Rate, Secs, Timestamp};

/// The estimates of a client's address and of its prefixes, as of their last observations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knowledge {
    /// The client.
    pub addr: IpAddr,
    /// The estimate of the address itself.
    pub own: Option<Estimate>,
    /// The estimate that the client has carried here from another server, or from before.
    pub carried: Option<Estimate>,
    /// The estimates of its prefixes, nearest first, where clients other than this one were seen. Those
    /// that other edges of the PoP have seen count like this edge's own.
    pub prefixes: [Option<(Prefix, Estimate)>; 2],
    /// The part of the nearest prefix that comes from the other edges of the PoP. It is in `prefixes`.
    pub pop: Option<FromOthers>,
    /// The other edges' knowledge of the nearest prefix that they know: the farthest level.
    pub fleet: Option<FromOthers>,
    /// Its TCP may come through a balancer, whose path is measured in place of the client's.
    pub may_be_balanced: bool,
}

/// The knowledge of a prefix that comes from other edges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FromOthers {
    /// The prefix.
    pub prefix: Prefix,
    /// How many edges it comes from.
    pub edges: u16,
    /// Their total.
    pub estimate: Estimate,
}

/// The input of a decision. The client's own samples weigh more; its prefixes fill in the missing
/// parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientView {
    /// A number for the client, the same on every machine.
    pub client: u64,
    /// The session that the client is in.
    pub session: Session,
    /// Path samples, faded; those of the prefixes count a quarter and an eighth.
    pub samples: f32,
    /// Smallest round-trip time.
    pub min_rtt: Option<Duration>,
    /// Smoothed round-trip time: with the queue that stands on the path.
    pub srtt: Option<Duration>,
    /// Loss by [`Transport`]. Where one transport is little known, the other's packets stand in.
    pub loss: [Option<LossBounds>; 2],
    /// The path's rate: the larger of the transports' mean delivery rates, since the path
    /// can carry the rate that one delivered.
    pub rate: Option<Rate>,
    /// The path's delivery rate where neither losses nor the application were the limit.
    pub open_rate: Option<Rate>,
    /// The client's typical response.
    pub size: Option<ByteSize>,
    /// Whether HTTP/3 may be advertised.
    pub udp: Verdict,
    /// The prefix that `udp` is known of, if it is not the client's own.
    pub udp_prefix: Option<Prefix>,
    /// Whether the client itself was advertised HTTP/3, as far as is known, so that it may hold on to it.
    pub advertised: bool,
    /// Its path over TCP is never measured, so that an experiment there would show nothing.
    pub tcp_is_hidden: bool,
    /// The version that the client is kept on.
    pub choice: Option<Choice>,
    /// The congestion controls that it is kept on.
    pub congestion: ByTransport<Option<Congestion>>,
    /// Log-ratios of real to predicted load time by [`Arm::index`].
    pub(crate) outcome: [Stat; ARMS],
    /// Log-ratios of the client alone, by [`Arm::index`].
    pub(crate) own_outcome: [Stat; ARMS],
}

impl ClientView {
    /// The rate that the model is asked with for an arm. It is the path's, but where losses limit
    /// CUBIC, three times the rate that CUBIC can get at them.
    ///
    /// There, a transport's delivery rate is its own doing: it scatters, differs from the other
    /// transport's, and says nothing of the path. Were the model asked with it, the prediction for one
    /// version would change with the last measurement over the other. Past outcomes would then be held
    /// against predictions that they were not made with.
    ///
    /// An arm that losses do not limit is asked with the path's rate where they were no limit. If all
    /// samples are of CUBIC under losses, the path is as for CUBIC.
    #[must_use]
    pub fn rate_for(&self, arm: Arm) -> Option<Rate> {
        let (rate, min_rtt) = (self.rate?, self.min_rtt?);
        if arm.congestion != Congestion::Cubic
            && let Some(open) = self.open_rate
        {
            return Some(open);
        }
        let loss = self.loss_for(arm.version).mean;
        let Some(limit) = Congestion::Cubic.rate_at_loss(loss, min_rtt) else {
            return Some(rate);
        };
        Some(if is_path_limited(rate, limit) {
            rate
        } else {
            rate.max(times(limit, LOSS_LIMITED))
        })
    }

    /// All of the client's own outcomes over a transport.
    pub(crate) fn own_outcome_over(&self, transport: Transport) -> Stat {
        let over = |congestion| self.own_outcome[Arm::over(transport, congestion).index()];
        let stats = Congestion::ALL.into_iter().map(over);
        stats.fold(Stat::default(), |sum, stat| {
            sum.joined(&stat, f32::INFINITY)
        })
    }

    /// The loss that the model is asked with for a version.
    ///
    /// For HTTP/3 it is QUIC's, but no more than TCP's. QUIC's loss beyond that is its own doing, by
    /// overfilling a queue, and the model's load times hold it. Where no packet was counted there is
    /// likely none, and at most 1 %.
    #[must_use]
    pub fn loss_for(&self, version: Version) -> LossBounds {
        let [tcp, quic] = self.loss.map(|loss| loss.unwrap_or(UNKNOWN_LOSS));
        match version {
            Version::H3 if quic.mean < tcp.mean => quic,
            Version::H1 | Version::H2 | Version::H3 => tcp,
        }
    }
}

impl Knowledge {
    /// Nothing is known.
    #[must_use]
    pub const fn none(addr: IpAddr) -> Self {
        Self {
            addr,
            own: None,
            carried: None,
            prefixes: [None; 2],
            pop: None,
            fleet: None,
            may_be_balanced: false,
        }
    }

    /// This knowledge, of a client whose TCP may come through a balancer.
    #[must_use]
    pub const fn behind_balancers(self) -> Self {
        Self {
            may_be_balanced: true,
            ..self
        }
    }

    /// Whether its path over TCP is never measured: no connection of its own came directly, as far as is
    /// remembered.
    #[must_use]
    pub fn tcp_is_hidden(&self) -> bool {
        let packets = |own: Estimate| own.loss(Transport::Tcp).sent;
        self.may_be_balanced && self.own.map_or(0.0, packets) < 1.0
    }

    /// Blends the levels.
    #[must_use]
    pub fn view(&self, now: Timestamp, policy: &PolicyConfig) -> ClientView {
        // Whether a session goes on shows in the time of the last observation, which fading moves.
        let seen = self.seen_last().copied().unwrap_or_default();
        let session = seen.session_at(now, policy);
        let faded = self.faded_to(now, policy);
        let own = faded.client();
        let (udp, udp_prefix) = faded.udp(&own, now);
        ClientView {
            client: client_number(self.addr),
            session,
            samples: faded.blend(own.samples, |sum, prefix, part| {
                sum + prefix.samples * part / 4.0
            }),
            min_rtt: faded.first(&own, |estimate| estimate.min_rtt.get()),
            srtt: faded.first(&own, Estimate::smoothed_rtt),
            loss: faded.losses(&own),
            rate: faded.rate(&own),
            open_rate: faded.open_rate(&own),
            size: faded.first(&own, Estimate::response_size),
            udp,
            udp_prefix,
            advertised: own.udp.is_touched(),
            tcp_is_hidden: faded.tcp_is_hidden(),
            choice: own.choice,
            congestion: own.congestion,
            outcome: faded.outcomes(&own),
            own_outcome: own.outcome.by_arm(),
        }
    }

    /// The estimates with their counts faded to `now`.
    #[must_use]
    pub fn faded_to(&self, now: Timestamp, policy: &PolicyConfig) -> Self {
        let fade = |estimate: Estimate| estimate.faded_to(now, policy);
        let prefixes = self
            .prefixes
            .map(|known| known.map(|(prefix, known)| (prefix, fade(known))));
        let others = |known: FromOthers| FromOthers {
            estimate: fade(known.estimate),
            ..known
        };
        Self {
            own: self.own.map(fade),
            carried: self.carried.map(fade),
            prefixes,
            pop: self.pop.map(others),
            fleet: self.fleet.map(others),
            ..*self
        }
    }

    /// The estimate of the client, its own or carried, whose last observation is the later one.
    fn seen_last(&self) -> Option<&Estimate> {
        let [own, carried] = [&self.own, &self.carried].map(Option::as_ref);
        match (own, carried) {
            (Some(own), Some(carried)) if carried.at > own.at => Some(carried),
            _ => own.or(carried),
        }
    }

    /// The knowledge of the client itself. The estimate that it has carried fills in as long as it says more.
    fn client(&self) -> Estimate {
        let own = self.own.unwrap_or_default();
        let carried = self.carried.filter(|carried| carried.samples > own.samples);
        carried.map_or(own, |carried| own.with_carried(&carried))
    }

    /// The levels of knowledge of the path, the best one first.
    pub(crate) fn levels(&self) -> impl Iterator<Item = &Estimate> {
        let last = self.seen_last();
        let client = last.into_iter().chain(&self.own).chain(&self.carried);
        client.chain(self.neighbours().map(|(_, prefix)| prefix))
    }

    fn neighbours(&self) -> impl Iterator<Item = &(Prefix, Estimate)> {
        self.prefixes.iter().flatten()
    }

    /// The estimates around the client's own, nearest first.
    fn wider(&self) -> impl Iterator<Item = &Estimate> {
        let prefixes = self.neighbours().map(|(_, estimate)| estimate);
        prefixes.chain(self.fleet.iter().map(|fleet| &fleet.estimate))
    }

    /// Adds the wider levels to `own`, the nearest with a part of 1, each farther one of half as much.
    fn blend<T>(&self, own: T, mut add: impl FnMut(T, &Estimate, f32) -> T) -> T {
        let parts = [1.0, 0.5, 0.25];
        self.wider()
            .zip(parts)
            .fold(own, |sum, (wider, part)| add(sum, wider, part))
    }

    fn first<T>(&self, own: &Estimate, known: impl Fn(&Estimate) -> Option<T>) -> Option<T> {
        known(own).or_else(|| self.wider().find_map(known))
    }

    fn losses(&self, own: &Estimate) -> [Option<LossBounds>; 2] {
        let counts = Transport::ALL.map(|transport| {
            let add = |sum: LossCount, prefix: &Estimate, part| {
                sum.joined(&prefix.loss[transport.index()], PREFIX_PACKETS * part)
            };
            self.blend(own.loss[transport.index()], add)
        });
        Transport::ALL.map(|transport| {
            let other = &counts[transport.other().index()];
            counts[transport.index()]
                .joined(other, OTHER_TRANSPORT_PACKETS)
                .bounds()
        })
    }

    fn rate(&self, own: &Estimate) -> Option<Rate> {
        let rates = Transport::ALL.map(|transport| {
            let add = |sum: Stat, prefix: &Estimate, part| {
                sum.joined(&prefix.rate[transport.index()], PREFIX_RATES * part)
            };
            self.blend(own.rate[transport.index()], add)
        });
        let fresh = rates[0].weight.max(rates[1].weight) * STALE_RATE;
        let known = |rate: &Stat| rate.weight > 0.0 && rate.weight >= fresh;
        let known = rates.into_iter().filter(known);
        let best = known.map(|rate| rate.mean).reduce(f32::max)?;
        Some(Rate::from_bits_per_sec(best.exp() as u64))
    }

    /// The larger of the transports' open rates, of the nearest level that has one in use.
    fn open_rate(&self, own: &Estimate) -> Option<Rate> {
        self.first(own, |estimate| {
            let fresh = estimate.rate[0].weight.max(estimate.rate[1].weight) * STALE_RATE;
            let open = |transport: Transport| {
                let index = transport.index();
                let in_use = estimate.rate[index].weight >= fresh;
                estimate.open_rate[index].get().filter(|_| in_use)
            };
            let best = Transport::ALL
                .into_iter()
                .filter_map(open)
                .reduce(f32::max)?;
            Some(Rate::from_bits_per_sec(best.exp() as u64))
        })
    }

    fn outcomes(&self, own: &Estimate) -> [Stat; ARMS] {
        self.blend(own.outcome.by_arm(), |mut sum, prefix, part| {
            let theirs = prefix.outcome.by_arm();
            for (stat, theirs) in sum.iter_mut().zip(&theirs) {
                *stat = stat.joined(theirs, PREFIX_OUTCOMES * part);
            }
            sum
        })
    }

    /// A client's own experience with UDP counts; its prefix's where it has none, and other edges' where
    /// this one has none in the prefix either.
    fn udp(&self, own: &Estimate, now: Timestamp) -> (Verdict, Option<Prefix>) {
        let verdict = own.udp.verdict(now);
        if own.udp.state() != UdpState::Unknown {
            return (verdict, None);
        }
        let known = |estimate: &Estimate| estimate.udp.state() != UdpState::Unknown;
        let is_known = self.neighbours().any(|(_, estimate)| known(estimate));
        let fleet = self.fleet.iter().filter(|_| !is_known);
        let fleet = fleet.map(|fleet| (&fleet.prefix, &fleet.estimate));
        let prefixes = self
            .neighbours()
            .map(|(prefix, estimate)| (prefix, estimate));
        for (prefix, estimate) in prefixes.chain(fleet) {
            let (Verdict::Probe(failure) | Verdict::Failed(failure)) = estimate.udp.verdict(now)
            else {
                continue;
            };
            // The probe belongs to the client that took it, not to every neighbour of that time.
            let probes =
                Secs::from(now) >= failure.next_probe || own.udp.offered_lately(now.into());
            let verdict = if probes {
                Verdict::Probe(failure)
            } else {
                Verdict::Failed(failure)
            };
            return (verdict, Some(*prefix));
        }
        (verdict, None)
    }
}

/// Whether a rate of CUBIC's is the rest that losses leave of a faster path, where they allow `limit`.
pub(crate) fn is_loss_limited(rate: Rate, limit: Rate) -> bool {
    !is_path_limited(rate, limit) && rate <= times(limit, LOSS_LIMITED)
}

/// Whether a rate is so far below the rate that losses allow that the path must be the limit.
fn is_path_limited(rate: Rate, limit: Rate) -> bool {
    rate.bits_per_sec() < limit.bits_per_sec() / PATH_LIMITED
}

fn times(rate: Rate, factor: u64) -> Rate {
    Rate::from_bits_per_sec(rate.bits_per_sec().saturating_mul(factor))
}

impl Assignment {
    /// The side of the client with this address under a policy. All servers that share clients need the
    /// same seed.
    #[must_use]
    pub fn of(client: IpAddr, policy: &PolicyConfig, seed: u64) -> Self {
        let client = client_number(client.to_canonical());
        let session = Session::default();
        let draw = Draw {
            seed,
            client,
            session,
        };
        Self::drawn(draw.is_held_back(policy))
    }
}

/// The number of a client, equal on every machine and after every restart.
pub(crate) fn client_number(addr: IpAddr) -> u64 {
    match Key::address(addr) {
        Key::Address(IpAddr::V4(addr)) => mix(addr.to_bits().into()),
        Key::Address(IpAddr::V6(addr)) => {
            let bits = addr.to_bits();
            mix(mix((bits >> 64) as u64) ^ bits as u64)
        }
        Key::Prefix(_) => 0,
    }
}

/// Rates while losses limit a transport scatter from a half to three and a half times their mean. Both
/// bounds were fitted: [`ClientView::rate_for`].
pub(crate) const LOSS_LIMITED: u64 = 3;
/// A path that delivers less than this part of the rate that losses allow is the limit itself.
const PATH_LIMITED: u64 = 2;

/// The loss where no packet was counted ([`ClientView::loss_for`]).
const UNKNOWN_LOSS: LossBounds = LossBounds {
    mean: LossRate::ZERO,
    low: LossRate::ZERO,
    high: ONE_PERCENT,
};
const ONE_PERCENT: LossRate = match LossRate::from_ppm(10_000) {
    Some(loss) => loss,
    None => LossRate::ZERO,
};
/// A prefix speaks on loss with at most so many packets.
const PREFIX_PACKETS: f32 = 500.0;
/// One transport speaks for the other with at most so many packets.
const OTHER_TRANSPORT_PACKETS: f32 = 300.0;
/// A transport's rate is stale when its weight is less than this share of the other's.
const STALE_RATE: f32 = 0.05;
/// A prefix speaks on rates with at most so many samples.
const PREFIX_RATES: f32 = 4.0;
/// A prefix speaks on outcomes with at most so many responses.
const PREFIX_OUTCOMES: f32 = 4.0;

#[cfg(test)]
mod tests;
