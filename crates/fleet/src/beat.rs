//! The look at the store that a fleet's task takes each time: clock, contents, members.

use std::time::Instant;

use redis::{Cmd, Value, cmd};

use crate::clock;
use crate::fault::{Fault, server_error};
use crate::key::{Key, Kind};
use crate::link::{Link, bytes, list, number, pairs};
use crate::member::{self, Beat, SILENT};
use crate::shared::{Shared, millis};
use crate::status::add;

/// Looks in a row that find another process under this name, until that is logged. After a restart the field
/// of the former process is there once.
const CONFLICTS: u32 = 3;

/// This process's report on itself.
pub(crate) struct Pulse {
    run: String,
    version: String,
    started_ms: u64,
    /// The text by which the store differs from others.
    marker: Option<Vec<u8>>,
    conflicts: u32,
}

/// The contents of the store, as a look has shown them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Those of the look before.
    Same,
    /// Nobody has looked before.
    First,
    /// Others: the store lost its memory, or is another one.
    Other,
}

impl Pulse {
    pub(crate) fn new(version: String) -> Self {
        Self {
            run: format!("{:016x}", clock::random()),
            version,
            started_ms: clock::now_ms(),
            marker: None,
            conflicts: 0,
        }
    }

    /// Looks at the store, and reports this edge.
    pub(crate) async fn beat(&mut self, shared: &Shared, link: &Link) -> Result<Contents, Fault> {
        let prefix = &shared.config.prefix;
        let marker_key = Key::only(Kind::Store).in_store(prefix);
        let member_key = Key::only(Kind::Member).in_store(prefix);
        let mut mark = cmd("SET");
        mark.arg(&marker_key)
            .arg(format!("{:016x}", clock::random()))
            .arg("NX");
        let groups = vec![
            vec![cmd("TIME")],
            vec![mark, get("GET", &marker_key)],
            vec![get("HGETALL", &member_key)],
            vec![cmd("DBSIZE")],
        ];
        let (sent, sent_ms) = (Instant::now(), clock::now_ms());
        let answers = link.run(groups).await;
        let answers =
            answers.map_err(|error| Fault::of(&error, &shared.place, shared.config.timeout))?;
        let answer = sent.elapsed();
        let [time, marker, members, size] = answers.as_slice() else {
            return Err(shared.nonsense());
        };
        let needed = time.iter().chain(marker.get(1)).chain(members);
        if let Some(fault) =
            Fault::among(needed.filter(|value| !is_wrong_type(value)), &shared.place)
        {
            return Err(fault);
        }
        let Some(store_ms) = time.first().and_then(time_ms) else {
            return Err(shared.nonsense());
        };
        let mid_ms = sent_ms.saturating_add(millis(answer) / 2);
        shared.set_offset_ms(store_ms.wrapping_sub(mid_ms).cast_signed());
        shared.saw(|seen| {
            seen.answer = answer;
            seen.keys = size.first().and_then(number);
        });
        let forgotten = self.members(shared, members, store_ms);
        self.tell(shared, link, &member_key, forgotten).await?;
        Ok(self.contents(shared, marker.get(1).and_then(bytes)))
    }

    /// Takes the members; gives the names of those to be forgotten.
    fn members(&mut self, shared: &Shared, values: &[Value], now_ms: u64) -> Vec<String> {
        let pairs = values.first().map(pairs).unwrap_or_default();
        let beats: Vec<(String, Beat)> = pairs
            .into_iter()
            .filter_map(|(name, value)| {
                let beat = member::read(name, value);
                add(&shared.counters.ignored, u64::from(beat.is_none()));
                beat
            })
            .collect();
        let heard = |beat: &Beat| now_ms.saturating_sub(beat.at_ms) <= millis(SILENT);
        let others = beats.iter().filter(|(name, _)| *name != shared.name);
        let acknowledged = others.filter(|(_, beat)| heard(beat));
        let acknowledged = acknowledged.filter_map(|(_, beat)| beat.seen.clone());
        let acknowledged = acknowledged.collect();
        let is_other = beats
            .iter()
            .any(|(name, beat)| *name == shared.name && beat.run != self.run && heard(beat));
        self.conflicts = if is_other { self.conflicts + 1 } else { 0 };
        shared.is_duplicate(self.conflicts >= CONFLICTS);
        let (members, forgotten) = member::members(beats, &shared.name, now_ms);
        shared.saw(|seen| {
            seen.members = Some((members, Instant::now()));
            seen.acknowledged = acknowledged;
        });
        forgotten
    }

    /// Writes this edge's field. That a full store does not take it shows elsewhere, too.
    async fn tell(
        &self,
        shared: &Shared,
        link: &Link,
        key: &str,
        forgotten: Vec<String>,
    ) -> Result<(), Fault> {
        let beat = Beat {
            run: self.run.clone(),
            version: self.version.clone(),
            pop: shared.config.pop.clone(),
            started_ms: self.started_ms,
            config: shared.config_digest.lock().clone(),
            skew_ms: shared.skew_ms(),
            lag_ms: shared.lag_ms(),
            at_ms: shared.store_ms(),
            seen: shared.board.seen(),
        };
        let text = serde_json::to_string(&beat).unwrap_or_default();
        let mut set = cmd("HSET");
        set.arg(key).arg(&shared.name).arg(text);
        let mut expire = cmd("EXPIRE");
        expire.arg(key).arg(shared.config.ttl.as_secs());
        let mut commands = vec![set, expire];
        if !forgotten.is_empty() {
            let mut forget = cmd("HDEL");
            forget.arg(key).arg(forgotten);
            commands.push(forget);
        }
        let answers = link.run(vec![commands]).await;
        let answers =
            answers.map_err(|error| Fault::of(&error, &shared.place, shared.config.timeout))?;
        match Fault::among(answers.iter().flatten(), &shared.place) {
            Some(fault) if fault.kind().ends_connection() => Err(fault),
            Some(fault) => {
                shared.wrote(Err(fault));
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn contents(&mut self, shared: &Shared, marker: Option<&[u8]>) -> Contents {
        // A full store without a marker takes none.
        let Some(marker) = marker else {
            return Contents::Same;
        };
        match self.marker.replace(marker.to_vec()) {
            None => Contents::First,
            Some(former) if former == marker => Contents::Same,
            Some(_) => {
                add(&shared.counters.emptied, 1);
                tracing::info!(
                    "the fleet's store, {}, has other contents than before: all is written again",
                    shared.place
                );
                Contents::Other
            }
        }
    }
}

impl Shared {
    /// The fault of a store that answers beside the question.
    fn nonsense(&self) -> Fault {
        Fault::said("ERR", "an answer that Redis does not give", &self.place)
    }
}

fn get(command: &str, key: &str) -> Cmd {
    let mut get = cmd(command);
    get.arg(key);
    get
}

/// Whether a key is of another type: nonsense of one edge, which the others live with.
fn is_wrong_type(value: &Value) -> bool {
    server_error(value).is_some_and(|error| error.code() == "WRONGTYPE")
}

/// The answer of TIME: seconds, and microseconds of the second.
fn time_ms(value: &Value) -> Option<u64> {
    let [seconds, micros] = list(value) else {
        return None;
    };
    let seconds = number(seconds)?.checked_mul(1000)?;
    seconds.checked_add(number(micros)? / 1000)
}
