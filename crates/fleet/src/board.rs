//! Named contents that a whole fleet has in common: few, small and sealed.
//!
//! Each edge holds those that it wants in memory, and the store carries them between edges. Of two contents of
//! one place the newer stands, by a stamp that its writer gave. So an old one that somebody puts back into
//! the store never takes the place of a newer one that an edge holds.

mod sync;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};

use crate::clock;
use crate::key::is_name;
use crate::seal::{MAX_CONTENT, MAX_TITLE, Sealer};
pub(crate) use sync::Sync;

/// Most contents of a topic that an edge holds.
const MAX_CONTENTS: usize = 1024;
/// A content that was made by a clock so far ahead is refused: it would stand for too long.
const MAX_AHEAD: u64 = 3600;
/// Between two writes of a content in place of an older or unreadable one.
const REWRITE: Duration = Duration::from_secs(10);

/// The uses of contents. A new topic takes a new word, which older edges never ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Topic {
    /// Keys of session tickets.
    Tickets,
    /// Accounts at certificate authorities.
    Account,
    /// Certificates with their private keys.
    Certificate,
    /// Answers to authorities that check names now.
    Challenge,
    /// Egress routes that an edge drains, by the edge's name.
    Drain,
    /// Samples of an edge's clients, by edge and day.
    Gain,
}

impl Topic {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Tickets,
        Self::Account,
        Self::Certificate,
        Self::Challenge,
        Self::Drain,
        Self::Gain,
    ];

    /// Its word in keys of the store and in metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Tickets => "tickets",
            Self::Account => "account",
            Self::Certificate => "certificate",
            Self::Challenge => "challenge",
            Self::Drain => "drain",
            Self::Gain => "gain",
        }
    }
}

/// Something that the whole fleet has in common.
#[derive(Clone, PartialEq, Eq)]
pub struct Content {
    /// When it was made, in seconds since 1970 by its writer's clock, and a number among those of that second.
    /// The larger stands.
    pub stamp: (u64, u64),
    /// When it is void, in seconds since 1970.
    pub until: u64,
    /// A title for people, of 512 bytes at most. It is shown, and no secret.
    pub title: String,
    /// The content itself, of 64 KiB at most. It is shown nowhere.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content")
            .field("stamp", &self.stamp)
            .field("until", &self.until)
            .field("title", &self.title)
            .finish_non_exhaustive()
    }
}

impl Content {
    /// Of two, the one that stands. The bytes decide between contents of one stamp, at all edges alike.
    fn is_after(&self, other: &Self) -> bool {
        (self.stamp, &self.bytes) > (other.stamp, &other.bytes)
    }

    /// Its end may be another: it is kept for longer then.
    fn is_same(&self, other: &Self) -> bool {
        (self.stamp, &self.bytes) == (other.stamp, &other.bytes)
    }

    fn is_over(&self, now: u64) -> bool {
        self.until <= now
    }
}

/// A content, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The word of its topic.
    pub topic: String,
    /// A title, such as the names of a certificate.
    pub title: String,
    /// When its content was made, in seconds since 1970.
    pub made: u64,
    /// When its content is void, in seconds since 1970.
    pub until: u64,
    /// Whether the store has this content, as far as is known.
    pub stored: bool,
}

/// Topic and name of a content.
type Id = (Topic, String);

/// The contents that an edge holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All of a topic.
    All,
    /// Those with these names.
    Named(BTreeSet<String>),
}

impl Wanted {
    fn has(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.contains(name),
        }
    }
}

/// The contents that an edge holds. They outlive its part in a fleet.
pub struct Board {
    inner: Mutex<Inner>,
    /// A number that grows with each change that came from another edge.
    changes: watch::Sender<u64>,
    /// Notified when something is to be written soon.
    pub(crate) wake: Notify,
}

#[derive(Default)]
struct Inner {
    secrets: Vec<[u8; 32]>,
    wanted: BTreeMap<Topic, Wanted>,
    held: BTreeMap<Id, Held>,
    /// To be removed from the store.
    removed: BTreeSet<Id>,
}

struct Held {
    content: Content,
    /// Made by this edge.
    is_own: bool,
    is_unwritten: bool,
    /// That of the store's value that this was read from or written to.
    revision: Option<String>,
    /// When it was last written in place of another.
    rewritten: Option<Instant>,
}

/// The fate of a content from the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Same,
    Taken,
    /// Made at the same time as the one that is held, which stands.
    Tie,
    /// It is older than the one that is held, or void.
    Older,
    /// It is beyond a bound.
    Refused,
}

impl Default for Board {
    fn default() -> Self {
        Self {
            inner: Mutex::default(),
            changes: watch::channel(0).0,
            wake: Notify::new(),
        }
    }
}

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries()).finish()
    }
}

impl Board {
    /// Seals by the first of these secrets, and opens by all. Without any, nothing goes to a store or comes
    /// from one. Others than before have all contents written again.
    pub fn set_secrets(&self, secrets: &[[u8; 32]]) {
        let mut inner = self.inner.lock();
        if inner.secrets == secrets {
            return;
        }
        inner.secrets = secrets.to_vec();
        inner.unwritten();
        drop(inner);
        self.wake.notify_one();
    }

    /// Holds these contents of a topic, in place of those that were wanted before; `None`: none.
    pub fn want(&self, topic: Topic, wanted: Option<Wanted>) {
        let mut inner = self.inner.lock();
        inner.held.retain(|(of, name), _| {
            *of != topic || wanted.as_ref().is_some_and(|wanted| wanted.has(name))
        });
        match wanted {
            Some(wanted) => inner.wanted.insert(topic, wanted),
            None => inner.wanted.remove(&topic),
        };
    }

    /// The content of a name, unless it is void.
    pub fn get(&self, topic: Topic, name: &str) -> Option<Content> {
        let inner = self.inner.lock();
        let content = &inner.held.get(&(topic, name.to_owned()))?.content;
        (!content.is_over(now())).then(|| content.clone())
    }

    /// All contents of a topic that are not void.
    pub fn all(&self, topic: Topic) -> Vec<(String, Content)> {
        let now = now();
        let inner = self.inner.lock();
        let held = inner.held.iter();
        let of_topic = held.filter(|((of, _), held)| *of == topic && !held.content.is_over(now));
        of_topic
            .map(|((_, name), held)| (name.clone(), held.content.clone()))
            .collect()
    }

    /// Holds a content that this edge has made, and writes it to the store once it can be. Returns whether it
    /// stands: it does not where a newer one is held, where the name is not wanted, or beyond a bound.
    pub fn put(&self, topic: Topic, name: &str, content: Content) -> bool {
        let mut inner = self.inner.lock();
        let outcome = inner.take(topic, name, content);
        if outcome == Outcome::Taken {
            let id = (topic, name.to_owned());
            inner.removed.remove(&id);
            if let Some(held) = inner.held.get_mut(&id) {
                (held.is_own, held.is_unwritten) = (true, true);
            }
            drop(inner);
            self.wake.notify_one();
        }
        matches!(outcome, Outcome::Taken | Outcome::Same)
    }

    /// Removes a content.
    pub fn remove(&self, topic: Topic, name: &str) {
        let mut inner = self.inner.lock();
        let id = (topic, name.to_owned());
        if inner.held.remove(&id).is_some() {
            inner.removed.insert(id);
            drop(inner);
            self.wake.notify_one();
        }
    }

    /// A number that grows with each change that came from another edge.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The contents, for people.
    pub fn entries(&self) -> Vec<Entry> {
        let now = now();
        let inner = self.inner.lock();
        let held = inner.held.iter();
        let current = held.filter(|(_, held)| !held.content.is_over(now));
        current
            .map(|((topic, _), held)| Entry {
                topic: topic.word().to_owned(),
                title: held.content.title.clone(),
                made: held.content.stamp.0,
                until: held.content.until,
                stored: !held.is_unwritten && held.revision.is_some(),
            })
            .collect()
    }

    /// The beginnings of the revisions that are held of answers to authorities, for the edge that waits until
    /// all others have its answers. `None` where this edge has none of them.
    pub(crate) fn seen(&self) -> Option<Vec<String>> {
        let inner = self.inner.lock();
        let takes_part = !inner.secrets.is_empty() && inner.wanted.contains_key(&Topic::Challenge);
        let held = inner.held.iter();
        let revisions = held.filter(|((topic, _), _)| *topic == Topic::Challenge);
        takes_part.then(|| {
            revisions
                .filter_map(|(_, held)| held.revision.as_deref().map(short))
                .take(MAX_SEEN)
                .collect()
        })
    }

    /// The revision by which others say that they have this edge's content of a name.
    pub(crate) fn revision(&self, topic: Topic, name: &str) -> Option<String> {
        let inner = self.inner.lock();
        let held = inner.held.get(&(topic, name.to_owned()))?;
        held.revision.as_deref().map(short)
    }

    fn sealer(&self) -> Option<Sealer> {
        Sealer::new(&self.inner.lock().secrets)
    }
}

/// Revisions that are reported at most.
pub(crate) const MAX_SEEN: usize = 16;

/// The beginning of a revision, by which it is reported.
fn short(revision: &str) -> String {
    revision.chars().take(8).collect()
}

impl Inner {
    fn unwritten(&mut self) {
        for held in self.held.values_mut() {
            held.is_unwritten = true;
        }
    }

    /// Holds a content in place of an older one.
    fn take(&mut self, topic: Topic, name: &str, content: Content) -> Outcome {
        let now = now();
        let is_wanted = self
            .wanted
            .get(&topic)
            .is_some_and(|wanted| wanted.has(name));
        let is_long = content.bytes.len() > MAX_CONTENT || content.title.len() > MAX_TITLE;
        let is_ahead = content.stamp.0 > now.saturating_add(MAX_AHEAD);
        if !is_wanted || !is_name(name) || is_long || is_ahead {
            return Outcome::Refused;
        }
        if content.is_over(now) {
            return Outcome::Older;
        }
        let id = (topic, name.to_owned());
        let is_full = self.count(topic) >= MAX_CONTENTS;
        match self.held.get_mut(&id) {
            Some(held) if held.content.is_same(&content) => {
                held.content.until = held.content.until.max(content.until);
                Outcome::Same
            }
            Some(held)
                if held.content.stamp == content.stamp && !content.is_after(&held.content) =>
            {
                Outcome::Tie
            }
            Some(held) if !content.is_after(&held.content) => Outcome::Older,
            Some(held) => {
                held.content = content;
                (held.is_own, held.revision) = (false, None);
                Outcome::Taken
            }
            None if is_full => Outcome::Refused,
            None => {
                let held = Held {
                    content,
                    is_own: false,
                    is_unwritten: false,
                    revision: None,
                    rewritten: None,
                };
                self.held.insert(id, held);
                Outcome::Taken
            }
        }
    }

    fn count(&self, topic: Topic) -> usize {
        self.held.keys().filter(|(of, _)| *of == topic).count()
    }

    /// Has the held content written in place of the store's, now and then: the other edge may do the same.
    fn rewrite(&mut self, id: &Id) {
        let Some(held) = self.held.get_mut(id) else {
            return;
        };
        if held.rewritten.is_none_or(|at| at.elapsed() >= REWRITE) {
            held.rewritten = Some(Instant::now());
            held.is_unwritten = true;
        }
    }
}

/// This host's clock, in seconds since 1970. The store's is not asked: whoever writes to it may set that.
fn now() -> u64 {
    clock::now_ms() / 1000
}

#[cfg(test)]
mod tests;
