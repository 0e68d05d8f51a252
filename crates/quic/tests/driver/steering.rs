//! Workers of one address: which of them gets a datagram.

use std::net::{SocketAddr, UdpSocket as StdSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hikyaku_quic::proto::{ConnectionId, ConnectionIdGenerator, EndpointConfig};
use hikyaku_quic::{Endpoint, Group, STEERED_LEN, Steering, UdpSocket};
use proptest::prelude::{any, prop};
use proptest::{prop_assert_eq, prop_assume, proptest};

use crate::common::{connect, echo, exchange, loopback, patiently, settings, udp};

const WORKERS: usize = 3;
const KEY: u64 = 0x1234_5678_9abc_def0;

/// Ids of a worker.
struct Ids {
    steering: Steering,
    worker: usize,
    count: Arc<AtomicUsize>,
}

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        let count = self.count.fetch_add(1, Ordering::Relaxed) as u64;
        let mut id = count.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        self.steering.stamp(&mut id, self.worker);
        ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        STEERED_LEN
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

proptest! {
    #[test]
    fn a_stamped_id_leads_to_its_worker(
        workers in 1_usize..=255,
        worker in 0_usize..255,
        key in any::<u64>(),
        mut id in prop::array::uniform12(any::<u8>()),
    ) {
        prop_assume!(worker < workers);
        let steering = Steering::new(workers, key);
        steering.stamp(&mut id, worker);
        let short = [&[0x40][..], &id, &[0; 20]].concat();
        let long = [&[0xc0, 0, 0, 0, 1, 12][..], &id, &[0; 20]].concat();
        prop_assert_eq!(steering.worker_of(&short), worker);
        prop_assert_eq!(steering.worker_of(&long), worker);
    }

    #[test]
    fn a_prefix_of_ids_is_passed_over(
        worker in 0_usize..7,
        key in any::<u64>(),
        prefix in prop::collection::vec(any::<u8>(), 1..=7),
        mut rest in prop::array::uniform13(any::<u8>()),
    ) {
        let steering = Steering::new(7, key).behind(prefix.len(), rest.len());
        steering.stamp(&mut rest, worker);
        let id = [&prefix[..], &rest].concat();
        let short = [&[0x40][..], &id, &[0; 20]].concat();
        let long = [&[0xc0, 0, 0, 0, 1, id.len() as u8][..], &id, &[0; 20]].concat();
        prop_assert_eq!(steering.worker_of(&short), worker);
        prop_assert_eq!(steering.worker_of(&long), worker);
        // An id of eight bytes that a client has drawn: the bytes behind it differ from packet to packet.
        let drawn = |behind: u8| {
            [&[0xc0, 0, 0, 0, 1, 8][..], &id[..8], &[behind; 20]].concat()
        };
        prop_assert_eq!(steering.worker_of(&drawn(1)), steering.worker_of(&drawn(2)));
    }
}

#[test]
fn ids_of_clients_are_spread_and_short_packets_do_no_harm() {
    let steering = Steering::new(4, KEY);
    let mut counts = [0; 4];
    for index in 0_u64..4096 {
        let id = index.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let datagram = [&[0xc0, 0, 0, 0, 1, 8][..], &id, &[0; 1186]].concat();
        counts[steering.worker_of(&datagram)] += 1;
    }
    assert!(
        counts.iter().all(|count| (900..1150).contains(count)),
        "{counts:?}"
    );
    for len in 0..STEERED_LEN {
        assert_eq!(steering.worker_of(&vec![0x40; len]), 0);
    }
}

/// The kernel's program and the function agree on every datagram, of both families.
#[test]
fn the_kernel_chooses_the_socket_of_the_worker() {
    let plain = Steering::new(WORKERS, KEY);
    for (v6, steering) in [(false, plain), (true, plain), (false, plain.behind(3, 5))] {
        let (sockets, steered) = steering.bind(loopback(v6), |_| Ok(())).unwrap();
        assert!(steered, "SO_ATTACH_REUSEPORT_CBPF is there since Linux 4.5");
        let address = sockets[0].local_addr().unwrap();
        let client = StdSocket::bind(loopback(v6)).unwrap();
        for index in 0_u64..300 {
            let id = index.wrapping_mul(0xd605_bbb5_8c8a_bc8d).to_be_bytes();
            let first: &[u8] = match index % 3 {
                0 => &[0x40],
                1 => &[0xc0, 0, 0, 0, 1, 8],
                // A header that ends in the midst of the id.
                _ => &[0xc0, 0, 0, 0, 1, 8, 1, 2, 3],
            };
            let mut datagram = [first, &id].concat();
            datagram.truncate(if index % 3 == 2 { 12 } else { usize::MAX });
            client.send_to(&datagram, address).unwrap();
            let worker = steering.worker_of(&datagram);
            let mut buffer = [0; 64];
            let socket = &sockets[worker];
            socket
                .set_read_timeout(Some(Duration::from_secs(60)))
                .unwrap();
            let len = socket.recv(&mut buffer).unwrap();
            assert_eq!(
                buffer[..len],
                datagram,
                "datagram {index} of worker {worker}"
            );
        }
    }
}

#[test]
fn an_address_that_others_have_is_not_shared() {
    for workers in [1, WORKERS] {
        let bind = |address| Steering::new(workers, KEY).bind(address, |_| Ok(()));
        let (sockets, _) = bind(loopback(false)).unwrap();
        let error = bind(sockets[0].local_addr().unwrap()).unwrap_err();
        assert_eq!(
            error.kind(),
            std::io::ErrorKind::AddrInUse,
            "{workers} workers"
        );
    }
}

/// Endpoints of all workers on one address, with the kernel's steering or without.
fn workers(steered: bool) -> (Vec<Endpoint>, crate::common::Settings, SocketAddr) {
    let steering = Steering::new(WORKERS, KEY);
    let sockets = if steered {
        steering.bind(loopback(false), |_| Ok(())).unwrap().0
    } else {
        // Every datagram comes to the first socket.
        let first = StdSocket::bind(loopback(false)).unwrap();
        let clone = || first.try_clone().unwrap();
        (0..WORKERS).map(|_| clone()).collect()
    };
    let address = sockets[0].local_addr().unwrap();
    let (settings, group) = (settings(), Group::new(steering));
    let count = Arc::new(AtomicUsize::new(0));
    let endpoints = sockets.into_iter().enumerate().map(|(worker, socket)| {
        let mut config = EndpointConfig::default();
        let count = Arc::clone(&count);
        config.cid_generator(move || {
            let count = Arc::clone(&count);
            Box::new(Ids {
                steering,
                worker,
                count,
            })
        });
        let socket = Arc::new(UdpSocket::new(socket).unwrap());
        let server = Some(settings.server.clone());
        let made = Endpoint::of_worker(config, server, socket, &group, worker);
        let (endpoint, driver) = made.unwrap();
        tokio::spawn(driver);
        tokio::spawn(echo(endpoint.clone()));
        endpoint
    });
    (endpoints.collect(), settings, address)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_reach_their_worker_with_the_kernel_and_without() {
    for steered in [true, false] {
        let (endpoints, settings, _) = workers(steered);
        let mut open = Vec::new();
        for index in 0..24 {
            let client = udp(None, loopback(false));
            let connection = connect(&client, &endpoints[0], &settings).await;
            patiently(exchange(&connection, &vec![index; 20_000])).await;
            open.push((client, connection));
        }
        let counts: Vec<usize> = endpoints.iter().map(Endpoint::open_connections).collect();
        assert_eq!(counts.iter().sum::<usize>(), 24, "steered: {steered}");
        assert!(
            counts.iter().all(|&count| count > 0),
            "{counts:?}, steered: {steered}"
        );
    }
}
