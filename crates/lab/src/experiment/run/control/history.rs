//! What peers said, what the kernel did upon it, and whether a packet was right.

use std::time::Duration;

/// A peer announced a prefix or withdrew it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) at: Duration,
    pub(super) announced: bool,
}

/// A kernel has a route, or no longer; it was told just after it was so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fact {
    pub(super) at: Duration,
    pub(super) has: bool,
}

/// Times in which packets for a prefix may go to a peer: from its announcement until the kernel
/// no longer has the route. The kernel has it later than announced, so a packet in between is
/// not ours to blame; and it is told of a removal after it, so that none is excused wrongly. A
/// route that comes without an announcement excuses nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    /// In their order; the last one may have no end.
    spans: Vec<(Duration, Duration)>,
    /// From each withdrawal until the kernel had done it.
    pub(super) delays: Vec<Duration>,
    /// Whether the kernel has a route in the end.
    pub(super) is_open: bool,
}

/// How late the kernel may get a route that was announced, and withdrawn since.
const LATE: Duration = Duration::from_secs(1);

impl Times {
    /// From both stories of one prefix and peer, each in its order.
    pub(super) fn new(words: &[Word], facts: &[Fact]) -> Self {
        let mut times = Self::default();
        let mut since = None;
        for fact in facts {
            let before = |announced: bool| {
                let before = words.iter().take_while(|word| word.at <= fact.at);
                before
                    .filter(|word| word.announced == announced)
                    .map(|word| word.at)
                    .last()
            };
            match (fact.has, times.is_open) {
                (true, false) => {
                    let (announced, withdrawn) = (before(true), before(false));
                    since = announced.filter(|at| withdrawn < announced || *at + LATE > fact.at);
                }
                (false, true) => {
                    times.spans.extend(since.map(|from| (from, fact.at)));
                    let told = before(false).filter(|told| since < Some(*told));
                    times.delays.extend(told.map(|told| fact.at - told));
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
        let word = |at, announced| Word {
            at: ms(at),
            announced,
        };
        let fact = |at, has| Fact { at: ms(at), has };
        let words = [word(10, true), word(50, false), word(80, true)];
        let facts = [fact(14, true), fact(57, false), fact(84, true)];
        let times = Times::new(&words, &facts);
        assert_eq!(times.delays, [ms(7)]);
        assert!(times.is_open);
        let cases = [
            ("before", 1, 9, false),
            ("read after the announcement", 9, 10, true),
            ("while it is there", 20, 30, true),
            ("sent before the kernel was done", 57, 70, true),
            ("sent after it", 58, 70, false),
            ("announced again on the way", 58, 81, true),
            ("later", 100, 101, true),
        ];
        for (name, from, to, want) in cases {
            assert_eq!(times.allow(ms(from), ms(to)), want, "{name}");
        }
    }

    #[test]
    fn what_nobody_announced_excuses_nothing() {
        let word = |at, announced| Word {
            at: ms(at),
            announced,
        };
        let fact = |at, has| Fact { at: ms(at), has };
        let facts = [fact(10, true), fact(20, false), fact(5_000, true)];
        let words = [word(5, true), word(15, false)];
        let cases: [(&str, &[Word], u64, bool); 4] = [
            ("never announced", &[], 12, false),
            ("announced", &words, 12, true),
            ("after the withdrawal", &words, 21, false),
            ("put back without a word", &words, 6_000, false),
        ];
        for (name, words, at, want) in cases {
            let times = Times::new(words, &facts);
            assert_eq!(times.allow(ms(at), ms(at)), want, "{name}");
            assert!(times.is_open, "{name}");
        }
        let times = Times::new(&[word(5, true), word(9, false)], &facts[..1]);
        assert!(times.allow(ms(12), ms(12)), "the kernel is behind");
        assert!(!Times::default().allow(ms(0), ms(9)));
    }
}
