//! The room that ports have for a client, and their price.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Criterion, EgressId, EgressSet, MAX_EGRESSES, Route};
use crate::client::view::client_number;

/// A port by which egress routes leave the AS, as its border reports it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Port {
    /// The border's router ID.
    pub border: Ipv4Addr,
    /// The port's number at its border.
    pub number: u8,
    /// Price of a Mbit/s for a month.
    pub price: f64,
    /// The shares of clients that may use it, 0 to 1.
    pub admitted: PortShares,
    /// The shares of clients whose traffic is billed anyway, 0 to 1. That of the others raises the bill.
    pub billed: PortShares,
    /// The part of its free intervals that the bill has left, 0 to 1.
    pub spare: f64,
}

/// Shares of clients, 0 to 1, by what content wants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PortShares {
    /// For content that wants goodput.
    pub goodput: f64,
    /// For content that wants no stalls.
    pub stall: f64,
    /// For content that wants a short RTT.
    pub rtt: f64,
}

/// The egress routes whose port is full for a client, and the price of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    full: EgressSet,
    costs: [Cost; MAX_EGRESSES],
}

/// The cost of traffic by a port, as far as it is known. Traffic that is billed anyway costs less than any that
/// may raise a bill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cost(u32);

impl Cost {
    const UNKNOWN: Self = Self(u32::MAX);

    /// Traffic that is billed anyway costs by the price. Traffic beyond it raises the bill once no free
    /// interval is left, so its price counts by the part of them that is used. A cheap port thereby uses
    /// up its own first, and the bill of a dear one rises last.
    fn new(is_billed: bool, spare: f64, price: f64) -> Self {
        let price = (price.max(0.0) * 1e3).min(MAX_PRICE);
        match is_billed {
            true => Self(price as u32),
            false => Self(MAY_RAISE + (price.max(1.0) * USED_STEPS * used(spare)) as u32),
        }
    }
}

/// The part of the free intervals that is used. Borders round the rest up to eighths.
const fn used(spare: f64) -> f64 {
    1.0 - spare.clamp(0.0, 1.0) + 1.0 / 16.0
}

/// The highest price that is distinguished, in thousandths.
const MAX_PRICE: f64 = 16_777_215.0;

/// The costs from which on traffic may raise a bill.
const MAY_RAISE: u32 = 1 << 24;

/// The resolution of the part that is used.
const USED_STEPS: f64 = 64.0;

impl Default for Room {
    /// Nothing is known of any port.
    fn default() -> Self {
        Self {
            full: EgressSet::EMPTY,
            costs: [Cost::UNKNOWN; MAX_EGRESSES],
        }
    }
}

impl PortShares {
    const fn of(&self, criterion: Criterion) -> f64 {
        match criterion {
            Criterion::Goodput => self.goodput,
            Criterion::Stall => self.stall,
            Criterion::Rtt => self.rtt,
        }
    }
}

impl Port {
    /// The place of a client (an IPv4 address, an IPv6 /56) in the port's shares, from 0 to 1. All servers
    /// have the same, so that they need not agree on who leaves.
    fn place(&self, client: IpAddr) -> f64 {
        let client = match client.to_canonical() {
            IpAddr::V4(addr) => addr.into(),
            IpAddr::V6(addr) => IpAddr::from(Ipv6Addr::from_bits(addr.to_bits() >> 72 << 72)),
        };
        let port = u64::from(self.border.to_bits()) << 8 | u64::from(self.number);
        let port = Ipv6Addr::from_bits(u128::from(port) << 64 | u128::from(client_number(client)));
        client_number(port.into()) as f64 / 2f64.powi(64)
    }
}

impl Room {
    /// The room for a client's content in the ports of the egress routes that reach it, plain's among
    /// them. Where all are full, the one that is least so is not: the client has to leave somewhere.
    pub fn new(
        client: IpAddr,
        criterion: Criterion,
        plain_is: Option<EgressId>,
        ports: impl Iterator<Item = (EgressId, Option<Port>)>,
    ) -> Self {
        let mut room = Self::default();
        let mut least: Option<(EgressId, f64)> = None;
        let mut has_open = plain_is.is_none();
        for (egress, port) in ports {
            let Some(port) = port else {
                has_open = true;
                continue;
            };
            let place = port.place(client);
            let excess = place - port.admitted.of(criterion);
            if excess < 0.0 {
                has_open = true;
            } else {
                room.full.insert(egress);
                if least.is_none_or(|(_, other)| excess < other) {
                    least = Some((egress, excess));
                }
            }
            let is_billed = place < port.billed.of(criterion);
            room.costs[egress.0 as usize] = Cost::new(is_billed, port.spare, port.price);
        }
        if let (false, Some((egress, _))) = (has_open, least) {
            room.full.remove(egress);
        }
        room
    }

    /// Whether an egress route's port has room for the client.
    pub(super) fn has(&self, route: Route, plain_is: Option<EgressId>) -> bool {
        carried_by(route, plain_is).is_none_or(|egress| !self.full.contains(egress))
    }

    /// The egress routes whose port is full for the client.
    #[must_use]
    pub const fn full(&self) -> EgressSet {
        self.full
    }

    /// Whether the client's traffic costs less by one route than by another. It does not where the price
    /// of one is not known.
    pub(super) fn is_cheaper(&self, this: Route, that: Route, plain_is: Option<EgressId>) -> bool {
        let cost = |route| {
            let egress = carried_by(route, plain_is);
            egress.map_or(Cost::UNKNOWN, |egress| self.costs[egress.0 as usize])
        };
        let (this, that) = (cost(this), cost(that));
        that != Cost::UNKNOWN && this < that
    }
}

/// The egress route that a single route's packets take; `None` where that is not known, or several.
const fn carried_by(route: Route, plain_is: Option<EgressId>) -> Option<EgressId> {
    match route {
        Route::Plain => plain_is,
        Route::Steered(egress) => Some(egress),
        Route::Aggregated => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(number: u8, admitted: f64) -> Port {
        let all = |share| PortShares {
            goodput: share,
            stall: share,
            rtt: share,
        };
        Port {
            border: Ipv4Addr::new(192, 0, 2, 1),
            number,
            price: 1.0,
            admitted: all(admitted),
            billed: all(1.0),
            spare: 0.0,
        }
    }

    #[test]
    fn places_are_uniform_and_independent_of_each_other() {
        let (mut low, mut both) = (0, 0);
        for host in 0..10_000_u32 {
            let client = IpAddr::from(Ipv4Addr::from_bits(0xc000_0200 + host));
            let [a, b] = [1, 2].map(|number| port(number, 1.0).place(client) < 0.25);
            low += u32::from(a);
            both += u32::from(a && b);
        }
        assert!((2300..2700).contains(&low), "{low} of 10,000 in a quarter");
        assert!((525..725).contains(&both), "{both} in both quarters");
    }

    #[test]
    fn a_site_has_one_place() {
        let of = |text: &str| port(1, 1.0).place(text.parse().unwrap());
        assert_eq!(
            of("2001:db8:1::1").to_bits(),
            of("2001:db8:1:ff::2").to_bits()
        );
        assert_ne!(
            of("2001:db8:1::1").to_bits(),
            of("2001:db8:1:100::1").to_bits()
        );
        assert_eq!(of("192.0.2.1").to_bits(), of("::ffff:192.0.2.1").to_bits());
    }

    #[test]
    fn a_full_port_has_no_room_unless_all_are() {
        let client = IpAddr::from([192, 0, 2, 7]);
        let [a, b, c] = [0, 1, 2].map(EgressId);
        let room = |ports: &[(EgressId, Option<Port>)]| {
            Room::new(client, Criterion::Goodput, Some(a), ports.iter().copied())
        };
        let has = |room: &Room, egress| room.has(Route::Steered(egress), None);
        let one = room(&[(a, Some(port(1, 0.0))), (b, Some(port(2, 1.0)))]);
        assert_eq!((has(&one, a), has(&one, b)), (false, true));
        assert!(!one.has(Route::Plain, Some(a)), "plain leaves by its port");
        assert!(one.has(Route::Plain, None));
        let unknown = room(&[(a, Some(port(1, 0.0))), (c, None)]);
        assert_eq!((has(&unknown, a), has(&unknown, c)), (false, true));
        let all = room(&[(a, Some(port(1, 0.0))), (b, Some(port(2, 0.0)))]);
        assert!(
            has(&all, a) != has(&all, b),
            "the one that is less full remains"
        );
    }

    #[test]
    fn free_intervals_of_a_cheap_port_are_used_up_before_a_dear_ones() {
        let cost = |is_billed, spare, price| Cost::new(is_billed, spare, price);
        assert!(cost(true, 0.0, 1.0) < cost(true, 0.0, 1.1));
        assert!(
            cost(true, 0.0, 16_000.0) < cost(false, 1.0, 0.001),
            "billed anyway"
        );
        assert!(
            cost(false, 0.5, 1.0) < cost(false, 0.375, 1.0),
            "of the same price the one with more of them left"
        );
        assert!(
            cost(false, 0.25, 0.6) < cost(false, 0.5, 1.0),
            "0.81 of 0.6 is less than 0.56 of 1.0"
        );
        assert!(cost(false, 0.0, 0.6) > cost(false, 0.5, 1.0));
        assert!(cost(false, 1.0, 0.6) < cost(false, 1.0, 1.0));
        assert!(cost(false, 0.5, 0.0) < cost(false, 0.25, 0.0), "no price");
        assert!(cost(false, 0.0, 1e9) < Cost::UNKNOWN);
    }
}
