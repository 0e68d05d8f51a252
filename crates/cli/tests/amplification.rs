//! Datagrams of the server to an address that has not been validated (RFC 9000 §8.1).
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use hikyaku_testkit::client::{self, H3, block_on};
use hikyaku_testkit::{Server, Site};

/// The time in which the server gives up and sends that.
const LISTEN: Duration = Duration::from_secs(8);
const HANDSHAKE: &str = "timeouts.handshake=6s";

/// The first flight of a client: two datagrams, as a hybrid key share fills one.
fn hello() -> Vec<Vec<u8>> {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let connecting = thread::spawn(move || {
        let connect = client::quic(address, "h3", None);
        // Less than the first probe timeout (RFC 9002 §6.2.2).
        block_on(async { tokio::time::timeout(Duration::from_millis(300), connect).await })
    });
    assert!(connecting.join().unwrap().is_err());
    let flight = received(&silent, Duration::from_millis(10));
    assert!(!flight.is_empty());
    flight
}

/// Returns the datagrams that come within `time`.
fn received(socket: &UdpSocket, time: Duration) -> Vec<Vec<u8>> {
    let end = Instant::now() + time;
    let mut datagrams = Vec::new();
    let mut buffer = [0; 65536];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return datagrams;
        }
        socket.set_read_timeout(Some(left)).unwrap();
        match socket.recv(&mut buffer) {
            Ok(length) => datagrams.push(buffer[..length].to_vec()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return datagrams,
            Err(error) => panic!("{error}"),
        }
    }
}

fn lengths(datagrams: &[Vec<u8>]) -> Vec<usize> {
    datagrams.iter().map(Vec::len).collect()
}

/// Sends datagrams, and returns the lengths of those that come back within `time`.
fn answer(server: SocketAddr, datagrams: &[Vec<u8>], time: Duration) -> Vec<usize> {
    let local = if server.is_ipv4() {
        "127.0.0.1:0"
    } else {
        "[::1]:0"
    };
    let socket = UdpSocket::bind(local).unwrap();
    for datagram in datagrams {
        socket.send_to(datagram, server).unwrap();
    }
    lengths(&received(&socket, time))
}

/// Files of a certificate for localhost and `more` names of 40 bytes.
fn chain(dir: &Path, more: usize) -> [String; 2] {
    let names = (0..more).map(|i| format!("{i:028}.example.org"));
    let names = std::iter::once("localhost".to_owned()).chain(names);
    let made = rcgen::generate_simple_self_signed(names.collect::<Vec<_>>()).unwrap();
    let file = |end: &str, text: String| {
        let path = dir.join(format!("{more}.{end}"));
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    [
        file("pem", made.cert.pem()),
        file("key", made.signing_key.serialize_pem()),
    ]
}

#[test]
fn a_forged_hello_is_answered_by_three_times_its_size_at_most() {
    let site = Site::new(&[("index.html", b"start")]);
    let dir = tempfile::tempdir().unwrap();
    let hello = hello();
    let received: usize = lengths(&hello).iter().sum();
    // Certificates of about 400 bytes to 7 kB.
    let check = |more: usize, listen: &str| {
        let [cert, key] = chain(dir.path(), more);
        let args = ["--cert", &cert, "--key", &key, "--set", HANDSHAKE];
        let server = Server::start(&[&[site.path(), "--listen", listen], &args[..]].concat());
        let sent = answer(server.address(), &hello, LISTEN);
        let total: usize = sent.iter().sum();
        let what = format!("{more} names, {listen}: {sent:?}, {total} of {received} bytes");
        assert!(total <= 3 * received, "{what}");
        assert!(total >= received, "the server did answer: {what}");
        // Honest clients are served, however long the chain is.
        let served = block_on(async {
            let h3 = H3::connect(server.address()).await.unwrap();
            h3.get("/").await.unwrap().status
        });
        assert_eq!(served, 200, "{what}");
    };
    thread::scope(|scope| {
        for more in [0, 5, 15, 25, 40, 55, 60, 65, 70, 100, 180] {
            scope.spawn(move || check(more, "127.0.0.1:0"));
        }
        scope.spawn(|| check(0, "[::1]:0"));
    });
}

#[test]
fn versions_are_named_to_whole_datagrams_alone() {
    let site = Site::new(&[("index.html", b"start")]);
    let server = Server::start(&[site.path()]);
    let mut unknown = hello().remove(0);
    unknown[1..5].copy_from_slice(&[0x51, 0x30, 0x35, 0x30]);
    let time = Duration::from_millis(500);
    let sent = answer(server.address(), std::slice::from_ref(&unknown), time);
    assert!(sent.len() == 1 && sent[0] < 100, "{sent:?}");
    unknown.truncate(1199);
    assert!(answer(server.address(), &[unknown], time).is_empty());
}
