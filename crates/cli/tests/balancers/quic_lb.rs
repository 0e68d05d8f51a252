//! A balancer of UDP that finds the server of a connection by its ids, and a client whose address changes.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;

use hikyaku_testkit::client::{self, H3};
use hikyaku_testkit::{Server, Site};
use tokio::time::timeout;

const LOOPBACK: &str = "127.0.0.1:0";
const CONFIG_ROTATION: u8 = 2;
/// Octets of the ids: the first one, the server id, and the nonce that docs/balancers.md names.
const ID_LEN: usize = 1 + 2 + 13;

/// Hands each datagram that comes to a socket, with its sender, to `on`.
fn pass(from: UdpSocket, mut on: impl FnMut(&[u8], SocketAddr) + Send + 'static) {
    thread::spawn(move || {
        let mut datagram = vec![0; 64 * 1024];
        while let Ok((length, sender)) = from.recv_from(&mut datagram) {
            on(&datagram[..length], sender);
        }
    });
}

/// A router that translates addresses, between a client and a balancer.
struct Nat {
    inside: UdpSocket,
    balancer: SocketAddr,
    outside: Arc<Mutex<UdpSocket>>,
    client: Arc<Mutex<Option<SocketAddr>>>,
}

impl Nat {
    fn start(balancer: SocketAddr) -> Self {
        let nat = Self {
            inside: UdpSocket::bind(LOOPBACK).unwrap(),
            balancer,
            outside: Arc::new(Mutex::new(UdpSocket::bind(LOOPBACK).unwrap())),
            client: Arc::default(),
        };
        nat.move_client();
        let (outside, client) = (Arc::clone(&nat.outside), Arc::clone(&nat.client));
        pass(nat.inside.try_clone().unwrap(), move |datagram, sender| {
            *client.lock().unwrap() = Some(sender);
            let _ = outside.lock().unwrap().send_to(datagram, balancer);
        });
        nat
    }

    fn address(&self) -> SocketAddr {
        self.inside.local_addr().unwrap()
    }

    /// Gives the client another address, as seen from outside.
    fn move_client(&self) {
        let socket = UdpSocket::bind(LOOPBACK).unwrap();
        socket.connect(self.balancer).unwrap();
        let (inside, client) = (self.inside.try_clone().unwrap(), Arc::clone(&self.client));
        pass(socket.try_clone().unwrap(), move |datagram, _| {
            if let Some(client) = *client.lock().unwrap() {
                let _ = inside.send_to(datagram, client);
            }
        });
        *self.outside.lock().unwrap() = socket;
    }
}

/// Starts a balancer among `servers`, each with its server id. Datagrams with other ids go by their sender:
/// those of the first one to the first server, and so on in turns.
fn balancer(servers: Vec<([u8; 2], SocketAddr)>) -> SocketAddr {
    let front = UdpSocket::bind(LOOPBACK).unwrap();
    let address = front.local_addr().unwrap();
    let back = front.try_clone().unwrap();
    let mut senders: Vec<SocketAddr> = Vec::new();
    let mut sockets: HashMap<(SocketAddr, SocketAddr), UdpSocket> = HashMap::new();
    pass(front, move |datagram, sender| {
        if !senders.contains(&sender) {
            senders.push(sender);
        }
        let turn = senders.iter().position(|known| *known == sender).unwrap();
        let named = server_id(datagram);
        let named = servers.iter().find(|(id, _)| named == Some(*id));
        let (_, server) = *named.unwrap_or(&servers[turn % servers.len()]);
        let socket = sockets.entry((sender, server)).or_insert_with(|| {
            let socket = UdpSocket::bind(LOOPBACK).unwrap();
            socket.connect(server).unwrap();
            let back = back.try_clone().unwrap();
            pass(socket.try_clone().unwrap(), move |datagram, _| {
                let _ = back.send_to(datagram, sender);
            });
            socket
        });
        let _ = socket.send(datagram);
    });
    address
}

/// The server id in a datagram's destination connection id, by the draft alone.
fn server_id(datagram: &[u8]) -> Option<[u8; 2]> {
    let id = match datagram.first()? & 0x80 {
        0 => datagram.get(1..=ID_LEN)?,
        _ => {
            let length = usize::from(*datagram.get(5)?);
            datagram.get(6..6 + length)?
        }
    };
    let is_routable = id.len() == ID_LEN
        && id[0] >> 5 == CONFIG_ROTATION
        && usize::from(id[0] & 0x1f) == ID_LEN - 1;
    is_routable.then(|| [id[1], id[2]])
}

#[test]
fn a_client_that_moves_reaches_its_server_again() {
    let (first, second) = (
        Site::new(&[("who", b"first")]),
        Site::new(&[("who", b"second")]),
    );
    let server = |site: &Site, id: &str| {
        let set = format!(
            "behind.quic_lb={{ config_rotation = {CONFIG_ROTATION}, server_id = \"{id}\" }}"
        );
        Server::start(&[site.path(), "--set", &set])
    };
    let servers = [server(&first, "0a0b"), server(&second, "0a0c")];
    let [one, two] = [0, 1].map(|index| servers[index].address());
    let front = balancer(vec![([0x0a, 0x0b], one), ([0x0a, 0x0c], two)]);
    client::block_on(async {
        for connection in 0..2 {
            let nat = Nat::start(front);
            let patience = hikyaku_testkit::PATIENCE;
            let h3 = timeout(patience, H3::connect(nat.address())).await;
            let h3 = h3.unwrap().unwrap();
            let who = || async {
                let response = timeout(patience, h3.get("/who")).await.unwrap().unwrap();
                String::from_utf8(response.body).unwrap()
            };
            let found = who().await;
            // Each move is a new sender, whose turn is another server.
            for moves in 0..3 {
                nat.move_client();
                assert_eq!(who().await, found, "connection {connection}, move {moves}");
            }
            h3.close().await;
        }
    });
}

#[test]
fn the_balancers_part_of_ids_is_no_matter_of_a_reload() {
    let site = Site::new(&[("edge.toml", b"")]);
    let path = format!("{}/edge.toml", site.path());
    let server = Server::start(&[site.path(), "--config", &path]);
    site.write("edge.toml", b"[behind]\nquic_lb = { server_id = \"0a\" }\n");
    let admin = server.admin.to_string();
    let output = hikyaku_testkit::hikyaku(&["reload", "--admin", &admin]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(
        message.contains("`behind.quic_lb` can't change while the server runs"),
        "{message}"
    );
}
