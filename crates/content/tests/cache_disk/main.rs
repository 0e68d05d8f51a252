//! The cache's directory, when the process that writes it is killed, and on a full disk.
#![allow(clippy::unwrap_used)]

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use hikyaku_content::disk::Store;
use hikyaku_testkit::skip;

const DIR: &str = "HIKYAKU_TEST_CACHE";
const SMALL_DISK: &str = "HIKYAKU_TEST_SMALL_DISK";
const LIMIT: u64 = 4 << 20;
const KEYS: u32 = 40;

fn key(n: u32) -> [u8; 32] {
    [(n % KEYS) as u8; 32]
}

/// The body of a number. Its length is up to 200 KiB, so that some writes are cut off in their middle.
fn body(n: u32) -> Vec<u8> {
    let length = (n as usize * 7919) % 200_000;
    n.to_le_bytes().repeat(length / 4)
}

/// The process that is killed; as a test of its own it does nothing.
#[test]
fn writes_until_it_is_killed() {
    let Some(dir) = env::var_os(DIR) else {
        return;
    };
    let store = Store::open(Path::new(&dir), LIMIT).unwrap();
    let mut stdout = std::io::stdout();
    for n in std::process::id().. {
        let url = format!("https://a/{}", n % KEYS);
        let mut writer = store
            .put(key(n), n.to_string().as_bytes(), &[], &url)
            .unwrap();
        for part in body(n).chunks(16 << 10) {
            writer.write(part).unwrap();
        }
        writer.commit().unwrap();
        if let Some(entry) = store.get(&key(n / 2)) {
            let head = [&entry.head[..], b" "].concat();
            let _ = store.replace_head(&key(n / 2), entry.id, &head);
        }
        writeln!(stdout, "stored {n}").unwrap();
    }
}

#[test]
fn a_kill_leaves_whole_responses_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut whole = 0;
    for lines in [1, 2, 3, 30, 100, 31, 57, 80] {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "writes_until_it_is_killed", "--nocapture"])
            .env(DIR, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        let stored = output
            .map_while(Result::ok)
            .filter(|line| line.contains("stored"));
        assert_eq!(stored.take(lines).count(), lines);
        child.kill().unwrap();
        child.wait().unwrap();

        let store = Store::open(dir.path(), LIMIT).unwrap();
        whole = (0..KEYS).filter(|&n| is_whole(&store, n)).count();
        store.wait_loaded();
        let counts = store.counts();
        assert_eq!((counts.damaged, counts.failures), (0, 0), "{lines} lines");
        assert_eq!(counts.entries, whole as u64, "{lines} lines");
        let left = std::fs::read_dir(dir.path().join("tmp")).unwrap().count();
        assert_eq!(left, 0, "{lines} lines");
    }
    assert!(whole > 10, "{whole} responses outlive their process");
}

/// Whether a response is there, which must be as it was written.
fn is_whole(store: &Store, n: u32) -> bool {
    let Some(entry) = store.get(&key(n)) else {
        return false;
    };
    let mut bytes = vec![0; entry.length as usize];
    entry.file.read_exact_at(&mut bytes, entry.offset).unwrap();
    let head = String::from_utf8(entry.head.to_vec()).unwrap();
    assert!(bytes == body(head.trim().parse().unwrap()), "{head}");
    true
}

/// The process on a disk of 512 KiB, in a mount namespace of its own; as a test of its own it does
/// nothing.
#[test]
fn fills_a_small_disk() {
    let Some(dir) = env::var_os(SMALL_DISK) else {
        return;
    };
    let dir = Path::new(&dir);
    let store = Store::open(dir, LIMIT).unwrap();
    let put = |n: u8| -> std::io::Result<()> {
        let mut writer = store.put([n; 32], b"head", &[], "https://a/")?;
        for _ in 0..10 {
            writer.write(&[n; 10_000])?;
        }
        writer.commit()
    };
    let error = (0..40).find_map(|n| put(n).err()).unwrap();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    let counts = store.counts();
    assert!(counts.entries > 2 && counts.failures == 1, "{counts:?}");
    assert_eq!(std::fs::read_dir(dir.join("tmp")).unwrap().count(), 0);
    for n in 0..counts.entries as u8 {
        let entry = store.get(&[n; 32]).unwrap();
        let mut body = vec![0; entry.length as usize];
        entry.file.read_exact_at(&mut body, entry.offset).unwrap();
        assert!(body == [n; 100_000]);
    }
    store.remove(&[0; 32]);
    put(99).unwrap();
}

#[test]
fn a_full_disk_stores_nothing_and_breaks_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mounted = |then: &str| {
        let script = format!("mount -t tmpfs -o size=512k none \"$0\" && {then}");
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", &script]);
        command.arg(dir.path());
        command
    };
    if !mounted("true")
        .status()
        .is_ok_and(|status| status.success())
    {
        let why = "no mount namespace can be made here";
        return skip("a_full_disk_stores_nothing_and_breaks_nothing", why);
    }
    let status = mounted("exec \"$1\" --exact fills_a_small_disk")
        .arg(env::current_exe().unwrap())
        .env(SMALL_DISK, dir.path())
        .status()
        .unwrap();
    assert!(status.success());
}
