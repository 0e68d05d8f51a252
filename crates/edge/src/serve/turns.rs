//! Handshakes and busy connections take turns.
//!
//! A handshake takes as much CPU time as dozens of requests. So each of its steps waits until nothing
//! else is ready to run, few go on at once, and addresses take turns: neither the clients that are served
//! nor those that come wait for the handshakes of an address that begins hundreds. Likewise a connection
//! that is served pauses after a [`Slice`] of time.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::clock;

/// Work of a connection after which others have their turn.
const SLICE: Duration = Duration::from_micros(100);

/// The time that a connection has worked without a pause.
#[derive(Debug, Default)]
pub(super) struct Slice(Option<Instant>);

impl Slice {
    /// Pending when the time is used up; the task is woken after whatever else is ready has run, and
    /// sockets were looked at.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now = clock::now();
        let since = *self.0.get_or_insert(now);
        if now.saturating_duration_since(since) < SLICE {
            return Poll::Ready(());
        }
        self.pause();
        // Pending, it has left the waker with the runtime.
        pin!(tokio::task::yield_now()).poll(cx)
    }

    /// Notes that the connection waits for something.
    pub(super) const fn pause(&mut self) {
        self.0 = None;
    }
}

/// Who may go on with a handshake.
#[derive(Debug)]
pub(crate) struct Turns {
    at_once: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    waiting: HashMap<IpAddr, VecDeque<oneshot::Sender<Turn>>>,
    /// The addresses of `waiting`, the next one first.
    order: VecDeque<IpAddr>,
}

impl Turns {
    /// Turns of which there are `at_once` at a time.
    pub(crate) fn new(at_once: usize) -> Arc<Self> {
        Arc::new(Self {
            at_once: at_once.max(1),
            state: Mutex::default(),
        })
    }

    /// Runs a handshake of `address`, each step in a turn of its own.
    pub(super) async fn run<T>(
        self: &Arc<Self>,
        address: IpAddr,
        handshake: impl Future<Output = T>,
    ) -> T {
        let mut handshake = pin!(handshake);
        loop {
            let turn = self.turn(address.to_canonical()).await;
            tokio::task::yield_now().await;
            let step = poll_fn(|cx| Poll::Ready(handshake.as_mut().poll(cx))).await;
            drop(turn);
            match step {
                Poll::Ready(output) => return output,
                Poll::Pending => woken().await,
            }
        }
    }

    /// Waits for a turn; dropped, it is the next one's.
    pub(super) async fn turn(self: &Arc<Self>, address: IpAddr) -> Option<Turn> {
        let coming = {
            let mut state = self.state.lock();
            if state.taken < self.at_once {
                state.taken += 1;
                return Some(Turn(Some(Arc::clone(self))));
            }
            state.wait(address)
        };
        coming.await.ok()
    }
}

impl State {
    fn wait(&mut self, address: IpAddr) -> oneshot::Receiver<Turn> {
        let Self { waiting, order, .. } = self;
        let (call, coming) = oneshot::channel();
        let calls = waiting.entry(address).or_insert_with(|| {
            order.push_back(address);
            VecDeque::new()
        });
        calls.push_back(call);
        coming
    }

    /// The first of the address that is next.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        let address = self.order.pop_front()?;
        let calls = self.waiting.get_mut(&address)?;
        let next = calls.pop_front();
        match calls.is_empty() {
            true => drop(self.waiting.remove(&address)),
            false => self.order.push_back(address),
        }
        next
    }
}

/// Until the task is woken.
async fn woken() {
    let mut polled = false;
    poll_fn(|_| match std::mem::replace(&mut polled, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}

/// A turn. Dropped, also before it was seen, it is the next one's.
#[derive(Debug)]
pub(super) struct Turn(Option<Arc<Turns>>);

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(turns) = self.0.take() else {
            return;
        };
        loop {
            let next = {
                let mut state = turns.state.lock();
                let next = state.next();
                state.taken -= usize::from(next.is_none());
                next
            };
            let Some(next) = next else {
                return;
            };
            match next.send(Self(Some(Arc::clone(&turns)))) {
                Ok(()) => return,
                // Gone; this turn is not over.
                Err(mut unseen) => unseen.0 = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::ready;

    use super::*;

    const ATTACKER: [u8; 4] = [192, 0, 2, 1];
    const CLIENT: [u8; 4] = [192, 0, 2, 2];

    /// Takes a turn for each of `addresses` in their order; returns the order in which they had them.
    async fn order(addresses: &[[u8; 4]], at_once: usize) -> Vec<[u8; 4]> {
        let turns = Turns::new(at_once);
        let had = Arc::<Mutex<Vec<_>>>::default();
        let tasks: Vec<_> = addresses
            .iter()
            .map(|&address| {
                let (turns, had) = (Arc::clone(&turns), Arc::clone(&had));
                tokio::spawn(async move {
                    let _turn = turns.turn(address.into()).await;
                    had.lock().push(address);
                    tokio::task::yield_now().await;
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(turns.state.lock().taken, 0);
        let had = had.lock();
        had.clone()
    }

    #[tokio::test]
    async fn an_address_that_begins_hundreds_is_waited_for_once() {
        for at_once in 1..4 {
            let mut addresses = vec![ATTACKER; 300];
            addresses.extend([CLIENT; 2]);
            let had = order(&addresses, at_once).await;
            assert_eq!(had.len(), addresses.len());
            let places: Vec<_> = (0..had.len()).filter(|&i| had[i] == CLIENT).collect();
            assert_eq!(places, [at_once + 1, at_once + 3], "{at_once} at once");
        }
    }

    #[tokio::test]
    async fn who_gives_up_is_passed_over() {
        let turns = Turns::new(1);
        let first = turns.turn(ATTACKER.into()).await.unwrap();
        let [mut gone, mut called, mut last] =
            [(); 3].map(|()| Box::pin(turns.turn(CLIENT.into())));
        for waiting in [&mut gone, &mut called, &mut last] {
            assert!(futures_util::poll!(waiting.as_mut()).is_pending());
        }
        drop(gone);
        drop(first);
        // It has the turn, and has not looked yet.
        drop(called);
        let last = last.await;
        assert!(last.is_some());
        drop(last);
        let state = turns.state.lock();
        assert_eq!((state.taken, state.waiting.len()), (0, 0));
        assert!(state.order.is_empty());
    }

    #[tokio::test]
    async fn a_step_waits_for_all_that_is_ready() {
        let turns = Turns::new(1);
        let served = Arc::new(Mutex::new(0));
        let handshake = {
            let served = Arc::clone(&served);
            tokio::spawn(async move {
                turns
                    .run(CLIENT.into(), async move { *served.lock() })
                    .await
            })
        };
        for _ in 0..10 {
            let served = Arc::clone(&served);
            tokio::spawn(async move { *served.lock() += 1 });
        }
        assert_eq!(handshake.await.unwrap(), 10);
    }

    #[tokio::test]
    async fn a_busy_connection_pauses_for_others() {
        let others = Arc::new(Mutex::new(0));
        let seen = Arc::clone(&others);
        tokio::spawn(async move { *seen.lock() += 1 });
        let mut slice = Slice::default();
        let begun = Instant::now();
        // Busy, until another has run.
        poll_fn(|cx| {
            while *others.lock() == 0 {
                ready!(slice.poll(cx));
            }
            Poll::Ready(())
        })
        .await;
        assert!(begun.elapsed() >= SLICE);
    }
}
