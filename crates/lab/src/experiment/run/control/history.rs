//! Announcements of peers, changes of the kernel, and whether a packet was right.

use std::time::Duration;

/// A peer announced a prefix or withdrew it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Announcement {
    pub(super) at: Duration,
    pub(super) announced: bool,
}

/// A kernel added or removed a route; the time is that of its notification just after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fact {
    pub(super) at: Duration,
    pub(super) has: bool,
}

/// Times in which packets for a prefix may go to a peer: from its announcement until the kernel no
/// longer has the route. The kernel adds the route after the announcement, so a packet in between
/// is not our mistake. Its notification follows the removal, so no packet is excused wrongly. A
/// route without an announcement excuses nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    /// Time spans in their order; the last one may have no end.
    spans: Vec<(Duration, Duration)>,
    /// Times from each withdrawal until the kernel had removed the route.
    pub(super) delays: Vec<Duration>,
    /// Whether the kernel has a route in the end.
    pub(super) is_open: bool,
}

/// Largest delay of the kernel for a route that was announced and withdrawn since.
const LATE: Duration = Duration::from_secs(1);

impl Times {
    /// Joins both histories of one prefix and peer, each in its order.
    pub(super) fn new(announcements: &[Announcement], facts: &[Fact]) -> Self {
        let mut times = Self::default();
        let mut since = None;
        for fact in facts {
            let before = |announced: bool| {
                let before = announcements
                    .iter()
                    .take_while(|announcement| announcement.at <= fact.at);
                before
                    .filter(|announcement| announcement.announced == announced)
                    .map(|announcement| announcement.at)
                    .last()
            };
            match (fact.has, times.is_open) {
                (true, false) => {
                    let (announced, withdrawn) = (before(true), before(false));
                    since = announced.filter(|at| withdrawn < announced || *at + LATE > fact.at);
                }
                (false, true) => {
                    times.spans.extend(since.map(|from| (from, fact.at)));
                    let withdrawn = before(false).filter(|withdrawn| since < Some(*withdrawn));
                    times
                        .delays
                        .extend(withdrawn.map(|withdrawn| fact.at - withdrawn));
                    since = None;
                }
                (true, true) | (false, false) => {}
            }
            times.is_open = fact.has;
        }
        times.spans.extend(since.map(|from| (from, Duration::MAX)));
        times
    }

    /// Whether any part of this time was right for a packet.
    pub(super) fn allow(&self, from: Duration, to: Duration) -> bool {
        self.spans
            .iter()
            .any(|(begin, end)| *begin <= to && from <= *end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_packet_is_right_from_the_announcement_to_the_removal() {
        let announcement = |at, announced| Announcement {
            at: ms(at),
            announced,
        };
        let fact = |at, has| Fact { at: ms(at), has };
        let announcements = [
            announcement(10, true),
            announcement(50, false),
            announcement(80, true),
        ];
        let facts = [fact(14, true), fact(57, false), fact(84, true)];
        let times = Times::new(&announcements, &facts);
        assert_eq!(times.delays, [ms(7)]);
        assert!(times.is_open);
        let cases = [
            ("before", 1, 9, false),
            ("read after the announcement", 9, 10, true),
            ("while it is there", 20, 30, true),
            ("sent before the kernel was done", 57, 70, true),
            ("sent after it", 58, 70, false),
            ("announced again in flight", 58, 81, true),
            ("later", 100, 101, true),
        ];
        for (name, from, to, want) in cases {
            assert_eq!(times.allow(ms(from), ms(to)), want, "{name}");
        }
    }

    #[test]
    fn an_unannounced_route_excuses_nothing() {
        let announcement = |at, announced| Announcement {
            at: ms(at),
            announced,
        };
        let fact = |at, has| Fact { at: ms(at), has };
        let facts = [fact(10, true), fact(20, false), fact(5_000, true)];
        let announcements = [announcement(5, true), announcement(15, false)];
        let cases: [(&str, &[Announcement], u64, bool); 4] = [
            ("never announced", &[], 12, false),
            ("announced", &announcements, 12, true),
            ("after the withdrawal", &announcements, 21, false),
            (
                "put back without an announcement",
                &announcements,
                6_000,
                false,
            ),
        ];
        for (name, announcements, at, want) in cases {
            let times = Times::new(announcements, &facts);
            assert_eq!(times.allow(ms(at), ms(at)), want, "{name}");
            assert!(times.is_open, "{name}");
        }
        let times = Times::new(
            &[announcement(5, true), announcement(9, false)],
            &facts[..1],
        );
        assert!(times.allow(ms(12), ms(12)), "the kernel is behind");
        assert!(!Times::default().allow(ms(0), ms(9)));
    }
}
