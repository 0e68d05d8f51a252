//! The agent's answers: which egress routes reach the clients, and which policies match them. Each is kept by
//! client prefix until an event says that it may have changed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::net::Net;
use super::state::Answer;

/// Prefixes without a connection whose answers are kept. Beyond, all of them go.
const MAX_IDLE: usize = 65_536;
/// Lengths of client prefixes: addresses within one share their BGP routes.
const PREFIX_LENS: [u8; 2] = [24, 48];

/// A connection that is notified when its client's answer changes.
pub(crate) trait Reroute: Send + Sync {
    /// The route may have to change now.
    fn reroute(&self);
}

/// A client prefix with the agent's answer.
#[derive(Debug)]
pub(crate) struct Place {
    net: Net,
    answer: Mutex<Option<Answer>>,
}

impl Place {
    /// The agent's last answer; `None` before the first.
    pub(crate) fn answer(&self) -> Option<Answer> {
        self.answer.lock().clone()
    }
}

/// A connection's subscription at a [`Place`]; ends when dropped.
#[derive(Debug)]
pub(crate) struct Subscription {
    lookups: Arc<Lookups>,
    place: Arc<Place>,
    subscriber: u64,
}

impl Subscription {
    /// The agent's last answer; `None` before the first.
    pub(crate) fn answer(&self) -> Option<Answer> {
        self.place.answer()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.lookups.leave(self);
    }
}

/// All client prefixes.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    inner: Mutex<Inner>,
    /// There is something to ask.
    wake: Notify,
    subscribers: AtomicU64,
}

#[derive(Debug, Default)]
struct Inner {
    /// By network, of which there is one length a family.
    entries: BTreeMap<IpAddr, Entry>,
    to_ask: BTreeSet<IpAddr>,
    idle: usize,
}

struct Entry {
    place: Arc<Place>,
    /// Moves on when the answer may have changed.
    version: u64,
    subscribers: HashMap<u64, Weak<dyn Reroute>>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:?} with {} subscribers",
            self.place,
            self.subscribers.len()
        )
    }
}

/// A question to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) net: Net,
    key: IpAddr,
    version: u64,
}

/// The client's prefix, the longest that BGP's routes distinguish: the agent's answers are kept for it.
/// Outcomes of responses are kept for longer prefixes as well ([`hikyaku_core::egress::EgressKey`]).
pub(crate) fn client_prefix(client: IpAddr) -> Net {
    let client = client.to_canonical();
    Net::around(client, PREFIX_LENS[usize::from(client.is_ipv6())])
}

impl Lookups {
    /// Takes a connection in. The agent is asked about its client, unless its answer is known.
    pub(crate) fn join(
        self: &Arc<Self>,
        client: IpAddr,
        subscriber: Weak<dyn Reroute>,
    ) -> Subscription {
        let id = self.subscribers.fetch_add(1, Ordering::Relaxed);
        let net = client_prefix(client);
        let (key, _) = net.range();
        let mut inner = self.inner.lock();
        let mut asks = false;
        let entry = inner.entries.entry(key).or_insert_with(|| {
            asks = true;
            Entry {
                place: Arc::new(Place {
                    net,
                    answer: Mutex::default(),
                }),
                version: 0,
                subscribers: HashMap::new(),
            }
        });
        let was_idle = !asks && entry.subscribers.is_empty();
        entry.subscribers.insert(id, subscriber);
        let place = Arc::clone(&entry.place);
        inner.idle -= usize::from(was_idle);
        if asks {
            inner.to_ask.insert(key);
        }
        drop(inner);
        if asks {
            self.wake.notify_one();
        }
        Subscription {
            lookups: Arc::clone(self),
            place,
            subscriber: id,
        }
    }

    fn leave(&self, subscription: &Subscription) {
        let (key, _) = subscription.place.net.range();
        let mut inner = self.inner.lock();
        let Some(entry) = inner.entries.get_mut(&key) else {
            return;
        };
        if entry.subscribers.remove(&subscription.subscriber).is_none()
            || !entry.subscribers.is_empty()
        {
            return;
        }
        if inner.to_ask.remove(&key) {
            // Nobody waits for the answer any more.
            inner.entries.remove(&key);
            return;
        }
        inner.idle += 1;
        if inner.idle > MAX_IDLE {
            inner
                .entries
                .retain(|_, entry| !entry.subscribers.is_empty());
            inner.idle = 0;
        }
    }

    /// The answer for a client, if it is known.
    pub(crate) fn known(&self, client: IpAddr) -> Option<Answer> {
        let (key, _) = client_prefix(client).range();
        self.inner.lock().entries.get(&key)?.place.answer()
    }

    /// Forgets the answers for clients that overlap one of `nets`; all of them where there is none.
    /// Connections keep what they have until there is a new answer.
    pub(super) fn outdate(&self, nets: &[Net]) {
        let mut inner = self.inner.lock();
        let Inner {
            entries,
            to_ask,
            idle,
        } = &mut *inner;
        let keys: Vec<IpAddr> = if nets.is_empty() {
            entries.keys().copied().collect()
        } else {
            let overlapping = nets.iter().flat_map(|net| {
                let (first, last) = net.range();
                let (first, _) = client_prefix(first).range();
                entries.range(first..=last).map(|(key, _)| *key)
            });
            overlapping.collect()
        };
        for key in keys {
            let Some(entry) = entries.get_mut(&key) else {
                continue;
            };
            if entry.subscribers.is_empty() {
                entries.remove(&key);
                *idle -= 1;
            } else {
                entry.version += 1;
                to_ask.insert(key);
            }
        }
        drop(inner);
        self.wake.notify_one();
    }

    /// Forgets what all answers said: they name egress routes that are now others.
    pub(super) fn clear(&self) {
        for entry in self.inner.lock().entries.values() {
            *entry.place.answer.lock() = None;
        }
        self.outdate(&[]);
    }

    /// Waits until there is something to ask, or for a new cause to ask again.
    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Up to `limit` questions.
    pub(super) fn questions(&self, limit: usize) -> Vec<Question> {
        let mut inner = self.inner.lock();
        let mut questions = Vec::new();
        while questions.len() < limit
            && let Some(key) = inner.to_ask.pop_first()
        {
            if let Some(entry) = inner.entries.get(&key) {
                questions.push(Question {
                    net: entry.place.net,
                    key,
                    version: entry.version,
                });
            }
        }
        questions
    }

    /// Takes questions back that were not answered.
    pub(super) fn ask_again(&self, questions: &[Question]) {
        let mut inner = self.inner.lock();
        for question in questions {
            if inner.entries.contains_key(&question.key) {
                inner.to_ask.insert(question.key);
            }
        }
    }

    /// Takes an answer, and returns the connections that it concerns, if it is another than before.
    pub(super) fn answered(&self, question: &Question, answer: Answer) -> Vec<Weak<dyn Reroute>> {
        let mut inner = self.inner.lock();
        let Some(entry) = inner.entries.get_mut(&question.key) else {
            return Vec::new();
        };
        // Otherwise it is asked anew, and this may be of before the change.
        if entry.version != question.version {
            return Vec::new();
        }
        let mut known = entry.place.answer.lock();
        if known.as_ref() == Some(&answer) {
            return Vec::new();
        }
        *known = Some(answer);
        drop(known);
        entry.subscribers.values().cloned().collect()
    }

    /// All connections.
    pub(super) fn subscribers(&self) -> Vec<Weak<dyn Reroute>> {
        let inner = self.inner.lock();
        let subscribers = inner.entries.values().flat_map(|e| e.subscribers.values());
        subscribers.cloned().collect()
    }
}
