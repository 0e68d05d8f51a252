//! Classes of fields, which are known before a message is read.

/// The meaning of a field's name to the engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// `:method`.
    Method,
    /// `:scheme`.
    Scheme,
    /// `:authority`.
    Authority,
    /// `:path`.
    Path,
    /// `:protocol` (RFC 8441 §4).
    Protocol,
    /// `:status`.
    Status,
    /// A pseudo-header field that no RFC here defines.
    UnknownPseudo,
    /// A field without a meaning to the engines.
    Regular,
    /// Cookie (RFC 9113 §8.2.3).
    Cookie,
    /// Host (RFC 9110 §7.2).
    Host,
    /// Content-Length (RFC 9110 §8.6).
    ContentLength,
    /// TE (RFC 9110 §10.1.4).
    Te,
    /// Priority (RFC 9218 §5).
    Priority,
    /// A field of a single HTTP/1.1 connection (RFC 9113 §8.2.2).
    ConnectionSpecific,
    /// A name with a forbidden character (RFC 9113 §8.2.1).
    Invalid,
}

impl Kind {
    /// Whether the field is a pseudo-header field (RFC 9113 §8.3, RFC 9114 §4.3).
    pub const fn is_pseudo(self) -> bool {
        (self as u8) <= Self::UnknownPseudo as u8
    }

    const fn of(name: &[u8]) -> Self {
        match name {
            b":method" => Self::Method,
            b":scheme" => Self::Scheme,
            b":authority" => Self::Authority,
            b":path" => Self::Path,
            b":protocol" => Self::Protocol,
            b":status" => Self::Status,
            b"cookie" => Self::Cookie,
            b"host" => Self::Host,
            b"content-length" => Self::ContentLength,
            b"te" => Self::Te,
            b"priority" => Self::Priority,
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding"
            | b"upgrade" => Self::ConnectionSpecific,
            [b':', ..] => Self::UnknownPseudo,
            name if is_name(name) => Self::Regular,
            _ => Self::Invalid,
        }
    }
}

/// The class of a line: computed once, also for lines that stay in a dynamic table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// The meaning of the name.
    pub kind: Kind,
    /// Whether the value has no forbidden character (RFC 9113 §8.2.1, RFC 9110 §5.5).
    pub has_valid_value: bool,
}

impl Class {
    /// The class of a line.
    pub const fn of(name: &[u8], value: &[u8]) -> Self {
        Self::with_kind(Kind::of(name), value)
    }

    /// The class of a line with the name of another one.
    pub const fn with_kind(kind: Kind, value: &[u8]) -> Self {
        Self {
            kind,
            has_valid_value: is_value(value),
        }
    }
}

/// Whether `name` is a token (RFC 9110 §5.6.2) without upper-case letters.
const fn is_name(name: &[u8]) -> bool {
    let mut at = 0;
    while at < name.len() {
        if !NAME[name[at] as usize] {
            return false;
        }
        at += 1;
    }
    at > 0
}

static NAME: [bool; 256] = {
    let mut allowed = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        allowed[byte] = is_token(byte as u8) && !(byte as u8).is_ascii_uppercase();
        byte += 1;
    }
    allowed
};

/// Whether a byte may stand in a token (RFC 9110 §5.6.2).
pub const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

/// Whether `value` has neither control characters, except for tabs within, nor space around.
const fn is_value(value: &[u8]) -> bool {
    let [first, ..] = value else { return true };
    let last = value[value.len() - 1];
    if matches!(*first, b' ' | b'\t') || matches!(last, b' ' | b'\t') {
        return false;
    }
    // Without a branch for each byte, so that the compiler takes many at once.
    let (mut at, mut valid) = (0, true);
    while at < value.len() {
        let byte = value[at];
        valid &= (byte >= b' ') & (byte != 0x7f) | (byte == b'\t');
        at += 1;
    }
    valid
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn single_characters_are_those_of_the_rfcs() {
        for byte in 0..=255 {
            // The crate `http` takes quotation marks, which are no part of a token.
            let name = byte != b'"' && HeaderName::from_lowercase(&[byte]).is_ok();
            assert_eq!(is_name(&[byte]), name, "{byte:#x} in a name");
            let text = [b'a', byte, b'a'];
            let value = HeaderValue::from_bytes(&text).is_ok();
            assert_eq!(is_value(&text), value, "{byte:#x} in a value");
        }
    }

    #[test]
    fn values_have_no_space_around() {
        let cases: &[(&str, &[u8], bool)] = &[
            ("nothing", b"", true),
            (
                "RFC 9113 §8.2.1: MUST NOT start with whitespace",
                b" a",
                false,
            ),
            ("a tab at the start", b"\ta", false),
            (
                "RFC 9113 §8.2.1: MUST NOT end with whitespace",
                b"a ",
                false,
            ),
            ("a tab at the end", b"a\t", false),
            ("space alone", b" ", false),
            ("space within", b"a \tb", true),
        ];
        for (name, value, want) in cases {
            assert_eq!(is_value(value), *want, "{name}");
        }
    }

    #[test]
    fn names_have_kinds() {
        let cases: &[(&str, Kind)] = &[
            (":method", Kind::Method),
            (":status", Kind::Status),
            (":", Kind::UnknownPseudo),
            (":Method", Kind::UnknownPseudo),
            ("accept", Kind::Regular),
            ("cookie", Kind::Cookie),
            ("upgrade", Kind::ConnectionSpecific),
            ("transfer-encoding", Kind::ConnectionSpecific),
            ("te", Kind::Te),
            ("Accept", Kind::Invalid),
            ("a:", Kind::Invalid),
            ("", Kind::Invalid),
        ];
        for (name, want) in cases {
            assert_eq!(Kind::of(name.as_bytes()), *want, "{name}");
        }
        let pseudo = [Kind::Method, Kind::Status, Kind::UnknownPseudo];
        assert!(pseudo.into_iter().all(Kind::is_pseudo));
        assert!(!Kind::Regular.is_pseudo() && !Kind::Invalid.is_pseudo());
    }
}
