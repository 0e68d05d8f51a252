//! Drains of egress routes, which hold at all edges of a PoP.
//!
//! Each edge gives the others the routes that are drained at its agent, also when there are none any more. The
//! agent keeps its drains over restarts, and the others keep them for a day without news.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hikyaku_fleet::{Board, Content, Topic};
use hikyaku_units::Timestamp;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::Membership;
use crate::egress::{Drain, Egress, Elsewhere};

/// Between two looks at the agent's drains and those of other edges.
const LOOK: Duration = Duration::from_secs(1);
/// Seconds for which drains hold that their edge does not give again.
const LIFE: u64 = 24 * 3600;
/// Longest reason that is shown of another edge, in characters.
const MAX_REASON: usize = 120;

/// The drains of an edge, as it gives them to others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Drains {
    #[serde(default)]
    pop: Option<String>,
    /// Reasons by the names of egress routes.
    paths: BTreeMap<String, String>,
    /// Begins of these drains in seconds since 1970, as far as they are known. Edges of former releases give none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    since: BTreeMap<String, u64>,
}

/// Gives the agent's drains to other edges, and takes theirs, until `end`.
pub(crate) async fn share_drains(
    egress: Arc<Egress>,
    membership: Arc<Membership>,
    board: Arc<Board>,
    end: CancellationToken,
) {
    let mut changed = board.changed();
    loop {
        let joined = membership.joined.load_full();
        let joined = joined.filter(|joined| joined.config.seals());
        let drained = match &joined {
            Some(joined) => {
                let (name, pop) = (joined.fleet.name(), joined.config.pop.as_deref());
                if let Some(own) = egress.own_drains() {
                    give(&board, name, pop, own);
                }
                of_others(&board, name, pop)
            }
            None => BTreeMap::new(),
        };
        egress.drain_elsewhere(drained);
        let waited = tokio::time::timeout(LOOK, changed.changed());
        if end.run_until_cancelled(waited).await.is_none() {
            return;
        }
    }
}

/// Gives the drains of this edge, where the others have no such or old ones.
fn give(board: &Board, name: &str, pop: Option<&str>, own: BTreeMap<String, Drain>) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.unwrap_or_default();
    let drains = Drains {
        pop: pop.map(str::to_owned),
        since: own
            .iter()
            .filter_map(|(path, drain)| Some((path.clone(), drain.since()?.as_secs())))
            .collect(),
        paths: own
            .into_iter()
            .map(|(path, drain)| (path, drain.reason))
            .collect(),
    };
    let held = board.get(Topic::Drain, name);
    let is_news = match &held {
        Some(held) => {
            let is_old = held.until < now.as_secs() + LIFE / 2;
            decode(&held.bytes).as_ref() != Some(&drains) || is_old && !drains.paths.is_empty()
        }
        None => !drains.paths.is_empty(),
    };
    if !is_news {
        return;
    }
    let names: Vec<_> = drains.paths.keys().map(String::as_str).collect();
    let title = match names.is_empty() {
        true => format!("none at {name}"),
        false => format!("{} at {name}", names.join(", ")),
    };
    let content = Content {
        stamp: (now.as_secs(), now.subsec_nanos().into()),
        until: now.as_secs() + LIFE,
        title: title.chars().take(MAX_REASON).collect(),
        bytes: serde_json::to_vec(&drains).unwrap_or_default(),
    };
    board.put(Topic::Drain, name, content);
}

/// The drains at other edges of the PoP, by the names of egress routes.
fn of_others(board: &Board, own: &str, pop: Option<&str>) -> BTreeMap<String, Arc<Elsewhere>> {
    let all = board.all(Topic::Drain).into_iter();
    let others = all.filter(|(edge, _)| edge != own);
    let mut drained = BTreeMap::new();
    for (edge, content) in others {
        let drains = decode(&content.bytes).filter(|drains| drains.pop.as_deref() == pop);
        let Some(Drains { paths, since, .. }) = drains else {
            continue;
        };
        for (path, reason) in paths {
            let since = since.get(&path).copied().map(Timestamp::from_secs);
            let reason: String = reason.chars().take(MAX_REASON).collect();
            let drain = || Arc::new(Elsewhere::new(&edge, since, &reason));
            drained.entry(path).or_insert_with(drain);
        }
    }
    drained
}

fn decode(bytes: &[u8]) -> Option<Drains> {
    serde_json::from_slice(bytes).ok()
}

#[cfg(test)]
mod tests {
    use hikyaku_fleet::Wanted;

    use super::*;

    const SINCE: &str = "2026-11-28T09:00:00.5+01:00";

    fn drained(paths: &[(&str, &str)]) -> BTreeMap<String, Drain> {
        let drain = |reason: &str| {
            let drain = serde_json::json!({"reason": reason, "since": SINCE});
            serde_json::from_value(drain).unwrap()
        };
        let paths = paths.iter();
        paths
            .map(|&(path, reason)| (path.to_owned(), drain(reason)))
            .collect()
    }

    #[test]
    fn drains_hold_at_the_other_edges_of_the_pop() {
        let board = Board::default();
        board.want(Topic::Drain, Some(Wanted::All));
        let others = |name: &str, pop: Option<&str>| -> Vec<String> {
            let drains = of_others(&board, name, pop).into_iter();
            drains
                .map(|(path, drain)| format!("{path}: {}", drain.standing()))
                .collect()
        };
        give(&board, "a", Some("fra"), drained(&[]));
        assert!(board.entries().is_empty(), "nothing to be said");
        give(
            &board,
            "a",
            Some("fra"),
            drained(&[("transit-a", "fibre work")]),
        );
        assert_eq!(
            others("b", Some("fra")),
            ["transit-a: drained at a: fibre work"]
        );
        for (name, pop) in [("a", Some("fra")), ("b", Some("gru")), ("b", None)] {
            assert!(others(name, pop).is_empty(), "{name} of {pop:?}");
        }
        let title = board.entries()[0].title.clone();
        assert_eq!(title, "transit-a at a");
        give(&board, "b", Some("fra"), drained(&[("transit-b", "")]));
        assert_eq!(others("c", Some("fra")).len(), 2);
        assert_eq!(others("a", Some("fra")), ["transit-b: drained at b"]);
        let since = Some(Timestamp::from_secs(1_795_852_800));
        let expected = Elsewhere::new("b", since, "");
        assert_eq!(*of_others(&board, "a", Some("fra"))["transit-b"], expected);
        give(&board, "a", Some("fra"), drained(&[]));
        assert_eq!(others("c", Some("fra")), ["transit-b: drained at b"]);
    }

    #[test]
    fn drains_of_former_releases_have_no_begin() {
        let drains = decode(br#"{"pop":"fra","paths":{"transit-a":"work"}}"#).unwrap();
        assert_eq!((drains.paths.len(), drains.since.len()), (1, 0));
        let none = Drains {
            paths: BTreeMap::new(),
            ..drains
        };
        let text = serde_json::to_string(&none).unwrap();
        assert_eq!(text, r#"{"pop":"fra","paths":{}}"#);
    }
}
