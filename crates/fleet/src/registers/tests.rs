use std::collections::BTreeSet;

use super::{Content, MAX_AHEAD, Registers, Topic, Wanted, now};

fn content(stamp: u64, bytes: &[u8]) -> Content {
    Content {
        stamp: (now() - 1000 + stamp, 0),
        until: now() + 1000,
        title: "a.example".to_owned(),
        bytes: bytes.to_vec(),
    }
}

fn holding(names: &[&str]) -> Registers {
    let registers = Registers::default();
    let names: BTreeSet<_> = names.iter().map(|&name| name.to_owned()).collect();
    registers.want(Topic::Certificate, Some(Wanted::Named(names)));
    registers
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
        let registers = holding(&["a"]);
        let first = content(5, b"m");
        assert!(registers.put(Topic::Certificate, "a", first.clone()));
        let put = registers.put(Topic::Certificate, "a", next.clone());
        assert_eq!(put, stands, "{name}");
        let held = registers.get(Topic::Certificate, "a");
        assert_eq!(held, Some(if stands { next } else { first }), "{name}");
    }
}

#[test]
fn only_what_is_wanted_is_held() {
    let registers = holding(&["a"]);
    assert!(!registers.put(Topic::Certificate, "b", content(1, b"x")));
    assert!(!registers.put(Topic::Tickets, "a", content(1, b"x")));
    assert!(registers.put(Topic::Certificate, "a", content(1, b"x")));
    registers.want(Topic::Certificate, Some(Wanted::All));
    assert!(registers.put(Topic::Certificate, "b", content(1, b"x")));
    assert!(!registers.put(Topic::Certificate, "no name", content(1, b"x")));
    assert_eq!(registers.all(Topic::Certificate).len(), 2);
    registers.want(Topic::Certificate, None);
    assert_eq!(registers.all(Topic::Certificate), []);
}

#[test]
fn nothing_shows_a_content() {
    let registers = holding(&["a"]);
    registers.set_secrets(&[[7; 32]]);
    let secret = b"PRIVATE KEY";
    registers.put(Topic::Certificate, "a", content(1, secret));
    let entries = registers.entries();
    let shown = [
        format!("{registers:?}"),
        format!("{:?}", registers.get(Topic::Certificate, "a")),
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
    let registers = holding(&["a"]);
    registers.put(Topic::Certificate, "a", content(1, b"x"));
    let is_unwritten = || {
        let inner = registers.inner.lock();
        inner.held.values().all(|held| held.is_unwritten)
    };
    let written = || {
        let mut inner = registers.inner.lock();
        inner
            .held
            .values_mut()
            .for_each(|held| held.is_unwritten = false);
    };
    written();
    registers.set_secrets(&[[1; 32]]);
    assert!(is_unwritten());
    written();
    registers.set_secrets(&[[1; 32]]);
    assert!(!is_unwritten(), "the same secrets");
}
