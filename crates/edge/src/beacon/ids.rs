//! The ids that pages were given, until they report.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use hikyaku_units::arm::Arm;
use parking_lot::Mutex;

use crate::seed::random;

/// How long an id is good for.
pub(super) const LIFETIME: Duration = Duration::from_secs(600);

/// Ids at once; beyond that the oldest go. Each takes about 150 bytes.
const MAX_IDS: usize = 65_536;
const STRIPES: usize = 16;

/// A page that was given an id, and the decision that it was sent by.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) client: IpAddr,
    /// How it was sent.
    pub(crate) arm: Arm,
    pub(crate) chosen: Chosen,
    /// When the request arrived.
    pub(crate) asked: Instant,
    /// The connection is the client's own, and what it measures is of the client's path.
    pub(crate) is_of_client: bool,
    /// Set when the connection gets another congestion control.
    pub(crate) switched: Arc<AtomicBool>,
}

/// A decision, in the words of logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) version: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) group: &'static str,
}

/// Ids under way, each with its page.
#[derive(Debug)]
pub(super) struct Ids {
    stripes: [Mutex<Stripe>; STRIPES],
    max: usize,
}

#[derive(Debug, Default)]
struct Stripe {
    pages: HashMap<u64, (Page, Instant)>,
    /// In the order in which they were given, with the time. Those that have reported are in it, too.
    order: VecDeque<(u64, Instant)>,
}

impl Default for Ids {
    fn default() -> Self {
        Self::of(MAX_IDS)
    }
}

impl Ids {
    fn of(max: usize) -> Self {
        Self {
            stripes: Default::default(),
            max: max.div_ceil(STRIPES),
        }
    }

    /// Gives a page an id that nobody can guess.
    pub(super) fn hand_out(&self, page: Page, now: Instant) -> u64 {
        let id = random();
        let mut stripe = self.stripe(id).lock();
        stripe.forget_until(now);
        if stripe.order.len() >= self.max
            && let Some((oldest, _)) = stripe.order.pop_front()
        {
            stripe.pages.remove(&oldest);
        }
        stripe.order.push_back((id, now));
        stripe.pages.insert(id, (page, now));
        id
    }

    /// Takes the page of an id, with the time when the id was given, once.
    pub(super) fn take(&self, id: u64, now: Instant) -> Option<(Page, Instant)> {
        let mut stripe = self.stripe(id).lock();
        stripe.forget_until(now);
        stripe.pages.remove(&id)
    }

    fn stripe(&self, id: u64) -> &Mutex<Stripe> {
        &self.stripes[id as usize % STRIPES]
    }
}

impl Stripe {
    fn forget_until(&mut self, now: Instant) {
        while let Some(&(id, at)) = self.order.front()
            && now.saturating_duration_since(at) > LIFETIME
        {
            self.order.pop_front();
            self.pages.remove(&id);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use hikyaku_units::arm::{Congestion, Version};

    use super::*;

    pub(in crate::beacon) fn page(asked: Instant) -> Page {
        Page {
            client: IpAddr::from([192, 0, 2, 1]),
            arm: Arm::new(Version::H2, Congestion::Cubic),
            chosen: Chosen {
                version: "h3",
                reason: "too_few_samples",
                group: "plain",
            },
            asked,
            is_of_client: true,
            switched: Arc::default(),
        }
    }

    #[test]
    fn an_id_is_good_once_and_for_minutes() {
        let (ids, start) = (Ids::default(), Instant::now());
        let after = |time| start + time;
        let [one, two] = [(); 2].map(|()| ids.hand_out(page(start), start));
        assert_ne!(one, two);
        let (page, at) = ids.take(one, after(LIFETIME)).unwrap();
        assert_eq!((page.chosen.version, at), ("h3", start));
        assert!(ids.take(one, after(LIFETIME)).is_none(), "a second time");
        let late = after(LIFETIME + Duration::from_millis(1));
        assert!(ids.take(two, late).is_none(), "too late");
        assert!(ids.take(7, start).is_none(), "nobody's");
    }

    #[test]
    fn the_oldest_go_where_there_are_too_many() {
        let (ids, start) = (Ids::of(4 * STRIPES), Instant::now());
        let all: Vec<_> = (0..1000)
            .map(|_| ids.hand_out(page(start), start))
            .collect();
        let kept = |ids: &Ids, all: &[u64]| {
            let kept = all.iter().filter(|id| ids.take(**id, start).is_some());
            kept.count()
        };
        assert_eq!(kept(&ids, &all[..500]), 0);
        assert_eq!(kept(&ids, &all), 4 * STRIPES);
        let orders = ids.stripes.iter().map(|stripe| stripe.lock().order.len());
        assert!(orders.max() <= Some(4));
    }
}
