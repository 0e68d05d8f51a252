//! Brings the contents of an edge and those of the store together.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use redis::{Cmd, cmd};

use super::{Held, Id, Inner, MAX_CONTENTS, Outcome, Topic, now};
use crate::breaker::Breaker;
use crate::clock;
use crate::fault::{Fault, FaultKind};
use crate::key::{Key, Kind, is_name};
use crate::link::{Link, bytes, pairs};
use crate::seal::{Place, Sealer};
use crate::shared::Shared;
use crate::status::add;

/// Values that are read or written at a time.
const BATCH: usize = 16;
/// Longest revision, in bytes.
const MAX_REVISION: usize = 64;

/// The revisions of the store that this edge has looked at.
pub(crate) struct Sync {
    looked: HashMap<Id, Vec<u8>>,
    /// Lets a full store alone for a while.
    breaker: Breaker,
    /// Whether it was said that a value is older or can't be opened.
    has_warned: (bool, bool),
}

/// The revisions of a store's contents, by topic and name.
type Index = BTreeMap<Id, Vec<u8>>;

impl Sync {
    pub(crate) fn new() -> Self {
        Self {
            looked: HashMap::new(),
            breaker: Breaker::new(1, clock::random()),
            has_warned: (false, false),
        }
    }

    /// The store is used again after a pause: all of it is looked at.
    pub(crate) fn resumed(&mut self) {
        self.looked.clear();
    }

    /// Reads the changes of others, and writes those of this edge. Gives the fault of a store that takes no writes.
    ///
    /// # Errors
    /// If the store can't be used at all.
    pub(crate) async fn run(
        &mut self,
        shared: &Shared,
        link: &Link,
    ) -> Result<Option<Fault>, Fault> {
        let board = &*shared.board;
        let Some(sealer) = board.sealer() else {
            return Ok(None);
        };
        let topics: Vec<Topic> = board.inner.lock().wanted.keys().copied().collect();
        if topics.is_empty() {
            return Ok(None);
        }
        let index = index(shared, link, &topics).await?;
        self.looked.retain(|id, _| index.contains_key(id));
        self.read(shared, link, &sealer, &index).await?;
        board.inner.lock().missing(&index);
        if !self.breaker.allows(Instant::now()) {
            return Ok(None);
        }
        match self.write(shared, link, &sealer).await {
            Ok(()) => {
                self.breaker.succeeded();
                Ok(None)
            }
            Err(fault) => {
                self.breaker.failed(Instant::now());
                match fault.kind() {
                    FaultKind::Full | FaultKind::Other => Ok(Some(fault)),
                    _ => Err(fault),
                }
            }
        }
    }

    /// Reads the values whose revision is new.
    async fn read(
        &mut self,
        shared: &Shared,
        link: &Link,
        sealer: &Sealer,
        index: &Index,
    ) -> Result<(), Fault> {
        let board = &*shared.board;
        let is_new = |(id, revision): &(&Id, &Vec<u8>)| self.looked.get(*id) != Some(*revision);
        let new: Vec<_> = index.iter().filter(is_new).collect();
        let mut changes = false;
        for batch in new.chunks(BATCH) {
            let gets = batch.iter().map(|(id, _)| vec![get(shared, id)]);
            let answers = shared.ask(link, gets.collect()).await?;
            for ((id, revision), answer) in batch.iter().zip(&answers) {
                let value = answer.first().and_then(bytes);
                changes |= self.take(shared, sealer, id, revision, value);
                self.looked.insert((*id).clone(), (*revision).clone());
            }
        }
        if changes {
            board.changes.send_modify(|number| *number += 1);
            // The others learn soon that this edge has it.
            board.wake.notify_one();
        }
        Ok(())
    }

    /// Takes a value of the store; says whether that changed anything.
    fn take(
        &mut self,
        shared: &Shared,
        sealer: &Sealer,
        id: &Id,
        revision: &[u8],
        value: Option<&[u8]>,
    ) -> bool {
        let mut inner = shared.board.inner.lock();
        let Some(value) = value else {
            // The index alone is left of it.
            match inner.held.get_mut(id) {
                Some(held) => held.is_unwritten = true,
                None => drop(inner.removed.insert(id.clone())),
            }
            return false;
        };
        let Some(content) = sealer.open(place(shared, id), value) else {
            add(&shared.counters.unsealed, 1);
            inner.rewrite(id);
            drop(inner);
            self.warn_of_unsealed(id);
            return false;
        };
        let outcome = inner.take(id.0, &id.1, content);
        match outcome {
            Outcome::Taken | Outcome::Same => {
                if let Some(held) = inner.held.get_mut(id) {
                    held.revision = std::str::from_utf8(revision).ok().map(str::to_owned);
                    held.is_unwritten &= outcome == Outcome::Same;
                }
            }
            Outcome::Older => {
                add(&shared.counters.older, 1);
                inner.rewrite(id);
                drop(inner);
                self.warn_of_older(id);
            }
            Outcome::Tie => inner.rewrite(id),
            Outcome::Refused => add(&shared.counters.ignored, 1),
        }
        outcome == Outcome::Taken
    }

    fn warn_of_unsealed(&mut self, id: &Id) {
        if !std::mem::replace(&mut self.has_warned.1, true) {
            tracing::warn!(
                "a {} in the fleet's store is not sealed by a secret of `fleet.key_file`: it is forged, or of \
                 an edge with another file; it is ignored",
                id.0.word()
            );
        }
    }

    fn warn_of_older(&mut self, id: &Id) {
        if !std::mem::replace(&mut self.has_warned.0, true) {
            tracing::warn!(
                "the fleet's store has an older {} than this edge: it was restored, or somebody put it back; \
                 it is ignored, and written again",
                id.0.word()
            );
        }
    }

    /// Writes the new contents of this edge, and removes those that are to go.
    async fn write(&mut self, shared: &Shared, link: &Link, sealer: &Sealer) -> Result<(), Fault> {
        let (unwritten, removed) = shared.board.inner.lock().due();
        for batch in unwritten.chunks(BATCH) {
            let sealed = batch.iter().filter_map(|(id, content)| {
                let (value, revision) = sealer.seal(place(shared, id), content)?;
                Some((id, content, value, revision))
            });
            let sealed: Vec<_> = sealed.collect();
            let values = sealed
                .iter()
                .map(|(id, content, value, _)| vec![set(shared, id, value, content.until)]);
            shared.ask(link, values.collect()).await?;
            // A reader that sees a revision finds its value.
            let revisions = sealed
                .iter()
                .map(|(id, _, _, revision)| index_of(shared, id, revision));
            shared.ask(link, revisions.collect()).await?;
            let mut inner = shared.board.inner.lock();
            for (id, content, _, revision) in sealed {
                add(&shared.counters.contents_written, 1);
                self.looked
                    .insert(id.clone(), revision.clone().into_bytes());
                if let Some(held) = inner.held.get_mut(id)
                    && held.content.is_same(content)
                {
                    held.is_unwritten = false;
                    held.revision = Some(revision);
                }
            }
        }
        for batch in removed.chunks(BATCH) {
            let removals = batch.iter().map(|id| removal(shared, id));
            shared.ask(link, removals.flatten().collect()).await?;
            let mut inner = shared.board.inner.lock();
            for id in batch {
                inner.removed.remove(id);
                self.looked.remove(id);
            }
        }
        Ok(())
    }
}

impl Inner {
    /// Has those written again that the store has lost, and forgets those that are void.
    fn missing(&mut self, index: &Index) {
        let now = now();
        let over: Vec<Id> = self
            .held
            .iter()
            .filter(|(_, held)| held.content.is_over(now))
            .map(|(id, _)| id.clone())
            .collect();
        for id in over {
            self.held.remove(&id);
            self.removed.insert(id);
        }
        // The edge that gave an answer to an authority is the one to take it back.
        let is_taken_back = |id: &Id, held: &Held| {
            id.0 == Topic::Challenge && !held.is_own && !index.contains_key(id)
        };
        self.held.retain(|id, held| !is_taken_back(id, held));
        for (id, held) in &mut self.held {
            held.is_unwritten |= !index.contains_key(id);
        }
    }

    /// The contents to be written, and those to be removed.
    fn due(&self) -> (Vec<(Id, super::Content)>, Vec<Id>) {
        let held = self.held.iter().filter(|(_, held)| held.is_unwritten);
        let unwritten = held.map(|(id, held)| (id.clone(), held.content.clone()));
        (unwritten.collect(), self.removed.iter().cloned().collect())
    }
}

fn place<'a>(shared: &'a Shared, id: &'a Id) -> Place<'a> {
    Place {
        prefix: &shared.config.prefix,
        topic: id.0.word(),
        name: &id.1,
    }
}

/// The revisions of all wanted contents.
async fn index(shared: &Shared, link: &Link, topics: &[Topic]) -> Result<Index, Fault> {
    let reads = topics.iter().map(|topic| {
        let mut read = cmd("HGETALL");
        read.arg(revisions(shared, *topic));
        vec![read]
    });
    let answers = shared.ask(link, reads.collect()).await?;
    let inner = shared.board.inner.lock();
    let mut index = Index::new();
    for (topic, answer) in topics.iter().zip(&answers) {
        let fields = answer.first().map(pairs).unwrap_or_default();
        let wanted = inner.wanted.get(topic);
        let named = fields.into_iter().filter_map(|(name, revision)| {
            let name = std::str::from_utf8(name)
                .ok()
                .filter(|name| is_name(name))?;
            let is_wanted = wanted.is_some_and(|wanted| wanted.has(name));
            let is_revision = revision.len() <= MAX_REVISION;
            (is_wanted && is_revision).then(|| ((*topic, name.to_owned()), revision.to_vec()))
        });
        index.extend(named.take(MAX_CONTENTS));
    }
    Ok(index)
}

fn revisions(shared: &Shared, topic: Topic) -> String {
    in_store(shared, Kind::Revision, topic.word())
}

fn value_of(shared: &Shared, id: &Id) -> String {
    let name = format!("{}/{}", id.0.word(), id.1);
    in_store(shared, Kind::Shared, &name)
}

fn in_store(shared: &Shared, kind: Kind, id: &str) -> String {
    // Words of topics and names have nothing that a key can't have.
    let key = Key::common(kind, id).unwrap_or_else(|| Key::only(kind));
    key.in_store(&shared.config.prefix)
}

fn get(shared: &Shared, id: &Id) -> Cmd {
    let mut get = cmd("GET");
    get.arg(value_of(shared, id));
    get
}

fn set(shared: &Shared, id: &Id, value: &[u8], until: u64) -> Cmd {
    let mut set = cmd("SET");
    set.arg(value_of(shared, id)).arg(value);
    set.arg("EX").arg(until.saturating_sub(now()).max(1));
    set
}

/// Sets a content's revision, by which others see that there is something to read.
fn index_of(shared: &Shared, id: &Id, revision: &str) -> Vec<Cmd> {
    let key = revisions(shared, id.0);
    let mut set = cmd("HSET");
    set.arg(&key).arg(&id.1).arg(revision);
    vec![set]
}

/// Removes a content, without a command that no other use needs.
fn removal(shared: &Shared, id: &Id) -> [Vec<Cmd>; 2] {
    let mut forget = cmd("HDEL");
    forget.arg(revisions(shared, id.0)).arg(&id.1);
    let mut expire = cmd("EXPIRE");
    expire.arg(value_of(shared, id)).arg(0);
    [vec![forget], vec![expire]]
}
