use std::collections::BTreeSet;

use super::{Board, Content, MAX_AHEAD, Outcome, Topic, Wanted, now};

fn content(stamp: u64, bytes: &[u8]) -> Content {
    Content {
        stamp: (now() - 1000 + stamp, 0),
        until: now() + 1000,
        title: "a.example".to_owned(),
        bytes: bytes.to_vec(),
    }
}

fn holding(names: &[&str]) -> Board {
    let board = Board::default();
    let names: BTreeSet<_> = names.iter().map(|&name| name.to_owned()).collect();
    board.want(Topic::Certificate, Some(Wanted::Named(names)));
    board
}

#[test]
fn the_newest_content_stands() {
    let cases = [
        ("a newer one", content(6, b"x"), true),
        ("an older one", content(4, b"x"), false),
        ("of one time, the larger", content(5, b"n"), true),
        ("of one time, the smaller", content(5, b"l"), false),
        ("the same", content(5, b"m"), true),
        (
            "a void one",
            Content {
                until: now(),
                ..content(6, b"x")
            },
            false,
        ),
        (
            "of a clock that is ahead",
            content(1000 + MAX_AHEAD + 60, b"x"),
            false,
        ),
        ("a long one", content(6, &vec![0; 70_000]), false),
    ];
    for (name, next, stands) in cases {
        let board = holding(&["a"]);
        let first = content(5, b"m");
        assert!(board.put(Topic::Certificate, "a", first.clone()));
        let put = board.put(Topic::Certificate, "a", next.clone());
        assert_eq!(put, stands, "{name}");
        let held = board.get(Topic::Certificate, "a");
        assert_eq!(held, Some(if stands { next } else { first }), "{name}");
    }
}

/// Edges that hold one thing may have kept it in other words, and give it other ends.
#[test]
fn contents_of_one_time_are_no_old_ones() {
    let board = holding(&["a"]);
    let first = content(5, b"m");
    board.put(Topic::Certificate, "a", first.clone());
    let take = |content: Content| {
        let mut inner = board.inner.lock();
        inner.take(Topic::Certificate, "a", content)
    };
    let longer = Content {
        until: first.until + 9,
        ..first.clone()
    };
    assert_eq!(take(longer.clone()), Outcome::Same);
    assert_eq!(take(first), Outcome::Same);
    assert_eq!(take(content(5, b"l")), Outcome::Tie);
    assert_eq!(take(content(5, b"n")), Outcome::Taken);
    assert_eq!(take(content(4, b"z")), Outcome::Older);
}

#[test]
fn only_what_is_wanted_is_held() {
    let board = holding(&["a"]);
    assert!(!board.put(Topic::Certificate, "b", content(1, b"x")));
    assert!(!board.put(Topic::Tickets, "a", content(1, b"x")));
    assert!(board.put(Topic::Certificate, "a", content(1, b"x")));
    board.want(Topic::Certificate, Some(Wanted::All));
    assert!(board.put(Topic::Certificate, "b", content(1, b"x")));
    assert!(!board.put(Topic::Certificate, "no name", content(1, b"x")));
    assert_eq!(board.all(Topic::Certificate).len(), 2);
    board.want(Topic::Certificate, None);
    assert_eq!(board.all(Topic::Certificate), []);
}

#[test]
fn nothing_shows_a_content() {
    let board = holding(&["a"]);
    board.set_secrets(&[[7; 32]]);
    let secret = b"PRIVATE KEY";
    board.put(Topic::Certificate, "a", content(1, secret));
    let entries = board.entries();
    let shown = [
        format!("{board:?}"),
        format!("{:?}", board.get(Topic::Certificate, "a")),
        serde_json::to_string(&entries).expect("JSON"),
    ];
    for shown in shown {
        let bytes = format!("{secret:?}");
        assert!(!shown.contains("PRIVATE") && !shown.contains(&bytes[1..20]));
        assert!(shown.contains("a.example"), "{shown}");
    }
    assert!(!entries[0].stored);
}

#[test]
fn secrets_that_change_have_all_written_again() {
    let board = holding(&["a"]);
    board.put(Topic::Certificate, "a", content(1, b"x"));
    let is_unwritten = || {
        let inner = board.inner.lock();
        inner.held.values().all(|held| held.is_unwritten)
    };
    let written = || {
        let mut inner = board.inner.lock();
        inner
            .held
            .values_mut()
            .for_each(|held| held.is_unwritten = false);
    };
    written();
    board.set_secrets(&[[1; 32]]);
    assert!(is_unwritten());
    written();
    board.set_secrets(&[[1; 32]]);
    assert!(!is_unwritten(), "the same secrets");
}
