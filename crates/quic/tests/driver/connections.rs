//! Connections of two endpoints over loopback.

use hikyaku_quic::proto::{ConnectionError, VarInt};
use hikyaku_quic::{ReadError, WriteError};

use crate::common::{connect, echoing, exchange, loopback, patiently, udp};

#[tokio::test]
async fn bytes_come_back_over_both_families() {
    for v6 in [false, true] {
        let (server, client, settings) = echoing(v6);
        let connection = connect(&client, &server, &settings).await;
        for len in [0, 1, 1200, 3 << 20] {
            patiently(exchange(&connection, &vec![7; len])).await;
        }
        assert_eq!(connection.remote_address(), server.local_addr());
        assert!(connection.stats().path.sent_packets > 100);
    }
}

#[tokio::test]
async fn many_connections_share_an_endpoint() {
    let (server, client, settings) = echoing(true);
    let mut tasks = tokio::task::JoinSet::new();
    for index in 0..100 {
        let connection = connect(&client, &server, &settings).await;
        tasks.spawn(async move {
            for stream in 0..10 {
                exchange(&connection, &vec![index; 1 + stream * 997]).await;
            }
            connection
        });
    }
    let connections = patiently(tasks.join_all()).await;
    assert_eq!(server.open_connections(), 100);
    drop(connections);
    patiently(client.wait_idle()).await;
    patiently(server.wait_idle()).await;
    assert_eq!(server.open_connections(), 0);
}

#[tokio::test]
async fn closing_reports_the_code_to_the_peer_and_to_all_that_wait() {
    let (server, client, settings) = echoing(false);
    let connection = connect(&client, &server, &settings).await;
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.write_all(b"x").await.unwrap();
    recv.read_chunk(1, true).await.unwrap();
    let reading = tokio::spawn(async move { recv.read_chunk(1, true).await });
    let accepting = {
        let connection = connection.clone();
        tokio::spawn(async move { connection.accept_uni().await.map(drop) })
    };
    tokio::task::yield_now().await;
    server.close(VarInt::from_u32(42), b"that is all");
    let ConnectionError::ApplicationClosed(close) = patiently(connection.closed()).await else {
        panic!("{:?}", connection.close_reason());
    };
    assert_eq!(
        (close.error_code, &close.reason[..]),
        (42_u32.into(), &b"that is all"[..])
    );
    let lost = reading.await.unwrap().unwrap_err();
    assert!(matches!(
        lost,
        ReadError::ConnectionLost(ConnectionError::ApplicationClosed(_))
    ));
    assert!(accepting.await.unwrap().is_err());
    let lost = send.write_all(b"y").await.unwrap_err();
    assert!(matches!(lost, WriteError::ConnectionLost(_)));
    patiently(server.wait_idle()).await;
    assert!(server.accept().await.is_none());
}

#[tokio::test]
async fn a_stream_is_stopped_or_reset_with_its_code() {
    let settings = crate::common::settings();
    let server = udp(Some(settings.server.clone()), loopback(true));
    let client = udp(None, loopback(true));
    let accepting = {
        let server = server.clone();
        tokio::spawn(async move {
            server
                .accept()
                .await
                .unwrap()
                .accept()
                .unwrap()
                .await
                .unwrap()
        })
    };
    let ours = connect(&client, &server, &settings).await;
    let theirs = patiently(accepting).await.unwrap();
    let (mut send, mut recv) = ours.open_bi().await.unwrap();
    send.write_all(b"ask").await.unwrap();
    let (mut their_send, mut their_recv) = patiently(theirs.accept_bi()).await.unwrap();
    let stopped = send.stopped();
    their_recv.stop(VarInt::from_u32(5)).unwrap();
    assert_eq!(patiently(stopped).await.unwrap(), Some(5_u32.into()));
    let refused = patiently(send.write_all(b"more")).await.unwrap_err();
    assert_eq!(refused, WriteError::Stopped(5_u32.into()));
    their_send.write_all(b"part").await.unwrap();
    their_send.reset(VarInt::from_u32(6)).unwrap();
    let error = loop {
        match patiently(recv.read_chunk(9, true)).await {
            Ok(Some(_)) => {}
            other => break other.unwrap_err(),
        }
    };
    assert_eq!(error, ReadError::Reset(6_u32.into()));
    // A stream that is dropped by its sender ends in order.
    let mut uni = theirs.open_uni().await.unwrap();
    uni.write_all(b"whole").await.unwrap();
    drop(uni);
    let mut uni = patiently(ours.accept_uni()).await.unwrap();
    assert_eq!(patiently(uni.read_to_end(9)).await.unwrap(), b"whole");
}
