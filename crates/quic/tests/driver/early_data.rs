//! Requests before the end of a handshake.

use crate::common::{echo, exchange, loopback, patiently, settings, udp};

#[tokio::test]
async fn a_client_that_returns_sends_early_data() {
    let settings = settings();
    let server = udp(Some(settings.server.clone()), loopback(false));
    let client = udp(None, loopback(false));
    tokio::spawn(echo(server.clone()));
    let connecting = || {
        let config = settings.client.clone();
        client
            .connect(config, server.local_addr(), "localhost")
            .unwrap()
    };
    let first = connecting().into_0rtt().unwrap_err();
    let connection = patiently(first).await.unwrap();
    // Its answer comes behind the ticket.
    patiently(exchange(&connection, b"first")).await;
    let (connection, accepted) = connecting().into_0rtt().unwrap();
    patiently(exchange(&connection, b"early")).await;
    assert!(patiently(accepted).await);
}

#[tokio::test]
async fn a_server_answers_before_the_handshake_is_complete() {
    let settings = settings();
    let server = udp(Some(settings.server.clone()), loopback(false));
    let client = udp(None, loopback(false));
    let serving = tokio::spawn({
        let server = server.clone();
        async move {
            let mut connecting = server.accept().await.unwrap().accept().unwrap();
            connecting.handshake_data().await.unwrap();
            let (connection, complete) = connecting.into_0rtt().unwrap();
            let mut stream = connection.open_uni().await.unwrap();
            stream.write_all(b"half a round trip early").await.unwrap();
            stream.finish().unwrap();
            let complete = complete.await;
            connection.closed().await;
            complete
        }
    });
    let config = settings.client.clone();
    let connecting = client
        .connect(config, server.local_addr(), "localhost")
        .unwrap();
    let connection = patiently(connecting).await.unwrap();
    let mut stream = patiently(connection.accept_uni()).await.unwrap();
    let all = patiently(stream.read_to_end(99)).await.unwrap();
    assert_eq!(all, b"half a round trip early");
    drop((stream, connection));
    assert!(patiently(serving).await.unwrap());
}
