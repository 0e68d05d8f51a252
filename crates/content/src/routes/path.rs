//! The normal form of a request's path, by which routes are found.

use std::borrow::Cow;

use percent_encoding::percent_encode_byte;

/// Whether a byte of a path stands for itself (RFC 3986 §3.3); the slash is none of them.
pub(super) const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.'
                | b'_'
                | b'~'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b';'
                | b'='
                | b':'
                | b'@'
        )
}

/// Why a path has no normal form: it has a segment `.` or `..`. Clients remove those before they ask
/// (RFC 3986 §5.2.4). An upstream could resolve them into the path of another route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DotSegment;

/// Returns the normal form of a path. Each byte either stands for itself or is percent-encoded, as RFC 3986
/// §6.2.2 prefers it. Runs of slashes are one. An encoded slash stays encoded, since it is no
/// separator.
///
/// # Errors
/// If the path has a segment `.` or `..`, also between encoded slashes.
pub(crate) fn normal(path: &str) -> Result<Cow<'_, str>, DotSegment> {
    if is_normal(path) {
        return Ok(Cow::Borrowed(path));
    }
    let mut normal = String::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, encoded(after)) {
            (b'/', _) if normal.ends_with('/') => {}
            (b'/', _) => normal.push('/'),
            (b'%', Some(decoded)) => {
                rest = &after[2..];
                push(&mut normal, decoded);
            }
            _ => push(&mut normal, byte),
        }
    }
    let mut segments = normal.split('/').flat_map(|part| part.split(ENCODED_SLASH));
    match segments.any(|segment| matches!(segment, "." | "..")) {
        true => Err(DotSegment),
        false => Ok(Cow::Owned(normal)),
    }
}

/// Whether a path clearly is its own normal form.
fn is_normal(path: &str) -> bool {
    let mut before = 0;
    path.bytes().all(|byte| {
        let is_fine = match byte {
            b'/' | b'.' => before != b'/',
            _ => is_plain(byte),
        };
        before = byte;
        is_fine
    })
}

/// The byte that two hexadecimal digits stand for.
fn encoded(digits: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*digits.get(at)?).to_digit(16);
    u8::try_from(digit(0)? << 4 | digit(1)?).ok()
}

fn push(normal: &mut String, byte: u8) {
    if is_plain(byte) {
        normal.push(char::from(byte));
        return;
    }
    normal.push_str(percent_encode_byte(byte));
}

pub(super) const ENCODED_SLASH: &str = "%2F";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_path_has_one_normal_form() {
        let cases = [
            ("/", Ok("/")),
            ("/a/b.c", Ok("/a/b.c")),
            ("/a//b///", Ok("/a/b/")),
            ("//a", Ok("/a")),
            ("/%61%7e", Ok("/a~")),
            ("/a%2fb", Ok("/a%2Fb")),
            ("/a b\"é", Ok("/a%20b%22%C3%A9")),
            ("/%c3%a9%0d%0a", Ok("/%C3%A9%0D%0A")),
            ("/%zz%4", Ok("/%25zz%254")),
            ("/%2561", Ok("/%2561")),
            ("/.well-known/x", Ok("/.well-known/x")),
            ("/...", Ok("/...")),
            ("/a/../b", Err(DotSegment)),
            ("/a/%2E%2e", Err(DotSegment)),
            ("/./", Err(DotSegment)),
            ("/a%2f..%2Fb", Err(DotSegment)),
            ("", Ok("")),
            ("*", Ok("*")),
        ];
        for (path, want) in cases {
            assert_eq!(normal(path).as_deref(), want.as_deref(), "{path}");
        }
    }

    proptest! {
        #[test]
        fn the_normal_form_of_a_normal_form_is_itself(path in "/[a-c/.%0-9A-F é\\\\]{0,12}") {
            if let Ok(once) = normal(&path) {
                prop_assert!(once.is_ascii());
                let twice = normal(&once);
                prop_assert_eq!(twice.as_deref(), Ok(&*once));
            }
        }
    }
}
