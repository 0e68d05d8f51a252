//! Reads, many in one pipeline.

use std::sync::Arc;
use std::time::Instant;

use redis::{Value, cmd};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::fault::{Fault, server_error};
use crate::field::{self, Field, MAX_FIELDS};
use crate::key::{Key, is_name};
use crate::link::{Link, pairs};
use crate::shared::Shared;
use crate::status::add;

/// Reads that may wait to be sent.
pub(crate) const QUEUE: usize = 1024;
/// Reads of one pipeline.
const BATCH: usize = 64;
/// Pipelines without an answer.
const IN_FLIGHT: usize = 16;

/// Why a read has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missed {
    /// The store is down, or failed meanwhile.
    #[error("the fleet's store is down")]
    Down,
    /// Too many reads wait.
    #[error("too many reads of the fleet's store wait")]
    Busy,
    /// The deadline passed.
    #[error("the fleet's store did not answer in time")]
    Late,
}

/// A read, and where its answer goes.
pub(crate) struct Ask {
    keys: Vec<Key>,
    answer: oneshot::Sender<Vec<Vec<Field>>>,
}

/// Reads keys, in their order, until `deadline`.
pub(crate) async fn read(
    shared: &Shared,
    queue: &mpsc::Sender<Ask>,
    keys: Vec<Key>,
    deadline: Instant,
) -> Result<Vec<Vec<Field>>, Missed> {
    let counters = &shared.counters;
    if !shared.is_up() {
        add(&counters.unavailable, 1);
        return Err(Missed::Down);
    }
    let (answer, answered) = oneshot::channel();
    if queue.try_send(Ask { keys, answer }).is_err() {
        add(&counters.dropped, 1);
        return Err(Missed::Busy);
    }
    match tokio::time::timeout_at(deadline.into(), answered).await {
        Ok(Ok(fields)) => {
            add(&counters.reads, 1);
            Ok(fields)
        }
        Ok(Err(_)) => {
            add(&counters.unavailable, 1);
            Err(Missed::Down)
        }
        Err(_) => {
            add(&counters.late, 1);
            Err(Missed::Late)
        }
    }
}

/// Sends what waits, until `stop`.
pub(crate) async fn send(
    shared: Arc<Shared>,
    mut queue: mpsc::Receiver<Ask>,
    stop: CancellationToken,
) {
    let in_flight = Arc::new(Semaphore::new(IN_FLIGHT));
    let mut asks = Vec::new();
    loop {
        // First the permit: reads that come while all pipelines are out share the next one.
        let permit = tokio::select! {
            () = stop.cancelled() => return,
            permit = Arc::clone(&in_flight).acquire_owned() => permit,
        };
        let Ok(permit) = permit else { return };
        tokio::select! {
            () = stop.cancelled() => return,
            count = queue.recv_many(&mut asks, BATCH) => if count == 0 { return },
        }
        // Those whose deadline has passed.
        asks.retain(|ask: &Ask| !ask.answer.is_closed());
        let asks = std::mem::take(&mut asks);
        let generation = shared.generation();
        let Some(link) = shared.link().filter(|_| !asks.is_empty()) else {
            continue;
        };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            answer(&shared, &link, generation, asks).await;
            drop(permit);
        });
    }
}

async fn answer(shared: &Shared, link: &Link, generation: u64, asks: Vec<Ask>) {
    let group = |key: &Key| {
        let mut command = cmd("HGETALL");
        command.arg(key.in_store(&shared.config.prefix));
        vec![command]
    };
    let groups = asks.iter().flat_map(|ask| &ask.keys).map(group).collect();
    let values = match link.run(groups).await {
        Ok(values) => values,
        Err(error) => {
            let fault = Fault::of(&error, &shared.place, shared.config.timeout);
            return shared.failed_at(generation, fault);
        }
    };
    // An error of one key, such as that it is no hash, is of that key alone.
    let said = values.iter().flatten().find_map(|value| {
        let error = server_error(value)?;
        let fault = Fault::said(
            error.code(),
            error.details().unwrap_or_default(),
            &shared.place,
        );
        fault.kind().ends_connection().then_some(fault)
    });
    match said {
        Some(fault) => return shared.failed_at(generation, fault),
        None => shared.answered(),
    }
    let mut values = values.into_iter();
    for ask in asks {
        let of_key = |values: Vec<Value>| fields(shared, &values);
        let fields = values.by_ref().take(ask.keys.len()).map(of_key).collect();
        // Whoever asked may have given up.
        let _ = ask.answer.send(fields);
    }
}

/// The fields of a key that make sense, by edge.
fn fields(shared: &Shared, values: &[Value]) -> Vec<Field> {
    let Some(value) = values.first().filter(|value| server_error(value).is_none()) else {
        add(&shared.counters.ignored, 1);
        return Vec::new();
    };
    let now = shared.store_ms() / 1000;
    let oldest = now.saturating_sub(shared.config.ttl.as_secs());
    let pairs = pairs(value);
    let count = pairs.len();
    let mut ignored = count.saturating_sub(MAX_FIELDS);
    let mut fields: Vec<Field> = pairs
        .into_iter()
        .take(MAX_FIELDS)
        .filter_map(|(edge, value)| {
            let field = field_of(edge, value);
            ignored += usize::from(field.is_none());
            field
        })
        // Others' writes keep the key of an edge that is gone.
        .filter(|field| field.written >= oldest)
        .collect();
    fields.sort_by(|a, b| a.edge.cmp(&b.edge));
    add(&shared.counters.ignored, ignored as u64);
    fields
}

fn field_of(edge: &[u8], value: &[u8]) -> Option<Field> {
    let edge = std::str::from_utf8(edge)
        .ok()
        .filter(|edge| is_name(edge))?;
    let (written, payload) = field::decode(value)?;
    Some(Field {
        edge: edge.to_owned(),
        written,
        payload: payload.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::fields;
    use crate::config::FleetConfig;
    use crate::field::{MAX_FIELDS, encode};
    use crate::shared::Shared;
    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert, proptest};
    use redis::Value;

    fn shared() -> Shared {
        Shared::new(
            FleetConfig::default(),
            "own".to_owned(),
            String::new(),
            std::sync::Arc::default(),
        )
    }

    fn hash(fields: &[(&[u8], &[u8])]) -> Vec<Value> {
        let text = |bytes: &[u8]| Value::BulkString(bytes.to_vec());
        let values = fields
            .iter()
            .flat_map(|(name, value)| [text(name), text(value)])
            .collect();
        vec![Value::Array(values)]
    }

    #[test]
    fn nonsense_of_one_edge_leaves_the_others() {
        let shared = shared();
        let now = shared.store_ms() / 1000;
        let good = encode(now, b"learnt").expect("short");
        let old = encode(now - 2 * 24 * 3600, b"old").expect("short");
        let huge = vec![1; 5000];
        let read = fields(
            &shared,
            &hash(&[
                (b"b", &good),
                (b"poisoned", &huge),
                (b"newer", b"\x02........"),
                (b"a name\n", &good),
                (b"gone", &old),
                (b"a", &good),
            ]),
        );
        let edges: Vec<_> = read.iter().map(|field| field.edge.as_str()).collect();
        assert_eq!(edges, ["a", "b"]);
        assert_eq!(read[0].payload, b"learnt");
        assert_eq!(shared.counters.now().ignored, 3);
    }

    #[test]
    fn more_fields_than_a_fleet_has_edges_are_ignored() {
        let shared = shared();
        let value = encode(shared.store_ms() / 1000, b"x").expect("short");
        let names: Vec<String> = (0..MAX_FIELDS + 10)
            .map(|edge| format!("e{edge}"))
            .collect();
        let all: Vec<(&[u8], &[u8])> = names
            .iter()
            .map(|name| (name.as_bytes(), value.as_slice()))
            .collect();
        assert_eq!(fields(&shared, &hash(&all)).len(), MAX_FIELDS);
        assert_eq!(shared.counters.now().ignored, 10);
    }

    proptest! {
        #[test]
        fn any_hash_is_read(pairs in vec((vec(any::<u8>(), 0..8), vec(any::<u8>(), 0..20)), 0..8)) {
            let shared = shared();
            let pairs: Vec<(&[u8], &[u8])> = pairs.iter().map(|(a, b)| (&a[..], &b[..])).collect();
            prop_assert!(fields(&shared, &hash(&pairs)).len() <= pairs.len());
        }
    }
}
