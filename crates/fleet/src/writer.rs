//! Writes, many in one pipeline.

use std::time::Instant;

use redis::{Cmd, Value, cmd};

use crate::breaker::Breaker;
use crate::clock;
use crate::fault::{Fault, FaultKind};
use crate::field;
use crate::key::Key;
use crate::link::{Link, number};
use crate::shared::{Host, Shared};
use crate::status::add;

/// Keys of one pipeline.
const BATCH: usize = 512;
/// Pipelines of one turn, so that catching up leaves the store room for reads.
const PER_TURN: usize = 40;

/// New content of this edge's field in one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: Key,
    /// The payload, of [`MAX_PAYLOAD`](crate::MAX_PAYLOAD) bytes at most. A longer one is left out.
    pub payload: Vec<u8>,
}

/// Writes changes, or keeps them while they can't be written.
pub(crate) struct Writer {
    /// Changes that failed to be written, to be tried again first.
    unwritten: Vec<Change>,
    /// Lets a full store alone for a while. One that is down has a breaker of its own.
    breaker: Breaker,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Self {
            unwritten: Vec::new(),
            breaker: Breaker::new(1, clock::random()),
        }
    }

    /// Writes the changes, or a turn's worth of them. `unwritten`: why something else could not be written.
    pub(crate) async fn write(
        &mut self,
        shared: &Shared,
        link: &Link,
        host: &dyn Host,
        unwritten: Option<Fault>,
    ) -> Result<(), Fault> {
        if !self.breaker.allows(Instant::now()) {
            return Ok(());
        }
        match self.turn(shared, link, host).await {
            Ok(()) => {
                self.breaker.succeeded();
                shared.wrote(unwritten.map_or(Ok(()), Err));
                Ok(())
            }
            Err(fault) => {
                self.breaker.failed(Instant::now());
                shared.saw(|seen| *seen.waiting.get_or_insert_with(Instant::now));
                match fault.kind() {
                    FaultKind::Full | FaultKind::Other => {
                        shared.wrote(Err(fault));
                        Ok(())
                    }
                    _ => Err(fault),
                }
            }
        }
    }

    async fn turn(&mut self, shared: &Shared, link: &Link, host: &dyn Host) -> Result<(), Fault> {
        for _ in 0..PER_TURN {
            if self.unwritten.is_empty() {
                self.unwritten = host.changes(BATCH);
            }
            if self.unwritten.is_empty() {
                shared.saw(|seen| seen.waiting = None);
                return Ok(());
            }
            let written = write_all(shared, link, &self.unwritten).await?;
            add(&shared.counters.written, written);
            self.unwritten.clear();
        }
        // More waits.
        shared.saw(|seen| *seen.waiting.get_or_insert_with(Instant::now));
        Ok(())
    }
}

/// Writes changes; gives how many.
async fn write_all(shared: &Shared, link: &Link, changes: &[Change]) -> Result<u64, Fault> {
    let keys = shared.saw(|seen| seen.keys);
    let changes: Vec<&Change> = match keys.is_some_and(|keys| keys >= shared.config.max_keys) {
        true => existing(shared, link, changes).await?,
        false => changes.iter().collect(),
    };
    let now = shared.store_ms() / 1000;
    let group = |change: &&Change| group(shared, change, now);
    let groups: Vec<Vec<Cmd>> = changes.iter().filter_map(group).collect();
    let first = changes.first().map(|change| change.key.clone());
    let answers = shared.ask(link, groups).await?;
    measure(shared, link, first).await;
    Ok(answers.len() as u64)
}

/// Sets the field of this edge, and has the key kept for its time.
fn group(shared: &Shared, change: &Change, now: u64) -> Option<Vec<Cmd>> {
    let key = change.key.in_store(&shared.config.prefix);
    let Some(value) = field::encode(now, &change.payload) else {
        add(&shared.counters.ignored, 1);
        return None;
    };
    let mut set = cmd("HSET");
    set.arg(&key).arg(&shared.name).arg(value);
    let mut expire = cmd("EXPIRE");
    expire.arg(&key).arg(shared.config.ttl.as_secs());
    Some(vec![set, expire])
}

/// The changes of keys that the store has already: it has no room for more.
async fn existing<'a>(
    shared: &Shared,
    link: &Link,
    changes: &'a [Change],
) -> Result<Vec<&'a Change>, Fault> {
    let exists = |change: &Change| {
        let mut command = cmd("EXISTS");
        command.arg(change.key.in_store(&shared.config.prefix));
        vec![command]
    };
    let answers = shared
        .ask(link, changes.iter().map(exists).collect())
        .await?;
    let is_there = |values: &Vec<Value>| values.first().and_then(number) == Some(1);
    let there: Vec<&Change> = changes
        .iter()
        .zip(&answers)
        .filter_map(|(change, values)| is_there(values).then_some(change))
        .collect();
    add(
        &shared.counters.refused,
        (changes.len() - there.len()) as u64,
    );
    Ok(there)
}

/// Measures what a key takes in the store's memory. Not all users may ask that.
async fn measure(shared: &Shared, link: &Link, key: Option<Key>) {
    let Some(key) = key else { return };
    let mut ask = cmd("MEMORY");
    ask.arg("USAGE").arg(key.in_store(&shared.config.prefix));
    let Ok(answers) = link.run(vec![vec![ask]]).await else {
        return;
    };
    if let Some(bytes) = answers.iter().flatten().next().and_then(number) {
        shared.saw(|seen| seen.key_bytes = Some(bytes));
    }
}
