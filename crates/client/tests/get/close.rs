//! How connections end.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use super::get;
use super::server::{ALL, Server};

/// Content of the responses, which is more than all that a server sends before.
const CONTENT: usize = 30_000;

/// Passes datagrams on between a client and `server`, and loses what the client sends within 20 ms
/// of the response's end. Returns the port.
fn lossy(server: SocketAddr) -> u16 {
    let front = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let back = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    back.connect(server).unwrap();
    let port = front.local_addr().unwrap().port();
    let (client, answered) = (
        Arc::new(OnceLock::new()),
        Arc::new(OnceLock::<Instant>::new()),
    );
    let (to_client, from_server) = (front.clone(), back.clone());
    let (its, ended) = (client.clone(), answered.clone());
    thread::spawn(move || {
        let (mut datagram, mut sent) = (vec![0; 65_536], 0);
        loop {
            let length = from_server.recv(&mut datagram).unwrap();
            sent += length;
            if sent > CONTENT {
                ended.get_or_init(Instant::now);
            }
            let client: &SocketAddr = its.wait();
            to_client.send_to(&datagram[..length], client).unwrap();
        }
    });
    thread::spawn(move || {
        let mut datagram = vec![0; 65_536];
        loop {
            let (length, from) = front.recv_from(&mut datagram).unwrap();
            client.get_or_init(|| from);
            let is_lost = |since: &Instant| since.elapsed() < Duration::from_millis(20);
            if !answered.get().is_some_and(is_lost) {
                back.send(&datagram[..length]).unwrap();
            }
        }
    });
    port
}

// RFC 9000 section 10.2.1: "An endpoint in the closing state sends a packet containing a
// CONNECTION_CLOSE frame in response to any incoming packet that it attributes to the connection."
#[test]
fn a_lost_close_is_sent_again() {
    let server = Server::start(ALL);
    for _ in 0..5 {
        let port = lossy(server.address);
        let url = format!("https://localhost:{port}/bytes/{CONTENT}");
        let (records, _) = get(&format!("--http 3 {} {url}", server.trust()));
        assert_eq!(records.one("request")["body_bytes"], CONTENT);
    }
    // The server's idle timeout is longer.
    let began = Instant::now();
    while server.ended() == 0 {
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "no close arrives"
        );
        thread::sleep(Duration::from_millis(5));
    }
}
