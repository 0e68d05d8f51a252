//! Bounds on traffic by which a peer causes work without use.

use std::time::{Duration, Instant};

/// More work without use than is allowed: the connection is to be closed, with `H3_EXCESSIVE_LOAD`
/// (RFC 9114 §8.1) or `ENHANCE_YOUR_CALM` (RFC 9113 §7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Excess(pub &'static str);

/// The bytes that a peer may send without use. The allowance is small, and useful bytes raise it.
///
/// A frame without use costs [`Budget::FRAME`] bytes beside its own, since handling it takes time
/// however short it is.
#[derive(Debug)]
pub struct Budget {
    left: u64,
    max: u64,
}

impl Budget {
    /// The cost of handling a frame, in bytes.
    pub const FRAME: u64 = 32;

    /// Makes a budget of `max` bytes, which it never exceeds.
    pub fn new(max: u64) -> Self {
        Self { left: max, max }
    }

    /// Counts `bytes` without use.
    ///
    /// # Errors
    /// [`Excess`] if more was sent than allowed.
    pub fn spend(&mut self, bytes: u64) -> Result<(), Excess> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(Excess("too much was sent to no use")),
        }
    }

    /// Counts a frame without use that has `length` bytes of content.
    ///
    /// # Errors
    /// [`Excess`] if more was sent than allowed.
    pub fn spend_frame(&mut self, length: u64) -> Result<(), Excess> {
        self.spend(length.saturating_add(Self::FRAME))
    }

    /// Allows `bytes` more without use.
    pub fn earn(&mut self, bytes: u64) {
        self.left = self.left.saturating_add(bytes).min(self.max);
    }
}

/// The requests that a client may cancel before they are answered (CVE-2023-44487 and its kind).
///
/// Each cancellation costs one. Each answered request and each tenth of a second gives one back.
/// Somebody who scrolls, seeks or leaves a page stays within; a flood is over after `max` requests.
#[derive(Debug)]
pub struct Cancellations {
    left: u32,
    max: u32,
    /// The time up to which elapsed time has been credited.
    refilled: Option<Instant>,
}

impl Cancellations {
    const GIVES_ONE: Duration = Duration::from_millis(100);

    /// Allows `max` cancellations at once.
    pub fn new(max: u32) -> Self {
        Self {
            left: max,
            max,
            refilled: None,
        }
    }

    /// Counts an answered request.
    pub fn on_complete(&mut self) {
        self.earn(1);
    }

    /// Counts a request that was cancelled at `now`.
    ///
    /// # Errors
    /// [`Excess`] if too many were.
    pub fn on_cancelled(&mut self, now: Instant) -> Result<(), Excess> {
        self.refill(now);
        self.left = self
            .left
            .checked_sub(1)
            .ok_or(Excess("too many requests were cancelled"))?;
        Ok(())
    }

    fn refill(&mut self, now: Instant) {
        let since = *self.refilled.get_or_insert(now);
        let gone = now.saturating_duration_since(since);
        let count = gone.as_millis() / Self::GIVES_ONE.as_millis();
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.earn(count);
        // The rest of a tenth counts for the next.
        self.refilled = match Self::GIVES_ONE.checked_mul(count) {
            Some(counted) => since.checked_add(counted),
            None => Some(now),
        };
    }

    fn earn(&mut self, count: u32) {
        self.left = self.left.saturating_add(count).min(self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test begins at some time")]
    fn cancelled_requests_are_bounded() {
        // (name, complete between each, milliseconds between each, cancelled before the end)
        let cases: &[(&str, bool, u64, Option<usize>)] = &[
            ("at once", false, 0, Some(10)),
            ("twice as fast as time gives back", false, 50, Some(19)),
            ("a hundred a second, half of them answered", true, 0, None),
            ("ten a second", false, 100, None),
        ];
        for &(name, complete, between, want) in cases {
            let mut cancellations = Cancellations::new(10);
            let start = Instant::now();
            let ended = (0..1_000u64).find(|count| {
                if complete {
                    cancellations.on_complete();
                }
                let now = start + Duration::from_millis(between * count);
                cancellations.on_cancelled(now).is_err()
            });
            assert_eq!(ended.map(|count| count as usize), want, "{name}");
        }
    }

    #[test]
    fn useless_bytes_are_bounded() {
        let mut budget = Budget::new(100);
        assert!(budget.spend_frame(68).is_ok(), "the whole budget");
        assert!(budget.spend(1).is_err(), "beyond it");
        budget.earn(1_000);
        assert!(budget.spend(100).is_ok(), "what was earned");
        assert!(budget.spend(1).is_err(), "earned up to its first value");
    }
}
