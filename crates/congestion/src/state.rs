//! The state of a controller, for observers.

use crate::Algorithm;

/// The state of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The algorithm in force.
    pub algorithm: Algorithm,
    /// Whether the controller looks for the path's rate: slow start, or BBR's startup.
    pub slow_start: bool,
    /// Bytes below which the window does not fall; `None` where no floor is in force.
    ///
    /// A fixed floor holds at all losses, [`Algorithm::Floor`]'s at losses without a queue.
    pub floor: Option<u64>,
    /// Round trips for which [`Algorithm::Floor`] takes losses for answers to its own rate, and has
    /// no floor. 0 while it trusts losses, and for other algorithms.
    pub doubt_rounds: u16,
}

impl State {
    /// Packs the state into one word, so that readers get all of it at once. Two bits hold the
    /// algorithm, one slow start, 13 the rounds, and 48 the floor, where zero stands for none.
    pub(crate) fn pack(&self) -> u64 {
        let algorithm = match self.algorithm {
            Algorithm::Cubic => 0,
            Algorithm::NewReno => 1,
            Algorithm::Bbr => 2,
            Algorithm::Floor => 3,
        };
        let rounds = u64::from(self.doubt_rounds).min(MAX_ROUNDS);
        let floor = self.floor.unwrap_or(0).min(MAX_FLOOR);
        algorithm | u64::from(self.slow_start) << 2 | rounds << 3 | floor << 16
    }

    pub(crate) fn unpack(word: u64) -> Self {
        let floor = word >> 16;
        Self {
            algorithm: match word & 3 {
                0 => Algorithm::Cubic,
                1 => Algorithm::NewReno,
                2 => Algorithm::Bbr,
                _ => Algorithm::Floor,
            },
            slow_start: word & 4 != 0,
            floor: (floor > 0).then_some(floor),
            doubt_rounds: (word >> 3 & MAX_ROUNDS) as u16,
        }
    }
}

const MAX_ROUNDS: u64 = (1 << 13) - 1;
const MAX_FLOOR: u64 = (1 << 48) - 1;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_word_holds_all_of_it(
            algorithm in 0..4usize,
            slow_start: bool,
            floor in proptest::option::of(1..=MAX_FLOOR),
            doubt_rounds in 0..=MAX_ROUNDS as u16,
        ) {
            let all = [Algorithm::Cubic, Algorithm::NewReno, Algorithm::Bbr, Algorithm::Floor];
            let state = State { algorithm: all[algorithm], slow_start, floor, doubt_rounds };
            prop_assert_eq!(State::unpack(state.pack()), state);
        }
    }
}
