//! Names with hashes of passwords, as a file has them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use sha_crypt::{PasswordVerifier, ShaCrypt};

/// The users of a file.
#[derive(Debug)]
pub(super) struct Users {
    by_name: HashMap<Box<str>, Hash>,
    /// The hash against which the passwords of unknown names are checked.
    any: Hash,
}

/// The hash of a password, in the modular crypt format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    Bcrypt(Box<str>),
    Sha(Box<str>),
}

/// Why a file of users can't be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum UsersError {
    #[error("reading the users from {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("in {}, line {line}: {why}", path.display())]
    Line {
        path: PathBuf,
        line: usize,
        /// A sentence. It has no hash.
        why: String,
    },
    #[error("{} has no users: add one with `htpasswd -B {} NAME`", path.display(), path.display())]
    Empty { path: PathBuf },
}

impl Users {
    /// Reads lines `NAME:HASH`. Empty lines and those that begin with `#` are skipped.
    ///
    /// # Errors
    /// If the file can't be read, a line has another form, a name comes twice, or there are none.
    pub(super) fn read(path: &Path) -> Result<Self, UsersError> {
        let text = fs::read_to_string(path).map_err(|source| UsersError::Read {
            path: path.to_owned(),
            source,
        })?;
        let mut by_name = HashMap::new();
        for (line, text) in text.lines().enumerate() {
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            add(&mut by_name, text).map_err(|why| UsersError::Line {
                path: path.to_owned(),
                line: line + 1,
                why,
            })?;
        }
        let any = by_name.values().next().cloned();
        let any = any.ok_or_else(|| UsersError::Empty {
            path: path.to_owned(),
        })?;
        Ok(Self { by_name, any })
    }

    pub(super) fn get(&self, name: &str) -> Option<&Hash> {
        self.by_name.get(name)
    }

    /// A hash that takes as long to check as that of a user.
    pub(super) fn any(&self) -> &Hash {
        &self.any
    }
}

fn add(users: &mut HashMap<Box<str>, Hash>, line: &str) -> Result<(), String> {
    let (name, hash) = line
        .split_once(':')
        .ok_or("it has no colon: expected NAME:HASH")?;
    let hash = hash.parse().map_err(|why| format!("`{name}` has {why}"))?;
    match users.entry(name.into()) {
        Entry::Occupied(_) => Err(format!("`{name}` is there twice: keep one line")),
        Entry::Vacant(free) => {
            free.insert(hash);
            Ok(())
        }
    }
}

impl FromStr for Hash {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut fields = text.split('$').skip(1);
        match fields.next() {
            Some("2a" | "2b" | "2y") => match text.parse::<bcrypt::HashParts>() {
                Ok(_) => Ok(Self::Bcrypt(text.into())),
                Err(_) => Err("a malformed bcrypt hash: make it anew with `htpasswd -B`"),
            },
            Some(kind @ ("5" | "6")) => match is_sha(fields, if kind == "5" { 43 } else { 86 }) {
                true => Ok(Self::Sha(text.into())),
                false => Err("a malformed SHA-crypt hash: make it anew with `openssl passwd -6`"),
            },
            Some("apr1" | "1") => {
                Err("an MD5 hash, which is too weak: make it anew with `htpasswd -B`")
            }
            _ => Err(
                "no hash that is supported: make it with `htpasswd -B` (bcrypt) or `openssl passwd -6` \
                 (SHA-crypt)",
            ),
        }
    }
}

/// Whether these are the fields of a SHA-crypt hash: perhaps the rounds, a salt, and a digest of this many
/// characters.
fn is_sha<'a>(fields: impl Iterator<Item = &'a str>, digest: usize) -> bool {
    let fields: Vec<_> = fields.collect();
    let is_base64 = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'/');
    let has_rounds = |field: &str| {
        let rounds = field.strip_prefix("rounds=");
        rounds.is_some_and(|rounds| rounds.parse::<u32>().is_ok())
    };
    let (salt, hash) = match fields[..] {
        [salt, hash] => (salt, hash),
        [rounds, salt, hash] if has_rounds(rounds) => (salt, hash),
        _ => return false,
    };
    (1..=16).contains(&salt.len()) && hash.len() == digest && hash.bytes().all(is_base64)
}

impl Hash {
    /// Whether it is the hash of a password. It takes milliseconds to a second, by its cost.
    pub(super) fn is_of(&self, password: &[u8]) -> bool {
        match self {
            Self::Bcrypt(hash) => bcrypt::verify(password, hash).unwrap_or(false),
            Self::Sha(hash) => ShaCrypt::default()
                .verify_password(password, &**hash)
                .is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the password `secret`.
    const BCRYPT: &str = "$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a";
    const SHA256: &str = "$5$saltsalt$0IyaXrmV7.sGNS6tirgqHLqX/G.FBvgkYA.lpPdS5sA";
    const SHA512: &str = "$6$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT0Y77vwPZN.Pq.H91p5hVO1";

    fn read(text: &str) -> Result<Users, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("users");
        fs::write(&path, text).unwrap();
        let place = path.display().to_string();
        Users::read(&path).map_err(|error| error.to_string().replace(&place, "FILE"))
    }

    #[test]
    fn hashes_of_other_programs_are_checked() {
        for hash in [BCRYPT, SHA256, SHA512] {
            let users = read(&format!("# people\n\nada:{hash}\n")).unwrap();
            let ada = users.get("ada").unwrap();
            assert!(ada.is_of(b"secret"), "{hash}");
            for wrong in ["", "Secret", "secret ", "a\0b"] {
                assert!(!ada.is_of(wrong.as_bytes()), "{hash} {wrong}");
            }
            assert_eq!(users.get("Ada"), None);
            assert_eq!(users.any(), ada);
        }
    }

    #[test]
    fn other_files_are_refused_with_the_line_and_without_the_hash() {
        let cases = [
            (
                "",
                "FILE has no users: add one with `htpasswd -B FILE NAME`",
            ),
            ("\nada\n", "in FILE, line 2: it has no colon"),
            (
                "ada:$apr1$x$AAAAAAAAAAAAAAAAAAAAAA",
                "in FILE, line 1: `ada` has an MD5 hash, which is too weak: make it anew with `htpasswd -B`",
            ),
            ("ada:secret", "`ada` has no hash that is supported"),
            ("ada:{SHA}AAAA", "`ada` has no hash that is supported"),
            ("ada:$2y$10$short", "`ada` has a malformed bcrypt hash"),
            ("ada:$6$salt$short", "`ada` has a malformed SHA-crypt hash"),
            (
                "ada:$5$rounds=x$salt$AAAA",
                "`ada` has a malformed SHA-crypt hash",
            ),
        ];
        for (text, want) in cases {
            let error = read(text).unwrap_err();
            assert!(error.contains(want), "{error}");
            assert!(!error.contains("AAAA"), "{error}");
        }
        let twice = format!("ada:{BCRYPT}\nbob:{BCRYPT}\nada:{BCRYPT}\n");
        let error = read(&twice).unwrap_err();
        assert!(error.contains("line 3: `ada` is there twice"), "{error}");
        let missing = Users::read(Path::new("/nonexistent/users")).unwrap_err();
        assert_eq!(
            missing.to_string(),
            "reading the users from /nonexistent/users"
        );
    }
}
