//! SYN-ACKs that are lost.

use std::net::Ipv6Addr;

use hikyaku_edge::syn_ack::SynAcks;
use hikyaku_emulator::link::{ChangePair, SERVER_V6};

use super::anew::{at, lossy};
use super::*;

impl Lab {
    /// The time that a connection takes; with `loss`, the server's packets of its first 100 ms are lost.
    fn connecting(&mut self, target: SocketAddr, loss: bool) -> Duration {
        self.topology.start_link(link(0.0), 1).unwrap();
        let changes = ChangePair {
            up: Vec::new(),
            down: vec![at(0, lossy(1_000_000)), at(100, lossy(0))],
        };
        if loss {
            let link = self.topology.link();
            link.begin_changes_at_first_packet(changes).unwrap();
        }
        let begun = Instant::now();
        let connect = || TcpStream::connect(target).map(drop);
        self.topology.client().enter(connect).unwrap().unwrap();
        let took = begun.elapsed();
        // The next link drops packets on their way, such as the end of this handshake.
        thread::sleep(RTT);
        took
    }
}

/// RFC 6298 §2.1 has a second before anything is known of the path, and the kernel's least timeout is 200 ms.
/// A client's own SYN is sent again after a second.
#[test]
fn a_lost_syn_ack_is_sent_again_by_the_round_trips_of_its_network() {
    let Some(mut lab) = Lab::start(0.0) else {
        return;
    };
    let (v4, v6) = (IpAddr::from(SERVER_V4), IpAddr::from(SERVER_V6));
    let both = IpAddr::from(Ipv6Addr::UNSPECIFIED);
    for (listens_on, address) in [(v4, v4), (v6, v6), (both, v4)] {
        let listen = || TcpListener::bind((listens_on, 0)).unwrap();
        let listener = lab.topology.server().enter(listen).unwrap();
        let target = SocketAddr::from((address, listener.local_addr().unwrap().port()));
        let load = || SynAcks::load(&[target.port()]);
        let _loaded = match lab.topology.server().enter(load).unwrap() {
            Ok(loaded) => loaded,
            Err(error) => return skip(&this_test(), &format!("{error:?}")),
        };
        let (unknown, learnt, known) = (
            lab.connecting(target, true),
            lab.connecting(target, false),
            lab.connecting(target, true),
        );
        let second = Duration::from_secs(1);
        assert!(unknown >= second, "{target}: {unknown:?}");
        assert!(learnt < second, "{target}: {learnt:?}");
        assert!(known < second, "{target}: {known:?}");
    }
}
