//! Which clients take too little of what there is to send.

use std::time::{Duration, Instant};

use hikyaku_units::Rate;

use crate::sections::{Limits, Timeouts};

/// How slowly a client may take content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// How long a client may take nothing that has taken nothing before.
    first: Duration,
    /// How long one may take nothing at most, whatever it has taken before.
    most: Duration,
    /// The least rate.
    rate: Rate,
}

impl Terms {
    /// Those of `timeouts.send`, `timeouts.send_max` and `limits.min_send_rate`.
    pub(crate) fn new(limits: &Limits, timeouts: &Timeouts) -> Self {
        Self {
            first: timeouts.send,
            most: timeouts.send_max.max(timeouts.send),
            rate: limits.min_send_rate,
        }
    }

    /// The time in which the least rate carries `bytes`.
    fn time_of(&self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * 8_000_000_000 / u128::from(self.rate.bits_per_sec().max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// The time that a client is still waited for.
///
/// Receivers open their windows in steps, and a slow one takes minutes for a step. So each
/// byte taken buys the time in which the least rate would carry it, up to a bound; waiting
/// spends it. Whoever drains its window at that rate or faster is served for ever, since
/// a step is never larger than the window that was filled before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    terms: Terms,
    taken: u64,
    left: Duration,
    /// When waiting was last accounted for; `None` while there is nothing to send.
    waiting_since: Option<Instant>,
}

impl Patience {
    pub(crate) fn new(terms: Terms) -> Self {
        Self {
            terms,
            taken: 0,
            left: terms.first,
            waiting_since: None,
        }
    }

    /// Notes that the client has taken `taken` bytes of content so far, and whether there is
    /// something to send.
    pub(crate) fn look(&mut self, now: Instant, taken: u64, sending: bool) {
        let bought = self.terms.time_of(taken.saturating_sub(self.taken));
        let left = self.left.saturating_add(bought).min(self.terms.most);
        let waited = self
            .waiting_since
            .map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        self.left = left.saturating_sub(waited);
        self.taken = self.taken.max(taken);
        match sending {
            true => self.waiting_since = Some(now),
            false => self.rest(),
        }
    }

    /// Notes that there is nothing to send.
    pub(crate) fn rest(&mut self) {
        self.waiting_since = None;
        self.left = self.left.max(self.terms.first);
    }

    /// Whether the client has taken too little for too long.
    pub(crate) fn is_over(&self) -> bool {
        self.left.is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 30 s at first, 600 s at most, 1 kB/s.
    fn patience() -> Patience {
        Patience::new(Terms {
            first: Duration::from_secs(30),
            most: Duration::from_secs(600),
            rate: Rate::from_bits_per_sec(8000),
        })
    }

    /// A client that takes `step` bytes every `every` seconds after `first` bytes at once.
    /// Returns the second at which it is ended, if that is within a day.
    fn ended_after(first: u64, step: u64, every: u64) -> Option<u64> {
        let (start, mut patience) = (Instant::now(), patience());
        (0..86_400).find(|&secs| {
            let taken = first + secs / every * step;
            patience.look(start + Duration::from_secs(secs), taken, true);
            patience.is_over()
        })
    }

    #[test]
    fn who_takes_less_than_the_least_rate_is_ended() {
        // name, at once, bytes a step, seconds a step, ended after seconds
        let cases = [
            ("takes nothing", 0, 0, 1, Some(30)),
            ("a byte now and then", 0, 1, 29, Some(31)),
            ("a full window, then nothing", 65_536, 0, 1, Some(96)),
            ("much, then nothing", 1 << 30, 0, 1, Some(600)),
            ("much, then a byte a second", 1 << 30, 1, 1, Some(601)),
            ("half the rate", 0, 5000, 10, Some(55)),
            ("16 kB/s, bit by bit", 0, 16_000, 1, None),
            ("16 kB/s in steps of a minute", 4 << 20, 960_000, 60, None),
            ("16 kB/s in steps of five", 6 << 20, 4_800_000, 300, None),
            ("the least rate, in steps", 393_216, 393_000, 393, None),
            ("the least rate without a window", 0, 20_000, 20, None),
        ];
        for (name, first, step, every, want) in cases {
            assert_eq!(ended_after(first, step, every), want, "{name}");
        }
    }

    #[test]
    fn only_waiting_for_the_client_counts() {
        let start = Instant::now();
        // name, (at seconds, bytes taken, something to send), is it over
        type Looks = &'static [(u64, u64, bool)];
        let cases: &[(&str, Looks, bool)] = &[
            ("nothing to send", &[(9, 0, false), (40, 0, false)], false),
            ("no progress", &[(9, 10, true), (40, 10, true)], true),
            (
                "waited for content",
                &[(9, 10, true), (38, 10, false), (67, 10, true)],
                false,
            ),
            (
                "a wait before the first byte is none of the client's",
                &[(9, 0, false), (90, 0, true), (119, 0, true)],
                false,
            ),
        ];
        for (name, looks, want) in cases {
            let mut patience = patience();
            for &(secs, taken, sending) in *looks {
                patience.look(start + Duration::from_secs(secs), taken, sending);
            }
            assert_eq!(patience.is_over(), *want, "{name}");
        }
    }

    #[test]
    fn rest_counts_for_nothing() {
        let (start, mut patience) = (Instant::now(), patience());
        patience.look(start, 0, true);
        patience.look(start + Duration::from_secs(29), 0, true);
        patience.rest();
        patience.look(start + Duration::from_secs(300), 0, true);
        patience.look(start + Duration::from_secs(329), 0, true);
        assert!(
            !patience.is_over(),
            "29 s since there was something to send"
        );
        patience.look(start + Duration::from_secs(330), 0, true);
        assert!(patience.is_over());
    }
}
