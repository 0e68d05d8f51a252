//! The handshake of simulated connections: TLS 1.3's messages, in number, order and size, without
//! its cryptography.
//!
//! Real TLS costs most of a simulation's time and draws keys and nonces from the system. Here
//! nothing is random or encrypted, but every packet has its real length: tags and header protection
//! samples take their bytes.

use std::any::Any;
use std::sync::Arc;

use quinn_proto::crypto::{
    self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session,
    UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError};

use super::keys::Plain;

/// ClientHello with X25519, ALPN and transport parameters, as rustls sends it.
const CLIENT_HELLO: usize = 280;
/// ServerHello.
const SERVER_HELLO: usize = 90;
/// EncryptedExtensions, a self-signed ECDSA certificate, CertificateVerify and Finished.
const SERVER_FLIGHT: usize = 760;
/// Finished of the client, with SHA-384.
const CLIENT_FINISHED: usize = 52;

/// Starts handshakes, on both sides.
pub(super) struct Handshakes;

impl crypto::ClientConfig for Handshakes {
    fn start_session(
        self: Arc<Self>,
        _version: u32,
        _server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        Ok(Box::new(Handshake::new(Side::Client, params)))
    }
}

impl crypto::ServerConfig for Handshakes {
    fn initial_keys(&self, _: u32, _: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        Ok(keys())
    }

    fn retry_tag(&self, _: u32, _: &ConnectionId, _: &[u8]) -> [u8; 16] {
        [0; 16]
    }

    fn start_session(
        self: Arc<Self>,
        _version: u32,
        params: &TransportParameters,
    ) -> Box<dyn Session> {
        Box::new(Handshake::new(Side::Server, params))
    }
}

/// The next step of a handshake.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Send a message of `len` bytes, and then install keys if `keys`.
    Send { len: usize, keys: bool },
    /// Receive a message of this many bytes.
    Receive(usize),
}

const CLIENT: &[Next] = &[
    Next::Send {
        len: CLIENT_HELLO,
        keys: false,
    },
    Next::Receive(SERVER_HELLO),
    Next::Send { len: 0, keys: true },
    Next::Receive(SERVER_FLIGHT),
    Next::Send {
        len: CLIENT_FINISHED,
        keys: true,
    },
];

const SERVER: &[Next] = &[
    Next::Receive(CLIENT_HELLO),
    Next::Send {
        len: SERVER_HELLO,
        keys: true,
    },
    Next::Send {
        len: SERVER_FLIGHT,
        keys: true,
    },
    Next::Receive(CLIENT_FINISHED),
];

/// One side of a handshake. The messages that carry transport parameters begin with them.
struct Handshake {
    side: Side,
    params: Vec<u8>,
    peer: Vec<u8>,
    steps: &'static [Next],
    received: Vec<u8>,
    reported: bool,
}

impl Handshake {
    fn new(side: Side, params: &TransportParameters) -> Self {
        let mut encoded = Vec::new();
        params.write(&mut encoded);
        Self {
            side,
            params: encoded,
            peer: Vec::new(),
            steps: match side {
                Side::Client => CLIENT,
                Side::Server => SERVER,
            },
            received: Vec::new(),
            reported: false,
        }
    }

    /// Makes a message of `len` bytes for any parameters: their lengths differ with the random ones
    /// that quinn adds as grease.
    fn message(&self, len: usize) -> Vec<u8> {
        let mut message = Vec::with_capacity(len);
        if len == CLIENT_HELLO || len == SERVER_FLIGHT {
            // Far below 2^16 bytes.
            message.extend((self.params.len() as u16).to_be_bytes());
            message.extend(&self.params);
        }
        message.resize(len, 0);
        message
    }

    fn take_params(&mut self, message: &[u8]) {
        if let Some((len, rest)) = message.split_first_chunk() {
            let len = usize::from(u16::from_be_bytes(*len));
            self.peer = rest.get(..len).unwrap_or_default().to_vec();
        }
    }
}

impl Session for Handshake {
    fn initial_keys(&self, _: &ConnectionId, _: Side) -> Keys {
        keys()
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.reported.then(|| Box::new(()) as Box<dyn Any>)
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        Some(false)
    }

    fn is_handshaking(&self) -> bool {
        // The client is done when it has received everything (RFC 9001 §4.1.1).
        self.steps
            .iter()
            .any(|step| matches!(step, Next::Receive(_)))
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        self.received.extend_from_slice(bytes);
        let Some((&Next::Receive(len), rest)) = self.steps.split_first() else {
            return Ok(false);
        };
        if self.received.len() < len {
            return Ok(false);
        }
        let message: Vec<u8> = self.received.drain(..len).collect();
        self.steps = rest;
        if len == CLIENT_HELLO || len == SERVER_FLIGHT {
            self.take_params(&message);
            self.reported = true;
            return Ok(true);
        }
        Ok(false)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        if self.peer.is_empty() {
            return Ok(None);
        }
        Ok(Some(TransportParameters::read(
            self.side,
            &mut self.peer.as_slice(),
        )?))
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        let (&Next::Send { len, keys: follow }, rest) = self.steps.split_first()? else {
            return None;
        };
        out.extend(self.message(len));
        self.steps = rest;
        follow.then(keys)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        Some(keys().packet)
    }

    fn is_valid_retry(&self, _: &ConnectionId, _: &[u8], _: &[u8]) -> bool {
        true
    }

    fn export_keying_material(
        &self,
        _: &mut [u8],
        _: &[u8],
        _: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

fn keys() -> Keys {
    Keys {
        header: KeyPair {
            local: Box::new(Plain),
            remote: Box::new(Plain),
        },
        packet: KeyPair {
            local: Box::new(Plain),
            remote: Box::new(Plain),
        },
    }
}
