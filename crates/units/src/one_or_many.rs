//! Lists of a configuration, in which one element need not be a list.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Reads a list, or a text or a table as a list of one element. To be used with serde's
/// `deserialize_with`.
///
/// # Errors
/// If it is neither, or an element can't be read.
pub fn one_or_many<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    from.deserialize_any(OneOrMany(PhantomData))
}

struct OneOrMany<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrMany<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of texts")
    }

    fn visit_str<E: Error>(self, one: &str) -> Result<Self::Value, E> {
        T::deserialize(StrDeserializer::new(one)).map(|one| vec![one])
    }

    fn visit_map<A: MapAccess<'de>>(self, one: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(one)).map(|one| vec![one])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut many: A) -> Result<Self::Value, A::Error> {
        let mut all = Vec::new();
        while let Some(one) = many.next_element()? {
            all.push(one);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::one_or_many;
    use crate::Network;

    #[derive(Debug, Deserialize)]
    struct Keys {
        #[serde(deserialize_with = "one_or_many")]
        networks: Vec<Network>,
    }

    #[test]
    fn a_text_is_a_list_of_one() {
        let read = |text: &str| serde_json::from_str::<Keys>(text).map(|keys| keys.networks);
        let one: Network = "192.0.2.0/24".parse().unwrap();
        let cases = [
            (r#"{"networks": "192.0.2.0/24"}"#, vec![one]),
            (
                r#"{"networks": ["192.0.2.0/24", "192.0.2.0/24"]}"#,
                vec![one, one],
            ),
            (r#"{"networks": []}"#, vec![]),
        ];
        for (text, want) in cases {
            assert_eq!(read(text).unwrap(), want, "{text}");
        }
        for (text, want) in [
            (r#"{"networks": 1}"#, "a text or a list of texts"),
            (r#"{"networks": "x"}"#, "`x` is no network"),
            (r#"{"networks": ["x"]}"#, "`x` is no network"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
    }
}
