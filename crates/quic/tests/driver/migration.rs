//! Clients that move, servers that ask for a proof or have forgotten: clients here are quinn's.

use std::sync::Arc;

use aws_lc_rs::hmac;
use hikyaku_quic::proto::crypto::HmacKey;
use hikyaku_quic::proto::{ConnectionError, EndpointConfig, RandomConnectionIdGenerator};
use hikyaku_quic::{Endpoint, UdpSocket};

use crate::common::{Settings, connect, echo, endpoint, loopback, patiently, settings, udp};

/// A client of quinn's.
fn quinn_client(settings: &Settings, v6: bool) -> quinn::Endpoint {
    let mut client = quinn::Endpoint::client(loopback(v6)).unwrap();
    client.set_default_client_config(settings.client.clone());
    client
}

async fn exchange(connection: &quinn::Connection, bytes: &[u8]) {
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    let sending = async {
        send.write_all(bytes).await.unwrap();
        send.finish().unwrap();
    };
    let (received, ()) = tokio::join!(recv.read_to_end(usize::MAX), sending);
    assert!(received.unwrap() == bytes);
}

#[tokio::test]
async fn a_client_that_moves_keeps_its_connection() {
    for v6 in [false, true] {
        let settings = settings();
        let server = udp(Some(settings.server.clone()), loopback(v6));
        let client = quinn_client(&settings, v6);
        let accepting = tokio::spawn({
            let server = server.clone();
            async move {
                server
                    .accept()
                    .await
                    .unwrap()
                    .accept()
                    .unwrap()
                    .await
                    .unwrap()
            }
        });
        let connecting = client.connect(server.local_addr(), "localhost").unwrap();
        let connection = patiently(connecting).await.unwrap();
        let served = patiently(accepting).await.unwrap();
        let answering = tokio::spawn({
            let served = served.clone();
            async move {
                while let Ok((mut send, mut recv)) = served.accept_bi().await {
                    let all = recv.read_to_end(1 << 20).await.unwrap();
                    send.write_all(&all).await.unwrap();
                }
            }
        });
        patiently(exchange(&connection, &[1; 50_000])).await;
        let former = served.remote_address();
        assert_eq!(former, client.local_addr().unwrap());
        client
            .rebind(std::net::UdpSocket::bind(loopback(v6)).unwrap())
            .unwrap();
        patiently(exchange(&connection, &[2; 50_000])).await;
        assert_ne!(served.remote_address(), former);
        assert_eq!(served.remote_address(), client.local_addr().unwrap());
        answering.abort();
    }
}

#[tokio::test]
async fn a_client_proves_its_address_after_a_retry() {
    let settings = settings();
    let server = udp(Some(settings.server.clone()), loopback(true));
    let client = quinn_client(&settings, true);
    let address = server.local_addr();
    let serving = tokio::spawn(async move {
        let first = server.accept().await.unwrap();
        assert!(first.may_retry() && !first.remote_address_validated());
        assert_eq!(first.local_ip(), Some(address.ip()));
        first.retry().unwrap();
        let second = server.accept().await.unwrap();
        assert!(second.remote_address_validated());
        let second = second.retry().unwrap_err();
        second.accept().unwrap().await.unwrap()
    });
    let connecting = client.connect(address, "localhost").unwrap();
    let connection = patiently(connecting).await.unwrap();
    let served = patiently(serving).await.unwrap();
    connection.close(3_u32.into(), b"");
    let reason = patiently(served.closed()).await;
    assert!(matches!(reason, ConnectionError::ApplicationClosed(_)));
}

#[tokio::test]
async fn a_server_that_has_forgotten_resets_the_connection() {
    let settings = settings();
    let key: Arc<dyn HmacKey> = Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &[7; 32]));
    // Ids that the server knows for its own after a restart, too.
    let config = || {
        let mut config = EndpointConfig::new(Arc::clone(&key));
        config.cid_generator(|| Box::new(RandomConnectionIdGenerator::new(8)));
        config
    };
    let socket = std::net::UdpSocket::bind(loopback(false)).unwrap();
    let again = socket.try_clone().unwrap();
    let first = UdpSocket::new(socket).unwrap();
    let server = Some(settings.server.clone());
    let (server, driver) = Endpoint::new(config(), server, Arc::new(first)).unwrap();
    let driver = tokio::spawn(driver);
    tokio::spawn(echo(server.clone()));
    let client = quinn_client(&settings, false);
    let connecting = client.connect(server.local_addr(), "localhost").unwrap();
    let connection = patiently(connecting).await.unwrap();
    patiently(exchange(&connection, b"before")).await;
    // As if the process had been killed.
    driver.abort();
    let _ = driver.await;
    let again = UdpSocket::new(again).unwrap();
    let restarted = Some(settings.server.clone());
    let (_server, driver) = Endpoint::new(config(), restarted, Arc::new(again)).unwrap();
    tokio::spawn(driver);
    let mut stream = connection.open_uni().await.unwrap();
    stream.write_all(&[0; 100]).await.unwrap();
    let reason = patiently(connection.closed()).await;
    assert_eq!(reason, ConnectionError::Reset);
}

#[tokio::test]
async fn clients_are_refused_ignored_or_turned_away() {
    let settings = settings();
    let server = udp(Some(settings.server.clone()), loopback(false));
    let client = udp(None, loopback(false));
    let connecting = || {
        let config = settings.client.clone();
        client
            .connect(config, server.local_addr(), "localhost")
            .unwrap()
    };
    let refused = connecting();
    drop(patiently(server.accept()).await.unwrap());
    let error = patiently(refused).await.unwrap_err();
    assert!(
        matches!(error, ConnectionError::ConnectionClosed(_)),
        "{error:?}"
    );
    let ignored = connecting();
    patiently(server.accept()).await.unwrap().ignore();
    drop(ignored);
    // IPv6 is not reached from a socket of IPv4.
    let config = settings.client.clone();
    assert!(client.connect(config, loopback(true), "localhost").is_err());
    client.close(0_u32.into(), b"");
    let config = settings.client.clone();
    assert!(
        client
            .connect(config, server.local_addr(), "localhost")
            .is_err()
    );
}

#[tokio::test]
async fn ipv4_reaches_a_socket_of_both_families() {
    let settings = settings();
    let server = udp(Some(settings.server.clone()), loopback(false));
    tokio::spawn(echo(server.clone()));
    let any = std::net::SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, 0));
    let both = std::net::UdpSocket::bind(any).unwrap();
    let client = endpoint(None, UdpSocket::new(both).unwrap());
    let connection = connect(&client, &server, &settings).await;
    patiently(crate::common::exchange(&connection, b"mapped")).await;
    assert!(connection.remote_address().is_ipv6());
}
