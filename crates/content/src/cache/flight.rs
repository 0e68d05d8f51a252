//! Requests to the upstream that several clients wait for: collapsed forwarding.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use hashbrown::HashMap;
use http::{HeaderMap, Response, StatusCode};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::flow::Flow;
use super::hints::Hints;
use super::key::{AskedKey, Key};
use super::stored::{Head, Stored};
use crate::{Body, ErrorReason, Interim};

/// The requests to the upstream of one site that are under way.
#[derive(Debug, Default)]
pub(super) struct Flights(Mutex<HashMap<Key, Vec<Arc<Flight>>>>);

/// A request to the upstream, and its progress.
#[derive(Debug)]
pub(super) struct Flight {
    /// The fields of the request that began it.
    pub(super) fields: HeaderMap,
    progress: watch::Sender<Progress>,
    /// Those of the upstream so far.
    hints: Hints,
    /// The parts for the client alone whose request began it.
    own: Mutex<Own>,
    is_purged: AtomicBool,
}

/// The progress of a request to the upstream.
#[derive(Clone, Debug)]
pub(super) enum Progress {
    Waiting,
    /// A response that may be stored, whose content arrives.
    Arriving(Arc<Head>, Arc<Flow>),
    /// The disk has the response.
    Landed(Arc<Stored>),
    /// The stored response is current. The second is the upstream's status.
    Current(Arc<Stored>, StatusCode),
    /// The stored response takes the place of this error.
    InPlaceOf(Arc<Stored>, StatusCode),
    /// The upstream can't be asked.
    Failed(StatusCode, Option<ErrorReason>),
    /// The response is for one client alone. All others ask for themselves.
    Alone,
}

/// The place of somebody who waits for a flight. While it is there, content that arrives is kept from its
/// beginning.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) flight: Arc<Flight>,
    progress: watch::Receiver<Progress>,
}

/// The parts of a response that are for one client alone.
#[derive(Debug, Default)]
pub(super) struct Own {
    pub(super) response: Option<Response<Body>>,
    pub(super) fields: HeaderMap,
}

/// The part that a request has in a flight.
pub(super) enum Joined<T> {
    /// It began the flight, and has to fly it.
    Leads(Seat),
    /// Another one did.
    Follows(Seat),
    /// There is something better than a flight.
    Known(T),
}

impl Flights {
    /// Joins a flight for which `fits` holds, or begins one. `known` is asked before one begins: a
    /// response may have landed meanwhile.
    pub(super) fn join<T>(
        &self,
        key: &AskedKey<'_>,
        fields: &HeaderMap,
        fits: impl Fn(&Flight) -> bool,
        known: impl FnOnce() -> Option<T>,
    ) -> Joined<T> {
        let mut flights = self.0.lock();
        if let Some(under_way) = flights.get(key)
            && let Some(flight) = under_way
                .iter()
                .find(|flight| !flight.is_purged() && fits(flight))
        {
            return Joined::Follows(Seat::of(flight));
        }
        if let Some(known) = known() {
            return Joined::Known(known);
        }
        let flight = Arc::new(Flight {
            fields: fields.clone(),
            progress: watch::Sender::new(Progress::Waiting),
            hints: Hints::default(),
            own: Mutex::default(),
            is_purged: AtomicBool::new(false),
        });
        let under_way = flights.entry(key.to_key()).or_default();
        under_way.push(Arc::clone(&flight));
        Joined::Leads(Seat::of(&flight))
    }

    /// Takes a flight out that is over.
    fn remove(&self, key: &Key, flight: &Arc<Flight>) {
        let mut flights = self.0.lock();
        if let Some(under_way) = flights.get_mut(key) {
            under_way.retain(|other| !Arc::ptr_eq(other, flight));
            if under_way.is_empty() {
                flights.remove(key);
            }
        }
    }

    /// Keeps the responses of some flights from being stored.
    pub(super) fn purge(&self, is_meant: impl Fn(&Key) -> bool) {
        let flights = self.0.lock();
        let meant = flights.iter().filter(|(key, _)| is_meant(key));
        for flight in meant.flat_map(|(_, under_way)| under_way) {
            flight.is_purged.store(true, Relaxed);
        }
    }
}

impl Flight {
    /// Its progress so far.
    pub(super) fn progress(&self) -> Progress {
        self.progress.borrow().clone()
    }

    /// Takes the parts for the client alone whose request began it.
    pub(super) fn take_own(&self) -> Own {
        std::mem::take(&mut self.own.lock())
    }

    /// Whether a purge since its beginning was for it.
    pub(super) fn is_purged(&self) -> bool {
        self.is_purged.load(Relaxed)
    }
}

impl Seat {
    fn of(flight: &Arc<Flight>) -> Self {
        Self {
            flight: Arc::clone(flight),
            progress: flight.progress.subscribe(),
        }
    }

    /// Waits until the flight has come to something. Meanwhile a client that can receive interim responses
    /// gets those of the upstream, also those from before it came; it `leads` if they answer its request.
    pub(super) async fn arrival(&mut self, interim: Option<&Interim>, leads: bool) -> Progress {
        let mut passed = 0;
        loop {
            let progress = self.progress.borrow_and_update().clone();
            // After the look, so that none of them is left behind by the response.
            if let Some(interim) = interim {
                self.flight.hints.pass_on(&mut passed, interim, leads);
            }
            if !matches!(progress, Progress::Waiting) {
                return progress;
            }
            if self.progress.changed().await.is_err() {
                return Progress::Alone;
            }
        }
    }
}

/// The end of a flight on which its request is made. Dropped, the flight is over.
#[derive(Debug)]
pub(super) struct Pilot {
    pub(super) flight: Arc<Flight>,
    key: Key,
    flights: Arc<Flights>,
}

impl Pilot {
    pub(super) const fn new(flight: Arc<Flight>, key: Key, flights: Arc<Flights>) -> Self {
        Self {
            flight,
            key,
            flights,
        }
    }

    pub(super) const fn key(&self) -> &Key {
        &self.key
    }

    pub(super) fn has(&self, progress: Progress) {
        self.flight.progress.send_replace(progress);
    }

    /// Passes an interim response on to all who wait, and to those who will. One to a request that is
    /// somebody's own goes to that client alone.
    pub(super) fn hint(&self, head: Response<()>, is_personal: bool) {
        self.flight.hints.add(head, is_personal);
        // Wakes those who wait.
        self.flight.progress.send_modify(|_| {});
    }

    /// Waits until nobody waits for the flight any more: whoever wants to read its response does.
    pub(super) async fn all_read(&self) {
        self.flight.progress.closed().await;
    }

    /// Leaves the parts for the client alone whose request began the flight.
    pub(super) fn leave(&self, own: Own) {
        *self.flight.own.lock() = own;
    }
}

impl Drop for Pilot {
    fn drop(&mut self) {
        self.flights.remove(&self.key, &self.flight);
        self.flight.progress.send_if_modified(|progress| {
            let is_lost = matches!(progress, Progress::Waiting);
            if is_lost {
                *progress = Progress::Alone;
            }
            is_lost
        });
    }
}
