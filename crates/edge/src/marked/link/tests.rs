use std::future::poll_fn;

use super::*;
use crate::connection_ids::{QuicKeys, new_steering};
use crate::secrets::Secrets;

/// A process of generation 7, and datagrams of each kind.
struct Ground {
    former: Former,
    link: UnixDatagram,
    its: Vec<Vec<u8>>,
    others: Vec<Vec<u8>>,
}

impl Ground {
    fn new() -> Self {
        let secrets = Secrets::load(None, None).unwrap();
        let keys = |generation| {
            let steering = new_steering(2).unwrap();
            QuicKeys::new(&secrets, steering, generation).unwrap()
        };
        let id = |generation| keys(generation).generator(1).generate_cid();
        let drawn = ConnectionId::new(&[5; 8]);
        let short = |id: ConnectionId| [&[0x40][..], &id, &[9; 30]].concat();
        let long = |id: ConnectionId| {
            let head = [0xc0, 0, 0, 0, 1, id.len() as u8];
            [&head[..], &id, &[3, 1, 2, 3], &[9; 30]].concat()
        };
        let (ours, link) = UnixDatagram::pair().unwrap();
        link.set_nonblocking(true).unwrap();
        Self {
            former: Former::new(keys(7).giver(), 7, Arc::new([drawn].into()), ours),
            link,
            its: vec![short(id(7)), long(id(7)), long(drawn)],
            others: vec![
                short(id(8)),
                long(id(8)),
                long(ConnectionId::new(&[6; 8])),
                short(ConnectionId::new(&[7; 13])),
                vec![0x40; 5],
                vec![0xc0; 3],
                long(ConnectionId::new(&[])),
            ],
        }
    }

    fn sift(&self, datagrams: &[Vec<u8>], stride: usize) -> Vec<u8> {
        let mut bytes = datagrams.concat();
        let mut meta = RecvMeta {
            addr: "192.0.2.1:5".parse().unwrap(),
            len: bytes.len(),
            stride,
            ecn: None,
            dst_ip: None,
        };
        self.former.sift(&mut bytes, &mut meta);
        bytes.truncate(meta.len);
        bytes
    }

    fn came(&self) -> Vec<Vec<u8>> {
        let mut came = Vec::new();
        let mut buf = [0; 2000];
        while let Ok(length) = self.link.recv(&mut buf) {
            came.push(buf[HEAD..length].to_vec());
        }
        came
    }
}

#[test]
fn datagrams_go_to_the_process_that_has_their_connection() {
    let ground = Ground::new();
    for datagram in &ground.its {
        let left = ground.sift(std::slice::from_ref(datagram), datagram.len());
        assert!(left.is_empty(), "{datagram:x?}");
        assert_eq!(ground.came(), std::slice::from_ref(datagram));
    }
    for datagram in &ground.others {
        let left = ground.sift(std::slice::from_ref(datagram), datagram.len());
        assert_eq!(left, *datagram);
        assert!(ground.came().is_empty());
    }
}

#[test]
fn a_train_is_taken_apart() {
    let ground = Ground::new();
    let padded = |datagram: &[u8]| {
        let mut padded = datagram.to_vec();
        padded.resize(60, 1);
        padded
    };
    let (its, other) = (padded(&ground.its[0]), padded(&ground.others[0]));
    let last = ground.others[0][..40].to_vec();
    let train = [
        its.clone(),
        other.clone(),
        its.clone(),
        other.clone(),
        last.clone(),
    ];
    assert_eq!(
        ground.sift(&train, 60),
        [other.clone(), other, last].concat()
    );
    assert_eq!(ground.came(), [its.clone(), its]);
}

#[test]
fn nothing_is_lost_to_a_process_that_has_ended() {
    let ground = Ground::new();
    let datagram = ground.its[0].clone();
    let Ground { former, link, .. } = ground;
    drop(link);
    let mut meta = RecvMeta {
        len: datagram.len(),
        stride: datagram.len(),
        ..RecvMeta::default()
    };
    let mut bytes = datagram.clone();
    former.sift(&mut bytes, &mut meta);
    assert_eq!(bytes[..meta.len], datagram);
}

#[tokio::test]
async fn addresses_and_ecn_come_along() {
    let cases = [
        ("192.0.2.1:443", Some("192.0.2.2"), Some(EcnCodepoint::Ce)),
        (
            "[2001:db8::1]:9",
            Some("2001:db8::2"),
            Some(EcnCodepoint::Ect0),
        ),
        ("[::ffff:192.0.2.1]:9", Some("::ffff:192.0.2.2"), None),
        ("[fe80::1%3]:65535", None, None),
    ];
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    let diversion = Diversion::default();
    diversion.set(Some(theirs)).unwrap();
    for (remote, local, ecn) in cases {
        let meta = RecvMeta {
            addr: remote.parse().unwrap(),
            len: 3,
            stride: 3,
            ecn,
            dst_ip: local.map(|local| local.parse().unwrap()),
        };
        ours.send(&[&encode(&meta)[..], b"abc"].concat()).unwrap();
        let mut buf = [0; 100];
        let mut got = [RecvMeta::default()];
        let count = poll_fn(|cx| {
            let mut bufs = [IoSliceMut::new(&mut buf)];
            diversion.poll_recv(cx, &mut bufs, &mut got).unwrap()
        });
        assert_eq!(count.await.unwrap(), 1);
        let [got] = got;
        assert_eq!((got.addr, got.dst_ip), (meta.addr, meta.dst_ip));
        assert_eq!(got.ecn.map(|ecn| ecn as u8), ecn.map(|ecn| ecn as u8));
        assert_eq!((got.len, got.stride, &buf[..3]), (3, 3, &b"abc"[..]));
    }
    diversion.set(None).unwrap();
    let off = poll_fn(|cx| Poll::Ready(diversion.poll_recv(cx, &mut [], &mut []).is_none()));
    assert!(off.await);
}
