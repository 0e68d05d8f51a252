//! Real connections to sockets among which the kernel chooses.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use hikyaku_quic::Steering;
use socket2::{Domain, Protocol, Socket, Type};

use super::{MptcpGate, Share};
use crate::bpf::Prefix;
use crate::listen::Listener;
use hikyaku_testkit::{skip, this_test};

/// A connection that is not accepted within it is none.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which socket took a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Took {
    Mptcp,
    Tcp,
    Refused,
}

fn steering() -> Steering {
    Steering::new(1, 0)
}

struct Ground {
    gate: MptcpGate,
    listener: Listener,
}

impl Ground {
    /// Listens on loopback; `None` where the kernel does not allow or know it, which is printed.
    fn new(address: IpAddr) -> Option<Self> {
        let skip = |why: &str| {
            skip(&this_test(), why);
            None
        };
        let gate = match MptcpGate::load() {
            Ok(gate) => gate,
            Err(error) => return skip(&format!("choosing among sockets: {error}")),
        };
        let listener = Listener::bind((address, 0).into(), true, Some(&gate), steering()).unwrap();
        if !listener.mptcp {
            return skip("this kernel has no MPTCP");
        }
        Some(Self { gate, listener })
    }

    fn connect(&self, to: IpAddr, protocol: Protocol) -> Took {
        let to = SocketAddr::new(to, self.listener.address.port());
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(protocol)).unwrap();
        socket.connect(&to.into()).unwrap();
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            for (place, tcp) in self.listener.tcp.iter().enumerate() {
                match tcp.listener.accept() {
                    Ok(_) => return [Took::Mptcp, Took::Tcp, Took::Refused][place],
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => panic!("accepting: {error}"),
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("nobody took the connection");
    }
}

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

#[test]
fn mptcp_is_taken_of_those_that_are_put() {
    let Some(ground) = Ground::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED)) else {
        return;
    };
    let gate = &ground.gate;
    let expect = |name: &str, clients: [(IpAddr, Took); 2]| {
        for (client, took) in clients {
            assert_eq!(ground.connect(client, Protocol::MPTCP), took, "{name}");
            assert_eq!(ground.connect(client, Protocol::TCP), Took::Tcp, "{name}");
            let all = gate.takes_all_of(client);
            assert_eq!(all, took == Took::Mptcp, "{name}: {client}");
        }
    };
    use Took::{Mptcp, Refused};
    expect("at first all", [(V4, Mptcp), (V6, Mptcp)]);
    gate.set_share(Some(Share::new(0.0))).unwrap();
    expect("none", [(V4, Refused), (V6, Refused)]);
    gate.put(Prefix::around(V4, 24), Some(Share::ALL)).unwrap();
    expect("a network", [(V4, Mptcp), (V6, Refused)]);
    gate.put(Prefix::of(V4), Some(Share::new(0.0))).unwrap();
    expect("but not this client", [(V4, Refused), (V6, Refused)]);
    gate.put(Prefix::of(V4), None).unwrap();
    expect("nothing said of it", [(V4, Mptcp), (V6, Refused)]);
    gate.put(Prefix::of(V4), None).unwrap();
    gate.put(Prefix::around(V4, 24), None).unwrap();
    gate.put(Prefix::of(V6), Some(Share::ALL)).unwrap();
    expect("the other family", [(V4, Refused), (V6, Mptcp)]);
    gate.set_operators(vec![Prefix::around(V4, 8)]).unwrap();
    expect("the operator's", [(V4, Mptcp), (V6, Mptcp)]);
    gate.put(Prefix::around(V4, 8), None).unwrap();
    expect("which nobody else takes back", [(V4, Mptcp), (V6, Mptcp)]);
    gate.put(Prefix::around(V4, 8), Some(Share::new(0.0)))
        .unwrap();
    expect("nor lessens", [(V4, Mptcp), (V6, Mptcp)]);
    gate.clear();
    expect("which stay", [(V4, Mptcp), (V6, Refused)]);
    gate.set_operators(vec![Prefix::ALL]).unwrap();
    expect("all of the operator's", [(V4, Mptcp), (V6, Mptcp)]);
    gate.set_operators(Vec::new()).unwrap();
    expect("none of the operator's", [(V4, Refused), (V6, Refused)]);
    gate.set_share(None).unwrap();
    expect("all again", [(V4, Mptcp), (V6, Mptcp)]);
}

#[test]
fn a_share_is_taken() {
    let Some(ground) = Ground::new(V4) else {
        return;
    };
    let gate = &ground.gate;
    let takes_half = |of: &str| {
        assert!(!gate.takes_all_of(V4), "{of}");
        let took: Vec<Took> = (0..400)
            .map(|_| ground.connect(V4, Protocol::MPTCP))
            .collect();
        let taken = took.iter().filter(|took| **took == Took::Mptcp).count();
        assert!(!took.contains(&Took::Tcp), "{of}");
        // Five standard deviations.
        assert!((150..=250).contains(&taken), "{of}: {taken} of 400");
    };
    gate.set_share(Some(Share::new(0.5))).unwrap();
    takes_half("all");
    gate.set_share(Some(Share::new(0.0))).unwrap();
    gate.put(Prefix::of(V4), Some(Share::new(0.5))).unwrap();
    takes_half("one client");
}

#[test]
fn an_address_in_use_is_reported() {
    let Some(ground) = Ground::new(V4) else {
        return;
    };
    let address = ground.listener.address;
    for gate in [Some(&ground.gate), None] {
        let error = Listener::bind(address, true, gate, steering()).unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::AddrInUse, "{error}");
    }
    assert_eq!(ground.connect(V4, Protocol::MPTCP), Took::Mptcp);
}

#[test]
fn a_full_map_begins_anew() {
    let Some(ground) = Ground::new(V4) else {
        return;
    };
    ground.gate.set_share(Some(Share::new(0.0))).unwrap();
    ground.gate.set_operators(vec![Prefix::of(V6)]).unwrap();
    for client in 0..70_000_u32 {
        let client = Ipv4Addr::from_bits(0x0a00_0000 + client);
        let put = ground.gate.put(Prefix::of(client.into()), Some(Share::ALL));
        put.unwrap_or_else(|error| panic!("{client}: {error}"));
    }
    let of = |client: u32| {
        let client = Ipv4Addr::from_bits(0x0a00_0000 + client);
        ground.gate.takes_all_of(client.into())
    };
    assert!(of(69_999) && !of(0), "the oldest are gone");
    assert!(ground.gate.takes_all_of(V6), "the operator's stay");
}
