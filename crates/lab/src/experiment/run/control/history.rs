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
/// not ours to blame; and it is told of a removal after it, so that none is excused wrongly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    /// In their order; the last one may have no end.
    spans: Vec<(Duration, Duration)>,
    /// From each withdrawal until the kernel had done it.
    pub(super) delays: Vec<Duration>,
}

impl Times {
    /// From both stories of one prefix and peer, each in its order.
    pub(super) fn new(words: &[Word], facts: &[Fact]) -> Self {
        let mut times = Self::default();
        let last = |at: Duration, announced: bool| {
            let before = words.iter().take_while(|word| word.at <= at);
            before
                .filter(|word| word.announced == announced)
                .map(|word| word.at)
                .last()
        };
        let mut since = None;
        for fact in facts {
            match (fact.has, since) {
                // What was there before anything was said has always been right.
                (true, None) => since = Some(last(fact.at, true).unwrap_or_default()),
                (false, Some(from)) => {
                    times.spans.push((from, fact.at));
                    since = None;
                    let told = last(fact.at, false).filter(|told| *told > from);
                    times.delays.extend(told.map(|told| fact.at - told));
                }
                (true, Some(_)) | (false, None) => {}
            }
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

    /// Whether the kernel has the route in the end.
    pub(super) fn is_open(&self) -> bool {
        self.spans
            .last()
            .is_some_and(|(_, end)| *end == Duration::MAX)
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
        assert!(times.is_open());
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
    fn what_the_kernel_never_dropped_has_no_delay() {
        let words = [
            Word {
                at: ms(1),
                announced: false,
            },
            Word {
                at: ms(2),
                announced: true,
            },
        ];
        let facts = [Fact {
            at: ms(0),
            has: true,
        }];
        let times = Times::new(&words, &facts);
        assert!(times.delays.is_empty() && times.allow(ms(1), ms(1)));
        assert!(!Times::default().allow(ms(0), ms(9)));
    }
}
