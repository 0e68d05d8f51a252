//! The parameters of a request.

use std::fmt::Display;
use std::str::FromStr;

/// The parameters of a request, in their order.
#[derive(Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads a query; `known` are the parameters that there are.
    ///
    /// # Errors
    /// When it has others.
    pub(super) fn read(query: Option<&str>, known: &[&str]) -> Result<Self, String> {
        let pairs = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        let pairs: Vec<(String, String)> = pairs.into_owned().collect();
        match pairs.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            Some((key, _)) => Err(format!("`{key}` is not one of {}", known.join(", "))),
            None => Ok(Self(pairs)),
        }
    }

    /// The text of a parameter.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        let mut pairs = self.0.iter();
        let (_, value) = pairs.find(|(name, _)| name == key)?;
        Some(value.as_str()).filter(|value| !value.is_empty())
    }

    /// The value of a parameter.
    ///
    /// # Errors
    /// When it has another form.
    pub(super) fn value<T: FromStr<Err: Display>>(&self, key: &str) -> Result<Option<T>, String> {
        let Some(text) = self.text(key) else {
            return Ok(None);
        };
        let read = text.parse();
        read.map(Some)
            .map_err(|error| format!("`{key}={text}`: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_or_refused() {
        let query = Query::read(
            Some("limit=5&sort=a%20b&empty="),
            &["limit", "sort", "empty"],
        );
        let query = query.unwrap();
        assert_eq!(query.value::<usize>("limit"), Ok(Some(5)));
        assert_eq!(query.text("sort"), Some("a b"));
        assert_eq!(query.text("empty"), None);
        assert!(
            query
                .value::<usize>("sort")
                .unwrap_err()
                .contains("`sort=a b`")
        );
        assert!(
            Query::read(Some("limits=1"), &["limit"])
                .unwrap_err()
                .contains("limits")
        );
    }
}
