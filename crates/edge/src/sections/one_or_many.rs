//! A file, or a list of files.

use std::fmt;
use std::path::PathBuf;

use serde::Deserializer;
use serde::de::{Error, SeqAccess, Visitor};

/// Reads a string as a list of one.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<PathBuf>, D::Error> {
    from.deserialize_any(OneOrMany)
}

struct OneOrMany;

impl<'de> Visitor<'de> for OneOrMany {
    type Value = Vec<PathBuf>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a file or a list of files")
    }

    fn visit_str<E: Error>(self, one: &str) -> Result<Self::Value, E> {
        Ok(vec![one.into()])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut many: A) -> Result<Self::Value, A::Error> {
        let mut files = Vec::new();
        while let Some(file) = many.next_element()? {
            files.push(file);
        }
        Ok(files)
    }
}
