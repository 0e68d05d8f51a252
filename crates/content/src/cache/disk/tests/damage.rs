use super::super::format::{FRONT, SLOT};
use super::*;

/// A directory with one response.
fn with_one() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    put(&open(&dir, MUCH), 1, b"the head", b"a body of some bytes").unwrap();
    dir
}

fn expect_gone(dir: &TempDir, what: &str) {
    let store = open(dir, MUCH);
    assert!(get(&store, 1).is_none(), "{what}");
    store.wait_loaded();
    assert_eq!(store.counts().damaged, 1, "{what}");
    assert_eq!(store.counts().entries, 0, "{what}");
    assert!(files(dir).is_empty(), "{what}");
}

#[test]
fn a_file_that_was_cut_off_is_never_served() {
    let length = fs::metadata(&files(&with_one())[0]).unwrap().len() as usize;
    let about = FRONT + format::about(&url(1), &tags(1)).len();
    let slot = SLOT + 8 + 8 / 4 + 128;
    let body = about + 2 * slot;
    assert_eq!(length, body + 20);
    let ends = [
        0,
        1,
        8,
        FRONT - 1,
        FRONT,
        FRONT + 1,
        about - 1,
        about,
        about + 1,
        about + SLOT,
        about + SLOT + 8,
        about + slot,
        body - 1,
        body,
        body + 1,
        length - 1,
    ];
    for end in ends {
        let dir = with_one();
        let file = fs::OpenOptions::new().write(true).open(&files(&dir)[0]);
        file.unwrap().set_len(end as u64).unwrap();
        expect_gone(&dir, &format!("cut off at {end}"));
    }
    let dir = with_one();
    let file = fs::OpenOptions::new().write(true).open(&files(&dir)[0]);
    file.unwrap().set_len(length as u64 + 1).unwrap();
    expect_gone(&dir, "a byte more");
}

#[test]
fn a_name_without_its_content_is_never_served() {
    for body_alone in [false, true] {
        let dir = with_one();
        let path = &files(&dir)[0];
        let mut bytes = fs::read(path).unwrap();
        let from = if body_alone { bytes.len() - 20 } else { 0 };
        bytes[from..].fill(0);
        fs::write(path, &bytes).unwrap();
        expect_gone(&dir, &format!("zeros from {from} on"));
    }
}

#[test]
fn no_flipped_byte_is_served() {
    let dir = with_one();
    let path = files(&dir).remove(0);
    let bytes = fs::read(&path).unwrap();
    let whole = Some((b"the head".to_vec(), b"a body of some bytes".to_vec()));
    let mut found = 0;
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 0x55;
        fs::write(&path, &flipped).unwrap();
        let got = get(&open(&dir, MUCH), 1);
        assert!(got.is_none() || got == whole, "{at}: {got:?}");
        found += usize::from(got.is_none());
    }
    // All but the padding and the slot that is not in use.
    assert_eq!(found, bytes.len() - (130 + SLOT + 138));
}

#[test]
fn damage_is_removed_whenever_the_index_learns_of_its_file() {
    let dir = with_one();
    let store = open(&dir, MUCH);
    store.wait_loaded();
    // Read before the file was in the index.
    store.shared.discard(&key(1), None);
    assert_eq!((store.counts().entries, store.counts().damaged), (0, 1));
    put(&store, 1, b"h", b"new").unwrap();
    store.shared.discard(&key(1), None);
    assert_eq!(get(&store, 1), Some((b"h".into(), b"new".into())));
    assert_eq!(store.counts().damaged, 1);
}

#[test]
fn a_file_of_another_key_or_version_is_removed() {
    let dir = with_one();
    let path = files(&dir).remove(0);
    fs::rename(&path, path.with_file_name("5".repeat(62))).unwrap();
    let foreign = path.with_file_name("readme");
    fs::write(&foreign, "not ours").unwrap();
    let store = open(&dir, MUCH);
    store.wait_loaded();
    assert_eq!(store.counts().damaged, 1);
    assert_eq!(files(&dir), [foreign]);
}

#[test]
fn what_was_being_written_is_removed_at_start() {
    let dir = with_one();
    for name in ["1", "17"] {
        fs::write(dir.path().join("tmp").join(name), "half").unwrap();
    }
    let store = open(&dir, MUCH);
    assert_eq!(temporary_files(&dir), 0);
    assert!(get(&store, 1).is_some());
}
