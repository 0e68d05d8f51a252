//! The file of secrets that the edges of a fleet share (`fleet.key_file`).

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use parking_lot::Mutex;

use super::Secret;

/// Most secrets in a file: one in use, and some that are being replaced.
const MOST: usize = 8;
/// Bytes of the largest file: the secrets, with room for comments.
const MOST_BYTES: u64 = 16 * 1024;
/// Hexadecimal digits of a secret.
const DIGITS: usize = 2 * size_of::<Secret>();
/// Whatever others may do, and what a group may change.
const TOO_OPEN: u32 = 0o027;

/// Why the file of shared secrets can't be used.
#[derive(Debug, thiserror::Error)]
#[error("reading the fleet's secrets from {} (fleet.key_file)", path.display())]
pub struct KeyFileError {
    path: PathBuf,
    #[source]
    why: Fault,
}

#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(
        "others have access to it (mode {mode:04o}): chmod 0600, or 0640 for the server's group"
    )]
    Open { mode: u32 },
    #[error("it is larger than {MOST_BYTES} bytes: it has one secret a line")]
    Large,
    #[error(
        "line {line} is no secret of {DIGITS} hexadecimal digits, such as `openssl rand -hex 32` writes"
    )]
    Line { line: usize },
    #[error("it has no secret: `openssl rand -hex 32` writes one")]
    Empty,
    #[error("it has more than {MOST} secrets: remove the last ones, which are the oldest")]
    Many,
}

/// The file, and when it was changed as far as this process knows.
#[derive(Debug)]
pub(super) struct KeyFile {
    path: PathBuf,
    seen: Mutex<Option<SystemTime>>,
}

impl KeyFile {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            seen: Mutex::new(modified(path)),
        }
    }

    /// The secrets, the newest first; at least one.
    ///
    /// # Errors
    /// When it can't be read, others can, or it holds anything else.
    pub(super) fn read(&self) -> Result<Vec<Secret>, KeyFileError> {
        read(&self.path).map_err(|why| KeyFileError {
            path: self.path.clone(),
            why,
        })
    }

    /// Whether it has changed since the last look.
    pub(super) fn is_outdated(&self) -> bool {
        let now = modified(&self.path);
        let mut seen = self.seen.lock();
        std::mem::replace(&mut *seen, now) != now
    }
}

/// Checks a file without using it.
///
/// # Errors
/// As [`KeyFile::read`].
pub(crate) fn check(path: &Path) -> Result<(), KeyFileError> {
    KeyFile::new(path).read().map(drop)
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|file| file.modified()).ok()
}

fn read(path: &Path) -> Result<Vec<Secret>, Fault> {
    let file = File::open(path)?;
    // Of the open file, so that it can't be exchanged in between.
    let mode = file.metadata()?.permissions().mode() & 0o7777;
    if mode & TOO_OPEN != 0 {
        return Err(Fault::Open { mode });
    }
    let mut text = String::new();
    file.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(Fault::Large);
    }
    parse(&text)
}

fn parse(text: &str) -> Result<Vec<Secret>, Fault> {
    let lines = (1..).zip(text.lines().map(str::trim));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let secrets = lines.map(|(line, digits)| secret(digits).ok_or(Fault::Line { line }));
    let secrets = secrets.collect::<Result<Vec<_>, _>>()?;
    match secrets.len() {
        0 => Err(Fault::Empty),
        1..=MOST => Ok(secrets),
        _ => Err(Fault::Many),
    }
}

fn secret(digits: &str) -> Option<Secret> {
    if digits.len() != DIGITS {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut secret = Secret::default();
    for (byte, pair) in secret.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        *byte = u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok()?;
    }
    Some(secret)
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::fs::Permissions;

    use super::*;

    fn written(text: &str, mode: u32) -> (tempfile::NamedTempFile, KeyFile) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        fs::set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
        let keys = KeyFile::new(file.path());
        (file, keys)
    }

    #[test]
    fn secrets_are_read_in_order_and_faults_are_named() {
        let (one, two) = ("01".repeat(32), "Ab".repeat(32));
        let nine = format!("{one}\n").repeat(9);
        let cases: &[(&str, &str, u32, Result<&[u8], &str>)] = &[
            ("one", &one, 0o600, Ok(&[1])),
            ("for the group", &one, 0o640, Ok(&[1])),
            (
                "two, with comments",
                &format!("# new\n{two}\r\n\n  {one}  \n"),
                0o400,
                Ok(&[0xab, 1]),
            ),
            ("open", &one, 0o644, Err("mode 0644): chmod 0600")),
            ("writable", &one, 0o660, Err("mode 0660): chmod 0600")),
            ("empty", "\n# none\n", 0o600, Err("it has no secret")),
            ("half", &one[..63], 0o600, Err("line 1 is no secret of 64")),
            (
                "half of the second",
                &format!("{one}\n{}", &two[..10]),
                0o600,
                Err("line 2 is no secret"),
            ),
            ("no digits", &"+1".repeat(32), 0o600, Err("line 1 is no")),
            ("too many", &nine, 0o600, Err("more than 8 secrets")),
            (
                "large",
                &"#".repeat(20_000),
                0o600,
                Err("larger than 16384"),
            ),
        ];
        for (name, text, mode, want) in cases {
            let (_file, keys) = written(text, *mode);
            match (keys.read(), want) {
                (Ok(secrets), Ok(want)) => {
                    let want: Vec<Secret> = want.iter().map(|&byte| [byte; 32]).collect();
                    assert_eq!(secrets, want, "{name}");
                }
                (Err(error), Err(want)) => {
                    let why = error.source().unwrap().to_string();
                    assert!(why.contains(want), "{name}: {why}");
                    assert!(error.to_string().contains("fleet.key_file"), "{error}");
                }
                (got, _) => panic!("{name}: {got:?}"),
            }
        }
    }

    #[test]
    fn a_change_is_seen_once() {
        let (file, keys) = written(&"01".repeat(32), 0o600);
        assert!(!keys.is_outdated());
        let later = SystemTime::now() + std::time::Duration::from_secs(5);
        File::options()
            .write(true)
            .open(file.path())
            .unwrap()
            .set_modified(later)
            .unwrap();
        assert!(keys.is_outdated());
        assert!(!keys.is_outdated());
        drop(file);
        assert!(keys.is_outdated(), "it is gone");
    }
}
