mod damage;
mod model;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;

const MUCH: u64 = 1 << 30;

fn key(n: u8) -> [u8; 32] {
    // Several keys in a directory, and several directories.
    let mut key = [n; 32];
    key[0] = n % 3;
    key
}

fn url(n: u8) -> String {
    format!("https://a/{}/{n}", n % 4)
}

fn tags(n: u8) -> Vec<String> {
    vec![format!("t{}", n % 3), "all".to_owned()]
}

fn open(dir: &TempDir, limit: u64) -> Store {
    Store::open(dir.path(), limit).unwrap()
}

fn put(store: &Store, n: u8, head: &[u8], body: &[u8]) -> io::Result<()> {
    let mut writer = store.put(key(n), head, &tags(n), &url(n))?;
    for part in body.chunks(1000) {
        writer.write(part)?;
    }
    writer.commit()
}

fn content(entry: &Entry) -> (Vec<u8>, Vec<u8>) {
    let mut body = vec![0; entry.length as usize];
    entry.file.read_exact_at(&mut body, entry.offset).unwrap();
    (entry.head.to_vec(), body)
}

fn get(store: &Store, n: u8) -> Option<(Vec<u8>, Vec<u8>)> {
    store.get(&key(n)).map(|entry| content(&entry))
}

/// All files of responses.
fn files(dir: &TempDir) -> Vec<PathBuf> {
    let directories = fs::read_dir(dir.path().join("objects")).unwrap();
    let files = directories.flat_map(|directory| fs::read_dir(directory.unwrap().path()).unwrap());
    files.map(|file| file.unwrap().path()).collect()
}

fn bytes_on_disk(dir: &TempDir) -> u64 {
    let lengths = files(dir)
        .into_iter()
        .map(|file| fs::metadata(file).unwrap().len());
    lengths.map(|length| length.div_ceil(4096) * 4096).sum()
}

fn temporary_files(dir: &TempDir) -> usize {
    fs::read_dir(dir.path().join("tmp")).unwrap().count()
}

#[test]
fn a_response_is_there_when_it_is_committed() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, MUCH);
    assert!(get(&store, 1).is_none());
    let mut writer = store.put(key(1), b"head", &[], "u").unwrap();
    writer.write(b"bo").unwrap();
    writer.write(b"dy").unwrap();
    assert!(get(&store, 1).is_none());
    writer.commit().unwrap();
    assert!(store.holds(&key(1)));
    assert_eq!(get(&store, 1), Some((b"head".into(), b"body".into())));

    let mut dropped = store.put(key(1), b"other", &[], "u").unwrap();
    dropped.write(b"other").unwrap();
    drop(dropped);
    assert_eq!(get(&store, 1), Some((b"head".into(), b"body".into())));
    assert_eq!(temporary_files(&dir), 0);
    assert_eq!(store.counts().bytes, 4096);
}

#[test]
fn an_entry_stays_readable_when_its_response_leaves() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, MUCH);
    put(&store, 1, b"h", b"body").unwrap();
    let entry = store.get(&key(1)).unwrap();
    put(&store, 1, b"g", b"new").unwrap();
    store.remove(&key(1));
    assert!(get(&store, 1).is_none());
    assert_eq!(content(&entry), (b"h".into(), b"body".into()));
}

#[test]
fn a_purge_also_hits_what_is_being_written_or_not_known_yet() {
    let hits = [
        Purge::Url(url(5).into()),
        Purge::Prefix("https://a/1/".into()),
        Purge::Tag("t2".into()),
    ];
    for purge in hits {
        let dir = tempfile::tempdir().unwrap();
        let store = open(&dir, MUCH);
        put(&store, 5, b"h", b"b").unwrap();
        put(&store, 4, b"h", b"b").unwrap();
        store.wait_loaded();
        let writer = store.put(key(5), b"late", &tags(5), &url(5)).unwrap();
        let spared = store.put(key(6), b"late", &tags(6), &url(6)).unwrap();
        assert_eq!(store.purge(&purge), 1, "{purge:?}");
        writer.commit().unwrap();
        spared.commit().unwrap();
        assert!(get(&store, 5).is_none(), "{purge:?}");
        assert!(get(&store, 4).is_some() && get(&store, 6).is_some());

        put(&store, 5, b"h", b"b").unwrap();
        drop(store);
        let store = open(&dir, MUCH);
        store.purge(&purge);
        assert!(get(&store, 5).is_none(), "{purge:?} after a start");
        store.wait_loaded();
        assert!(get(&store, 5).is_none(), "{purge:?} when all is loaded");
        assert_eq!((store.counts().entries, store.counts().damaged), (2, 0));
        assert_eq!(files(&dir).len(), 2);
    }
}

#[test]
fn a_removal_also_hits_what_is_being_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, MUCH);
    let writer = store.put(key(1), b"h", &[], "u").unwrap();
    store.remove(&key(1));
    writer.commit().unwrap();
    assert!(get(&store, 1).is_none());
    assert_eq!(temporary_files(&dir), 0);
}

#[test]
fn a_head_is_replaced_alone_and_only_that_of_its_response() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, MUCH);
    put(&store, 1, b"first", b"body").unwrap();
    let id = store.get(&key(1)).unwrap().id;
    // Within the room of the head, in both slots, and beyond the room.
    for length in [0, 7, 100, 5, 5000, 20, 200_000] {
        let head = vec![b'h'; length];
        store.replace_head(&key(1), id, &head).unwrap();
        assert_eq!(get(&store, 1), Some((head, b"body".into())), "{length}");
    }
    assert_eq!(store.counts().bytes, bytes_on_disk(&dir));

    put(&store, 1, b"second", b"other").unwrap();
    let error = store.replace_head(&key(1), id, b"of the first");
    assert_eq!(error.unwrap_err().kind(), io::ErrorKind::NotFound);
    let error = store.replace_head(&key(2), id, b"of none");
    assert_eq!(error.unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(get(&store, 1), Some((b"second".into(), b"other".into())));
}

#[test]
fn a_torn_new_head_leaves_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, MUCH);
    put(&store, 1, b"first", b"body").unwrap();
    let id = store.get(&key(1)).unwrap().id;
    store.replace_head(&key(1), id, b"second").unwrap();
    drop(store);
    let path = &files(&dir)[0];
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    let bytes = fs::read(path).unwrap();
    let at = bytes.windows(6).position(|part| part == b"second").unwrap();
    file.write_all_at(b"sec\0\0\0", at as u64).unwrap();
    let store = open(&dir, MUCH);
    assert_eq!(get(&store, 1), Some((b"first".into(), b"body".into())));
}

#[test]
fn it_stays_below_its_limit_and_keeps_what_is_used() {
    let dir = tempfile::tempdir().unwrap();
    let limit = 40 * 4096;
    let store = open(&dir, limit);
    for n in 0..=255 {
        put(&store, n, b"h", &vec![n; 40 * usize::from(n)]).unwrap();
        assert!(get(&store, 0).is_some(), "{n}");
        assert!(store.counts().bytes <= limit, "{n}");
    }
    assert!(bytes_on_disk(&dir) <= limit);
    assert_eq!(temporary_files(&dir), 0);
    let counts = store.counts();
    assert_eq!(counts.entries + counts.evicted, 256);
    assert_eq!(counts.failures, 0);

    drop(store);
    let smaller = open(&dir, limit / 4);
    smaller.wait_loaded();
    assert!(smaller.counts().entries > 0);
    assert!(bytes_on_disk(&dir) <= limit / 4);
}

#[test]
fn what_is_too_large_evicts_nothing_and_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, 40 * 4096);
    put(&store, 1, b"h", b"small").unwrap();
    let error = put(&store, 2, b"h", &[7; 21 * 4096]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert!(error.to_string().contains("more than half"), "{error}");
    let head = vec![0; (1 << 20) + 1];
    let error = put(&open_other(), 2, &head, b"").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(get(&store, 1).is_some() && get(&store, 2).is_none());
    let counts = store.counts();
    assert_eq!((counts.entries, counts.evicted, counts.failures), (1, 0, 1));
    assert_eq!(counts.bytes, 4096);
}

fn open_other() -> Store {
    open(&tempfile::tempdir().unwrap(), MUCH)
}

#[test]
fn a_disk_that_fails_is_counted_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, MUCH);
    put(&store, 1, b"h", b"b").unwrap();
    let begun = store.put(key(2), b"h", &[], "u").unwrap();
    store.wait_loaded();
    fs::remove_dir_all(dir.path().join("tmp")).unwrap();
    assert!(put(&store, 1, b"h", b"new").is_err());
    assert!(begun.commit().is_err());
    assert_eq!(get(&store, 1), Some((b"h".into(), b"b".into())));
    fs::remove_dir_all(dir.path().join("objects")).unwrap();
    assert!(get(&store, 1).is_none());
    assert_eq!(store.counts().failures, 2);
}

#[test]
fn one_process_at_a_time_has_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let old = open(&dir, MUCH);
    put(&old, 1, b"h", b"b").unwrap();
    let error = Store::open(dir.path(), MUCH).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    let said = error.to_string();
    assert!(said.contains("another process has it open"), "{said}");
    assert!(said.contains(dir.path().to_str().unwrap()), "{said}");

    let entry = old.get(&key(1)).unwrap();
    let writer = old.put(key(2), b"h", &[], "u").unwrap();
    old.release();
    let new = open(&dir, MUCH);
    assert!(writer.commit().is_err());
    assert!(!old.holds(&key(1)) && get(&old, 1).is_none());
    assert!(put(&old, 3, b"h", b"b").is_err());
    assert!(old.replace_head(&key(1), entry.id, b"x").is_err());
    old.remove(&key(1));
    assert_eq!(old.purge(&Purge::Prefix("".into())), 0);
    assert_eq!(content(&entry), (b"h".into(), b"b".into()));
    assert_eq!(get(&new, 1), Some((b"h".into(), b"b".into())));
    new.wait_loaded();
    assert_eq!(new.counts().entries, 1);
}

#[test]
fn a_directory_that_is_none_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, "").unwrap();
    let said = Store::open(&path, MUCH).unwrap_err().to_string();
    assert!(said.contains(path.to_str().unwrap()), "{said}");
}

#[test]
fn threads_never_mix_responses() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, 24 * 4096);
    // Head and body have the same number.
    let body = |n: u32| n.to_string().repeat(1 + n as usize % 3000);
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let store = &store;
            scope.spawn(move || {
                for step in 0..400 {
                    let number = thread * 1000 + step;
                    let n = ((number * 7919) % 12) as u8;
                    match number % 8 {
                        0..=3 => {
                            let text = number.to_string();
                            put(store, n, text.as_bytes(), body(number).as_bytes()).unwrap();
                        }
                        4 => store.remove(&key(n)),
                        5 => drop(store.purge(&Purge::Tag("t1".into()))),
                        _ => {
                            let Some(entry) = store.get(&key(n)) else {
                                continue;
                            };
                            let (head, got) = content(&entry);
                            let text = String::from_utf8(head).unwrap();
                            let want = body(text.trim().parse().unwrap());
                            assert!(got == want.as_bytes(), "{text}");
                            let longer = format!("{text} ");
                            let _ = store.replace_head(&key(n), entry.id, longer.as_bytes());
                        }
                    }
                }
            });
        }
    });
    assert_eq!(store.counts().bytes, bytes_on_disk(&dir));
    assert_eq!(store.counts().damaged, 0);
    assert_eq!(temporary_files(&dir), 0);
}
