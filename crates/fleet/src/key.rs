//! Names of keys, of one version of the key space.

use std::fmt::Write;

/// Version of the key space. Edges that lay it out in another way take another number, and so never meet.
const VERSION: u32 = 1;
/// Longest id of a key, in bytes.
const MAX_ID: usize = 128;
/// Longest name of an edge, in bytes.
const MAX_NAME: usize = 64;

/// The use of a key. A new kind takes a new word, which older edges never ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// A text by which one store's contents differ from another's.
    Store,
    /// The fleet's members, a field each.
    Member,
    /// The edges' knowledge of the path to a client's prefix, a field each.
    Path,
    /// The edges' knowledge of egress routes to a client's prefix, a field each.
    Route,
    /// Purges of caches, a stream.
    Purge,
    /// Something that the whole fleet has in common, sealed.
    Shared,
    /// The revisions of a topic's contents, a field each.
    Revision,
    /// The edge that does something for all others now.
    Lease,
}

impl Kind {
    const fn word(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Member => "member",
            Self::Path => "path",
            Self::Route => "route",
            Self::Purge => "purge",
            Self::Shared => "shared",
            Self::Revision => "revision",
            Self::Lease => "lease",
        }
    }
}

/// A key of the store, without the fleet's prefix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub(crate) kind: Kind,
    id: Box<str>,
}

impl Key {
    /// The edges' knowledge of the path to a client prefix, such as `192.0.2.0/24`. `None` if `id` is empty, longer
    /// than 128 bytes, or has anything but ASCII letters, digits, `.`, `:`, `/`, `_` and `-`.
    pub fn path(id: &str) -> Option<Self> {
        Self::of(Kind::Path, id)
    }

    /// The edges' knowledge of the egress routes to a client prefix. `None` as for [`path`](Self::path).
    pub fn route(id: &str) -> Option<Self> {
        Self::of(Kind::Route, id)
    }

    fn of(kind: Kind, id: &str) -> Option<Self> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b".:/_-".contains(&byte);
        let is_id = (1..=MAX_ID).contains(&id.len()) && id.bytes().all(is_part);
        is_id.then(|| Self {
            kind,
            id: id.into(),
        })
    }

    /// The key of a kind for something that the whole fleet has in common. `id` is as for [`path`](Self::path).
    pub(crate) fn common(kind: Kind, id: &str) -> Option<Self> {
        Self::of(kind, id)
    }

    /// The one key of a kind that has no more.
    pub(crate) fn only(kind: Kind) -> Self {
        Self {
            kind,
            id: "all".into(),
        }
    }

    /// The key's name in the store. A cluster chooses the node by the text in braces, so that all commands for
    /// one id meet the same node.
    pub(crate) fn in_store(&self, prefix: &str) -> String {
        let mut name = String::with_capacity(prefix.len() + self.id.len() + 16);
        // Writing to a String does not fail.
        let _ = write!(
            name,
            "{prefix}:{VERSION}:{}:{{{}}}",
            self.kind.word(),
            self.id
        );
        name
    }
}

/// Whether a text can name an edge, a point of presence or a fleet.
pub(crate) fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::{Key, Kind};

    #[test]
    fn names_have_version_kind_and_a_hash_tag() {
        let path = Key::path("2001:db8::/48").expect("an id");
        assert_eq!(path.in_store("tokyo"), "tokyo:1:path:{2001:db8::/48}");
        let route = Key::route("192.0.2.0/24").expect("an id");
        assert_eq!(route.in_store("f"), "f:1:route:{192.0.2.0/24}");
        assert_eq!(Key::only(Kind::Member).in_store("f"), "f:1:member:{all}");
    }

    #[test]
    fn ids_hold_nothing_that_would_change_a_name() {
        let long = "x".repeat(129);
        for id in ["", "a}b", "{a", "a b", "a\r\nb", "ü", long.as_str()] {
            assert_eq!(Key::path(id), None, "{id}");
        }
    }
}
