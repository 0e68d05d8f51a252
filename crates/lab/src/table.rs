//! Tables of TOML as values.

use serde::de::DeserializeOwned;
use toml::Table;

/// Reads a value from the table, by way of text: a second kind of deserializer would be 300 kB of code.
///
/// # Errors
/// When a key or value is wrong. The error's line is that of another text.
pub(crate) fn of_table<T: DeserializeOwned>(table: &Table) -> Result<T, toml::de::Error> {
    toml::from_str(&table.to_string())
}
