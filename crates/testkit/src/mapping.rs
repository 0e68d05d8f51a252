//! A mapped port, as containers have them: connections and datagrams to it go on to a server's port.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream, UdpSocket};

/// Maps a free port of 127.0.0.1, on TCP and UDP, to `server`. Returns the port; the mapping ends with the
/// process.
pub fn map(server: SocketAddr) -> u16 {
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        super::client::block_on(async {
            let (tcp, udp) = bind().await;
            send.send(tcp.local_addr().unwrap().port()).unwrap();
            tokio::join!(pass_connections(tcp, server), pass_datagrams(udp, server));
        });
    });
    receive.recv().unwrap()
}

/// Binds a port that is free on both.
async fn bind() -> (TcpListener, UdpSocket) {
    loop {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = tcp.local_addr().unwrap();
        if let Ok(udp) = UdpSocket::bind(address).await {
            return (tcp, udp);
        }
    }
}

async fn pass_connections(listener: TcpListener, server: SocketAddr) {
    while let Ok((mut client, _)) = listener.accept().await {
        tokio::spawn(async move {
            if let Ok(mut server) = TcpStream::connect(server).await {
                // Connections that end early are part of the tests.
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            }
        });
    }
}

async fn pass_datagrams(socket: UdpSocket, server: SocketAddr) {
    let socket = Arc::new(socket);
    let mut clients: HashMap<SocketAddr, Arc<UdpSocket>> = HashMap::new();
    let mut datagram = vec![0; 64 * 1024];
    loop {
        let Ok((length, client)) = socket.recv_from(&mut datagram).await else {
            continue;
        };
        let towards = match clients.get(&client) {
            Some(towards) => Arc::clone(towards),
            None => {
                let towards = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
                towards.connect(server).await.unwrap();
                let towards = Arc::new(towards);
                clients.insert(client, Arc::clone(&towards));
                tokio::spawn(pass_back(Arc::clone(&towards), Arc::clone(&socket), client));
                towards
            }
        };
        let _ = towards.send(&datagram[..length]).await;
    }
}

/// Passes what the server sends back to a client.
async fn pass_back(from: Arc<UdpSocket>, by: Arc<UdpSocket>, client: SocketAddr) {
    let mut datagram = vec![0; 64 * 1024];
    while let Ok(length) = from.recv(&mut datagram).await {
        let _ = by.send_to(&datagram[..length], client).await;
    }
}
