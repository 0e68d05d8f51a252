//! Comparison of two servers' answers.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;

use hikyaku_testkit::machine::Machine;

use crate::Addresses;
use crate::answer::Answer;
use crate::requests::Requests;

/// Fields of one connection or of the moment.
const OF_ITS_OWN: [&str; 6] = [
    "alt-svc",
    "connection",
    "date",
    "keep-alive",
    "transfer-encoding",
    "upgrade",
];

/// Sends the requests of a list to both servers. Panics with all unexpected differences.
#[track_caller]
pub(crate) fn compare(machine: &Machine, servers: [Addresses; 2], list: &str, guide: &str) {
    let list = Requests::read(list);
    assert!(list.requests.len() >= 30, "{}", list.requests.len());
    let mut faults = String::new();
    let mut seen = BTreeSet::new();
    for request in &list.requests {
        let [theirs, ours] = servers.map(|server| Answer::of(machine, server, request));
        let differences = differences(&theirs, &ours);
        let special: BTreeSet<_> = differences.difference(&list.everywhere).cloned().collect();
        if special != request.differs {
            let line = &request.line;
            writeln!(
                faults,
                "{line}\n  differs: {special:?}\n  {theirs:?}\n  {ours:?}"
            )
            .unwrap();
        }
        seen.extend(differences);
    }
    assert!(faults.is_empty(), "{faults}");
    let stale: Vec<_> = list.everywhere.difference(&seen).collect();
    assert!(stale.is_empty(), "differ nowhere: {stale:?}");
    explains(guide, &seen);
}

/// The names of all that differs: `301 → 308` for statuses, fields by their names, `body`, and
/// `words` for the text of an error or a redirect.
fn differences(theirs: &Answer, ours: &Answer) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    if theirs.status != ours.status {
        all.insert(format!("{} → {}", theirs.status, ours.status));
    }
    let has_own_words = ours.status >= 300
        && ours.body.starts_with(ours.status.to_string().as_bytes())
        && theirs.body != ours.body;
    if has_own_words {
        all.insert("words".to_owned());
    } else if theirs.body != ours.body {
        all.insert("body".to_owned());
    }
    let names = theirs.fields.keys().chain(ours.fields.keys());
    for name in names.collect::<BTreeSet<_>>() {
        let is_of_words = has_own_words && name.starts_with("content-");
        if !OF_ITS_OWN.contains(&&**name) && !is_of_words && !is_same(name, theirs, ours) {
            all.insert(name.clone());
        }
    }
    all
}

fn is_same(name: &str, theirs: &Answer, ours: &Answer) -> bool {
    let has_own_length = ours.field("content-encoding").is_some() || theirs.body != ours.body;
    match (name, theirs.field(name), ours.field(name)) {
        // Only of the same content, where both know it.
        ("content-length", None, _) | ("content-length", _, None) => true,
        ("content-length", ..) if has_own_length => true,
        ("vary", Some(theirs), Some(ours)) => theirs.eq_ignore_ascii_case(ours),
        (_, theirs, ours) => theirs == ours,
    }
}

/// Checks that the guide's table of differences has a row for each name.
#[track_caller]
fn explains(guide: &str, names: &BTreeSet<String>) {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    let text = fs::read_to_string(format!("{docs}/{guide}")).unwrap();
    let rows: Vec<_> = text
        .lines()
        .filter_map(|line| line.split('|').nth(1))
        .collect();
    let missing: Vec<_> = names
        .iter()
        .filter(|name| {
            let is_named = |cell: &&str| {
                let mut items = cell.split(',').map(|item| item.trim().trim_matches('`'));
                items.any(|item| item.eq_ignore_ascii_case(name))
            };
            !rows.iter().any(is_named)
        })
        .collect();
    assert!(missing.is_empty(), "{guide} does not explain {missing:?}");
}
