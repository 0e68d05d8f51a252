//! Translation of a request's path to names below the root.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// The names below the root in a request's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Names joined by single slashes, none at either end; empty for the root.
    relative: Vec<u8>,
    /// Whether the path ended in a slash.
    is_directory: bool,
}

impl Target {
    /// Decodes the path of a URI, once.
    ///
    /// It resolves nothing. `.` and `..`, which clients remove before they ask (RFC 3986 §5.2.4),
    /// are refused in every spelling. So are an encoded slash, NUL and a `%` without two
    /// hexadecimal digits. Runs of slashes count as one. Names that start with a dot are absent
    /// unless `hidden`.
    pub(super) fn parse(path: &str, hidden: bool) -> Result<Self, PathError> {
        let mut relative = Vec::with_capacity(path.len());
        for segment in path.split('/').filter(|segment| !segment.is_empty()) {
            let start = relative.len() + usize::from(!relative.is_empty());
            if start > 0 {
                relative.push(b'/');
            }
            decode(segment, &mut relative)?;
            match &relative[start..] {
                b"." | b".." => return Err(PathError::Malformed),
                b".well-known" if start == 0 => {}
                [b'.', ..] if !hidden => return Err(PathError::Hidden),
                name if name.iter().any(|byte| matches!(byte, b'/' | 0)) => {
                    return Err(PathError::Malformed);
                }
                _ => {}
            }
        }
        if relative.len() > MAX_LEN {
            return Err(PathError::TooLong);
        }
        Ok(Self {
            relative,
            is_directory: path.ends_with('/'),
        })
    }

    pub(super) const fn is_directory(&self) -> bool {
        self.is_directory
    }

    /// Whether it names the root itself.
    pub(super) const fn is_root(&self) -> bool {
        self.relative.is_empty()
    }

    /// The path below the root, `.` for the root itself.
    pub(super) fn as_path(&self) -> &Path {
        if self.relative.is_empty() {
            return Path::new(".");
        }
        Path::new(OsStr::from_bytes(&self.relative))
    }
}

/// Why a path names no file below the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PathError {
    #[error("path has a dot segment, an encoded slash, NUL or a broken percent-encoding")]
    Malformed,
    #[error("path has a hidden name")]
    Hidden,
    #[error("path is longer than {MAX_LEN} bytes")]
    TooLong,
}

/// Encodes a path below the root for a URL.
pub(super) fn encode_path(path: &str) -> String {
    percent_encode(path.as_bytes(), NOT_IN_PATH).to_string()
}

/// Encodes a name for a URL.
pub(super) fn encode_name(name: &[u8]) -> String {
    percent_encode(name, NOT_IN_NAME).to_string()
}

fn decode(segment: &str, out: &mut Vec<u8>) -> Result<(), PathError> {
    let mut bytes = segment.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err(PathError::Malformed);
        };
        out.push((high << 4 | low) as u8);
    }
    Ok(())
}

/// The kernel's `PATH_MAX` without the ending NUL, and without the room for the name of an index
/// file or a sibling.
const MAX_LEN: usize = 4095 - 256;

/// All characters but the unreserved ones of RFC 3986 §2.3.
const NOT_IN_NAME: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
const NOT_IN_PATH: &AsciiSet = &NOT_IN_NAME.remove(b'/');

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_decoded_once_and_never_climb() {
        use PathError::{Hidden, Malformed};
        type Case<'a> = (&'a str, Result<(&'a str, bool), PathError>);
        let cases: &[Case<'_>] = &[
            ("/", Ok((".", true))),
            ("", Ok((".", false))),
            ("/a", Ok(("a", false))),
            ("/a/", Ok(("a", true))),
            ("//a///b//", Ok(("a/b", true))),
            ("/a%20b", Ok(("a b", false))),
            ("/%2561", Ok(("%61", false))),
            ("/%252e%252e/x", Ok(("%2e%2e/x", false))),
            ("/a\\..\\b", Ok(("a\\..\\b", false))),
            ("/a..", Ok(("a..", false))),
            ("/.well-known/x", Ok((".well-known/x", false))),
            ("/..", Err(Malformed)),
            ("/../etc/passwd", Err(Malformed)),
            ("/a/../../etc/passwd", Err(Malformed)),
            ("/%2e%2e/etc/passwd", Err(Malformed)),
            ("/.%2E/etc/passwd", Err(Malformed)),
            ("/a/./b", Err(Malformed)),
            ("/%2e", Err(Malformed)),
            ("/..%2fetc%2fpasswd", Err(Hidden)),
            ("/a%2fb", Err(Malformed)),
            ("/a%00", Err(Malformed)),
            ("/a%0", Err(Malformed)),
            ("/a%", Err(Malformed)),
            ("/a%zz", Err(Malformed)),
            ("/a%+1", Err(Malformed)),
            ("/.git/config", Err(Hidden)),
            ("/a/.htaccess", Err(Hidden)),
            ("/%2ehidden", Err(Hidden)),
            ("/a/.well-known/x", Err(Hidden)),
            ("/.well-known/.x", Err(Hidden)),
            ("/.well-knownx", Err(Hidden)),
            ("/.well-known/../x", Err(Malformed)),
        ];
        for (path, want) in cases {
            let got = Target::parse(path, false);
            let got = got.as_ref().map_err(|error| *error);
            let got = got.map(|target| (target.as_path().to_str().unwrap(), target.is_directory()));
            assert_eq!(got, *want, "{path}");
        }
    }

    #[test]
    fn hidden_names_are_a_setting_and_dot_segments_are_not() {
        assert!(Target::parse("/.git/config", true).is_ok());
        assert_eq!(Target::parse("/../x", true), Err(PathError::Malformed));
        assert_eq!(Target::parse("/..%2fx", true), Err(PathError::Malformed));
    }

    #[test]
    fn too_long_a_path_is_refused() {
        let longest = format!("/{}", "a".repeat(MAX_LEN));
        assert!(Target::parse(&longest, false).is_ok());
        assert_eq!(
            Target::parse(&format!("{longest}a"), false),
            Err(PathError::TooLong)
        );
    }

    #[test]
    fn names_need_not_be_utf8() {
        let target = Target::parse("/caf%E9", false).unwrap();
        assert_eq!(target.as_path().as_os_str().as_bytes(), b"caf\xe9");
    }

    proptest::proptest! {
        #[test]
        fn no_path_climbs_or_panics(path in "(/|\\.|%2[eEfF]|%00|%|a|[\\x21-\\x7e]){0,40}", hidden: bool) {
            if let Ok(target) = Target::parse(&path, hidden) {
                let climbs = target.as_path().components().any(|component| {
                    !matches!(component, std::path::Component::Normal(_) | std::path::Component::CurDir)
                });
                assert!(!climbs, "{path}");
            }
        }
    }
}
