//! Sockets on loopback.

use std::net::SocketAddr;

use hikyaku_quic::Steering;
use hikyaku_testkit::{skip_part, this_test};
use socket2::{Domain, Socket as Plain, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::listen::Listener;

/// A connection of a client that speaks `asks`, and whether the server's end is of MPTCP. `None` where
/// the kernel lacks either.
async fn connect(address: &str, listens: bool, asks: Protocol) -> Option<(TcpStream, Arc<Socket>)> {
    let listener =
        Listener::bind(address.parse().unwrap(), listens, None, Steering::new(1, 0)).ok()?;
    let protocol = match listener.mptcp {
        true => Protocol::MPTCP,
        false => Protocol::TCP,
    };
    if listener.mptcp != listens {
        return None;
    }
    let client = Plain::new(
        Domain::for_address(listener.address),
        Type::STREAM,
        Some(asks),
    );
    let client = client.ok()?;
    client.connect(&listener.address.into()).unwrap();
    client.set_nonblocking(true).unwrap();
    let client = TcpStream::from_std(client.into()).unwrap();
    let [tcp] = listener.tcp.try_into().unwrap();
    let (stream, peer): (_, SocketAddr) = {
        let listener = TcpListener::from_std(tcp.listener).unwrap();
        listener.accept().await.unwrap()
    };
    let controls = Arc::new(Controls::plain());
    let socket = Socket::new(stream, peer.ip(), controls, protocol).unwrap();
    Some((client, socket))
}

#[tokio::test]
async fn accepted_sockets_have_the_options_and_counts_that_are_relied_on() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        for listens in [false, true] {
            for asks in [Protocol::TCP, Protocol::MPTCP] {
                let name = format!("{address}, MPTCP {listens}, client {asks:?}");
                let Some((mut client, socket)) = connect(address, listens, asks).await else {
                    skip_part(&this_test(), &format!("this kernel lacks {name}"));
                    continue;
                };
                assert_eq!(socket.mptcp, listens && asks == Protocol::MPTCP, "{name}");
                let options = SockRef::from(&socket.stream);
                assert!(options.tcp_nodelay().unwrap(), "{name}");
                assert_eq!(options.tcp_notsent_lowat().unwrap(), UNSENT, "{name}");
                assert_eq!(socket.look().unwrap().acked, 0, "{name}");
                let mut io = MeteredIo(Arc::clone(&socket));
                io.write_all(b"content").await.unwrap();
                client.read_exact(&mut [0; 7]).await.unwrap();
                // The acknowledgement may be a little later than the content.
                while socket.look().unwrap().acked < 7 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                assert_eq!(socket.look().unwrap().acked, 7, "{name}");
            }
        }
    }
}

#[tokio::test]
async fn the_sending_side_is_closed_once() {
    let (mut client, socket) = connect("127.0.0.1:0", false, Protocol::TCP).await.unwrap();
    let mut io = MeteredIo(Arc::clone(&socket));
    io.shutdown().await.unwrap();
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    drop(client);
    // The connection is gone, and a second shutdown(2) would fail.
    socket.linger(Duration::from_secs(10), Duration::ZERO).await;
    assert!(rustix::net::shutdown(&socket.stream, rustix::net::Shutdown::Write).is_err());
    assert!(io.shutdown().await.is_ok());
}
