//! QUIC's connection ids, and the keys that make them mean something after a restart.

mod routable;

use std::hash::Hasher as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_lc_rs::hmac;
use hikyaku_quic::Steering;
use hikyaku_quic::proto::crypto::{CryptoError, HandshakeTokenKey, HmacKey};
use hikyaku_quic::proto::{ConnectionId, ConnectionIdGenerator, EndpointConfig, InvalidCid};
use siphasher::sip::SipHasher24;

use crate::behind::QuicLb;
use crate::secrets::{NoRandomness, Ring, Secrets, draw};
use routable::Routable;

/// A byte for the worker's index, and the nonce.
const OWN_LEN: usize = 1 + 8;
const TAG_LEN: usize = 4;
/// Bytes of a connection id.
const ID_LEN: usize = OWN_LEN + TAG_LEN;
/// Between two stateless resets of a socket. After a crash all its clients need one. Each is smaller
/// than what asked for it and answers an id of our own, so that a flood of them gains nothing.
const RESET_INTERVAL: Duration = Duration::from_micros(100);

/// QUIC's keys, which are the same after a restart where there is a `state.dir`, and at all edges that
/// share them.
#[derive(Clone)]
pub(crate) struct QuicKeys {
    ring: Arc<Ring>,
    steering: Steering,
    ids: ConnectionIds,
    /// Octets before each id, by which balancers find this server.
    prefix: Option<Arc<[u8]>>,
}

impl QuicKeys {
    /// The keys of a server whose QUIC connections are distributed as `steering` says. Its ids have
    /// this `generation`; those of the process before it and of the next have others.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub(crate) fn new(
        secrets: &Secrets,
        steering: Steering,
        generation: u8,
    ) -> Result<Self, NoRandomness> {
        Ok(Self {
            ring: Arc::clone(&secrets.ring),
            steering,
            ids: ConnectionIds {
                ring: Arc::clone(&secrets.ring),
                nonce_key: half(draw()?),
                count: Arc::default(),
                steering,
                worker: 0,
                generation,
            },
            prefix: None,
        })
    }

    /// The keys of a server that balancers of UDP have to find by its ids.
    #[must_use]
    pub(crate) fn behind(self, balancer: Option<&QuicLb>) -> Self {
        let Some(balancer) = balancer else {
            return self;
        };
        let prefix = balancer.prefix();
        Self {
            steering: self.steering.behind(prefix.len(), ID_LEN),
            prefix: Some(prefix.into()),
            ..self
        }
    }

    /// Which process has given an id.
    pub(crate) fn giver(&self) -> Giver {
        Giver {
            ring: Arc::clone(&self.ring),
            prefix: self.prefix.clone(),
        }
    }

    /// The generation of this process.
    pub(crate) const fn generation(&self) -> u8 {
        self.ids.generation
    }

    /// The way in which connections are distributed among the workers.
    pub(crate) const fn steering(&self) -> Steering {
        self.steering
    }

    /// The settings of a worker's socket: stateless resets (RFC 9000 §10.3) that need nothing but the id
    /// of the packet that came (§10.3.2).
    pub(crate) fn endpoint(&self, worker: usize) -> EndpointConfig {
        let mut config = EndpointConfig::new(Arc::new(Resets(Arc::clone(&self.ring))));
        let keys = self.clone();
        config
            .cid_generator(move || keys.generator(worker))
            .min_reset_interval(RESET_INTERVAL);
        config
    }

    /// The ids that a worker gives.
    pub(crate) fn generator(&self, worker: usize) -> Box<dyn ConnectionIdGenerator> {
        let ids = ConnectionIds {
            worker,
            ..self.ids.clone()
        };
        match &self.prefix {
            None => Box::new(ids),
            Some(prefix) => Box::new(Routable {
                prefix: Arc::clone(prefix),
                nonces: ids,
            }),
        }
    }

    /// Key that protects the tokens by which clients prove their address (RFC 9000 §8.1).
    pub(crate) fn tokens(&self) -> Arc<dyn HandshakeTokenKey> {
        self.ring.tokens()
    }
}

/// A way among `workers`, 1 to 255, that no other process knows unless it gets the key.
///
/// # Errors
/// When the system has no random numbers.
pub(crate) fn new_steering(workers: usize) -> Result<Steering, NoRandomness> {
    let [a, b, c, d, e, f, g, h, ..] = draw()?;
    let key = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
    Ok(Steering::new(workers, key))
}

fn half(secret: [u8; 32]) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&secret[..16]);
    half
}

/// Says which process of this server has given a connection id.
#[derive(Clone)]
pub(crate) struct Giver {
    ring: Arc<Ring>,
    /// As of [`QuicKeys`].
    prefix: Option<Arc<[u8]>>,
}

impl Giver {
    /// Bytes of our ids.
    pub(crate) fn id_len(&self) -> usize {
        self.prefix().len() + ID_LEN
    }

    /// The generation of the process that has given `id`; `None` of an id that is none of ours.
    pub(crate) fn generation_of(&self, id: &[u8]) -> Option<u8> {
        generation_of(&self.ring, id.strip_prefix(self.prefix())?)
    }

    fn prefix(&self) -> &[u8] {
        self.prefix.as_deref().unwrap_or_default()
    }
}

/// The tokens by which a client knows a stateless reset. They are of the secret that the id is of, which may
/// have been replaced since.
struct Resets(Arc<Ring>);

impl Resets {
    fn key_of(&self, id: &[u8]) -> hmac::Key {
        let keys = self.0.ids();
        // Behind what names a server to balancers.
        let own = id.last_chunk::<ID_LEN>();
        let is_its = |tag: &[u8; 16]| own.and_then(|own| generation_by(tag, own)).is_some();
        let key = keys.iter().find(|keys| is_its(&keys.tag));
        key.unwrap_or(keys.newest()).reset.clone()
    }
}

impl HmacKey for Resets {
    fn sign(&self, id: &[u8], signature: &mut [u8]) {
        HmacKey::sign(&self.key_of(id), id, signature);
    }

    fn signature_len(&self) -> usize {
        hmac::HMAC_SHA256.digest_algorithm().output_len()
    }

    fn verify(&self, id: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        HmacKey::verify(&self.key_of(id), id, signature)
    }
}

/// The generation of the process that has given `id`, which has no prefix.
fn generation_of(ring: &Ring, id: &[u8]) -> Option<u8> {
    let keys = ring.ids();
    keys.iter().find_map(|keys| generation_by(&keys.tag, id))
}

/// The same by the key of one secret.
fn generation_by(tag_key: &[u8; 16], id: &[u8]) -> Option<u8> {
    let (own, tag) = id.split_first_chunk::<OWN_LEN>()?;
    let &[a, b, c, masked] = tag else { return None };
    let [x, y, z, mask] = tag_of(tag_key, own);
    ([a, b, c] == [x, y, z]).then_some(masked ^ mask)
}

/// The tag of an id of generation 0.
fn tag_of(tag_key: &[u8; 16], own: &[u8; OWN_LEN]) -> [u8; TAG_LEN] {
    let [a, b, c, d, ..] = sip(tag_key, own);
    [a, b, c, d]
}

/// Ids of 64 bits that look random, and 24 by which this server knows them for its own, even of a
/// former process. The byte before them leads to the worker, the one behind to the process.
///
/// The reset token follows from the id, and a client knows it of its own ids. So no id may ever be given
/// twice under one key (RFC 9000 §10.3.2), but shorter ids would repeat.
#[derive(Clone)]
struct ConnectionIds {
    ring: Arc<Ring>,
    /// Of this process alone, so that it does not repeat what another has drawn.
    nonce_key: [u8; 16],
    count: Arc<AtomicU64>,
    steering: Steering,
    worker: usize,
    generation: u8,
}

impl ConnectionIdGenerator for ConnectionIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let nonce = sip(&self.nonce_key, &count.to_ne_bytes());
        let mut own = [0; OWN_LEN];
        own[1..].copy_from_slice(&nonce);
        self.steering.stamp(&mut own, self.worker);
        let [a, b, c, mask] = tag_of(&self.ring.ids().newest().tag, &own);
        let mut id = [0; ID_LEN];
        id[..OWN_LEN].copy_from_slice(&own);
        id[OWN_LEN..].copy_from_slice(&[a, b, c, mask ^ self.generation]);
        ConnectionId::new(&id)
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        let generation = generation_of(&self.ring, id);
        generation.map(drop).ok_or(InvalidCid)
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
    use hikyaku_fleet::FleetConfig;

    fn ids(secrets: &Secrets) -> ConnectionIds {
        of_generation(secrets, 0).ids
    }

    fn of_generation(secrets: &Secrets, generation: u8) -> QuicKeys {
        let steering = new_steering(4).unwrap();
        QuicKeys::new(secrets, steering, generation).unwrap()
    }

    #[test]
    fn ids_of_a_former_process_are_known_and_not_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let secrets = || Secrets::load(Some(dir.path()), None).unwrap();
        let [mut former, mut now] = [(); 2].map(|()| ids(&secrets()));
        let mut other_sockets = former.clone();
        let mut seen = HashSet::new();
        for _ in 0..1000 {
            for ids in [&mut former, &mut other_sockets, &mut now] {
                assert!(seen.insert(ids.generate_cid()), "an id was given twice");
            }
        }
        assert!(seen.iter().all(|id| now.validate(id).is_ok()));
        let stranger = ids(&Secrets::load(None, None).unwrap());
        let known = |id: &&ConnectionId| stranger.validate(id).is_ok();
        assert_eq!(seen.iter().filter(known).count(), 0);
        for length in [0, 8, 9, 12] {
            let short = ConnectionId::new(&[0; 20][..length]);
            assert!(now.validate(&short).is_err(), "{length} bytes");
        }
    }

    /// Secrets of an edge whose fleet has these, as bytes that are repeated.
    fn edge(shared: &[u8], shared_addresses: bool) -> Secrets {
        let file = tempfile::NamedTempFile::new().unwrap();
        let lines = shared.iter().map(|byte| format!("{byte:02x}").repeat(32));
        std::fs::write(file.path(), lines.collect::<Vec<_>>().join("\n")).unwrap();
        let config = FleetConfig {
            key_file: Some(file.path().to_owned()),
            shared_addresses,
            ..FleetConfig::default()
        };
        let own = Secrets::load(None, None).unwrap();
        own.in_fleet(&config).unwrap()
    }

    fn reset_token(secrets: &Secrets, id: &[u8]) -> Vec<u8> {
        let resets = Resets(Arc::clone(&secrets.ring));
        let mut token = vec![0; resets.signature_len()];
        resets.sign(id, &mut token);
        assert!(resets.verify(id, &token).is_ok());
        token
    }

    #[test]
    fn edges_that_share_addresses_reset_each_others_connections() {
        let cases = [
            // name, secrets of the edge that has given the id, and of the other; whether both share addresses
            ("the same file", &[1][..], &[1][..], true, true),
            ("replaced since", &[1], &[2, 1], true, true),
            ("given by the new one", &[2, 1], &[1, 2], true, true),
            ("other secrets", &[1], &[2], true, false),
            // Whoever sees an id must not get its token from an edge with another address (RFC 9000 §21.11).
            ("addresses of their own", &[1], &[1], false, false),
        ];
        for (name, theirs, ours, shared_addresses, want) in cases {
            let (a, b) = (edge(theirs, shared_addresses), edge(ours, shared_addresses));
            for prefix in [&[][..], b"server"] {
                let id = ids(&a).generate_cid();
                assert_eq!(ids(&b).validate(&id).is_ok(), want, "{name}");
                let id = [prefix, &id].concat();
                let same = reset_token(&a, &id) == reset_token(&b, &id);
                assert_eq!(same, want, "{name}, behind {prefix:?}");
            }
        }
    }

    #[test]
    fn an_id_says_which_process_has_given_it() {
        let secrets = Secrets::load(None, None).unwrap();
        let giver = of_generation(&secrets, 0).giver();
        for generation in [0, 1, 2, 255] {
            let mut ids = of_generation(&secrets, generation).ids;
            for _ in 0..100 {
                let id = ids.generate_cid();
                assert_eq!(giver.generation_of(&id), Some(generation));
                assert_eq!(giver.generation_of(&id[..12]), None, "cut");
                assert_eq!(giver.generation_of(&[&id[..], &[0]].concat()), None, "long");
            }
        }
    }
}
