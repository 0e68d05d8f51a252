//! Requests over real sockets, also the ones that end badly.
#![allow(clippy::unwrap_used)]

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Buf, Bytes};
use h3::server::RequestStream;
use hikyaku_h3::{BidiStream, Connection, FinishObserver, OpenStreams, Payload};
use http::{Request, Response};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::pki_types::PrivatePkcs8KeyDer;

type ServerStream = RequestStream<BidiStream, Payload>;
type SendRequest = h3::client::SendRequest<OpenStreams, Payload>;

fn endpoints() -> (quinn::Endpoint, quinn::Endpoint, SocketAddr) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key.into())
        .unwrap();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let server =
        quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()));
    let any = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    let server = quinn::Endpoint::server(server, any).unwrap();

    let mut roots = rustls::RootCertStore::empty();
    roots.add(certified.cert.der().clone()).unwrap();
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let mut client = quinn::Endpoint::client(any).unwrap();
    client.set_default_client_config(quinn::ClientConfig::new(Arc::new(
        QuicClientConfig::try_from(tls).unwrap(),
    )));
    let address = server.local_addr().unwrap();
    (server, client, address)
}

#[derive(Default)]
struct Finished(AtomicUsize);

impl FinishObserver for Finished {
    fn finished(&self, _: &quinn::SendStream) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Serves one connection, every request by `answer`, and connects to it.
async fn connect<F, Fut>(observer: Arc<Finished>, answer: F) -> (SendRequest, quinn::Connection)
where
    F: Fn(Request<()>, ServerStream) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let (server, client, address) = endpoints();
    tokio::spawn(async move {
        let quic = server.accept().await.unwrap().await.unwrap();
        let connection = Connection::new(quic).with_observer(observer);
        let mut http = h3::server::Connection::new(connection).await.unwrap();
        while let Ok(Some(resolver)) = http.accept().await {
            if let Ok((request, stream)) = resolver.resolve_request().await {
                tokio::spawn(answer(request, stream));
            }
        }
        server.wait_idle().await;
    });
    let quic = client.connect(address, "localhost").unwrap().await.unwrap();
    let (mut driver, requests) = h3::client::builder()
        .build::<_, _, Payload>(Connection::new(quic.clone()))
        .await
        .unwrap();
    tokio::spawn(async move { driver.wait_idle().await });
    (requests, quic)
}

fn get() -> Request<()> {
    Request::get("https://localhost/").body(()).unwrap()
}

/// Reads requests to their end and answers with as many bytes as came, and a megabyte.
async fn echo_and_a_megabyte(_: Request<()>, mut stream: ServerStream) {
    let mut came = 0;
    while let Ok(Some(data)) = stream.recv_data().await {
        came += data.remaining();
    }
    let sent = async {
        stream.send_response(Response::new(())).await?;
        // h3 takes an empty DATA frame for the end of the body.
        if came > 0 {
            stream.send_data(Bytes::from(vec![1; came]).into()).await?;
        }
        stream
            .send_data(Bytes::from(vec![2; 1_000_000]).into())
            .await?;
        stream.finish().await
    };
    // A client that went away is part of these tests.
    let _ = sent.await;
}

#[tokio::test]
async fn bodies_arrive_whole_in_both_directions() {
    let observer = Arc::new(Finished::default());
    let (mut requests, _) = connect(observer.clone(), echo_and_a_megabyte).await;
    let mut stream = requests.send_request(get()).await.unwrap();
    stream
        .send_data(Bytes::from(vec![7; 300_000]).into())
        .await
        .unwrap();
    stream.finish().await.unwrap();
    assert_eq!(stream.recv_response().await.unwrap().status(), 200);
    let mut body = Vec::new();
    while let Some(mut data) = stream.recv_data().await.unwrap() {
        body.extend_from_slice(&data.copy_to_bytes(data.remaining()));
    }
    assert_eq!(body.len(), 1_300_000);
    assert!(body[..300_000].iter().all(|&b| b == 1) && body[300_000..].iter().all(|&b| b == 2));
    assert_eq!(observer.0.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_stream_given_up_in_any_state_leaves_the_connection_usable() {
    let (mut requests, _) = connect(Arc::default(), echo_and_a_megabyte).await;
    for state in 0..40 {
        let mut stream = requests.send_request(get()).await.unwrap();
        match state % 4 {
            // Dropped at once, while the server reads the body.
            0 => {}
            1 => stream.stop_stream(h3::error::Code::H3_REQUEST_CANCELLED),
            2 => {
                stream.finish().await.unwrap();
                stream.stop_sending(h3::error::Code::H3_REQUEST_CANCELLED);
            }
            _ => {
                stream.finish().await.unwrap();
                stream.recv_response().await.unwrap();
                stream.recv_data().await.unwrap().unwrap();
            }
        }
    }
    let mut stream = requests.send_request(get()).await.unwrap();
    stream.finish().await.unwrap();
    assert_eq!(stream.recv_response().await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_request_body_dropped_while_it_is_awaited_does_not_panic() {
    let (mut requests, _) = connect(Arc::default(), |_, mut stream: ServerStream| async move {
        {
            let body = std::pin::pin!(stream.recv_data());
            assert!(futures_util::poll!(body).is_pending());
        }
        stream.stop_sending(h3::error::Code::H3_NO_ERROR);
        stream.send_response(Response::new(())).await.unwrap();
        stream.finish().await.unwrap();
    })
    .await;
    let mut stream = requests.send_request(get()).await.unwrap();
    assert_eq!(stream.recv_response().await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_server_that_has_answered_asks_for_no_more_in_terms_of_http3() {
    let (mut requests, _) = connect(Arc::default(), |_, mut stream: ServerStream| async move {
        stream.send_response(Response::new(())).await.unwrap();
        stream.finish().await.unwrap();
    })
    .await;
    let mut stream = requests.send_request(get()).await.unwrap();
    let refusal = loop {
        if let Err(error) = stream
            .send_data(Bytes::from_static(&[0; 10_000]).into())
            .await
        {
            break error;
        }
    };
    let h3::error::StreamError::RemoteTerminate { code, .. } = refusal else {
        panic!("{refusal}");
    };
    assert_eq!(code, h3::error::Code::H3_NO_ERROR);
}

#[tokio::test]
async fn an_endless_header_section_is_refused() {
    let (mut requests, quic) = connect(Arc::default(), echo_and_a_megabyte).await;
    let (mut send, _recv) = quic.open_bi().await.unwrap();
    // HEADERS that announce 1 GiB - 1.
    send.write_all(&[1, 0xbf, 0xff, 0xff, 0xff]).await.unwrap();
    let stopped = send.stopped().await.unwrap();
    let excessive_load = h3::error::Code::H3_EXCESSIVE_LOAD.value();
    assert_eq!(stopped.map(quinn::VarInt::into_inner), Some(excessive_load));

    let mut stream = requests.send_request(get()).await.unwrap();
    stream.finish().await.unwrap();
    assert_eq!(stream.recv_response().await.unwrap().status(), 200);
}
