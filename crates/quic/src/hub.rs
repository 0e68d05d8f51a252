//! The state that the handles of an endpoint share with its driver.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;

use crate::core::Core;
use crate::driver::Asleep;
use crate::forwarding::Forwarded;
use crate::socket::Socket;
use crate::wakers::Wakers;

/// The state of an endpoint.
///
/// Its locks are taken in this order: `core`, a connection's, `ready`. The driver and the tasks of a
/// worker's connections run in one thread, so that nobody waits for them.
pub(crate) struct Hub {
    pub(crate) core: Mutex<Core>,
    pub(crate) socket: Arc<dyn Socket>,
    ready: Mutex<Ready>,
}

/// The work that waits for the driver.
pub(crate) struct Ready {
    /// Connections that have something to send or to report, by their keys.
    pub(crate) connections: Vec<usize>,
    /// Datagrams that came to another worker's socket.
    pub(crate) datagrams: Vec<Forwarded>,
    /// The driver, while it sleeps.
    driver: Option<Waker>,
    /// Those who wait for the last connection to end.
    pub(crate) idle: Wakers,
    /// Somebody has the endpoint.
    pub(crate) is_used: bool,
    /// The driver has ended.
    ended: bool,
}

impl Ready {
    fn is_empty(&self) -> bool {
        self.connections.is_empty() && self.datagrams.is_empty()
    }
}

impl Hub {
    pub(crate) fn new(core: Core, socket: Arc<dyn Socket>) -> Self {
        Self {
            core: Mutex::new(core),
            socket,
            ready: Mutex::new(Ready {
                connections: Vec::new(),
                datagrams: Vec::new(),
                driver: None,
                idle: Wakers::default(),
                is_used: true,
                ended: false,
            }),
        }
    }

    /// Has the driver look at connection `key`.
    pub(crate) fn schedule(&self, key: usize) {
        self.add(|ready| ready.connections.push(key));
    }

    /// Hands a datagram over that came to another worker. Returns false if there are too many.
    pub(crate) fn forward(&self, datagram: Forwarded) -> bool {
        self.add(|ready| {
            let has_room = ready.datagrams.len() < MAX_FORWARDED && !ready.ended;
            if has_room {
                ready.datagrams.push(datagram);
            }
            has_room
        })
    }

    /// Changes what the driver finds when it looks next, and wakes it.
    pub(crate) fn add<T>(&self, change: impl FnOnce(&mut Ready) -> T) -> T {
        let mut ready = self.ready.lock();
        let result = change(&mut ready);
        let driver = ready.driver.take();
        drop(ready);
        driver.into_iter().for_each(Waker::wake);
        result
    }

    /// Exchanges what waits for the driver for these empty lists.
    pub(crate) fn take(&self, connections: &mut Vec<usize>, datagrams: &mut Vec<Forwarded>) {
        let mut ready = self.ready.lock();
        std::mem::swap(&mut ready.connections, connections);
        std::mem::swap(&mut ready.datagrams, datagrams);
    }

    /// Has the driver of `connections` connections woken for the next piece of work.
    pub(crate) fn sleep(&self, waker: &Waker, connections: usize) -> Asleep {
        let mut ready = self.ready.lock();
        if !ready.is_empty() {
            return Asleep::Work;
        }
        if connections == 0 {
            ready.idle.wake();
            if !ready.is_used {
                return Asleep::Unused;
            }
        }
        match &mut ready.driver {
            Some(driver) => driver.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        Asleep::Nothing
    }

    /// Notes that the driver has ended.
    pub(crate) fn end(&self) {
        let mut ready = self.ready.lock();
        ready.ended = true;
        ready.idle.wake();
    }
}

/// Datagrams of other workers that wait at most. More are dropped, as a full socket drops them.
const MAX_FORWARDED: usize = 4096;

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").finish_non_exhaustive()
    }
}
