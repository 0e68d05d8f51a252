//! TLS of a server, whose sessions give their memory back after the handshake.

use std::any::Any;
use std::io::Cursor;
use std::sync::Arc;

use quinn_proto::crypto::rustls::{HandshakeData, QuicServerConfig};
use quinn_proto::crypto::{
    self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::quic::{KeyChange, Secrets, ServerConnection, Suite, Version};
use rustls::server::ProducesTickets;
use rustls::{AlertDescription, CipherSuite};

/// TLS of a server.
///
/// A session of [`QuicServerConfig`] stays as it was at the end of the handshake, for as long as the
/// connection. Of that, QUIC needs only the secrets of later keys. A session of this one keeps them, and
/// what the handshake agreed on. It exports no keying material, and asks for no certificates of clients.
pub struct TlsServer {
    tls: Arc<rustls::ServerConfig>,
    packets: Arc<QuicServerConfig>,
    initial: Suite,
}

impl TlsServer {
    /// TLS with these settings.
    ///
    /// # Errors
    /// When the settings lack what QUIC needs: TLS 1.3 with AES-128-GCM, and early data without a limit
    /// or not at all.
    pub fn new(tls: rustls::ServerConfig) -> Result<Self, rustls::Error> {
        let tls = Arc::new(tls);
        let packets = QuicServerConfig::try_from(Arc::clone(&tls))
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        let initial = packet_suite(&tls)
            .ok_or_else(|| rustls::Error::General("no suite for Initial packets".to_owned()))?;
        // A session can't report a fault of the settings, so one is made here.
        ServerConnection::new(Arc::clone(&tls), Version::V1, Vec::new())?;
        Ok(Self {
            tls,
            packets: Arc::new(packets),
            initial,
        })
    }

    /// The same, with tickets of another kind: those of one connection, perhaps.
    #[must_use]
    pub fn with_tickets(&self, tickets: Arc<dyn ProducesTickets>) -> Self {
        let mut tls = rustls::ServerConfig::clone(&self.tls);
        tls.ticketer = tickets;
        Self {
            tls: Arc::new(tls),
            packets: Arc::clone(&self.packets),
            initial: self.initial,
        }
    }
}

impl crypto::ServerConfig for TlsServer {
    fn initial_keys(&self, version: u32, id: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.packets.initial_keys(version, id)
    }

    fn retry_tag(&self, version: u32, id: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.packets.retry_tag(version, id, packet)
    }

    fn start_session(
        self: Arc<Self>,
        version: u32,
        params: &TransportParameters,
    ) -> Box<dyn crypto::Session> {
        let mut encoded = Vec::new();
        params.write(&mut encoded);
        Box::new(self.session(version, encoded))
    }
}

impl TlsServer {
    fn session(&self, version: u32, params: Vec<u8>) -> Session {
        // quinn-proto begins none with an unknown version, and the settings were tried before. A session
        // without TLS would fail at the client's first message.
        let version = version_of(version);
        let tls = ServerConnection::new(Arc::clone(&self.tls), version, params);
        Session {
            tls: tls.ok().map(Box::new),
            version,
            initial: self.initial,
            agreed: None,
            next: None,
        }
    }
}

/// The version of TLS's extension and keys. Version 1 has those of the last two drafts.
const fn version_of(version: u32) -> Version {
    match version {
        0xff00_001d..=0xff00_0020 => Version::V1Draft,
        _ => Version::V1,
    }
}

/// AES-128-GCM, which protects Initial packets (RFC 9001 §5.2).
fn packet_suite(tls: &rustls::ServerConfig) -> Option<Suite> {
    let suites = &tls.crypto_provider().cipher_suites;
    let suite = suites
        .iter()
        .find(|suite| suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256)?;
    suite.tls13()?.quic_suite()
}

struct Session {
    /// The handshake; `None` when it is complete, and its last messages are written.
    tls: Option<Box<ServerConnection>>,
    version: Version,
    initial: Suite,
    agreed: Option<Agreed>,
    /// The secrets of the keys after the present ones.
    next: Option<Box<Secrets>>,
}

/// Results of a handshake.
struct Agreed {
    protocol: Option<Vec<u8>>,
    server_name: Option<String>,
}

impl Session {
    /// Gives back what only the handshake needs.
    fn release(&mut self) {
        let is_over = |tls: &mut Box<ServerConnection>| !tls.is_handshaking();
        if self.next.is_some() {
            self.tls.take_if(is_over);
        }
    }
}

impl crypto::Session for Session {
    fn initial_keys(&self, id: &ConnectionId, side: Side) -> Keys {
        let side = match side {
            Side::Client => rustls::Side::Client,
            Side::Server => rustls::Side::Server,
        };
        keys(self.initial.keys(id, side, self.version))
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        let agreed = self.agreed.as_ref()?;
        Some(Box::new(HandshakeData {
            protocol: agreed.protocol.clone(),
            server_name: agreed.server_name.clone(),
        }))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        // No client is asked for a certificate.
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let keys = self.tls.as_ref()?.zero_rtt_keys()?;
        Some((Box::new(keys.header), Box::new(keys.packet)))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        // A client's question.
        None
    }

    fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        let Some(tls) = &mut self.tls else {
            // After its Finished a client has nothing to say in QUIC (RFC 9001 §4.4, §6).
            let alert = AlertDescription::UnexpectedMessage;
            return Err(failure(alert, &"a message after the handshake"));
        };
        if let Err(error) = tls.read_hs(bytes) {
            let alert = tls.alert();
            return Err(failure(
                alert.unwrap_or(AlertDescription::InternalError),
                &error,
            ));
        }
        let is_new = self.agreed.is_none()
            && (tls.alpn_protocol().is_some()
                || tls.server_name().is_some()
                || !tls.is_handshaking());
        if is_new {
            self.agreed = Some(Agreed {
                protocol: tls.alpn_protocol().map(<[u8]>::to_vec),
                server_name: tls.server_name().map(str::to_owned),
            });
        }
        Ok(is_new)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let tls = self.tls.as_ref();
        let Some(encoded) = tls.and_then(|tls| tls.quic_transport_parameters()) else {
            return Ok(None);
        };
        let params = TransportParameters::read(Side::Server, &mut Cursor::new(encoded))?;
        Ok(Some(params))
    }

    fn write_handshake(&mut self, buffer: &mut Vec<u8>) -> Option<Keys> {
        match self.tls.as_mut()?.write_hs(buffer) {
            Some(KeyChange::Handshake { keys }) => Some(self::keys(keys)),
            Some(KeyChange::OneRtt { keys, next }) => {
                self.next = Some(Box::new(next));
                Some(self::keys(keys))
            }
            None => {
                self.release();
                None
            }
        }
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.next.as_mut()?.next_packet_keys();
        Some(KeyPair {
            local: Box::new(keys.local),
            remote: Box::new(keys.remote),
        })
    }

    fn is_valid_retry(&self, _id: &ConnectionId, _header: &[u8], _payload: &[u8]) -> bool {
        // No client sends one.
        false
    }

    fn export_keying_material(
        &self,
        _output: &mut [u8],
        _label: &[u8],
        _context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

fn keys(keys: rustls::quic::Keys) -> Keys {
    Keys {
        header: KeyPair {
            local: Box::new(keys.local.header),
            remote: Box::new(keys.remote.header),
        },
        packet: KeyPair {
            local: Box::new(keys.local.packet),
            remote: Box::new(keys.remote.packet),
        },
    }
}

fn failure(alert: AlertDescription, reason: &impl ToString) -> TransportError {
    TransportError {
        code: TransportErrorCode::crypto(alert.into()),
        frame: None,
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests;
