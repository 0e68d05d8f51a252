//! Sockets of the system, and datagrams that nobody can answer.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hikyaku_quic::proto::EndpointConfig;
use hikyaku_quic::udp::{RecvMeta, Transmit};
use hikyaku_quic::{Endpoint, Socket, UdpSocket};

use crate::common::{loopback, settings};

/// A socket whose one datagram comes from `port`.
#[derive(Debug)]
struct Once {
    port: u16,
    received: AtomicUsize,
    sent: AtomicUsize,
}

impl Socket for Once {
    fn try_send(&self, _: &Transmit<'_>) -> io::Result<()> {
        self.sent.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn poll_writable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_recv(
        &self,
        _: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        if self.received.fetch_add(1, Ordering::Relaxed) > 0 {
            return Poll::Pending;
        }
        // A long header of a version that nobody knows (RFC 9000 §17.2).
        let head = [0xc0, 0x51, 0x30, 0x35, 0x30, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0];
        bufs[0][..1200].fill(0);
        bufs[0][..head.len()].copy_from_slice(&head);
        meta[0].addr = ([192, 0, 2, 1], self.port).into();
        (meta[0].len, meta[0].stride) = (1200, 1200);
        Poll::Ready(Ok(1))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(([192, 0, 2, 2], 443).into())
    }
}

#[tokio::test(start_paused = true)]
async fn datagrams_from_port_0_are_not_answered() {
    for (port, answers) in [(0, 0), (9, 1)] {
        let socket = Arc::new(Once {
            port,
            received: AtomicUsize::new(0),
            sent: AtomicUsize::new(0),
        });
        let server = Some(settings().server);
        let shared = Arc::clone(&socket) as Arc<dyn Socket>;
        let (_endpoint, driver) = Endpoint::new(EndpointConfig::default(), server, shared).unwrap();
        tokio::spawn(driver);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(socket.sent.load(Ordering::Relaxed), answers, "port {port}");
    }
}

/// The system reports `EINVAL` for both addresses, as if it could not cut trains.
#[tokio::test]
async fn addresses_that_the_system_refuses_leave_others_their_trains() {
    for v6 in [false, true] {
        let socket = UdpSocket::new(std::net::UdpSocket::bind(loopback(v6)).unwrap()).unwrap();
        let before = socket.max_transmit_segments();
        let (mut nowhere, good) = (loopback(v6), socket.local_addr().unwrap());
        nowhere.set_port(0);
        let lost = match v6 {
            true => "2001:db8::1".parse().unwrap(),
            false => [192, 0, 2, 1].into(),
        };
        let cases = [
            ("to port 0", nowhere, None, None),
            ("from an address that is lost", good, Some(lost), None),
            ("train from there", good, Some(lost), Some(10)),
        ];
        for (name, destination, src_ip, segment_size) in cases {
            let transmit = Transmit {
                destination,
                ecn: None,
                contents: &[0; 30],
                segment_size,
                src_ip,
            };
            socket.send(&transmit).unwrap();
            assert_eq!(socket.max_transmit_segments(), before, "{name}, IPv6: {v6}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn trains_that_the_system_cannot_cut_go_one_by_one_for_a_minute() {
    let receiver = std::net::UdpSocket::bind(loopback(false)).unwrap();
    receiver.set_nonblocking(true).unwrap();
    let socket = UdpSocket::new(std::net::UdpSocket::bind(loopback(false)).unwrap()).unwrap();
    let before = socket.max_transmit_segments();
    // More datagrams than the kernel cuts out of one send.
    let contents: Vec<u8> = (0..=u8::MAX).flat_map(|datagram| [datagram; 10]).collect();
    let transmit = Transmit {
        destination: receiver.local_addr().unwrap(),
        ecn: None,
        contents: &contents,
        segment_size: Some(10),
        src_ip: None,
    };
    socket.send(&transmit).unwrap();
    let mut received = Vec::new();
    let mut datagram = [0; 20];
    while let Ok(len) = receiver.recv(&mut datagram) {
        assert_eq!(len, 10);
        received.extend_from_slice(&datagram[..len]);
    }
    assert!(received == contents, "{} bytes", received.len());
    assert_eq!(socket.max_transmit_segments(), 1);
    tokio::time::advance(Duration::from_secs(61)).await;
    assert_eq!(socket.max_transmit_segments(), before);
}
