//! Requests over real sockets, also those that fail.
#![allow(clippy::unwrap_used)]

use std::future::poll_fn;
use std::net::{Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use bytes::Bytes;
use hikyaku_h3_quic::{
    Client, Code, Config, Receiving, Request as Incoming, RequestHead, Sending, Server, StreamError,
};
use hikyaku_quic::proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use hikyaku_quic::proto::{ClientConfig, ConnectionError, ServerConfig, TransportConfig, VarInt};
use hikyaku_quic::{Connection, Endpoint};
use http::{HeaderMap, Request, StatusCode, response};
use http_body_util::BodyExt;

/// Endpoints of a server, and of a client with this connection window in bytes.
fn endpoints(window: u32) -> (Endpoint, Endpoint, ClientConfig) {
    let (mut tls, mut client_tls) = hikyaku_testkit::tls::pair();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let server = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()));
    let any = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    let server = Endpoint::bind(any, Some(server)).unwrap();

    client_tls.alpn_protocols = vec![b"h3".to_vec()];
    let client = Endpoint::bind(any, None).unwrap();
    let mut transport = TransportConfig::default();
    transport.receive_window(window.into());
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(client_tls).unwrap()));
    config.transport_config(Arc::new(transport));
    (server, client, config)
}

/// Serves one connection, every request by `answer`, and connects to it.
async fn connect<F, Fut>(answer: F) -> (Client, Connection)
where
    F: Fn(Incoming) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    connect_with(1 << 20, answer).await
}

async fn connect_with<F, Fut>(window: u32, answer: F) -> (Client, Connection)
where
    F: Fn(Incoming) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let (server, client, config) = endpoints(window);
    let address = server.local_addr();
    tokio::spawn(async move {
        let quic = server.accept().await.unwrap().accept().unwrap();
        let quic = quic.await.unwrap();
        let mut http = Server::new(quic, Config::default(), 12 << 20);
        while let Ok(request) = poll_fn(|cx| http.poll_accept(cx)).await {
            tokio::spawn(answer(request));
        }
        server.wait_idle().await;
    });
    let connecting = client.connect(config, address, "localhost").unwrap();
    let quic = connecting.await.unwrap();
    let (client, driver) = Client::new(quic.clone(), Config::default());
    tokio::spawn(driver);
    (client, quic)
}

fn get() -> RequestHead {
    let request = Request::get("https://localhost/").body(()).unwrap();
    request.into_parts().0.into()
}

async fn begin(client: &Client) -> (Sending<RequestHead>, Receiving<response::Parts>) {
    let (mut sending, receiving) = client.request(&get()).await.unwrap();
    sending.flush().await.unwrap();
    (sending, receiving)
}

async fn expect_service(client: &Client) {
    let (sending, mut receiving) = begin(client).await;
    drop(sending.finish().await.unwrap());
    assert_eq!(receiving.head().await.unwrap().status, 200);
    assert_eq!(
        receiving.collect().await.unwrap().to_bytes().len(),
        1_000_000
    );
}

/// Reads requests to their end, and answers with as many bytes and a megabyte.
async fn echo_and_a_megabyte(request: Incoming) {
    let (mut receiving, mut sending) = (request.receiving, request.sending);
    let answered = async {
        let head = receiving.head().await?;
        sending.answers(&head.parts.method, head.priority);
        let came = receiving.collect().await?.to_bytes().len();
        sending.head(StatusCode::OK, &HeaderMap::new())?;
        sending.data(Bytes::from(vec![1; came])).await?;
        sending.data(Bytes::from(vec![2; 1_000_000])).await?;
        sending.finish().await
    };
    // A client that leaves is part of these tests.
    let _ = answered.await;
}

#[tokio::test]
async fn bodies_arrive_whole_in_both_directions() {
    let (client, _quic) = connect(echo_and_a_megabyte).await;
    let (mut sending, mut receiving) = begin(&client).await;
    sending.data(Bytes::from(vec![7; 300_000])).await.unwrap();
    let acknowledged = sending.finish().await.unwrap();
    assert_eq!(receiving.head().await.unwrap().status, 200);
    let body = receiving.collect().await.unwrap().to_bytes();
    assert_eq!(body.len(), 1_300_000);
    assert!(body[..300_000].iter().all(|&b| b == 1) && body[300_000..].iter().all(|&b| b == 2));
    assert_eq!(acknowledged.await.unwrap(), None, "not stopped");
}

/// RFC 9204 §2.1.3: content may use up the connection's window before instructions have left. No
/// response must need them.
#[tokio::test]
async fn responses_that_fill_the_window_do_not_wait_for_qpack_s_instructions() {
    const WINDOW: u32 = 32 * 1024;
    let content = Bytes::from(vec![7; 4 * WINDOW as usize]);
    let length = content.len();
    let (client, _quic) = connect_with(WINDOW, move |request| {
        let content = content.clone();
        async move {
            let mut sending = request.sending;
            let mut headers = HeaderMap::new();
            headers.insert(
                "x-repeated",
                "a line for the dynamic table".parse().unwrap(),
            );
            sending.head(StatusCode::OK, &headers).unwrap();
            sending.data(content).await.unwrap();
            let _ = sending.finish().await.unwrap().await;
        }
    })
    .await;
    for _ in 0..4 {
        let (sending, mut receiving) = begin(&client).await;
        drop(sending.finish().await.unwrap());
        receiving.head().await.unwrap();
        let body = receiving.collect().await.unwrap().to_bytes();
        assert_eq!(body.len(), length);
    }
}

#[tokio::test]
async fn interim_responses_come_before_the_final_one() {
    let (client, _quic) = connect(|request| async move {
        let mut sending = request.sending;
        let hints = HeaderMap::from_iter([(http::header::LINK, "</a.css>".parse().unwrap())]);
        sending.head(StatusCode::EARLY_HINTS, &hints).unwrap();
        sending.flush().await.unwrap();
        sending
            .head(StatusCode::NO_CONTENT, &HeaderMap::new())
            .unwrap();
        drop(sending.finish().await.unwrap());
    })
    .await;
    let (sending, mut receiving) = begin(&client).await;
    drop(sending.finish().await.unwrap());
    let early = receiving.head().await.unwrap();
    assert_eq!(
        (early.status, &early.headers["link"]),
        (StatusCode::EARLY_HINTS, &"</a.css>".parse().unwrap())
    );
    assert_eq!(receiving.head().await.unwrap().status, 204);
    assert!(receiving.collect().await.unwrap().to_bytes().is_empty());
}

#[tokio::test]
async fn a_stream_given_up_in_any_state_leaves_the_connection_usable() {
    let (client, _quic) = connect(echo_and_a_megabyte).await;
    for state in 0..40 {
        let (sending, mut receiving) = begin(&client).await;
        match state % 4 {
            // The client drops it at once, while the server reads the body.
            0 => {}
            1 => sending.reset(Code::RequestCancelled),
            2 => {
                drop(sending.finish().await.unwrap());
            }
            _ => {
                drop(sending.finish().await.unwrap());
                receiving.head().await.unwrap();
                receiving.frame().await.unwrap().unwrap();
            }
        }
    }
    expect_service(&client).await;
}

#[tokio::test]
async fn more_cancelled_requests_than_anybody_needs_end_the_connection() {
    let (client, quic) = connect(echo_and_a_megabyte).await;
    for _ in 0..2000 {
        match client.request(&get()).await {
            Ok((mut sending, _)) => drop(sending.flush().await),
            Err(_) => break,
        }
    }
    let ConnectionError::ApplicationClosed(close) = quic.closed().await else {
        panic!("not closed");
    };
    assert_eq!(close.error_code.into_inner(), Code::ExcessiveLoad.value());
}

#[tokio::test]
async fn a_request_body_dropped_while_it_is_awaited_does_not_panic() {
    let (client, _quic) = connect(|request| async move {
        let (mut receiving, mut sending) = (request.receiving, request.sending);
        receiving.head().await.unwrap();
        {
            let body = pin!(receiving.frame());
            let mut cx = Context::from_waker(Waker::noop());
            assert!(body.poll(&mut cx).is_pending());
        }
        drop(receiving);
        sending.head(StatusCode::OK, &HeaderMap::new()).unwrap();
        drop(sending.finish().await.unwrap());
    })
    .await;
    let (_sending, mut receiving) = begin(&client).await;
    assert_eq!(receiving.head().await.unwrap().status, 200);
}

#[tokio::test]
async fn a_server_that_has_answered_asks_for_no_more_in_terms_of_http3() {
    let (client, _quic) = connect(|request| async move {
        let mut sending = request.sending;
        sending.head(StatusCode::OK, &HeaderMap::new()).unwrap();
        drop(sending.finish().await.unwrap());
    })
    .await;
    let (mut sending, _receiving) = begin(&client).await;
    let refusal = loop {
        if let Err(error) = sending.data(Bytes::from_static(&[0; 10_000])).await {
            break error;
        }
    };
    let StreamError::Stopped(code) = refusal else {
        panic!("{refusal}");
    };
    assert_eq!(code, Code::NoError.value());
}

#[tokio::test]
async fn an_endless_header_section_is_refused() {
    let (client, quic) = connect(|request| async move {
        let (mut receiving, mut sending) = (request.receiving, request.sending);
        if let Err(StreamError::TooLarge) = receiving.head().await {
            let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
            sending.head(status, &HeaderMap::new()).unwrap();
            drop(sending.finish().await.unwrap());
        } else {
            sending.head(StatusCode::OK, &HeaderMap::new()).unwrap();
            sending.data(Bytes::from(vec![2; 1_000_000])).await.unwrap();
            drop(sending.finish().await.unwrap());
        }
    })
    .await;
    let (mut send, mut receive) = quic.open_bi().await.unwrap();
    // A HEADERS frame that announces 1 GiB - 1.
    send.write_all(&[1, 0xbf, 0xff, 0xff, 0xff]).await.unwrap();
    let answer = receive.read_to_end(1000).await.unwrap();
    assert_eq!(answer[0], 1, "HEADERS: {answer:?}");
    let stopped = send.stopped().await.unwrap();
    assert_eq!(stopped.map(VarInt::into_inner), Some(Code::NoError.value()));
    expect_service(&client).await;
}
