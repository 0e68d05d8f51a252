use bytes::BytesMut;
use quinn_proto::crypto::Session as _;
use rustls::pki_types::ServerName;
use rustls::quic::ClientConnection;

use super::*;

/// Both sides before the handshake.
fn pair() -> (Session, ClientConnection) {
    let (server, client) = hikyaku_testkit::tls::pair();
    let server = TlsServer::new(server).unwrap().session(1, Vec::new());
    let name = ServerName::try_from("localhost").unwrap();
    let client = ClientConnection::new(Arc::new(client), Version::V1, name, Vec::new()).unwrap();
    (server, client)
}

/// Completes the handshake, and returns the client's secrets of later keys.
fn complete(server: &mut Session, client: &mut ClientConnection) -> Secrets {
    let mut later = None;
    for _ in 0..3 {
        loop {
            let mut bytes = Vec::new();
            let change = client.write_hs(&mut bytes);
            if change.is_none() && bytes.is_empty() {
                break;
            }
            if let Some(KeyChange::OneRtt { next, .. }) = change {
                later = Some(next);
            }
            if !bytes.is_empty() {
                server.read_handshake(&bytes).unwrap();
            }
        }
        loop {
            let mut bytes = Vec::new();
            let keys = server.write_handshake(&mut bytes);
            if keys.is_none() && bytes.is_empty() {
                break;
            }
            if !bytes.is_empty() {
                client.read_hs(&bytes).unwrap();
            }
        }
    }
    assert!(!client.is_handshaking());
    later.expect("the client has its keys")
}

#[test]
fn a_session_keeps_little_after_the_handshake() {
    let (mut server, mut client) = pair();
    assert!(server.is_handshaking() && server.handshake_data().is_none());
    complete(&mut server, &mut client);
    assert!(client.tls13_tickets_received() > 0);
    assert!(!server.is_handshaking() && server.tls.is_none());
    let data = server.handshake_data().unwrap();
    let data = data.downcast::<HandshakeData>().unwrap();
    assert_eq!(data.server_name.as_deref(), Some("localhost"));
}

#[test]
fn keys_follow_each_other_after_the_handshake() {
    let (mut server, mut client) = pair();
    let mut later = complete(&mut server, &mut client);
    for update in 0..3 {
        let (ours, theirs) = (server.next_1rtt_keys().unwrap(), later.next_packet_keys());
        let mut packet = b"head content".to_vec();
        packet.resize(packet.len() + ours.local.tag_len(), 0);
        ours.local.encrypt(7, &mut packet, 5);
        let (head, content) = packet.split_at_mut(5);
        let content = theirs.remote.decrypt_in_place(7, head, content).unwrap();
        assert_eq!(content, b"content", "to the client, update {update}");

        let mut content = b"content".to_vec();
        let tag = theirs.local.encrypt_in_place(8, b"head ", &mut content);
        content.extend_from_slice(tag.unwrap().as_ref());
        let mut content = BytesMut::from(&content[..]);
        ours.remote.decrypt(8, b"head ", &mut content).unwrap();
        assert_eq!(&content[..], b"content", "from the client, update {update}");
    }
}

#[test]
fn a_message_after_the_handshake_is_an_error() {
    let (mut server, mut client) = pair();
    complete(&mut server, &mut client);
    // A KeyUpdate, which QUIC forbids (RFC 9001 §6).
    let error = server.read_handshake(&[24, 0, 0, 1, 0]).unwrap_err();
    let alert = AlertDescription::UnexpectedMessage;
    assert_eq!(error.code, TransportErrorCode::crypto(alert.into()));
}

#[test]
fn settings_that_quic_cannot_use_are_refused() {
    let (mut tls, _) = hikyaku_testkit::tls::pair();
    tls.max_early_data_size = 1000;
    assert!(TlsServer::new(tls).is_err());
}
