use std::os::unix::fs::PermissionsExt;

use super::*;

fn put(address: &str) -> Changes {
    let key = address.parse().unwrap();
    Changes {
        records: vec![(key, Some(Box::from(*b"estimate")))],
        ..Changes::default()
    }
}

fn keys(store: &Store) -> Vec<String> {
    let mut keys = Vec::new();
    let read = store.load(|key, _| {
        keys.push(key.to_string());
        true
    });
    read.unwrap();
    keys
}

#[test]
fn what_was_forgotten_leaves_with_all_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    assert!(store.is_new().unwrap());
    for key in ["192.0.2.1", "192.0.2.2", "192.0.2.0/24", "198.51.100.1"] {
        store.write(&put(key)).unwrap();
    }
    assert!(!store.is_new().unwrap());
    let forgotten = |key: &str| Changes {
        forgotten: vec![key.parse().unwrap()],
        ..Changes::default()
    };
    store.write(&forgotten("192.0.2.1")).unwrap();
    assert_eq!(keys(&store), ["192.0.2.0/24", "192.0.2.2", "198.51.100.1"]);
    store.write(&forgotten("192.0.2.0/24")).unwrap();
    assert_eq!(keys(&store), ["198.51.100.1"]);
}

#[test]
fn a_file_that_is_removed_or_replaced_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    assert!(store.is_in_place());
    let file = Store::file(dir.path());
    let aside = file.with_extension("aside");
    fs::rename(&file, &aside).unwrap();
    assert!(!store.is_in_place());
    let other = Store::open(dir.path()).unwrap();
    assert!(!store.is_in_place());
    assert!(other.is_in_place());
}

#[test]
fn what_can_be_read_alone_is_read() {
    let dir = tempfile::tempdir().unwrap();
    assert!(Store::open_read_only(dir.path()).is_none());
    let store = Store::open(dir.path()).unwrap();
    store.write(&put("192.0.2.1")).unwrap();
    drop(store);
    let store = Store::open_read_only(dir.path()).unwrap();
    assert_eq!(keys(&store), ["192.0.2.1"]);
    assert!(store.write(&put("192.0.2.2")).is_err());
}

#[test]
fn some_errors_pass_and_some_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let first = Store::open(dir.path()).unwrap();
    assert!(Store::open(dir.path()).unwrap_err().is_final());
    drop(first);
    let below_a_file = Store::file(dir.path()).join("state");
    assert!(Store::open(&below_a_file).unwrap_err().is_final());
    if !rustix::process::geteuid().is_root() {
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o500)).unwrap();
        assert!(!Store::open(dir.path()).unwrap_err().is_final());
    }
}

#[test]
fn cleared_stripes_lose_their_records_and_others_keep_them() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let all = ["192.0.2.0/24", "192.0.2.1", "2001:db8::1", "203.0.113.9"];
    for key in all {
        store.write(&put(key)).unwrap();
    }
    let stripe = |key: &str| Clients::stripe_of_key(&key.parse().unwrap());
    let cleared = Changes {
        cleared: [stripe("192.0.2.1")].into(),
        ..put("192.0.2.2")
    };
    store.write(&cleared).unwrap();
    let kept = all
        .into_iter()
        .filter(|key| stripe(key) != stripe("192.0.2.1"));
    let mut want: Vec<_> = kept.chain(["192.0.2.2"]).map(str::to_owned).collect();
    want.sort();
    let mut got = keys(&store);
    got.sort();
    assert_eq!(got, want);
}
