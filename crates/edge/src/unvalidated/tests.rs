use super::*;

const ID: &[u8; 12] = b"of-a-server!";

fn client(port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], port))
}

/// A datagram of the server, with its connection id.
fn answer(length: usize) -> Vec<u8> {
    let mut datagram = [&[0xc0, 0, 0, 0, 1, 0, 12][..], ID].concat();
    datagram.resize(length, 0);
    datagram
}

/// One of the client, with a long header.
fn request(id: &[u8], length: usize) -> Vec<u8> {
    let mut datagram = [&[0xc0, 0, 0, 0, 1, id.len() as u8][..], id, &[0]].concat();
    datagram.resize(length, 0);
    datagram
}

/// Bytes of `contents` that may go to `client(1)` now.
fn send(unvalidated: &Unvalidated, contents: &[u8], segment_size: Option<usize>) -> usize {
    let transmit = Transmit {
        destination: client(1),
        ecn: None,
        contents,
        segment_size,
        src_ip: None,
    };
    let within = unvalidated.within(&transmit);
    within.map_or(0, |part| part.contents.len())
}

/// Bytes that may go because a datagram has come.
fn receive(unvalidated: &Unvalidated, datagram: &[u8]) -> usize {
    let released = unvalidated.received(client(1), datagram, datagram.len());
    released.map_or(0, |withheld| withheld.transmit().contents.len())
}

#[test]
fn three_times_what_came_is_sent_and_the_rest_waits() {
    // name, what came first, datagrams sent, bytes of each that may go
    let cases: &[(&str, usize, &[usize], &[usize])] = &[
        (
            "three full ones",
            1200,
            &[1200, 1200, 1200, 1200],
            &[1200, 1200, 1200, 0],
        ),
        (
            "small ones and probes",
            1200,
            &[1200, 700, 1200, 1200],
            &[1200, 700, 1200, 0],
        ),
        (
            "a small one still fits",
            1200,
            &[1200, 1200, 900, 1200, 300],
            &[1200, 1200, 900, 0, 300],
        ),
        (
            "a larger hello",
            1452,
            &[1200, 1200, 1200, 756, 1],
            &[1200, 1200, 1200, 756, 0],
        ),
        ("nothing counted, as at least", 0, &[3600, 1], &[3600, 0]),
    ];
    for (name, came, sent, want) in cases {
        let unvalidated = Arc::new(Unvalidated::default());
        if *came > 0 {
            receive(&unvalidated, &request(b"of-a-client", *came));
        }
        let _handshaking = unvalidated.begin(client(1));
        let went = sent
            .iter()
            .map(|&length| send(&unvalidated, &answer(length), None));
        assert_eq!(went.collect::<Vec<_>>(), *want, "{name}");
    }
}

#[test]
fn of_segments_whole_ones_are_sent() {
    let unvalidated = Arc::new(Unvalidated::default());
    let _handshaking = unvalidated.begin(client(1));
    assert_eq!(send(&unvalidated, &answer(1000), None), 1000);
    let segments = [answer(1200), answer(1200), answer(1200), answer(40)].concat();
    assert_eq!(send(&unvalidated, &segments, Some(1200)), 2400);
    let released = unvalidated
        .received(client(1), &request(ID, 50), 50)
        .unwrap();
    assert_eq!(released.transmit().contents, &segments[2400..]);
    assert_eq!(released.transmit().segment_size, Some(1200));
}

#[test]
fn what_waits_goes_when_the_client_answers() {
    let cases = [
        ("its connection id", request(ID, 60), 1200),
        (
            "its connection id, short header",
            [&[0x40], &ID[..]].concat(),
            1200,
        ),
        (
            "another id, as a forger would",
            request(b"guessed-id!!", 60),
            0,
        ),
        (
            "another id, and many bytes",
            request(b"of-a-client", 1200),
            1200,
        ),
        ("no packet", vec![0x40], 0),
    ];
    for (name, datagram, want) in cases {
        let unvalidated = Arc::new(Unvalidated::default());
        let _handshaking = unvalidated.begin(client(1));
        assert_eq!(send(&unvalidated, &answer(3000), None), 3000);
        assert_eq!(send(&unvalidated, &answer(1200), None), 0);
        assert_eq!(receive(&unvalidated, &datagram), want, "{name}");
        let proved = datagram.windows(12).any(|bytes| bytes == ID);
        let unlimited = send(&unvalidated, &answer(100_000), None) > 0;
        assert_eq!(unlimited, proved, "{name}");
    }
}

#[test]
fn others_are_not_held_back_and_nothing_is_left_behind() {
    let unvalidated = Arc::new(Unvalidated::default());
    let [first, second] = [(); 2].map(|()| unvalidated.begin(client(1)));
    let other = unvalidated.begin(client(2));
    assert_eq!(unvalidated.count.load(Ordering::Relaxed), 2);
    drop(other);
    assert_eq!(
        send(&unvalidated, &answer(4000), None),
        0,
        "one budget for both"
    );
    drop(first);
    assert_eq!(send(&unvalidated, &answer(3000), None), 3000);
    let refused = answer(3000);
    unvalidated.unsent(&Transmit {
        destination: client(1),
        ecn: None,
        contents: &refused,
        segment_size: None,
        src_ip: None,
    });
    assert_eq!(
        send(&unvalidated, &refused, None),
        3000,
        "the socket was full"
    );
    drop(second);
    assert_eq!(unvalidated.count.load(Ordering::Relaxed), 0);
    assert_eq!(send(&unvalidated, &answer(4000), None), 4000);
}
