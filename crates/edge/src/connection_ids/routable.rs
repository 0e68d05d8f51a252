//! Connection ids that a balancer of UDP can read (draft-ietf-quic-load-balancers, "QUIC-LB").

use std::sync::Arc;
use std::time::Duration;

use hikyaku_quic::proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};

use super::ID_LEN;
use crate::behind::NONCE_LEN;

// The ids of a server without a balancer are the draft's nonce: they never repeat, and look random.
const _: () = assert!(ID_LEN == NONCE_LEN);

/// Ids of a server, behind the octets that name it to balancers.
#[derive(Clone)]
pub(super) struct Routable<T> {
    pub(super) prefix: Arc<[u8]>,
    pub(super) nonces: T,
}

impl<T: ConnectionIdGenerator> ConnectionIdGenerator for Routable<T> {
    fn generate_cid(&mut self) -> ConnectionId {
        let nonce = self.nonces.generate_cid();
        ConnectionId::new(&[&self.prefix[..], &nonce].concat())
    }

    /// Ids of other servers count, too: their part behind the name shows whether this one has their keys.
    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        let nonce = id.get(self.prefix.len()..).ok_or(InvalidCid)?;
        self.nonces.validate(&ConnectionId::new(nonce))
    }

    fn cid_len(&self) -> usize {
        self.prefix.len() + self.nonces.cid_len()
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        self.nonces.cid_lifetime()
    }
}

/// The layout of draft-ietf-quic-load-balancers §3 and §5.
#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::behind::QuicLb;
    use crate::connection_ids::{QuicKeys, new_steering};
    use crate::secrets::Secrets;

    const WORKERS: usize = 4;

    /// The keys of a server behind a balancer, and ids of its worker `worker`.
    fn ids(worker: usize) -> (QuicKeys, Vec<ConnectionId>) {
        let secrets = Secrets::load(None, None).unwrap();
        let balancer: QuicLb =
            toml::from_str("config_rotation = 5\nserver_id = \"c0ffee\"").unwrap();
        let keys = QuicKeys::new(&secrets, new_steering(WORKERS).unwrap(), 0).unwrap();
        let keys = keys.behind(Some(&balancer));
        let mut generator = keys.generator(worker);
        let ids = (0..1000).map(|_| generator.generate_cid()).collect();
        (keys, ids)
    }

    #[test]
    fn the_first_three_bits_are_the_config_rotation() {
        assert!(ids(0).1.iter().all(|id| id[0] >> 5 == 5));
    }

    #[test]
    fn the_last_five_bits_of_the_first_octet_are_the_length_of_what_follows_it() {
        let (keys, ids) = ids(0);
        for id in &ids {
            assert_eq!(usize::from(id[0] & 0x1f), id.len() - 1);
            assert_eq!(id.len(), keys.generator(0).cid_len());
        }
    }

    #[test]
    fn the_server_id_follows_the_first_octet() {
        assert!(ids(0).1.iter().all(|id| id[1..4] == [0xc0, 0xff, 0xee]));
    }

    #[test]
    fn ids_behind_a_prefix_say_which_process_has_given_them() {
        let (keys, ids) = ids(0);
        let giver = keys.giver();
        for id in &ids {
            assert_eq!(id.len(), giver.id_len());
            assert_eq!(giver.generation_of(id), Some(0));
            assert_eq!(giver.generation_of(&id[4..]), None, "without the prefix");
        }
    }

    #[test]
    fn the_nonce_has_no_observable_relationship_to_former_ones() {
        let (_, ids) = ids(0);
        let nonces: HashSet<_> = ids.iter().map(|id| &id[4..]).collect();
        assert_eq!(nonces.len(), ids.len(), "none is used twice");
        for position in 4..17 {
            let values: HashSet<_> = ids.iter().map(|id| id[position]).collect();
            assert!(
                values.len() > 200,
                "octet {position} takes {} values",
                values.len()
            );
        }
    }

    #[test]
    fn the_nonce_leads_to_the_worker() {
        for worker in 0..WORKERS {
            let (keys, ids) = ids(worker);
            let steering = keys.steering();
            for id in &ids {
                let short = [&[0x40][..], id, &[0; 20]].concat();
                let long = [&[0xc0, 0, 0, 0, 1, id.len() as u8][..], id, &[0; 20]].concat();
                assert_eq!(steering.worker_of(&short), worker);
                assert_eq!(steering.worker_of(&long), worker);
            }
        }
    }

    #[test]
    fn ids_of_servers_with_other_keys_are_none_of_ours() {
        let (keys, own) = ids(0);
        let generator = keys.generator(0);
        assert!(own.iter().all(|id| generator.validate(id).is_ok()));
        let mut named = own[0].to_vec();
        named[1] ^= 1;
        assert!(
            generator.validate(&ConnectionId::new(&named)).is_ok(),
            "another server with the same keys"
        );
        let other = &ids(0).1[0];
        for wrong in [&other[..], &own[0][4..], &own[0][..16], &[]] {
            assert!(
                generator.validate(&ConnectionId::new(wrong)).is_err(),
                "{wrong:?}"
            );
        }
    }
}
