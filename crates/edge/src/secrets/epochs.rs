//! Keys that the edges of a fleet draw in turn, each for a day, and give to each other by its store.
//!
//! Other than the keys that are derived from the fleet's file, such a key can't be had again once all edges
//! have forgotten it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::Secret;
use super::tickets::LIFE;

/// Seconds for which a key makes tickets. It opens them for as long again.
const DAY: u64 = LIFE as u64;
/// The next key is drawn so long before it is used, so that all edges have it by then.
const AHEAD: u64 = 600;
/// The same for the first one.
const FIRST_AHEAD: u64 = 60;
/// A key whose successor does not come is used for so long after its day.
const GRACE: u64 = 3600;
/// Most keys that count: the next, the one in use, and those before.
const MOST: usize = 4;

/// A key with the begin of its day, in seconds since the Unix epoch.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Epoch {
    pub(super) from: u64,
    pub(super) secret: Secret,
}

impl std::fmt::Debug for Epoch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Epoch").field(&self.from).finish()
    }
}

/// As edges give them to each other.
#[derive(Serialize, Deserialize)]
struct Stored {
    keys: Vec<StoredKey>,
}

#[derive(Serialize, Deserialize)]
struct StoredKey {
    from: u64,
    /// In Base64.
    key: String,
}

impl Epoch {
    /// The bytes of keys for the other edges.
    pub(crate) fn encode(epochs: &[Self]) -> Vec<u8> {
        let keys = epochs.iter().map(|epoch| StoredKey {
            from: epoch.from,
            key: STANDARD.encode(epoch.secret),
        });
        let stored = Stored {
            keys: keys.collect(),
        };
        // It has no map whose keys are no texts, and nothing else fails.
        serde_json::to_vec(&stored).unwrap_or_default()
    }

    /// The keys of such bytes; none of those that make no sense.
    pub(crate) fn decode(bytes: &[u8]) -> Vec<Self> {
        let stored = serde_json::from_slice(bytes).unwrap_or(Stored { keys: Vec::new() });
        let epoch = |stored: StoredKey| {
            let secret = STANDARD.decode(stored.key).ok()?;
            Some(Self {
                from: stored.from,
                secret: secret.try_into().ok()?,
            })
        };
        stored.keys.into_iter().filter_map(epoch).collect()
    }

    /// When none of the keys is of use any more.
    pub(crate) fn end(epochs: &[Self]) -> u64 {
        epochs.first().map_or(0, |newest| end(newest.from))
    }
}

const fn end(from: u64) -> u64 {
    from.saturating_add(2 * DAY + GRACE)
}

/// Whether a key makes tickets at `now`.
pub(super) fn is_in_use(from: u64, now: u64) -> bool {
    (from..from.saturating_add(DAY + GRACE)).contains(&now)
}

/// The keys that count at `now`, the newest first.
pub(super) fn valid(mut epochs: Vec<Epoch>, now: u64) -> Vec<Epoch> {
    // A key of the far future would keep all others from being drawn.
    epochs.retain(|epoch| epoch.from <= now + 2 * DAY && now < end(epoch.from));
    epochs.sort_by_key(|epoch| std::cmp::Reverse((epoch.from, epoch.secret)));
    epochs.truncate(MOST);
    epochs
}

/// Whether the next key is to be drawn.
pub(super) fn is_due(epochs: &[Epoch], now: u64) -> bool {
    epochs
        .first()
        .is_none_or(|newest| now + AHEAD >= newest.from + DAY)
}

/// The keys with another, whose day begins after that of the newest.
pub(super) fn with_next(epochs: Vec<Epoch>, secret: Secret, now: u64) -> Vec<Epoch> {
    let mut epochs = valid(epochs, now);
    let after = epochs.first().map_or(0, |newest| newest.from + DAY);
    let from = after.max(now + FIRST_AHEAD);
    epochs.insert(0, Epoch { from, secret });
    epochs.truncate(MOST);
    epochs
}

/// The secrets of all keys, with the one in use first; none where none is in use.
pub(super) fn in_use(epochs: &[Epoch], now: u64) -> Vec<Secret> {
    let current = epochs.iter().find(|epoch| is_in_use(epoch.from, now));
    let Some(current) = current else {
        return Vec::new();
    };
    let others = epochs.iter().filter(|epoch| *epoch != current);
    std::iter::once(current)
        .chain(others)
        .map(|epoch| epoch.secret)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_800_000_000;

    fn drawn(epochs: Vec<Epoch>, now: u64) -> Vec<Epoch> {
        with_next(epochs, [u8::try_from(now % 251).unwrap(); 32], now)
    }

    #[test]
    fn a_key_is_drawn_ahead_and_forgotten_after_two_days() {
        assert!(is_due(&[], START));
        let first = drawn(Vec::new(), START);
        assert_eq!(in_use(&first, START), [[0_u8; 32]; 0], "not known to all");
        let begin = first[0].from;
        assert_eq!(begin, START + 60);
        assert_eq!(in_use(&first, begin).len(), 1);
        assert!(!is_due(&first, begin + DAY - AHEAD - 1));
        let late = begin + DAY - AHEAD;
        assert!(is_due(&first, late));
        let both = drawn(first.clone(), late);
        assert_eq!(both[0].from, begin + DAY);
        assert_eq!(in_use(&both, late)[0], first[0].secret);
        assert_eq!(in_use(&both, begin + DAY)[0], both[0].secret);
        assert!(!is_due(&both, late));
        let still = valid(both.clone(), begin + 2 * DAY + GRACE - 1);
        assert_eq!(still.len(), 2);
        let left = valid(both.clone(), begin + 2 * DAY + GRACE);
        assert_eq!(left, both[..1]);
        assert_eq!(Epoch::end(&both), begin + 3 * DAY + GRACE);
    }

    #[test]
    fn without_the_store_the_last_key_is_used_for_an_hour_more() {
        let first = drawn(Vec::new(), START);
        let end = first[0].from + DAY + GRACE;
        assert!(is_in_use(first[0].from, end - 1));
        assert!(!is_in_use(first[0].from, end));
        assert!(!is_in_use(first[0].from, START));
        // The next one follows at once.
        let next = drawn(first, end);
        assert_eq!(next[0].from, end + 60);
    }

    #[test]
    fn old_keys_that_are_put_back_and_nonsense_do_not_count() {
        let old = Epoch {
            from: START - 3 * DAY,
            secret: [1; 32],
        };
        let ahead = Epoch {
            from: START + 3 * DAY,
            secret: [2; 32],
        };
        assert_eq!(valid(vec![old.clone(), ahead], START), []);
        let bytes = Epoch::encode(std::slice::from_ref(&old));
        assert_eq!(Epoch::decode(&bytes), [old]);
        for nonsense in [
            "",
            "{}",
            "{\"keys\":[{\"from\":1,\"key\":\"AAAA\"}]}",
            "{\"keys\":[{\"from\":-1,\"key\":\"\"}]}",
        ] {
            assert_eq!(Epoch::decode(nonsense.as_bytes()), [], "{nonsense}");
        }
    }
}
