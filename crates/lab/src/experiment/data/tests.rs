use super::*;
use crate::experiment::record::Links;
use crate::experiment::spec::Backend;

fn conditions(binary: &str) -> Conditions {
    Conditions {
        binary_sha256: binary.to_owned(),
        ..Conditions::default()
    }
}

fn run(repeat: u32, attempt: u32, outcome: Outcome, disturbed: bool) -> Run {
    Run {
        experiment: "test".to_owned(),
        cell: Cell::default(),
        arm: "h2".to_owned(),
        repeat,
        session: 0,
        warmup: false,
        seed: 1,
        attempt,
        backend: Backend::Link,
        began: String::new(),
        outcome,
        error: None,
        metrics: Default::default(),
        labels: Default::default(),
        series: Default::default(),
        link: Links::default(),
        other_links: std::collections::BTreeMap::new(),
        emulator: None,
        disturbed: disturbed.then(|| "late".to_owned()),
        conditions: conditions("a"),
    }
}

fn key(repeat: u32) -> Key {
    Key {
        cell: Cell::default(),
        arm: "h2".to_owned(),
        repeat,
        session: 0,
    }
}

#[test]
fn a_session_is_done_when_it_is_good_or_was_tried_often_enough() {
    let directory = tempfile::tempdir().unwrap();
    let data = Data::open(directory.path(), "text", &conditions("a"), false).unwrap();
    assert!(!data.is_done(&key(0)));
    data.add(&[run(0, 0, Outcome::Complete, false)]).unwrap();
    assert!(data.is_done(&key(0)));
    for attempt in 0..ATTEMPTS {
        assert!(!data.is_done(&key(1)), "attempt {attempt}");
        assert_eq!(data.attempts(&key(1)), attempt);
        data.add(&[run(1, attempt, Outcome::Complete, true)])
            .unwrap();
    }
    assert!(data.is_done(&key(1)));
    let want = Tally {
        complete: 2,
        disturbed: 1,
        ..Tally::default()
    };
    assert_eq!(data.tally(), want);
}

#[test]
fn a_long_run_may_have_a_few_disturbed_sessions() {
    let directory = tempfile::tempdir().unwrap();
    let data = Data::open(directory.path(), "", &conditions("a"), false).unwrap();
    let keys: Vec<Key> = (0..20).map(key).collect();
    let session = |number, disturbed| run(number, 0, Outcome::Complete, disturbed);
    let runs: Vec<Run> = (0..19).map(|number| session(number, number < 2)).collect();
    data.add(&runs).unwrap();
    assert!(!data.is_run_done(&keys), "one was never measured");
    data.add(&[session(19, false)]).unwrap();
    assert!(data.is_run_done(&keys));
    assert!(!data.is_run_done(&keys[..10]), "two of ten");
    assert!(!data.is_run_done(&keys[..1]));
}

#[test]
fn the_last_attempt_at_a_run_counts_alone() {
    let directory = tempfile::tempdir().unwrap();
    let data = Data::open(directory.path(), "", &conditions("a"), false).unwrap();
    let keys = [key(0), key(1)];
    let session = |number, attempt, disturbed| run(number, attempt, Outcome::Complete, disturbed);
    // Each session was good once, but never both in one attempt.
    data.add(&[session(0, 0, false), session(1, 0, true)])
        .unwrap();
    data.add(&[session(0, 1, true), session(1, 1, false)])
        .unwrap();
    assert!(!data.is_run_done(&keys));
    data.add(&[session(0, 2, false), session(1, 2, false)])
        .unwrap();
    assert!(data.is_run_done(&keys));
}

#[test]
fn failures_that_were_repeated_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let data = Data::open(directory.path(), "", &conditions("a"), false).unwrap();
    data.add(&[
        run(0, 0, Outcome::Failed, false),
        run(0, 1, Outcome::Failed, false),
        run(0, 2, Outcome::Complete, false),
        run(1, 0, Outcome::Complete, true),
        run(1, 1, Outcome::Failed, false),
    ])
    .unwrap();
    let want = Tally {
        complete: 1,
        failed: 1,
        failed_before: 2,
        ..Tally::default()
    };
    assert_eq!(data.tally(), want);
}

#[test]
fn one_time_out_may_stand_for_the_later_repeats() {
    for stop_after_timeout in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let data = Data::open(directory.path(), "", &conditions("a"), stop_after_timeout).unwrap();
        data.add(&[run(1, 0, Outcome::TimedOut, false)]).unwrap();
        assert!(!data.is_done(&key(0)));
        assert!(data.is_done(&key(1)));
        assert_eq!(data.is_done(&key(2)), stop_after_timeout);
    }
}

#[test]
fn a_second_start_finds_the_sessions_of_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.jsonl");
    let open = |binary| Data::open(directory.path(), "text", &conditions(binary), false).unwrap();
    let first = open("a");
    first
        .add(&[
            run(0, 0, Outcome::Complete, false),
            run(1, 0, Outcome::Failed, false),
        ])
        .unwrap();
    drop(first);
    let whole = fs::read_to_string(&path).unwrap();
    // An incomplete line, as a kill leaves it.
    fs::write(&path, format!("{whole}{}", &whole[..50])).unwrap();
    let second = open("a");
    assert_eq!(fs::read_to_string(&path).unwrap(), whole);
    assert!(second.is_done(&key(0)));
    assert!(!second.is_done(&key(1)));
    assert_eq!(second.foreign(), 0);
    drop(second);
    let other = open("b");
    assert!(!other.is_done(&key(0)));
    assert_eq!(other.foreign(), 2);
    let text = fs::read_to_string(directory.path().join("experiment.toml")).unwrap();
    assert_eq!(text, "text");
}

#[test]
fn two_labs_do_not_write_to_one_place() {
    let directory = tempfile::tempdir().unwrap();
    let open = |text| Data::open(directory.path(), text, &conditions("a"), false);
    let first = open("first").unwrap();
    let error = open("second").unwrap_err().to_string();
    assert!(error.starts_with("another lab writes"), "{error}");
    let text = fs::read_to_string(directory.path().join("experiment.toml")).unwrap();
    assert_eq!(text, "first");
    drop(first);
    open("second").unwrap();
}
