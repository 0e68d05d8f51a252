use std::pin::Pin;
use std::sync::atomic::AtomicUsize;
use std::task::Wake;

use hikyaku_units::ByteSize;
use http::Response;
use http_body::{Body as _, Frame};
use http_body_util::StreamBody;

use super::*;
use hikyaku_content::Body;
use hikyaku_h2::priority::Parameters;

const CHUNK: usize = 16 * 1024;

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn pools(address: u64, total: u64) -> Pools {
    Pools {
        address: Arc::new(Pool::new(address)),
        total: Arc::new(Pool::new(total)),
    }
}

fn account(max: u64, pools: &Pools) -> Arc<Account> {
    let limits = Limits {
        memory_per_connection: ByteSize::from_mib(1024),
        ..Limits::default()
    };
    Account::new(max, &limits, pools.clone())
}

/// A body without end.
fn endless(account: &Arc<Account>) -> Body {
    asked_for(account, Parameters::default())
}

fn asked_for(account: &Arc<Account>, client: Parameters) -> Body {
    let chunks = std::iter::repeat_with(|| {
        Ok::<_, hikyaku_content::BoxError>(Frame::data(vec![7; CHUNK].into()))
    });
    let body = Body::boxed(StreamBody::new(futures_util::stream::iter(chunks)));
    bounded(Response::new(body), account, client).into_body()
}

fn take(body: &mut Body, wakes: &Arc<Wakes>) -> Option<Bytes> {
    let waker = Waker::from(Arc::clone(wakes));
    match Pin::new(body).poll_frame(&mut Context::from_waker(&waker)) {
        Poll::Ready(Some(Ok(frame))) => frame.into_data().ok(),
        Poll::Ready(_) => panic!("endless"),
        Poll::Pending => None,
    }
}

/// Blocks that a client that takes nothing leaves in memory, over all of `bodies`.
fn fill(bodies: &mut [Body]) -> Vec<Bytes> {
    let wakes = Arc::<Wakes>::default();
    let mut held = Vec::new();
    loop {
        let before = held.len();
        held.extend(bodies.iter_mut().filter_map(|body| take(body, &wakes)));
        if held.len() == before {
            return held;
        }
    }
}

fn bytes(held: &[Bytes]) -> u64 {
    held.iter().map(|bytes| bytes.len() as u64).sum()
}

#[test]
fn the_smallest_bound_holds_and_each_connection_has_its_reserve() {
    let mib = 1 << 20;
    // name, connection's, address's and total bound, held before by others, reached
    let cases = [
        ("the connection's", mib, 8 * mib, 8 * mib, 0, mib),
        ("the address's", 8 * mib, mib, 8 * mib, 0, mib),
        ("that of all", 8 * mib, 8 * mib, mib, 0, mib),
        (
            "others have used it up",
            mib,
            2 * mib,
            2 * mib,
            2 * mib,
            RESERVE,
        ),
        (
            "others have left something",
            mib,
            2 * mib,
            2 * mib,
            3 * mib / 2,
            mib / 2,
        ),
        ("smaller than the reserve", 1, mib, mib, 0, RESERVE),
    ];
    for (name, max, address, total, others, want) in cases {
        let pools = pools(address, total);
        for pool in [&pools.address, &pools.total] {
            pool.held.fetch_add(others, Ordering::Relaxed);
        }
        let account = account(max, &pools);
        let mut bodies = [endless(&account), endless(&account), endless(&account)];
        let held = fill(&mut bodies);
        assert_eq!(bytes(&held), want, "{name}");
        assert_eq!(pools.total.held(), others + want, "{name}");
        assert!(account.is_full(), "{name}");
        drop((held, bodies));
        assert_eq!(pools.total.held(), others, "{name}: all is given back");
        assert_eq!(pools.address.held(), others, "{name}: all is given back");
        assert!(!account.is_full(), "{name}");
    }
}

#[test]
fn who_waits_is_woken_one_after_another() {
    let pools = pools(1 << 30, 1 << 30);
    let account = account(RESERVE, &pools);
    let mut bodies = [endless(&account), endless(&account), endless(&account)];
    let mut held = fill(&mut bodies);
    let wakes: [Arc<Wakes>; 3] = std::array::from_fn(|_| Arc::default());
    for (body, wakes) in bodies.iter_mut().zip(&wakes) {
        assert!(take(body, wakes).is_none());
    }
    let woken = |wakes: &[Arc<Wakes>; 3]| wakes.each_ref().map(|w| w.0.load(Ordering::Relaxed));

    // The first one had the last chunk, so that it waits behind the others.
    held.pop();
    assert_eq!(woken(&wakes), [0, 1, 0], "room for one");
    held.extend(take(&mut bodies[1], &wakes[1]));
    assert_eq!(woken(&wakes), [0, 1, 0], "which it has used");

    held.drain(..2);
    assert_eq!(woken(&wakes), [1, 1, 1], "room for two");
    assert!(
        take(&mut bodies[0], &wakes[0]).is_some(),
        "nobody's place is kept"
    );
}

/// A download holds all room that there is, and asks for more as soon as the client has taken some.
#[test]
fn an_urgent_body_gets_room_before_one_that_always_wants_more() {
    let of = |urgency, incremental| Parameters {
        urgency: Some(urgency),
        incremental: Some(incremental),
    };
    let cases = [
        ("a more urgent one", of(5, false), of(0, false), true),
        ("a less urgent one", of(3, false), of(5, false), false),
        ("of the same urgency", of(3, false), of(3, false), false),
        ("in turns", of(3, true), of(3, true), true),
    ];
    for (name, first, second, is_before) in cases {
        let account = account(RESERVE, &pools(1 << 30, 1 << 30));
        let mut bodies = [first, second].map(|client| asked_for(&account, client));
        let wakes: [Arc<Wakes>; 2] = std::array::from_fn(|_| Arc::default());
        let chunks = 0..RESERVE as usize / CHUNK;
        let mut held: Vec<_> = chunks
            .map(|_| take(&mut bodies[0], &wakes[0]).expect(name))
            .collect();
        assert!(take(&mut bodies[1], &wakes[1]).is_none(), "{name}");
        held.remove(0);
        assert_eq!(wakes[1].0.load(Ordering::Relaxed), 1, "{name}: called");
        let again = take(&mut bodies[0], &wakes[0]);
        assert_eq!(again.is_none(), is_before, "{name}");
        let other = take(&mut bodies[1], &wakes[1]);
        assert_eq!(other.is_some(), is_before, "{name}");
        drop(bodies);
        assert!(!account.is_full(), "{name}");
    }
}

#[test]
fn nothing_is_read_while_encrypted_bytes_wait() {
    let account = account(1 << 20, &pools(1 << 20, 1 << 20));
    let mut body = endless(&account);
    let wakes = Arc::<Wakes>::default();
    assert!(take(&mut body, &wakes).is_some());
    account.set_blocked(true);
    assert!(take(&mut body, &wakes).is_none(), "though nothing is held");
    assert!(account.is_full());
    assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
    account.set_blocked(false);
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    assert!(take(&mut body, &wakes).is_some());
}

#[test]
fn who_gives_up_passes_the_call_on() {
    let pools = pools(1 << 30, 1 << 30);
    let account = account(RESERVE, &pools);
    let mut bodies = vec![endless(&account), endless(&account)];
    let mut held = fill(&mut bodies);
    let wakes: [Arc<Wakes>; 2] = std::array::from_fn(|_| Arc::default());
    for (body, wakes) in bodies.iter_mut().zip(&wakes) {
        assert!(take(body, wakes).is_none());
    }
    held.pop();
    assert_eq!(wakes[0].0.load(Ordering::Relaxed), 1);
    drop(bodies.remove(0));
    assert_eq!(wakes[1].0.load(Ordering::Relaxed), 1);
    assert!(take(&mut bodies[0], &wakes[1]).is_some());
}

#[test]
fn a_part_keeps_its_whole_chunk() {
    let pools = pools(1 << 30, 1 << 30);
    let account = account(RESERVE, &pools);
    let mut body = endless(&account);
    let mut chunk = take(&mut body, &Arc::default()).unwrap();
    let part = chunk.split_to(10);
    drop(chunk);
    assert_eq!(pools.total.held(), CHUNK as u64);
    drop(part);
    assert_eq!(pools.total.held(), 0);
}

#[test]
fn content_in_memory_anyway_never_waits() {
    let pools = pools(0, 0);
    let account = account(RESERVE, &pools);
    let mut others = [endless(&account)];
    let _held = fill(&mut others);
    let response = Response::new(Body::from("a small file"));
    let mut body = bounded(response, &account, Parameters::default()).into_body();
    assert_eq!(take(&mut body, &Arc::default()).unwrap(), "a small file");
}
