//! Purges of caches, in a stream of the store that all edges read on from where they were.

use redis::{Cmd, Value, cmd};

use crate::fault::Fault;
use crate::key::{Key, Kind, is_name};
use crate::link::{Link, bytes, list, number};
use crate::shared::{Host, Shared};
use crate::status::add;

/// Purges that the stream keeps.
const KEPT: u64 = 1024;
/// Purges that are read at a time.
const BATCH: usize = 128;
/// Longest order, in bytes.
pub(crate) const MAX_ORDER: usize = 16 * 1024;
/// Version of an entry. Others are ignored.
const VERSION: &[u8] = b"1";

/// An entry's place in the stream: the store's time, and a number.
type Id = (u64, u64);

/// Where this edge is in the stream.
pub(crate) struct Purges {
    /// The last entry that was applied, or there when this edge began.
    last: Option<Id>,
    /// Whether entries may have been dropped since then.
    is_in_doubt: bool,
}

/// An entry that this edge understands.
#[derive(Debug, PartialEq, Eq)]
struct Order<'a> {
    edge: &'a [u8],
    payload: &'a [u8],
}

impl Purges {
    pub(crate) fn new() -> Self {
        Self {
            last: None,
            is_in_doubt: false,
        }
    }

    /// The store is used again after a pause.
    pub(crate) fn resumed(&mut self) {
        self.is_in_doubt = true;
    }

    /// The store has other contents: all that it has came since it lost the former.
    pub(crate) fn restarted(&mut self) {
        if self.last.is_some() {
            self.last = Some((0, 0));
        }
    }

    /// Applies the purges of other edges that came since.
    pub(crate) async fn apply(
        &mut self,
        shared: &Shared,
        link: &Link,
        host: &dyn Host,
    ) -> Result<(), Fault> {
        let key = Key::only(Kind::Purge).in_store(&shared.config.prefix);
        let Some(last) = self.last else {
            // Whoever begins has nothing in its cache that earlier purges are for.
            let newest = run(shared, link, vec![range("XREVRANGE", &key, "+", "-")]).await?;
            self.last = Some(newest.first().and_then(first_id).unwrap_or((0, 0)));
            return Ok(());
        };
        if self.is_in_doubt {
            let ask = vec![range("XRANGE", &key, "-", "+"), length(&key)];
            let answers = run(shared, link, ask).await?;
            let oldest = answers.first().and_then(first_id);
            let count = answers.get(1).and_then(number).unwrap_or(0);
            if count >= KEPT && oldest.is_some_and(|oldest| oldest > last) {
                tracing::warn!(
                    "the fleet's purges of an outage are lost: the whole cache is purged"
                );
                host.purge(None);
            }
            self.is_in_doubt = false;
        }
        let mut read = cmd("XREAD");
        read.arg("COUNT").arg(BATCH).arg("STREAMS").arg(&key);
        read.arg(format!("{}-{}", last.0, last.1));
        let answers = run(shared, link, vec![read]).await?;
        for (id, order) in entries(answers.first()) {
            self.last = self.last.max(Some(id));
            match order {
                None => add(&shared.counters.ignored, 1),
                Some(order) if order.edge == shared.name.as_bytes() => {}
                Some(order) => {
                    host.purge(Some(order.payload));
                    add(&shared.counters.purges, 1);
                }
            }
        }
        Ok(())
    }
}

/// Gives a purge to all other edges.
pub(crate) async fn give(shared: &Shared, link: &Link, payload: &[u8]) -> Result<(), Fault> {
    let mut give = cmd("XADD");
    give.arg(Key::only(Kind::Purge).in_store(&shared.config.prefix));
    give.arg("MAXLEN").arg(KEPT).arg("*");
    give.arg("v").arg(VERSION).arg("edge").arg(&shared.name);
    give.arg("order").arg(payload);
    run(shared, link, vec![give]).await.map(|_| ())
}

fn range(command: &str, key: &str, from: &str, to: &str) -> Cmd {
    let mut range = cmd(command);
    range.arg(key).arg(from).arg(to).arg("COUNT").arg(1);
    range
}

fn length(key: &str) -> Cmd {
    let mut length = cmd("XLEN");
    length.arg(key);
    length
}

async fn run(shared: &Shared, link: &Link, commands: Vec<Cmd>) -> Result<Vec<Value>, Fault> {
    let answers = link.run(vec![commands]).await;
    let answers =
        answers.map_err(|error| Fault::of(&error, &shared.place, shared.config.timeout))?;
    let values: Vec<Value> = answers.into_iter().flatten().collect();
    match Fault::among(&values, &shared.place) {
        Some(fault) => Err(fault),
        None => Ok(values),
    }
}

/// The id of the first entry of a range.
fn first_id(range: &Value) -> Option<Id> {
    id(list(list(range).first()?).first()?)
}

fn id(value: &Value) -> Option<Id> {
    let text = std::str::from_utf8(bytes(value)?).ok()?;
    let (time, number) = text.split_once('-')?;
    Some((time.parse().ok()?, number.parse().ok()?))
}

/// The entries of an answer of XREAD about one stream: `[[key, [[id, [name, value, ...]], ...]]]`.
fn entries(answer: Option<&Value>) -> Vec<(Id, Option<Order<'_>>)> {
    let entries = answer.and_then(|answer| list(list(answer).first()?).get(1));
    let entries = entries.map(list).unwrap_or_default();
    entries
        .iter()
        .filter_map(|entry| match list(entry) {
            [at, fields] => Some((id(at)?, order(list(fields)))),
            _ => None,
        })
        .collect()
}

/// An order of this version, if it makes sense.
fn order(fields: &[Value]) -> Option<Order<'_>> {
    let field = |name: &[u8]| {
        let of_name = |pair: &&[Value]| bytes(&pair[0]) == Some(name);
        bytes(&fields.chunks_exact(2).find(of_name)?[1])
    };
    let edge = field(b"edge")?;
    let is_edge = std::str::from_utf8(edge).is_ok_and(is_name);
    let payload = field(b"order")?;
    let is_order = field(b"v")? == VERSION && is_edge && payload.len() <= MAX_ORDER;
    is_order.then_some(Order { edge, payload })
}

#[cfg(test)]
mod tests {
    use super::{Order, entries};
    use redis::Value;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn entry(id: &str, fields: &[&str]) -> Value {
        let fields = fields.iter().map(|field| text(field)).collect();
        Value::Array(vec![text(id), Value::Array(fields)])
    }

    #[test]
    fn entries_of_other_versions_and_nonsense_are_passed_over() {
        let answer = Value::Array(vec![Value::Array(vec![
            text("key"),
            Value::Array(vec![
                entry("5-0", &["v", "1", "edge", "a", "order", "x", "new", "?"]),
                entry("5-1", &["v", "2", "edge", "a", "order", "x"]),
                entry("6-0", &["v", "1", "edge", "a b", "order", "x"]),
                entry("7-0", &["order"]),
                entry("no id", &[]),
                text("no entry"),
            ]),
        ])]);
        let good = Order {
            edge: b"a",
            payload: b"x",
        };
        let expected = [
            ((5, 0), Some(good)),
            ((5, 1), None),
            ((6, 0), None),
            ((7, 0), None),
        ];
        assert_eq!(entries(Some(&answer)), expected);
        for nothing in [Value::Nil, Value::Int(3), Value::Array(vec![Value::Nil])] {
            assert_eq!(entries(Some(&nothing)), []);
        }
        assert_eq!(entries(None), []);
    }
}
