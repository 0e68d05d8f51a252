//! Leases: one edge does something for all others, for a while.
//!
//! A lease only spares double work. A store that loses its memory forgets leases, and an edge that halts for
//! longer than its lease finds another at work.

use std::time::Duration;

use redis::{Cmd, Value, cmd};

use crate::board::Topic;
use crate::key::{Key, Kind};
use crate::link::{Link, bytes};
use crate::shared::{Shared, millis};

/// The outcome of asking for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// This edge has it.
    Taken,
    /// Another has it.
    Elsewhere,
    /// The store can't be asked.
    Unavailable,
}

/// Takes a lease, or renews the one that this process has.
pub(crate) async fn take(
    shared: &Shared,
    link: &Link,
    topic: Topic,
    name: &str,
    time: Duration,
) -> Lease {
    let Some(key) = key(shared, topic, name) else {
        return Lease::Unavailable;
    };
    let Some(answers) = run(link, vec![set(shared, &key, "NX", time), get(&key)]).await else {
        return Lease::Unavailable;
    };
    if matches!(answers.first(), Some(Value::Okay)) {
        return Lease::Taken;
    }
    match answers.get(1).map(|value| (value, bytes(value))) {
        Some((_, Some(holder))) if holder == shared.token.as_bytes() => {
            match run(link, vec![set(shared, &key, "XX", time)]).await {
                Some(answers) if matches!(answers.first(), Some(Value::Okay)) => Lease::Taken,
                Some(_) => Lease::Elsewhere,
                None => Lease::Unavailable,
            }
        }
        Some((_, Some(_)) | (Value::Nil, None)) => Lease::Elsewhere,
        _ => Lease::Unavailable,
    }
}

/// Gives a lease back that this process has.
pub(crate) async fn release(shared: &Shared, link: &Link, topic: Topic, name: &str) {
    let Some(key) = key(shared, topic, name) else {
        return;
    };
    let holder = run(link, vec![get(&key)]).await;
    let holder = holder.as_deref().and_then(<[_]>::first).and_then(bytes);
    if holder == Some(shared.token.as_bytes()) {
        let mut expire = cmd("EXPIRE");
        expire.arg(&key).arg(0);
        // Not given back, it ends in time.
        let _ = run(link, vec![expire]).await;
    }
}

fn key(shared: &Shared, topic: Topic, name: &str) -> Option<String> {
    let key = Key::common(Kind::Lease, &format!("{}/{name}", topic.word()))?;
    Some(key.in_store(&shared.config.prefix))
}

fn set(shared: &Shared, key: &str, condition: &str, time: Duration) -> Cmd {
    let mut set = cmd("SET");
    set.arg(key).arg(&shared.token).arg(condition);
    set.arg("PX").arg(millis(time).max(1));
    set
}

fn get(key: &str) -> Cmd {
    let mut get = cmd("GET");
    get.arg(key);
    get
}

/// The answers to commands about one key; `None` if there are none.
async fn run(link: &Link, commands: Vec<Cmd>) -> Option<Vec<Value>> {
    let answers = link.run(vec![commands]).await.ok()?;
    answers.into_iter().next()
}
