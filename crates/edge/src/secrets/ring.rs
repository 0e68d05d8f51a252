//! QUIC's keys, of the secrets that are in use at once.

use std::fmt;
use std::iter;
use std::sync::Arc;

use arc_swap::ArcSwap;
use aws_lc_rs::{hkdf, hmac};
use hikyaku_quic::proto::crypto::{AeadKey, CryptoError, HandshakeTokenKey};

use super::{Secret, derive};

/// Keys of which the newest makes things, and all understand them.
pub(crate) struct Newest<T> {
    newest: T,
    older: Vec<T>,
}

impl<T> Newest<T> {
    /// The one that is used for new things.
    pub(crate) const fn newest(&self) -> &T {
        &self.newest
    }

    /// All, the newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        iter::once(&self.newest).chain(&self.older)
    }
}

/// QUIC's keys. They are replaced while they are in use.
pub(crate) struct Ring {
    /// Of this server alone.
    own: Secret,
    ids: ArcSwap<Newest<IdKeys>>,
    tokens: Arc<TokenKeys>,
}

/// The keys of connection ids of one secret.
pub(crate) struct IdKeys {
    /// By which servers know an id as one of theirs.
    pub(crate) tag: [u8; 16],
    /// Of the tokens that prove a stateless reset.
    pub(crate) reset: hmac::Key,
}

impl Ring {
    /// The keys of a server without a fleet.
    pub(super) fn new(own: Secret) -> Self {
        Self {
            own,
            ids: ArcSwap::from_pointee(newest(&[], &own, IdKeys::of)),
            tokens: Arc::new(TokenKeys(ArcSwap::from_pointee(newest(&[], &own, token)))),
        }
    }

    /// Uses these secrets before the server's own, for the tokens of addresses and, where edges
    /// `share_ids`, for connection ids and stateless resets. Those that are `stored` are for tokens alone:
    /// they are replaced each day, and connections may last for longer.
    pub(super) fn share(&self, stored: &[Secret], secrets: &[Secret], share_ids: bool) {
        let of_ids = if share_ids { secrets } else { &[] };
        self.ids
            .store(Arc::new(newest(of_ids, &self.own, IdKeys::of)));
        let tokens = newest(&[stored, secrets].concat(), &self.own, token);
        self.tokens.0.store(Arc::new(tokens));
    }

    /// The keys of connection ids.
    pub(crate) fn ids(&self) -> arc_swap::Guard<Arc<Newest<IdKeys>>> {
        self.ids.load()
    }

    /// The keys of the tokens by which clients prove their address.
    pub(crate) fn tokens(&self) -> Arc<dyn HandshakeTokenKey> {
        Arc::clone(&self.tokens) as _
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}

impl IdKeys {
    fn of(secret: &Secret) -> Self {
        let mut tag = [0; 16];
        tag.copy_from_slice(&derive(secret, "connection ids")[..16]);
        Self {
            tag,
            reset: hmac::Key::new(hmac::HMAC_SHA256, &derive(secret, "stateless reset")),
        }
    }
}

fn token(secret: &Secret) -> hkdf::Prk {
    let secret = derive(secret, "address validation tokens");
    hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, &secret)
}

fn newest<T>(shared: &[Secret], own: &Secret, of: fn(&Secret) -> T) -> Newest<T> {
    match shared.split_first() {
        None => Newest {
            newest: of(own),
            older: Vec::new(),
        },
        Some((first, others)) => Newest {
            newest: of(first),
            older: others.iter().chain([own]).map(of).collect(),
        },
    }
}

/// Seals tokens with the newest key, and opens those of all.
struct TokenKeys(ArcSwap<Newest<hkdf::Prk>>);

impl HandshakeTokenKey for TokenKeys {
    fn aead_from_hkdf(&self, random: &[u8]) -> Box<dyn AeadKey> {
        let keys = self.0.load();
        let mut aeads = keys.iter().map(|key| key.aead_from_hkdf(random));
        // There is always one.
        let newest = aeads.next().expect("the newest key");
        let older: Vec<_> = aeads.collect();
        Box::new(Newest { newest, older })
    }
}

impl AeadKey for Newest<Box<dyn AeadKey>> {
    fn seal(&self, data: &mut Vec<u8>, additional_data: &[u8]) -> Result<(), CryptoError> {
        self.newest.seal(data, additional_data)
    }

    fn open<'a>(
        &self,
        data: &'a mut [u8],
        additional_data: &[u8],
    ) -> Result<&'a mut [u8], CryptoError> {
        for key in self.iter() {
            // A key that is not the right one spoils what it is given.
            let mut copy = data.to_vec();
            if let Ok(opened) = key.open(&mut copy, additional_data) {
                let place = &mut data[..opened.len()];
                place.copy_from_slice(opened);
                return Ok(place);
            }
        }
        Err(CryptoError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(shared: &[Secret]) -> Ring {
        let ring = Ring::new(super::super::draw().unwrap());
        ring.share(&[], shared, true);
        ring
    }

    fn sealed(ring: &Ring) -> Vec<u8> {
        let mut token = b"address".to_vec();
        let key = ring.tokens().aead_from_hkdf(b"random");
        key.seal(&mut token, b"").unwrap();
        token
    }

    fn opens(ring: &Ring, token: &[u8]) -> bool {
        let mut token = token.to_vec();
        let key = ring.tokens().aead_from_hkdf(b"random");
        key.open(&mut token, b"")
            .is_ok_and(|opened| opened == b"address")
    }

    #[test]
    fn tokens_of_another_edge_are_opened_by_any_secret_in_use() {
        let [old, new] = [[1; 32], [2; 32]];
        let edge = ring(&[new, old]);
        let cases = [
            ("the same file", ring(&[new, old]), true),
            ("before the replacement", ring(&[old]), true),
            ("after it", ring(&[new]), true),
            ("a stranger", ring(&[[3; 32]]), false),
            ("without a fleet", ring(&[]), false),
        ];
        for (name, other, opened) in cases {
            assert_eq!(opens(&edge, &sealed(&other)), opened, "{name}");
        }
        let own = ring(&[]);
        let token = sealed(&own);
        own.share(&[], &[new], true);
        assert!(opens(&own, &token), "from before it joined the fleet");
        edge.share(&[[9; 32]], &[new, old], true);
        assert!(
            opens(&edge, &sealed(&ring(&[old]))),
            "with one of the store"
        );
        assert!(!opens(&ring(&[new, old]), &sealed(&edge)), "which seals");
        let mut changed = sealed(&edge);
        changed[0] ^= 1;
        assert!(!opens(&edge, &changed), "forged");
    }
}
