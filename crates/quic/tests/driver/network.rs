//! A network inside the test, which loses, delays and blocks datagrams.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use hikyaku_quic::Socket;
use hikyaku_quic::proto::ConnectionError;
use hikyaku_quic::udp::{EcnCodepoint, RecvMeta, Transmit};

use crate::common::{connect, echo, endpoint, exchange, patiently, settings};

/// One side of a link between two endpoints.
#[derive(Debug)]
pub(crate) struct Side {
    address: SocketAddr,
    peer: SocketAddr,
    incoming: Arc<Mutex<Queue>>,
    outgoing: Arc<Mutex<Queue>>,
    /// Of 256 datagrams, those that are lost.
    lost: u64,
    draws: AtomicU64,
    /// Calls to send that find no room: each third one.
    calls: AtomicUsize,
}

#[derive(Debug, Default)]
struct Queue {
    datagrams: VecDeque<(Option<EcnCodepoint>, Vec<u8>)>,
    waker: Option<Waker>,
    /// Of the datagram that was sent last.
    last_ecn: Option<EcnCodepoint>,
}

/// A link that loses `lost` of 256 datagrams in each direction, drawn from `seed`.
pub(crate) fn link(lost: u64, seed: u64) -> (Side, Side) {
    let queues = [(); 2].map(|()| Arc::new(Mutex::new(Queue::default())));
    let address = |host: u8| SocketAddr::from(([192, 0, 2, host], 443));
    let side = |own: usize| Side {
        address: address(own as u8),
        peer: address(1 - own as u8),
        incoming: Arc::clone(&queues[own]),
        outgoing: Arc::clone(&queues[1 - own]),
        lost,
        draws: AtomicU64::new(seed + own as u64),
        calls: AtomicUsize::new(0),
    };
    (side(0), side(1))
}

impl Side {
    /// SplitMix64.
    fn draw(&self) -> u64 {
        let state = self
            .draws
            .fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 56
    }
}

impl Socket for Side {
    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        if self.calls.fetch_add(1, Ordering::Relaxed) % 3 == 2 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut queue = self.outgoing.lock().unwrap();
        queue.last_ecn = transmit.ecn;
        let size = transmit.segment_size.unwrap_or(transmit.contents.len());
        for datagram in transmit.contents.chunks(size.max(1)) {
            if self.draw() >= self.lost {
                queue.datagrams.push_back((transmit.ecn, datagram.to_vec()));
            }
        }
        queue.waker.take().into_iter().for_each(Waker::wake);
        Ok(())
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.calls.fetch_add(1, Ordering::Relaxed) % 2 {
            0 => Poll::Ready(Ok(())),
            _ => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let mut queue = self.incoming.lock().unwrap();
        let count = bufs.len().min(queue.datagrams.len());
        if count == 0 {
            queue.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        for (index, (ecn, datagram)) in queue.datagrams.drain(..count).enumerate() {
            bufs[index][..datagram.len()].copy_from_slice(&datagram);
            meta[index] = RecvMeta {
                addr: self.peer,
                len: datagram.len(),
                stride: datagram.len(),
                ecn,
                dst_ip: Some(self.address.ip()),
            };
        }
        Poll::Ready(Ok(count))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    fn max_transmit_segments(&self) -> usize {
        8
    }
}

#[tokio::test(start_paused = true)]
async fn losses_and_full_sockets_are_repaired() {
    for (lost, seed) in [(0, 1), (5, 2), (25, 3), (50, 4)] {
        let (server, client) = link(lost, seed);
        let settings = settings();
        let server = endpoint(Some(settings.server.clone()), server);
        let client = endpoint(None, client);
        tokio::spawn(echo(server.clone()));
        let connection = connect(&client, &server, &settings).await;
        for len in [1, 100_000] {
            exchange(&connection, &vec![9; len]).await;
        }
        let stats = connection.stats().path;
        assert_eq!(stats.lost_packets > 0, lost > 0, "{lost} of 256 lost");
        connection.close(0_u32.into(), b"");
        patiently(client.wait_idle()).await;
    }
}

/// A sender stops to mark its packets as soon as the counts that come back lack some (RFC 9000 §13.4.2).
#[tokio::test(start_paused = true)]
async fn marks_of_congestion_are_counted_on_both_sides() {
    let (server, client) = link(0, 5);
    let sent = [&server, &client].map(|side| Arc::clone(&side.outgoing));
    let settings = settings();
    let server = endpoint(Some(settings.server.clone()), server);
    let client = endpoint(None, client);
    tokio::spawn(echo(server.clone()));
    let connection = connect(&client, &server, &settings).await;
    exchange(&connection, &vec![3; 100_000]).await;
    for sent in sent {
        let marked = sent.lock().unwrap().last_ecn;
        assert_eq!(marked, Some(EcnCodepoint::Ect0));
    }
}

/// The clock stands still while anybody has work, so that it shows who waited for a timer in vain.
#[tokio::test(start_paused = true)]
async fn no_exchange_waits_for_a_timer() {
    let (server, client) = link(0, 6);
    let settings = settings();
    let server = endpoint(Some(settings.server.clone()), server);
    let client = endpoint(None, client);
    tokio::spawn(echo(server.clone()));
    let connection = connect(&client, &server, &settings).await;
    let begun = tokio::time::Instant::now();
    for len in 0..300 {
        exchange(&connection, &vec![9; len * 10]).await;
    }
    let waited = begun.elapsed().as_millis();
    // A probe for a lost packet alone would take longer (RFC 9002 §6.2.2).
    assert!(waited < 300, "{waited} ms");
}

#[tokio::test(start_paused = true)]
async fn silence_ends_a_connection_when_its_time_is_over() {
    let (server, client) = link(0, 7);
    let cut = Arc::clone(&client.outgoing);
    let settings = settings();
    let server = endpoint(Some(settings.server.clone()), server);
    let client = endpoint(None, client);
    tokio::spawn(echo(server.clone()));
    let connection = connect(&client, &server, &settings).await;
    exchange(&connection, b"once").await;
    let begun = tokio::time::Instant::now();
    // Nobody wakes the server any more.
    let swallow = async {
        loop {
            cut.lock().unwrap().datagrams.clear();
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    let reason = tokio::select! {
        reason = connection.closed() => reason,
        () = swallow => unreachable!("it never ends"),
    };
    assert_eq!(reason, ConnectionError::TimedOut);
    let waited = begun.elapsed().as_secs_f64();
    assert!((9.0..25.0).contains(&waited), "{waited} s");
}

#[tokio::test]
async fn dropping_the_driver_ends_its_connections() {
    let (server, client) = link(0, 8);
    let settings = settings();
    let server = endpoint(Some(settings.server.clone()), server);
    tokio::spawn(echo(server.clone()));
    let config = hikyaku_quic::proto::EndpointConfig::default();
    let (client, driver) = hikyaku_quic::Endpoint::new(config, None, Arc::new(client)).unwrap();
    let driver = tokio::spawn(driver);
    let connection = connect(&client, &server, &settings).await;
    driver.abort();
    let reason = patiently(connection.closed()).await;
    let text = reason.to_string();
    assert!(text.contains("driver has ended"), "{text}");
    patiently(client.wait_idle()).await;
    assert!(patiently(client.accept()).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_closed_endpoint_takes_no_more_connections_and_refuses_none() {
    let (server, client) = link(0, 9);
    let settings = settings();
    let server = endpoint(Some(settings.server.clone()), server);
    let client = endpoint(None, client);
    let connecting = || {
        let config = settings.client.clone();
        let address = server.local_addr();
        client.connect(config, address, "localhost").unwrap()
    };
    let early = connecting();
    let incoming = patiently(server.accept()).await.unwrap();
    server.close(0_u32.into(), b"");
    let error = incoming.accept().unwrap_err();
    assert_eq!(error, ConnectionError::LocallyClosed);
    assert_eq!(server.open_connections(), 0);
    for connecting in [early, connecting()] {
        let error = patiently(connecting).await.unwrap_err();
        assert_eq!(error, ConnectionError::TimedOut);
    }
}
