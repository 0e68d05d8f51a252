//! Session tickets (RFC 5077, RFC 8446 §4.6.1) whose keys can be kept over restarts.

use std::fmt;
use std::hash::Hasher as _;
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use hikyaku_core::client::key::prefixes;
use rustls::server::ProducesTickets;
use siphasher::sip::SipHasher24;

use super::epochs::{self, Epoch};
use super::{Secret, derive};

/// Seconds that tickets are good for. A key makes tickets for as long, and opens them for as long again.
/// So a stolen key reads the TLS 1.2 sessions of two days at most.
pub(super) const LIFE: u32 = 24 * 3600;
const NAME_LEN: usize = 16;
const PREFIX_LEN: usize = 8;

/// A key of tickets.
#[derive(Clone)]
pub(crate) struct TicketKey {
    /// Seconds since the Unix epoch.
    made: u64,
    secret: Secret,
    /// Says to which key a ticket belongs.
    name: [u8; NAME_LEN],
    aead: Arc<LessSafeKey>,
    /// Of the hashes of clients' prefixes.
    prefix_key: [u8; 16],
}

/// The content of a ticket.
pub(crate) struct Opened {
    /// As TLS has it.
    pub(crate) session: Vec<u8>,
    /// The summary that the client carries; `None` without one, or of a client that was elsewhere then.
    pub(crate) carried: Option<Vec<u8>>,
}

impl TicketKey {
    /// A key that was drawn at `made`, in seconds since the Unix epoch.
    pub(crate) fn new(secret: Secret, made: u64) -> Self {
        let mut name = [0; NAME_LEN];
        name.copy_from_slice(&derive(&secret, "ticket key name")[..NAME_LEN]);
        let mut prefix_key = [0; 16];
        prefix_key.copy_from_slice(&derive(&secret, "client prefix")[..16]);
        let key = derive(&secret, "encryption of session and summary");
        // AES-256 takes any 32 bytes.
        let key = UnboundKey::new(&AES_256_GCM, &key).expect("a key of 32 bytes");
        Self {
            made,
            secret,
            name,
            aead: Arc::new(LessSafeKey::new(key)),
            prefix_key,
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

    /// A number for the network of a client, that says nothing of it without the key.
    fn prefix_of(&self, client: IpAddr) -> [u8; PREFIX_LEN] {
        let mut hasher = SipHasher24::new_with_key(&self.prefix_key);
        match prefixes(client).next().map(|prefix| prefix.network()) {
            Some(IpAddr::V4(network)) => hasher.write(&network.octets()),
            Some(IpAddr::V6(network)) => hasher.write(&network.octets()),
            None => {}
        }
        hasher.finish().to_le_bytes()
    }

    /// The ticket: name, nonce, and the encrypted content with its tag. The content is a length, so many bytes of
    /// the client's prefix and the summary that is `carried`, and the session.
    fn seal(&self, session: &[u8], carried: Option<(IpAddr, &[u8])>) -> Option<Vec<u8>> {
        let mut text = vec![0];
        if let Some((client, carried)) = carried {
            text[0] = u8::try_from(PREFIX_LEN + carried.len()).ok()?;
            text.extend(self.prefix_of(client));
            text.extend(carried);
        }
        text.extend(session);
        // Of 96 random bits: two of 2^28 tickets a day meet in the same with a chance of 2^-41.
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let sealed = self.aead.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(self.name),
            &mut text,
        );
        sealed.ok()?;
        Some([&self.name[..], &nonce, &text].concat())
    }

    /// The content of a ticket that `client` has shown.
    fn open(&self, ticket: &[u8], client: Option<IpAddr>) -> Option<Opened> {
        let sealed = ticket.strip_prefix(&self.name)?;
        let (nonce, text) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut text = text.to_vec();
        let plain = self
            .aead
            .open_in_place(nonce, Aad::from(self.name), &mut text);
        let (&mut length, content) = plain.ok()?.split_first_mut()?;
        let (carried, session) = content.split_at_checked(length.into())?;
        let of_client = client.and_then(|client| carried.strip_prefix(&self.prefix_of(client)));
        Some(Opened {
            session: session.to_vec(),
            carried: of_client.map(<[u8]>::to_vec),
        })
    }
}

impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketKey")
            .field("made", &self.made)
            .finish_non_exhaustive()
    }
}

/// Makes tickets with the newest key, and opens them with that and the one before. Keys that edges have in
/// common go before the server's own.
#[derive(Debug)]
pub(crate) struct Tickets {
    own: ArcSwap<Vec<TicketKey>>,
    /// Today's of the newest secret first; empty without a fleet.
    shared: ArcSwap<Vec<TicketKey>>,
    /// Random ones that came by the fleet's store, the newest first.
    stored: ArcSwap<Vec<TicketKey>>,
}

impl Tickets {
    /// With these keys, the newest first; [`Tickets::rotate`] is to be called before they are used.
    pub(crate) fn new(keys: Vec<TicketKey>) -> Self {
        Self {
            own: ArcSwap::from_pointee(keys),
            shared: ArcSwap::default(),
            stored: ArcSwap::default(),
        }
    }

    /// Uses the keys that the day of `now` has by these secrets, the newest first. All edges with the
    /// secrets have the same, without a word between them.
    ///
    /// Yesterday's open tickets that were made shortly before midnight (UTC). Tomorrow's open those of an
    /// edge whose clock is ahead.
    pub(super) fn share(&self, secrets: &[Secret], now: u64) {
        let today = now / u64::from(LIFE);
        let days = [today, today.saturating_sub(1), today + 1];
        let keys = secrets.iter().flat_map(|secret| {
            let secret = derive(secret, "session tickets");
            days.map(|day| {
                let key = derive(&secret, &format!("day {day}"));
                TicketKey::new(key, day * u64::from(LIFE))
            })
        });
        self.shared.store(Arc::new(keys.collect()));
    }

    /// Uses keys that came by the fleet's store, the newest first, as long as one of them is in use.
    pub(super) fn store(&self, epochs: &[Epoch]) {
        let former = self.stored.load();
        let is_same = |(key, epoch): (&TicketKey, &Epoch)| key.secret == epoch.secret;
        if former.len() == epochs.len() && former.iter().zip(epochs).all(is_same) {
            return;
        }
        let keys = epochs.iter();
        let keys = keys.map(|epoch| TicketKey::new(epoch.secret, epoch.from));
        self.stored.store(Arc::new(keys.collect()));
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
        let former = self.own.load();
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
        self.own.store(Arc::new(keys));
        Ok(true)
    }

    /// The server's own keys in use, the newest first.
    pub(crate) fn keys(&self) -> Arc<Vec<TicketKey>> {
        self.own.load_full()
    }

    /// A ticket for a session, with what its client is to carry.
    pub(crate) fn seal(&self, session: &[u8], carried: Option<(IpAddr, &[u8])>) -> Option<Vec<u8>> {
        let now = super::now();
        let (stored, shared, own) = (self.stored.load(), self.shared.load(), self.own.load());
        let mut stored = stored.iter();
        let stored = stored.find(|key| epochs::is_in_use(key.made, now));
        let key = stored.or(shared.first()).or(own.first());
        key?.seal(session, carried)
    }

    /// The content of a ticket that `client` has shown; `None` if it was made with none of the keys.
    pub(crate) fn open(&self, ticket: &[u8], client: IpAddr) -> Option<Opened> {
        self.open_for(ticket, Some(client))
    }

    fn open_for(&self, ticket: &[u8], client: Option<IpAddr>) -> Option<Opened> {
        let (stored, shared, own) = (self.stored.load(), self.shared.load(), self.own.load());
        let mut keys = stored.iter().chain(shared.iter()).chain(own.iter());
        keys.find_map(|key| key.open(ticket, client))
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
        self.seal(plain, None)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.open_for(ticket, None).map(|opened| opened.session)
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
            let ticket = kept.seal(b"session", None).unwrap();
            let tickets = Tickets::new(vec![kept]);
            at(&tickets, START);
            assert_eq!(tickets.keys().len(), count, "{name}");
            assert_eq!(tickets.decrypt(&ticket).is_some(), opened, "{name}");
        }
    }

    #[test]
    fn edges_with_a_secret_in_common_open_each_others_tickets() {
        const MIDNIGHT: u64 = START / DAY * DAY;
        let [old, new] = [[1; 32], [2; 32]];
        let edge = |secrets: &[Secret], now| {
            let tickets = Tickets::new(Vec::new());
            tickets.rotate(now, || Ok::<_, ()>([9; 32])).unwrap();
            tickets.share(secrets, now);
            tickets
        };
        let cases = [
            // name, secrets and time of the edge that makes a ticket, and of the one that is to open it
            ("the same", &[new][..], 0, &[new][..], 0, true),
            ("a day later", &[new], DAY - 1, &[new], 2 * DAY - 1, true),
            ("two days later", &[new], 0, &[new], 2 * DAY, false),
            ("a clock is ahead", &[new], DAY, &[new], DAY - 1, true),
            ("far ahead", &[new], 2 * DAY, &[new], DAY - 1, false),
            ("before the replacement", &[old], 0, &[new, old], 0, true),
            (
                "to one that has yet to replace",
                &[new, old],
                0,
                &[old],
                0,
                false,
            ),
            (
                "the new one is last at first",
                &[old, new],
                0,
                &[old],
                0,
                true,
            ),
            (
                "an edge that has done so",
                &[new, old],
                0,
                &[old, new],
                0,
                true,
            ),
            ("replaced", &[old], 0, &[new], 0, false),
        ];
        for (name, theirs, made, ours, opened, want) in cases {
            let ticket = edge(theirs, MIDNIGHT + made).encrypt(b"session").unwrap();
            let got = edge(ours, MIDNIGHT + opened).decrypt(&ticket);
            assert_eq!(got.as_deref(), want.then_some(&b"session"[..]), "{name}");
        }
        // The server still opens those that it made before it had the file.
        let tickets = Tickets::new(Vec::new());
        at(&tickets, START);
        let ticket = tickets.encrypt(b"session").unwrap();
        tickets.share(&[new], START);
        assert!(tickets.decrypt(&ticket).is_some());
        assert!(edge(&[new], START).decrypt(&ticket).is_none());
    }

    #[test]
    fn a_summary_is_for_the_network_that_it_was_made_for() {
        let tickets = Tickets::new(Vec::new());
        at(&tickets, START);
        let cases = [
            // name, the client when the ticket is made and when it returns, whether the summary counts
            ("the same", "192.0.2.7", "192.0.2.7", true),
            ("mapped into IPv6", "192.0.2.7", "::ffff:192.0.2.7", true),
            ("a neighbour of its /24", "192.0.2.7", "192.0.2.8", true),
            ("another network", "192.0.2.7", "192.0.3.7", false),
            ("the /56", "2001:db8:0:101::1", "2001:db8:0:1ff::9", true),
            (
                "another /56",
                "2001:db8:0:101::1",
                "2001:db8:0:201::1",
                false,
            ),
            ("another family", "192.0.2.7", "2001:db8::1", false),
        ];
        for (name, then, now, counts) in cases {
            let [then, now] = [then, now].map(|address: &str| address.parse().unwrap());
            let ticket = tickets.seal(b"session", Some((then, b"summary")));
            let opened = tickets.open(&ticket.unwrap(), now).unwrap();
            assert_eq!(opened.session, b"session", "{name}: it resumes anyhow");
            let want = counts.then_some(&b"summary"[..]);
            assert_eq!(opened.carried.as_deref(), want, "{name}");
        }
        let client = "192.0.2.7".parse().unwrap();
        let without = tickets.seal(b"session", None).unwrap();
        assert_eq!(tickets.open(&without, client).unwrap().carried, None);
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
