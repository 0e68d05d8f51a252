use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn names(secrets: &Secrets) -> Vec<Secret> {
    secrets
        .tickets
        .keys()
        .iter()
        .map(|key| *key.secret())
        .collect()
}

fn of_quic(secrets: &Secrets) -> [u8; 16] {
    secrets.ring.ids().newest().tag
}

#[test]
fn keys_outlive_the_process_where_there_is_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let below = dir.path().join("state");
    let first = Secrets::load(Some(&below), None).unwrap();
    let second = Secrets::load(Some(&below), None).unwrap();
    assert_eq!(of_quic(&first), of_quic(&second));
    assert_eq!(names(&first), names(&second));
    assert_eq!(mode(&below.join(file::NAME)), 0o600);
    assert!(!below.join("keys.json.new").exists());

    let [one, other] = [(); 2].map(|()| Secrets::load(None, None).unwrap());
    assert_ne!(of_quic(&one), of_quic(&other));
    assert_ne!(names(&one), names(&other));
}

#[test]
fn files_of_no_use_are_replaced() {
    let short = r#"{"quic":"AAAA","tickets":[]}"#;
    let cases: &[(&str, &[u8])] = &[
        ("empty", b""),
        ("garbage", &[0xff; 40]),
        ("a short key", short.as_bytes()),
        (
            "cut off",
            br#"{"quic":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","tic"#,
        ),
    ];
    for (name, content) in cases {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(file::NAME);
        fs::write(&path, content).unwrap();
        let first = Secrets::load(Some(dir.path()), None).unwrap();
        let second = Secrets::load(Some(dir.path()), None).unwrap();
        assert_eq!(of_quic(&first), of_quic(&second), "{name}");
        assert_eq!(mode(&path), 0o600, "{name}");
    }
}

#[test]
fn a_file_that_others_can_read_is_closed_to_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(file::NAME);
    let first = Secrets::load(Some(dir.path()), None).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let second = Secrets::load(Some(dir.path()), None).unwrap();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(of_quic(&first), of_quic(&second));
}

#[test]
fn without_a_directory_to_write_to_there_are_keys() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    // A directory cannot be made of a file, whoever runs the test.
    let secrets = Secrets::load(Some(&file), None).unwrap();
    assert_eq!(names(&secrets).len(), 1);
}

/// The secrets of an edge whose fleet has one secret in its file.
fn in_fleet(file: &Path) -> Secrets {
    fs::write(file, "01".repeat(32)).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    let config = FleetConfig {
        key_file: Some(file.to_owned()),
        ..FleetConfig::default()
    };
    let secrets = Secrets::load(None, None).unwrap();
    secrets.in_fleet(&config).unwrap()
}

#[test]
fn tickets_of_the_stores_keys_are_closed_to_who_has_the_file_alone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("keys");
    let [a, b, thief] = [(); 3].map(|()| in_fleet(&file));
    let client = "192.0.2.7".parse().unwrap();
    let opens = |edge: &Secrets, ticket: &[u8]| edge.tickets.open(ticket, client).is_some();
    let derived = a.tickets.seal(b"session", None).unwrap();
    assert!(opens(&b, &derived), "without the store");
    assert!(a.store_keys(Vec::new()), "a key is due");
    let key = Epoch {
        from: now() - 10,
        secret: draw().unwrap(),
    };
    for edge in [&a, &b] {
        assert!(!edge.store_keys(vec![key.clone()]), "no other is due");
    }
    let ticket = a.tickets.seal(b"session", None).unwrap();
    assert!(opens(&b, &ticket) && !opens(&thief, &ticket));
    assert!(opens(&a, &derived), "those of before stay good");
    // A key that is not in use yet opens, and makes no tickets.
    let next = Epoch {
        from: now() + 600,
        secret: draw().unwrap(),
    };
    a.store_keys(vec![next, key.clone()]);
    assert!(opens(&b, &a.tickets.seal(b"session", None).unwrap()));
    // Once it is old, derived ones are made again, and after two days it is gone.
    let old = |hours: u64| {
        vec![Epoch {
            from: now() - hours * 3600 - 60,
            ..key.clone()
        }]
    };
    assert!(a.store_keys(old(25)), "another is due");
    assert!(opens(&thief, &a.tickets.seal(b"session", None).unwrap()));
    assert!(opens(&a, &ticket));
    a.store_keys(old(49));
    assert!(!opens(&a, &ticket));
    let drawn = a.next_keys().unwrap();
    assert_eq!(Epoch::decode(&Epoch::encode(&drawn)), drawn);
    assert!(!format!("{a:?}").contains("secret:"));
}
