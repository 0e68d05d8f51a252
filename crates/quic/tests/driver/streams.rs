//! Ends of streams: stopped, reset, finished, dropped.

use bytes::Bytes;
use hikyaku_quic::proto::VarInt;
use hikyaku_quic::{Connection, Endpoint, ReadError, RecvStream, SendStream};

use crate::common::{connect, endpoint, patiently, settings};
use crate::network::link;

const CODE: VarInt = VarInt::from_u32(7);

/// A client and a server over a link without losses, with the endpoints, which must live on.
struct Pair {
    client: Connection,
    server: Connection,
    _endpoints: [Endpoint; 2],
}

impl Pair {
    async fn new(seed: u64) -> Self {
        let (server, client) = link(0, seed);
        let settings = settings();
        let server = endpoint(Some(settings.server.clone()), server);
        let client = endpoint(None, client);
        let accepting = tokio::spawn({
            let server = server.clone();
            async move {
                let incoming = server.accept().await.unwrap();
                incoming.accept().unwrap().await.unwrap()
            }
        });
        Self {
            client: connect(&client, &server, &settings).await,
            server: patiently(accepting).await.unwrap(),
            _endpoints: [client, server],
        }
    }

    /// A stream that the client has opened: the client's side, and the server's.
    async fn stream(&self) -> ((SendStream, RecvStream), (SendStream, RecvStream)) {
        let (mut send, recv) = self.client.open_bi().await.unwrap();
        send.write_all(b"ask").await.unwrap();
        let theirs = patiently(self.server.accept_bi()).await.unwrap();
        ((send, recv), theirs)
    }
}

#[tokio::test(start_paused = true)]
async fn each_read_after_a_reset_reports_it() {
    let pair = Pair::new(20).await;
    let ((mut send, _recv), (_, mut recv)) = pair.stream().await;
    assert_eq!(
        &patiently(recv.read_chunk(9, true))
            .await
            .unwrap()
            .unwrap()
            .bytes[..],
        b"ask"
    );
    send.reset(CODE).unwrap();
    for _ in 0..2 {
        let read = patiently(recv.read_chunk(9, true)).await;
        assert_eq!(read.unwrap_err(), ReadError::Reset(CODE));
    }
    let ((_send, _recv), (_, mut recv)) = pair.stream().await;
    recv.stop(CODE).unwrap();
    let read = patiently(recv.read_chunk(9, true)).await;
    assert_eq!(read.unwrap_err(), ReadError::ClosedStream);
}

/// RFC 9000 §3.5: who is asked to stop resets the stream. Otherwise the peer would count it as open.
#[tokio::test(start_paused = true)]
async fn a_stream_is_reset_once_the_peer_has_stopped_it() {
    type End = fn(SendStream);
    let cases: [(&str, End); 3] = [
        ("dropped", drop),
        ("finished", |mut stream| stream.finish().unwrap()),
        ("reset", |mut stream| stream.reset(CODE).unwrap()),
    ];
    for (seed, (name, end)) in (30..).zip(cases) {
        let pair = Pair::new(seed).await;
        let ((_send, mut recv), (theirs, _their_recv)) = pair.stream().await;
        recv.stop(CODE).unwrap();
        assert_eq!(patiently(theirs.stopped()).await, Ok(Some(CODE)), "{name}");
        end(theirs);
        // A further exchange lets all frames arrive.
        let ((mut send, _recv), (mut theirs, _their_recv)) = pair.stream().await;
        theirs.finish().unwrap();
        send.finish().unwrap();
        patiently(theirs.stopped()).await.unwrap();
        assert_eq!(pair.client.stats().frame_rx.reset_stream, 1, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn content_that_the_peer_has_stopped_is_not_sent_any_more() {
    const LEN: usize = 1 << 20;
    let pair = Pair::new(40).await;
    let ((_send, mut recv), (mut theirs, _their_recv)) = pair.stream().await;
    // It travels while the first packets with content do.
    recv.stop(CODE).unwrap();
    let content = Bytes::from(vec![1; LEN]);
    let mut content = [content];
    patiently(theirs.write_all_chunks(&mut content))
        .await
        .unwrap();
    theirs.finish().unwrap();
    let stopped = theirs.stopped();
    drop(theirs);
    assert_eq!(patiently(stopped).await, Ok(Some(CODE)));
    // Time that would do for all of it.
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let stats = pair.server.stats();
    assert_eq!(stats.frame_tx.reset_stream, 1);
    let sent = stats.udp_tx.bytes;
    assert!(sent < LEN as u64 / 2, "{sent} bytes");
}
