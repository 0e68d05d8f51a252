//! Purges: by URL, by the beginning of URLs, and by tag.

use http::{HeaderMap, Uri};
use serde::Deserialize;

use super::key::{AskedKey, Ignored, Key};
use super::stored::Stored;
use crate::Scheme;

/// Stored responses that an operator wants to be gone.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purge {
    /// Those of a URL, such as `https://www.example.org/logo.png`, with all variants.
    Url(String),
    /// Those whose URL begins so, such as `https://www.example.org/img/`.
    Prefix(String),
    /// Those with a tag of `Cache-Tag` or `Surrogate-Key`.
    Tag(String),
}

/// Why nothing can be purged.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is no URL: expected one such as https://www.example.org/logo.png")]
pub struct ParsePurgeError(String);

/// A purge in the terms of a store.
#[derive(Debug)]
pub(super) enum Target {
    Key(Key),
    Beginning(Key),
    Tag(Box<str>),
    /// All that is stored.
    All,
}

impl Purge {
    /// Checks the URL.
    ///
    /// # Errors
    /// If it is none.
    pub fn check(&self) -> Result<(), ParsePurgeError> {
        self.target(&Ignored::default()).map(|_| ())
    }

    /// # Errors
    /// If a URL is none.
    pub(super) fn target(&self, ignored: &Ignored) -> Result<Target, ParsePurgeError> {
        let key = |url: &str, ignored: &Ignored| {
            let uri: Result<Uri, _> = url.parse();
            let uri = uri.ok().filter(|uri| uri.authority().is_some());
            let uri = uri.ok_or_else(|| ParsePurgeError(url.to_owned()))?;
            let named = uri.scheme_str().map(|name| Scheme::of(name.as_bytes()));
            let scheme = named.unwrap_or(Some(Scheme::Https));
            let scheme = scheme.ok_or_else(|| ParsePurgeError(url.to_owned()))?;
            Ok(AskedKey::of(scheme, &uri, &HeaderMap::new(), ignored).to_key())
        };
        match self {
            Self::Url(url) => key(url, ignored).map(Target::Key),
            Self::Prefix(url) => key(url, &Ignored::default()).map(Target::Beginning),
            Self::Tag(tag) => Ok(Target::Tag(tag.as_str().into())),
        }
    }
}

impl Target {
    pub(super) fn is_key(&self, key: &Key) -> bool {
        match self {
            Self::Key(own) => own == key,
            Self::Beginning(own) => {
                (own.scheme, &own.host) == (key.scheme, &key.host)
                    && key.target.starts_with(&*own.target)
            }
            Self::Tag(_) => false,
            Self::All => true,
        }
    }

    pub(super) fn is_tag_of(&self, stored: &Stored) -> bool {
        matches!(self, Self::Tag(tag) if stored.head.has_tag(tag))
    }
}
