//! Marked packets between two namespaces that two links join: needs root.

mod ground;

use std::net::IpAddr;
use std::time::Instant;

use self::ground::{Arrived, FAMILIES, Ground, PLAIN, REFUSED, STEERED, Sending, UNSEGMENTED};

/// Two segments and a smaller one.
const SEGMENTED: Sending = Sending {
    length: 2500,
    segment_size: Some(1200),
    ..Sending::ONE
};

fn interfaces(arrived: &[Arrived]) -> Vec<&str> {
    arrived.iter().map(|one| one.interface.as_str()).collect()
}

#[test]
fn exactly_the_marked_destinations_packets_take_the_other_link() {
    let Some(ground) = Ground::new() else {
        return;
    };
    for (bound, client, server) in FAMILIES {
        let socket = ground.socket(bound);
        let [client, other] = [1, 2].map(|port| ground.client(client, port));
        let server: IpAddr = server.parse().unwrap();
        ground.marks.set(client.address, STEERED);
        for sending in [Sending::ONE, SEGMENTED] {
            let sending = sending.from(server);
            let sizes: &[usize] = match sending.segment_size {
                Some(_) => &[1200, 1200, 100],
                None => &[1200],
            };
            for (to, interface) in [(&client, "steered"), (&other, "plain")] {
                socket.send(to, &sending);
                let arrived = |&size| Arrived {
                    interface: interface.to_owned(),
                    from: server.to_canonical(),
                    ecn: sending.ecn,
                    size,
                };
                let all: Vec<_> = sizes.iter().map(arrived).collect();
                let name = format!("{bound} to {}, {sending:?}", to.address);
                assert_eq!(to.receive(sizes.len()), all, "{name}");
            }
        }
        ground.marks.clear(client.address, STEERED);
        socket.send(&client, &Sending::ONE);
        assert_eq!(interfaces(&client.receive(1)), ["plain"], "cleared");
        assert_eq!(socket.socket.unmarked(), 0);
    }
}

#[test]
fn the_kernel_may_choose_the_source_address() {
    let Some(ground) = Ground::new() else {
        return;
    };
    let client = ground.client("fd00:c::1", 1);
    ground.marks.set(client.address, STEERED);
    let sending = Sending {
        ecn: None,
        ..Sending::ONE
    };
    ground.socket("[::]:0").send(&client, &sending);
    let arrived = client.receive(1);
    let of_the_link: IpAddr = "fd00:2::2".parse().unwrap();
    assert_eq!((arrived[0].from, arrived[0].ecn), (of_the_link, None));
}

#[test]
fn where_a_route_cannot_cut_datagrams_they_go_one_by_one() {
    let Some(ground) = Ground::new() else {
        return;
    };
    if !ground.encapsulates {
        return;
    }
    let socket = ground.socket("[::]:0");
    let client = ground.client("fd00:c::1", 1);
    ground.marks.set(client.address, UNSEGMENTED);
    let sending = SEGMENTED.from("fd00:5::5".parse().unwrap());
    for attempt in 0..2 {
        let before = ground.sent_by("tunnel");
        socket.send(&client, &sending);
        assert_eq!(ground.sent_by("tunnel") - before, 3, "attempt {attempt}");
    }
    let refused = |mark| socket.socket.unsegmented.contains(mark, Instant::now());
    assert!(refused(UNSEGMENTED) && !refused(STEERED));
    assert_eq!(socket.socket.unmarked(), 0, "none went another way");
}

#[test]
fn a_datagram_too_large_for_its_route_is_not_sent_elsewhere() {
    let Some(ground) = Ground::new() else {
        return;
    };
    if !ground.encapsulates {
        return;
    }
    let socket = ground.socket("[::]:0");
    let client = ground.client("fd00:c::1", 1);
    ground.marks.set(client.address, UNSEGMENTED);
    let plain = ground.sent_by("plain");
    // With UDP's and IPv6's headers 1437 to 1500 bytes, and 64 more for SRv6.
    for length in [1389, 1452] {
        let before = ground.sent_by("tunnel");
        socket.send(
            &client,
            &Sending {
                length,
                ..Sending::ONE
            },
        );
        assert_eq!(ground.sent_by("tunnel"), before, "{length} bytes");
    }
    let fits = Sending {
        length: 1388,
        ..Sending::ONE
    };
    let before = ground.sent_by("tunnel");
    socket.send(&client, &fits);
    assert_eq!(ground.sent_by("tunnel") - before, 1);
    assert_eq!(socket.socket.unmarked(), 0);
    assert_eq!(ground.sent_by("plain"), plain);
}

#[test]
fn what_a_route_refuses_goes_without_its_mark() {
    let Some(ground) = Ground::new() else {
        return;
    };
    let socket = ground.socket("[::]:0");
    let client = ground.client("fd00:c::1", 1);
    ground.marks.set(client.address, REFUSED);
    socket.send(&client, &SEGMENTED);
    assert_eq!(interfaces(&client.receive(3)), ["plain"; 3]);
    assert_eq!(socket.socket.unmarked(), 1);
    // No rule knows this one, so that the main table counts.
    ground.marks.set(client.address, PLAIN);
    socket.send(&client, &Sending::ONE);
    assert_eq!(interfaces(&client.receive(1)), ["plain"]);
    assert_eq!(socket.socket.unmarked(), 1);
}

#[test]
fn without_the_capability_packets_go_the_plain_way() {
    let Some(ground) = Ground::new() else {
        return;
    };
    let socket = ground.socket("[::]:0");
    let client = ground.client("fd00:c::1", 1);
    ground.marks.set(client.address, STEERED);
    socket.send_unprivileged(&client, &Sending::ONE);
    assert_eq!(interfaces(&client.receive(1)), ["plain"]);
    assert_eq!(socket.socket.unmarked(), 1);
}
