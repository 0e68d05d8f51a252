//! Keys that protect nothing, and connection IDs that are counted.

use std::time::Duration;

use bytes::BytesMut;
use hikyaku_netsim::derive_seed;
use quinn_proto::crypto::{AeadKey, CryptoError, HandshakeTokenKey, HeaderKey, HmacKey, PacketKey};
use quinn_proto::{ConnectionId, ConnectionIdGenerator};

/// Length of AEAD tags and of header protection samples (RFC 9001 §5).
const TAG: usize = 16;
/// Length of connection IDs, quinn's default.
const CID: usize = 8;

/// A key that leaves bytes as they are, with the lengths of AES-GCM.
pub(super) struct Plain;

impl HeaderKey for Plain {
    fn decrypt(&self, _: usize, _: &mut [u8]) {}

    fn encrypt(&self, _: usize, _: &mut [u8]) {}

    fn sample_size(&self) -> usize {
        TAG
    }
}

impl PacketKey for Plain {
    fn encrypt(&self, _: u64, _: &mut [u8], _: usize) {}

    fn decrypt(&self, _: u64, _: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        let len = payload.len().checked_sub(TAG).ok_or(CryptoError)?;
        payload.truncate(len);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        TAG
    }

    fn confidentiality_limit(&self) -> u64 {
        u64::MAX
    }

    fn integrity_limit(&self) -> u64 {
        u64::MAX
    }
}

impl HandshakeTokenKey for Plain {
    fn aead_from_hkdf(&self, _: &[u8]) -> Box<dyn AeadKey> {
        Box::new(Self)
    }
}

impl AeadKey for Plain {
    fn seal(&self, data: &mut Vec<u8>, _: &[u8]) -> Result<(), CryptoError> {
        data.resize(data.len() + TAG, 0);
        Ok(())
    }

    fn open<'a>(&self, data: &'a mut [u8], _: &[u8]) -> Result<&'a mut [u8], CryptoError> {
        let len = data.len().checked_sub(TAG).ok_or(CryptoError)?;
        Ok(&mut data[..len])
    }
}

/// A maker of stateless reset tokens, which must differ from the zeros at the end of packets.
pub(super) struct ResetKey;

impl HmacKey for ResetKey {
    fn sign(&self, data: &[u8], signature: &mut [u8]) {
        let words: Vec<u64> = data.iter().map(|&byte| byte.into()).collect();
        for (i, chunk) in signature.chunks_mut(8).enumerate() {
            let word = derive_seed(i as u64, &words) | 1;
            chunk.copy_from_slice(&word.to_be_bytes()[..chunk.len()]);
        }
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        let mut expected = vec![0; signature.len()];
        self.sign(data, &mut expected);
        if expected == signature {
            Ok(())
        } else {
            Err(CryptoError)
        }
    }
}

/// Connection IDs 1, 2, 3, ...
#[derive(Default)]
pub(super) struct CountedIds(u64);

impl ConnectionIdGenerator for CountedIds {
    fn generate_cid(&mut self) -> ConnectionId {
        self.0 += 1;
        ConnectionId::new(&self.0.to_be_bytes())
    }

    fn cid_len(&self) -> usize {
        CID
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}
