//! QUIC's connection ids, and the keys that make them mean something after a restart.

use std::hash::Hasher as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_lc_rs::{hkdf, hmac};
use hikyaku_quic::Steering;
use hikyaku_quic::proto::crypto::{HandshakeTokenKey, HmacKey};
use hikyaku_quic::proto::{ConnectionId, ConnectionIdGenerator, EndpointConfig, InvalidCid};
use siphasher::sip::SipHasher24;

use crate::secrets::{NoRandomness, Secrets, draw};

/// A byte for the worker's index, and the nonce.
const OWN_LEN: usize = 1 + 8;
const TAG_LEN: usize = 4;
/// Bytes of a connection id.
const ID_LEN: usize = OWN_LEN + TAG_LEN;
/// Between two stateless resets of a socket. After a crash all its clients need one. Each is smaller
/// than what asked for it and answers an id of our own, so that a flood of them gains nothing.
const RESET_INTERVAL: Duration = Duration::from_micros(100);

/// QUIC's keys, which are the same after a restart where there is a `state.dir`.
#[derive(Clone)]
pub(crate) struct QuicKeys {
    reset: Arc<dyn HmacKey>,
    tokens: Arc<dyn HandshakeTokenKey>,
    steering: Steering,
    ids: ConnectionIds,
}

impl QuicKeys {
    /// The keys of a server whose QUIC connections are distributed among `workers`, 1 to 255.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub(crate) fn new(secrets: &Secrets, workers: usize) -> Result<Self, NoRandomness> {
        let reset = hmac::Key::new(hmac::HMAC_SHA256, &secrets.of_quic("stateless reset"));
        let tokens = secrets.of_quic("address validation tokens");
        let [a, b, c, d, e, f, g, h, ..] = draw()?;
        let steering = Steering::new(workers, u64::from_ne_bytes([a, b, c, d, e, f, g, h]));
        Ok(Self {
            reset: Arc::new(reset),
            tokens: Arc::new(hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, &tokens)),
            steering,
            ids: ConnectionIds {
                tag_key: half(secrets.of_quic("connection ids")),
                nonce_key: half(draw()?),
                count: Arc::default(),
                steering,
                worker: 0,
            },
        })
    }

    /// The way in which connections are distributed among the workers.
    pub(crate) const fn steering(&self) -> Steering {
        self.steering
    }

    /// The settings of a worker's socket: stateless resets (RFC 9000 §10.3) that need nothing but the id
    /// of the packet that came (§10.3.2).
    pub(crate) fn endpoint(&self, worker: usize) -> EndpointConfig {
        let mut config = EndpointConfig::new(Arc::clone(&self.reset));
        let ids = ConnectionIds {
            worker,
            ..self.ids.clone()
        };
        config
            .cid_generator(move || Box::new(ids.clone()))
            .min_reset_interval(RESET_INTERVAL);
        config
    }

    /// Key that protects the tokens by which clients prove their address (RFC 9000 §8.1).
    pub(crate) fn tokens(&self) -> Arc<dyn HandshakeTokenKey> {
        Arc::clone(&self.tokens)
    }
}

fn half(secret: [u8; 32]) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&secret[..16]);
    half
}

/// Ids of 64 bits that look random, and 32 by which this server knows them for its own, even of a
/// former process. The byte before them leads to the worker.
///
/// The reset token follows from the id, and a client knows it of its own ids. So no id may ever be given
/// twice under one key (RFC 9000 §10.3.2), but shorter ids would repeat.
#[derive(Clone)]
struct ConnectionIds {
    tag_key: [u8; 16],
    /// Of this process alone, so that it does not repeat what another has drawn.
    nonce_key: [u8; 16],
    count: Arc<AtomicU64>,
    steering: Steering,
    worker: usize,
}

impl ConnectionIds {
    fn tag(&self, own: &[u8]) -> [u8; TAG_LEN] {
        let mut tag = [0; TAG_LEN];
        tag.copy_from_slice(&sip(&self.tag_key, own)[..TAG_LEN]);
        tag
    }
}

impl ConnectionIdGenerator for ConnectionIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let nonce = sip(&self.nonce_key, &count.to_ne_bytes());
        let mut id = [0; ID_LEN];
        let (own, tag) = id.split_at_mut(OWN_LEN);
        own[1..].copy_from_slice(&nonce);
        self.steering.stamp(own, self.worker);
        tag.copy_from_slice(&self.tag(own));
        ConnectionId::new(&id)
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        let (own, tag) = id.split_at_checked(OWN_LEN).ok_or(InvalidCid)?;
        (self.tag(own) == tag).then_some(()).ok_or(InvalidCid)
    }

    fn cid_len(&self) -> usize {
        ID_LEN
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

fn sip(key: &[u8; 16], bytes: &[u8]) -> [u8; 8] {
    let mut hasher = SipHasher24::new_with_key(key);
    hasher.write(bytes);
    hasher.finish().to_le_bytes()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn ids(secrets: &Secrets) -> ConnectionIds {
        QuicKeys::new(secrets, 4).unwrap().ids
    }

    #[test]
    fn ids_of_a_former_process_are_known_and_not_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let secrets = || Secrets::load(Some(dir.path())).unwrap();
        let [mut former, mut now] = [(); 2].map(|()| ids(&secrets()));
        let mut other_sockets = former.clone();
        let mut seen = HashSet::new();
        for _ in 0..1000 {
            for ids in [&mut former, &mut other_sockets, &mut now] {
                assert!(seen.insert(ids.generate_cid()), "an id was given twice");
            }
        }
        assert!(seen.iter().all(|id| now.validate(id).is_ok()));
        let stranger = ids(&Secrets::load(None).unwrap());
        let known = |id: &&ConnectionId| stranger.validate(id).is_ok();
        assert_eq!(seen.iter().filter(known).count(), 0);
        for length in [0, 8, 9, 12] {
            let short = ConnectionId::new(&[0; 20][..length]);
            assert!(now.validate(&short).is_err(), "{length} bytes");
        }
    }
}
