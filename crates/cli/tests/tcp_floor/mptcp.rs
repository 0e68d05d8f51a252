//! Subflows of MPTCP.

use super::*;

impl Lab {
    /// A connection of MPTCP, and the listener for its further subflows; `None` if the kernel has
    /// no MPTCP.
    fn connect_mptcp(&self) -> Option<(Pair, socket2::Socket)> {
        let mptcp = |namespace: &hikyaku_emulator::link::Netns| {
            namespace.enter(|| {
                let kind = socket2::Type::STREAM;
                socket2::Socket::new(socket2::Domain::IPV4, kind, Some(socket2::Protocol::MPTCP))
            })
        };
        let Ok(listener) = mptcp(self.topology.server()).unwrap() else {
            skip(&this_test(), "this kernel has no MPTCP");
            return None;
        };
        let any = SocketAddr::from((SERVER_V4, 0));
        listener.bind(&any.into()).unwrap();
        listener.listen(1).unwrap();
        let client = mptcp(self.topology.client()).unwrap().unwrap();
        client.connect(&listener.local_addr().unwrap()).unwrap();
        let pair = Pair {
            server: listener.accept().unwrap().0.into(),
            client: client.into(),
        };
        Some((pair, listener))
    }
}

#[test]
fn subflows_of_mptcp_have_it_too() {
    let Some(lab) = Lab::start(0.0) else { return };
    let Some((mut pair, _listener)) = lab.connect_mptcp() else {
        return;
    };
    let peer = IpAddr::from(CLIENT_V4);
    for control in [
        FLOOR,
        Control::Floor {
            over: Congestion::Cubic,
            bytes: 300 * MSS,
        },
    ] {
        let set = lab
            .controls
            .set_congestion(&pair.server, peer, true, control);
        set.unwrap();
        lab.send(&mut pair, 200_000, |_| {});
        let seen = lab.see(&pair);
        let Control::Floor { bytes, .. } = control else {
            unreachable!()
        };
        assert_eq!(seen.control, lab.controls.name(control));
        assert!(seen.cwnd >= bytes / MSS, "{seen:?}");
    }
}

/// The scheduler of MPTCP averages the rates of subflows. A rate without limit overflows that.
#[test]
fn a_subflow_that_joins_has_a_rate_at_once() {
    let Some(lab) = Lab::start(0.0) else { return };
    let ip = |netns: &hikyaku_emulator::link::Netns, words: &str| {
        let mut ip = Command::new("ip");
        let done = netns.output(ip.args(words.split(' '))).unwrap().unwrap();
        assert!(done.status.success(), "ip {words}: {done:?}");
    };
    let Some((mut pair, _listener)) = lab.connect_mptcp() else {
        return;
    };
    let peer = IpAddr::from(CLIENT_V4);
    let set = lab.controls.set_congestion(&pair.server, peer, true, FAIR);
    set.unwrap();
    lab.send(&mut pair, 20_000, |_| {});
    let [server, client] = [lab.topology.server(), lab.topology.client()];
    let mut other = CLIENT_V4.octets();
    other[3] += 10;
    let other = std::net::Ipv4Addr::from(other);
    for netns in [server, client] {
        ip(netns, "mptcp limits set subflows 2 add_addr_accepted 2");
    }
    ip(client, &format!("address add {other}/24 dev hkyk0"));
    ip(
        client,
        &format!("mptcp endpoint add {other} dev hkyk0 subflow"),
    );
    let mut ss = Command::new("ss");
    ss.args(["-tinH", "dst"]).arg(other.to_string());
    let joined = eventually("the subflow joins, with our congestion control", || {
        let output = server.output(&mut ss).unwrap().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.contains(&lab.controls.name(FAIR)).then_some(text)
    });
    // ss omits the field if there is no limit.
    assert!(joined.contains(" pacing_rate "), "{joined}");
}
