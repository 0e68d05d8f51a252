//! Session tickets (RFC 5077, RFC 8446 §4.6.1) whose keys can be kept over restarts.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use rustls::server::ProducesTickets;

use super::{Secret, derive};

/// Seconds that tickets are good for. A key makes tickets for as long, and opens them for as long again.
/// So a stolen key reads the TLS 1.2 sessions of two days at most.
const LIFE: u32 = 24 * 3600;
const NAME_LEN: usize = 16;

/// A key of tickets.
#[derive(Clone)]
pub(crate) struct TicketKey {
    /// Seconds since the Unix epoch.
    made: u64,
    secret: Secret,
    /// Says to which key a ticket belongs.
    name: [u8; NAME_LEN],
    aead: Arc<LessSafeKey>,
}

impl TicketKey {
    /// A key that was drawn at `made`, in seconds since the Unix epoch.
    pub(crate) fn new(secret: Secret, made: u64) -> Self {
        let mut name = [0; NAME_LEN];
        name.copy_from_slice(&derive(&secret, "ticket key name")[..NAME_LEN]);
        let key = derive(&secret, "ticket encryption");
        // AES-256 takes any 32 bytes.
        let key = UnboundKey::new(&AES_256_GCM, &key).expect("a key of 32 bytes");
        Self {
            made,
            secret,
            name,
            aead: Arc::new(LessSafeKey::new(key)),
        }
    }

    pub(crate) fn made(&self) -> u64 {
        self.made
    }

    pub(crate) fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Seconds since it was drawn; the most where that lies ahead, since a clock was wrong then.
    fn age(&self, now: u64) -> u64 {
        now.checked_sub(self.made).unwrap_or(u64::MAX)
    }

    /// The ticket: name, nonce, and the encrypted content with its tag.
    fn seal(&self, plain: &[u8]) -> Option<Vec<u8>> {
        // Of 96 random bits: two of 2^28 tickets a day meet in the same with a chance of 2^-41.
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let mut text = plain.to_vec();
        let sealed = self.aead.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(self.name),
            &mut text,
        );
        sealed.ok()?;
        Some([&self.name[..], &nonce, &text].concat())
    }

    fn open(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let sealed = ticket.strip_prefix(&self.name)?;
        let (nonce, text) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut text = text.to_vec();
        let plain = self
            .aead
            .open_in_place(nonce, Aad::from(self.name), &mut text);
        let length = plain.ok()?.len();
        text.truncate(length);
        Some(text)
    }
}

impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketKey")
            .field("made", &self.made)
            .finish_non_exhaustive()
    }
}

/// Makes tickets with the newest key, and opens them with that and the one before.
#[derive(Debug)]
pub(crate) struct Tickets(ArcSwap<Vec<TicketKey>>);

impl Tickets {
    /// With these keys, the newest first; [`Tickets::rotate`] is to be called before they are used.
    pub(crate) fn new(keys: Vec<TicketKey>) -> Self {
        Self(ArcSwap::from_pointee(keys))
    }

    /// Draws a key where the newest is due to be replaced at `now`, and forgets those that are too
    /// old. Returns whether anything has changed.
    ///
    /// # Errors
    /// The error of `draw`; the keys stay as they were then.
    pub(crate) fn rotate<E>(
        &self,
        now: u64,
        draw: impl FnOnce() -> Result<Secret, E>,
    ) -> Result<bool, E> {
        let life = u64::from(LIFE);
        let former = self.0.load();
        let mut keys: Vec<_> = former
            .iter()
            .filter(|key| key.age(now) < 2 * life)
            .take(2)
            .cloned()
            .collect();
        if keys.first().is_none_or(|key| key.age(now) >= life) {
            keys.insert(0, TicketKey::new(draw()?, now));
            keys.truncate(2);
        } else if keys.len() == former.len() {
            return Ok(false);
        }
        self.0.store(Arc::new(keys));
        Ok(true)
    }

    /// The keys in use, the newest first.
    pub(crate) fn keys(&self) -> Arc<Vec<TicketKey>> {
        self.0.load_full()
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFE
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.0.load().first()?.seal(plain)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.0.load().iter().find_map(|key| key.open(ticket))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_800_000_000;
    const DAY: u64 = LIFE as u64;

    fn at(tickets: &Tickets, now: u64) -> bool {
        let fresh = || Ok::<_, ()>([u8::try_from(now / DAY % 251).unwrap(); 32]);
        tickets.rotate(now, fresh).unwrap()
    }

    #[test]
    fn tickets_are_good_for_a_day_and_keys_for_two() {
        let tickets = Tickets::new(Vec::new());
        assert!(at(&tickets, START));
        assert!(!at(&tickets, START + DAY - 1), "too early");
        let late = tickets.encrypt(b"session").unwrap();
        assert!(at(&tickets, START + DAY));
        assert_eq!(tickets.decrypt(&late).unwrap(), b"session", "a day old");
        assert_ne!(tickets.encrypt(b"").unwrap()[..16], late[..16], "a new key");
        assert!(at(&tickets, START + 2 * DAY));
        assert_eq!(tickets.decrypt(&late), None, "older than two days");
        assert_eq!(tickets.keys().len(), 2);
    }

    #[test]
    fn keys_that_are_kept_are_taken_by_their_age() {
        let cases = [
            // name, age in seconds of the kept key, keys then, whether its tickets are opened
            ("fresh", 0, 1, true),
            ("in use", DAY - 1, 1, true),
            ("due", DAY, 2, true),
            ("the last second", 2 * DAY - 1, 2, true),
            ("too old", 2 * DAY, 1, false),
            ("drawn in the future", u64::MAX, 1, false),
        ];
        for (name, age, count, opened) in cases {
            let kept = TicketKey::new([7; 32], START.wrapping_sub(age));
            let ticket = kept.seal(b"session").unwrap();
            let tickets = Tickets::new(vec![kept]);
            at(&tickets, START);
            assert_eq!(tickets.keys().len(), count, "{name}");
            assert_eq!(tickets.decrypt(&ticket).is_some(), opened, "{name}");
        }
    }

    #[test]
    fn changed_tickets_are_not_opened() {
        let tickets = Tickets::new(Vec::new());
        at(&tickets, START);
        let ticket = tickets.encrypt(b"session").unwrap();
        for place in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[place] ^= 1;
            assert_eq!(tickets.decrypt(&changed), None, "byte {place}");
            assert_eq!(tickets.decrypt(&ticket[..place]), None, "{place} bytes");
        }
        assert_ne!(ticket, tickets.encrypt(b"session").unwrap(), "linkable");
    }
}
