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
