//! The knowledge of the routes to client ASes, for people and for the admin API.

use std::cmp::Reverse;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::record::{CarrierStats, Record};
use super::{EgressNames, Phase, Route};
use crate::client::estimate::LossBounds;
use crate::stat::Stat;
use hikyaku_units::human;
use hikyaku_units::{Secs, duration};

/// The samples of an AS's clients about their routes. Counts are faded to the present.
///
/// `Display` lays it out for a terminal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkSummary {
    /// The AS's number.
    pub asn: u32,
    /// Since a client of it was last seen.
    #[serde(with = "duration")]
    pub age: Duration,
    /// Its routes, the best known first. Plain stands under the name of the egress route that it takes, where that is
    /// known.
    pub routes: Vec<NetworkRoute>,
}

/// The knowledge of a route to an AS. Clients have access lines of all sorts, so that routes are
/// compared with each other, each client's with its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkRoute {
    /// `plain`, an egress route's name, or `aggregate`.
    pub route: String,
    /// Comparisons of goodput that it was part of.
    pub samples: f32,
    /// Goodput of a response's first second over that of the best known route, less 1. A value of 0.5
    /// is half as much again; `None` while it was not compared.
    pub goodput_gain: Option<f32>,
    /// Goodput after a response's first second over that of the best known route, less 1; `None` while
    /// it was not compared.
    pub sustained_gain: Option<f32>,
    /// RTT over that of the best known route, less 1, likewise.
    pub rtt_gain: Option<f32>,
    /// Packets lost.
    pub loss: Option<LossBounds>,
    /// Stalls in an hour of sending; `None` where nothing was sent.
    pub stalls_per_hour: Option<f32>,
    /// Since it was last used.
    #[serde(with = "duration::option")]
    pub age: Option<Duration>,
}

impl NetworkSummary {
    pub(super) fn of(
        asn: u32,
        record: &Record,
        names: &EgressNames,
        (now, half_life): (Secs, Duration),
    ) -> Self {
        let mut carriers = record.carriers().to_vec();
        for stats in &mut carriers {
            // Seen then, and its counts are faded to now.
            let at = stats.at;
            stats.fade_to(now, half_life);
            stats.at = at;
        }
        let samples =
            |stats: &CarrierStats| stats.goodput.iter().map(|stat| stat.weight).sum::<f32>();
        let known = |stats: &CarrierStats| (samples(stats) * 1e3) as u64;
        carriers.sort_by_key(|stats| Reverse((known(stats), stats.last_seen(), stats.carrier)));
        let best = carriers.first().copied();
        let routes = carriers.iter().map(|stats| {
            let gain = |of: fn(&CarrierStats) -> Stat| {
                let (this, best) = (of(stats), of(best.as_ref()?));
                let known = this.weight > 0.0 && best.weight > 0.0;
                known.then(|| (this.mean - best.mean).exp() - 1.0)
            };
            let route = match stats.carrier.as_egress() {
                Some(egress) => Route::Steered(egress),
                None if stats.carrier == Route::Aggregated.carrier(None) => Route::Aggregated,
                None => Route::Plain,
            };
            let stalls = stats.stalls;
            NetworkRoute {
                route: route.display(names).to_string(),
                samples: samples(stats),
                goodput_gain: gain(|stats| stats.goodput[Phase::Startup as usize]),
                sustained_gain: gain(|stats| stats.goodput[Phase::Sustained as usize]),
                rtt_gain: gain(|stats| stats.rtt),
                loss: stats.loss.bounds(),
                stalls_per_hour: (stalls.observed > 0.0)
                    .then(|| 3600.0 * stalls.stalls / stalls.observed),
                age: stats.last_seen().map(|seen| now.since(seen)),
            }
        });
        let routes: Vec<_> = routes.collect();
        let ages = routes.iter().filter_map(|route| route.age);
        Self {
            asn,
            age: ages.min().unwrap_or(Duration::MAX),
            routes,
        }
    }
}

impl fmt::Display for NetworkSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "AS{}, last seen {} ago", self.asn, human::time(self.age))?;
        let width = self.routes.iter().map(|route| route.route.chars().count());
        let width = width.max().unwrap_or(0);
        for (place, route) in self.routes.iter().enumerate() {
            let than_best = |gain: Option<f32>| gain.filter(|_| place > 0);
            let facts = [
                than_best(route.goodput_gain)
                    .map(|gain| format!("goodput {}", human::change(gain.into()))),
                than_best(route.sustained_gain)
                    .map(|gain| format!("later {}", human::change(gain.into()))),
                than_best(route.rtt_gain).map(|gain| format!("RTT {}", human::change(gain.into()))),
                route
                    .loss
                    .map(|loss| format!("loss {}", human::loss(loss.mean))),
                route
                    .stalls_per_hour
                    .map(|stalls| format!("{stalls:.1} stalls an hour")),
                Some(format!("{:.0} samples", route.samples)),
                route
                    .age
                    .map(|age| format!("last used {} ago", human::time(age))),
            ];
            let facts: Vec<String> = facts.into_iter().flatten().collect();
            writeln!(f, "  {:width$}  {}", route.route, facts.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Arc;

    use super::*;
    use crate::bounded::TableConfig;
    use crate::egress::{EgressId, RouteObservation, RouteTable};
    use crate::policy::PolicyConfig;
    use hikyaku_units::Timestamp;

    #[test]
    fn routes_to_an_as_are_compared_by_the_samples_of_its_clients() {
        let config = TableConfig {
            max_records: 1000,
            hash_key: [1, 2],
            journal: false,
        };
        let mut names = EgressNames::default();
        names.update(&["transit-a", "transit-b"]);
        let mut table = RouteTable::new(config, Arc::new(PolicyConfig::default()));
        let best = EgressId::new(0);
        let now = Timestamp::from_secs(1_800_000_000);
        for (host, mbps) in [(1, 10), (2, 40), (3, 20)] {
            let client = IpAddr::from([192, 0, 2, host]);
            for (route, mbps, rtt) in [
                (Route::Plain, mbps, 20),
                (Route::Aggregated, 2 * mbps, 40),
                (Route::Plain, mbps, 20),
            ] {
                let seen = RouteObservation {
                    bytes: 2_000_000,
                    duration: Duration::from_micros(16_000_000 / mbps),
                    rtt: Some(Duration::from_millis(rtt)),
                    packets_sent: 1000,
                    ..RouteObservation::default()
                };
                table.learn(client, Some(64_500), route.carrier(best), &seen, now);
                // Without an AS a client counts for none.
                table.learn(client, None, route.carrier(best), &seen, now);
            }
        }
        let later = now.saturating_add(Duration::from_secs(60));
        let all = table.networks(&names, later, 10);
        let [network] = &all[..] else {
            panic!("{all:?}");
        };
        assert_eq!((network.asn, network.age.as_secs()), (64_500, 60));
        let route = |name: &str| network.routes.iter().find(|route| route.route == name);
        let [plain, several] = ["transit-a", "aggregate"].map(|name| route(name).unwrap());
        assert_eq!(network.routes.len(), 2, "{network}");
        let more = |of: &NetworkRoute| of.goodput_gain.unwrap();
        let gain = (1.0 + more(several)) / (1.0 + more(plain));
        assert!((gain - 2.0).abs() < 0.1, "{network}");
        assert!(table.networks(&names, later, 0).is_empty());
        let text = network.to_string();
        assert!(text.starts_with("AS64500, last seen 60 s ago\n"), "{text}");
    }
}
