//! Responses that are to leave the store before their time.

/// The responses that [`Store::purge`](super::Store::purge) removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// All responses of this URL, compared byte by byte.
    Url(Box<str>),
    /// All responses whose URL begins so; the empty prefix means everything.
    Prefix(Box<str>),
    /// All responses that have this tag, compared byte by byte.
    Tag(Box<str>),
}

impl Purge {
    /// Whether a response of this URL with these tags is to leave.
    pub(super) fn hits(&self, url: &str, tags: &[impl AsRef<str>]) -> bool {
        match self {
            Self::Url(wanted) => **wanted == *url,
            Self::Prefix(prefix) => url.starts_with(&**prefix),
            Self::Tag(wanted) => tags.iter().any(|tag| tag.as_ref() == &**wanted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purge_hits_its_responses_alone() {
        let tags = ["red", "blue"];
        let cases = [
            (Purge::Url("https://a/x".into()), true),
            (Purge::Url("https://a/".into()), false),
            (Purge::Prefix("https://a/".into()), true),
            (Purge::Prefix("".into()), true),
            (Purge::Prefix("https://a/x/".into()), false),
            (Purge::Tag("blue".into()), true),
            (Purge::Tag("blu".into()), false),
        ];
        for (purge, hits) in cases {
            assert_eq!(purge.hits("https://a/x", &tags), hits, "{purge:?}");
        }
    }
}
