//! Counts of the gain, so that each edge reports on all.
//!
//! Each edge gives the others a content for each of its days: a sample of its clients that fits into one. It
//! owns these contents and replaces them, so nothing is counted twice.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hikyaku_core::gain::{Day, Sample, date};
use hikyaku_fleet::{Board, Content, MAX_CONTENT, Topic};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::Membership;
use crate::gain::{Gain, Heard};

/// Between two looks at the samples of other edges.
const LOOK: Duration = Duration::from_secs(5);
/// Looks between two gifts of this edge's own.
const LOOKS: u32 = 4;
/// Days that are shared, the present one included: a topic has 1024 contents at most.
const DAYS: u32 = 28;
/// Seconds of a day.
const DAY: u64 = 86_400;

/// Gives this edge's samples to other edges, and takes theirs, until `end`. Also ends days.
pub(crate) async fn share_gain(
    gain: Arc<Gain>,
    membership: Arc<Membership>,
    board: Arc<Board>,
    end: CancellationToken,
) {
    let mut given = HashMap::new();
    let mut looks = 0_u32;
    loop {
        let joined = membership.joined.load_full();
        let joined = joined.filter(|joined| joined.config.seals());
        let name = joined.map(|joined| joined.fleet.name().to_owned());
        let is_due = looks.is_multiple_of(LOOKS);
        let (of, on) = (Arc::clone(&gain), Arc::clone(&board));
        let work = move || {
            match name {
                Some(name) => {
                    if is_due {
                        give(&of, &on, &name, &mut given);
                    }
                    of.hear(of_others(&on, &name));
                }
                None => {
                    given.clear();
                    of.hear(Heard::new());
                }
            }
            of.end_days();
            given
        };
        // Samples are long to encode: beside the threads that serve clients.
        given = tokio::task::spawn_blocking(work).await.unwrap_or_default();
        looks = looks.wrapping_add(1);
        let pause = tokio::time::sleep(LOOK);
        if end.run_until_cancelled(pause).await.is_none() {
            return;
        }
    }
}

/// Gives the days of this edge that have changed. `given` has the responses of those that were given.
fn give(gain: &Gain, board: &Board, name: &str, given: &mut HashMap<Day, u64>) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.unwrap_or_default();
    let first = Day(u32::try_from(now.as_secs() / DAY).unwrap_or(u32::MAX)).earlier(DAYS - 1);
    given.retain(|day, _| *day >= first);
    for (day, bytes) in gain.own(first) {
        let Ok(sample) = Sample::decode(&bytes) else {
            continue;
        };
        if given.get(&day) == Some(&sample.responses()) {
            continue;
        }
        let content = Content {
            stamp: (now.as_secs(), now.subsec_nanos().into()),
            until: day.start().as_secs() + u64::from(DAYS) * DAY,
            title: format!("{} at {name}", date(day.start())),
            bytes: sample.encode_within(MAX_CONTENT),
        };
        if board.put(Topic::Gain, &content_name(name, day), content) {
            given.insert(day, sample.responses());
        }
    }
}

/// The samples of other edges, by a digest of the edge's name, and day.
fn of_others(board: &Board, own: &str) -> Heard {
    let own = digest(own);
    let all = board.all(Topic::Gain).into_iter();
    let others = all.filter_map(|(name, content)| {
        let (edge, day) = name.split_once('.')?;
        let day = Day(day.parse().ok()?);
        (edge != own).then(|| ((edge.to_owned(), day), content.bytes))
    });
    others.collect::<BTreeMap<_, _>>()
}

/// Names of edges may be as long as those of contents.
fn content_name(edge: &str, day: Day) -> String {
    format!("{}.{}", digest(edge), day.0)
}

fn digest(edge: &str) -> String {
    let digest = Sha256::digest(edge);
    digest
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use hikyaku_fleet::Wanted;

    use super::*;
    use crate::gain::fakes::{count, gain, totals};

    #[tokio::test(start_paused = true)]
    async fn edges_report_on_all_and_count_nothing_twice() {
        let board = Board::default();
        board.want(Topic::Gain, Some(Wanted::All));
        let clock = crate::clock::Clock::start();
        let edges = ["a", "b"].map(|name| (name, gain(clock, 8192), HashMap::new()));
        let [(a, first, mut given_a), (b, second, mut given_b)] = edges;
        count(&first, 0..300);
        count(&second, 200..500);
        for _ in 0..2 {
            give(&first, &board, a, &mut given_a);
            give(&second, &board, b, &mut given_b);
            for (name, gain) in [(a, &first), (b, &second)] {
                gain.hear(of_others(&board, name));
                assert_eq!(totals(gain), (600, 500, 2), "{name}");
            }
        }
        assert_eq!(board.entries().len(), 2);
        count(&first, 500..501);
        give(&first, &board, a, &mut given_a);
        second.hear(of_others(&board, b));
        assert_eq!(totals(&second), (601, 501, 2));
        second.hear(Heard::new());
        assert_eq!(totals(&second), (300, 300, 1));
    }
}
