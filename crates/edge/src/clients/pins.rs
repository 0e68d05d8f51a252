//! Clients that the operator has pinned to a version, over the admin API.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use hikyaku_core::policy::{PolicyConfig, VersionPolicy};
use hikyaku_units::Timestamp;
use hikyaku_units::arm::Version;
use parking_lot::Mutex;

/// Most clients that are pinned at once.
pub(crate) const MAX_PINS: usize = 1000;

/// A client's version, and how long it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pin {
    pub(crate) version: Version,
    pub(crate) until: Timestamp,
}

/// The pinned clients. They are kept in memory alone.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    /// So that no decision takes the lock while nobody is pinned.
    count: AtomicUsize,
    pins: Mutex<HashMap<IpAddr, Pin>>,
}

impl Pins {
    /// Pins a client. Returns `false`, and does not, where too many are.
    pub(super) fn set(&self, client: IpAddr, pin: Pin, now: Timestamp) -> bool {
        let mut pins = self.pins.lock();
        pins.retain(|_, pin| pin.until > now);
        let client = client.to_canonical();
        let has_place = pins.len() < MAX_PINS || pins.contains_key(&client);
        if has_place {
            pins.insert(client, pin);
        }
        self.count.store(pins.len(), Ordering::Relaxed);
        has_place
    }

    /// Unpins a client. Returns whether it was pinned.
    pub(super) fn remove(&self, client: IpAddr) -> bool {
        let mut pins = self.pins.lock();
        let was = pins.remove(&client.to_canonical()).is_some();
        self.count.store(pins.len(), Ordering::Relaxed);
        was
    }

    /// The pin of a client that holds now.
    pub(super) fn of(&self, client: IpAddr, now: Timestamp) -> Option<Pin> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let pin = self.pins.lock().get(&client.to_canonical()).copied();
        pin.filter(|pin| pin.until > now)
    }

    /// A client's policy: `policy`, with its version where it is pinned.
    pub(super) fn over<'a>(
        &self,
        client: IpAddr,
        policy: &'a PolicyConfig,
        now: Timestamp,
    ) -> Cow<'a, PolicyConfig> {
        let Some(pin) = self.of(client, now) else {
            return Cow::Borrowed(policy);
        };
        let version = match pin.version {
            Version::H1 => VersionPolicy::H1,
            Version::H2 => VersionPolicy::H2,
            Version::H3 => VersionPolicy::H3,
        };
        Cow::Owned(PolicyConfig {
            version,
            ..policy.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_holds_until_its_end_and_there_is_a_bound() {
        let (pins, policy) = (Pins::default(), PolicyConfig::default());
        let at = Timestamp::from_secs;
        let client: IpAddr = "::ffff:192.0.2.1".parse().unwrap();
        let same: IpAddr = "192.0.2.1".parse().unwrap();
        let pin = Pin {
            version: Version::H2,
            until: at(100),
        };
        assert!(pins.set(client, pin, at(1)));
        assert_eq!(pins.of(same, at(99)), Some(pin));
        assert_eq!(pins.over(same, &policy, at(99)).version, VersionPolicy::H2);
        assert_eq!(pins.over(same, &policy, at(100)).version, policy.version);
        assert!(pins.remove(same) && !pins.remove(same));
        for n in 0..MAX_PINS as u32 {
            assert!(pins.set(IpAddr::V4(n.into()), pin, at(1)), "{n}");
        }
        assert!(!pins.set(same, pin, at(1)), "full");
        assert!(
            pins.set(
                same,
                Pin {
                    until: at(300),
                    ..pin
                },
                at(200)
            ),
            "the others have ended"
        );
    }
}
