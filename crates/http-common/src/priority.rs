//! Priorities of responses (RFC 9218).

mod dictionary;

use http::{HeaderMap, HeaderValue};

/// The name of the field that carries a priority (RFC 9218 §5).
pub const FIELD: &str = "priority";

/// The priority of a response (RFC 9218 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Priority {
    /// `u`: from 0, the most urgent, to 7, in the background. The default is 3.
    pub urgency: u8,
    /// `i`: whether parts of the response are of use, so that it may alternate with others of its
    /// urgency.
    pub incremental: bool,
}

impl Default for Priority {
    fn default() -> Self {
        Self {
            urgency: 3,
            incremental: false,
        }
    }
}

impl Priority {
    /// Reads the priority fields of a message; several are one list (RFC 9651 §4.2).
    pub fn of_fields<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Self {
        Parameters::of_fields(values).or(Self::default())
    }

    /// Reads a priority field's value.
    ///
    /// Unknown parameters are ignored, and so are those of a wrong type or value (RFC 9218 §4). A
    /// value that is no dictionary counts as none (RFC 9651 §4.2).
    pub fn parse(value: &[u8]) -> Self {
        Parameters::parse(value).or(Self::default())
    }
}

/// The parameters of a priority that a message has. Those of a response replace its client's (RFC 9218 §8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// `u`.
    pub urgency: Option<u8>,
    /// `i`.
    pub incremental: Option<bool>,
}

impl Parameters {
    /// Reads the priority fields of a message; several are one list (RFC 9651 §4.2).
    pub fn of_fields<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut values = values.into_iter();
        let Some(first) = values.next() else {
            return Self::default();
        };
        let Some(second) = values.next() else {
            return Self::parse(first);
        };
        let mut joined = first.to_vec();
        for value in std::iter::once(second).chain(values) {
            joined.extend_from_slice(b", ");
            joined.extend_from_slice(value);
        }
        Self::parse(&joined)
    }

    /// The parameters of a message's priority fields; none where it has no such field.
    pub fn of(headers: &HeaderMap) -> Self {
        let values = headers.get_all(FIELD).iter();
        Self::of_fields(values.map(HeaderValue::as_bytes))
    }

    /// The priority that has these parameters, and the others of `client`.
    #[must_use]
    pub fn or(self, client: Priority) -> Priority {
        Priority {
            urgency: self.urgency.unwrap_or(client.urgency),
            incremental: self.incremental.unwrap_or(client.incremental),
        }
    }

    fn parse(value: &[u8]) -> Self {
        use dictionary::Value;
        let mut parameters = Self::default();
        let members = dictionary::parse(value, |key, value| {
            // The last member of a key counts (RFC 9651 §3.2).
            match (key, value) {
                (b"u", Value::Integer(urgency)) => {
                    let urgency = u8::try_from(urgency).ok();
                    parameters.urgency = urgency.filter(|urgency| *urgency <= 7);
                }
                (b"i", Value::Boolean(incremental)) => parameters.incremental = Some(incremental),
                (b"u", Value::Other | Value::Boolean(_)) => parameters.urgency = None,
                (b"i", Value::Other | Value::Integer(_)) => parameters.incremental = None,
                _ => {}
            }
        });
        members.map_or_else(Self::default, |()| parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_as_the_rfcs_say() {
        let of = |urgency, incremental| Priority {
            urgency,
            incremental,
        };
        let cases: &[(&str, &str, Priority)] = &[
            ("RFC 9218 §4: defaults", "", of(3, false)),
            ("RFC 9218 §4.1: urgency", "u=0", of(0, false)),
            ("RFC 9218 §4.1: the lowest", "u=7", of(7, false)),
            ("RFC 9218 §4.1: beyond it", "u=8", of(3, false)),
            ("RFC 9218 §4.1: below it", "u=-1", of(3, false)),
            ("RFC 9218 §4.2: incremental", "u=5, i", of(5, true)),
            ("RFC 9218 §4.2: said to be so", "i=?1", of(3, true)),
            ("RFC 9218 §4.2: said not to be", "i=?0,u=1", of(1, false)),
            ("RFC 9218 §4: a wrong type", "u=high, i", of(3, true)),
            ("RFC 9218 §4: another wrong type", "i=1, u=2", of(2, false)),
            ("RFC 9218 §4: a decimal", "u=2.5", of(3, false)),
            (
                "RFC 9218 §4: unknown parameters",
                "a, u=2, b=\"x, u=1\"",
                of(2, false),
            ),
            (
                "RFC 9651 §3.2: the last one counts",
                "u=1, u=2",
                of(2, false),
            ),
            (
                "RFC 9651 §3.1.2: parameters",
                "u=2;x=1;y, i;z=?0",
                of(2, true),
            ),
            (
                "RFC 9651 §3.1.1: an inner list",
                "x=(1 2 \"a\");q=1, u=4",
                of(4, false),
            ),
            (
                "RFC 9651 §3.3: items of all types",
                "a=t/x:y, b=:aGk=:, c=1.5, d=@12, u=6",
                of(6, false),
            ),
            (
                "RFC 9651 §4.2: whitespace around",
                "  u=2 \t,\ti  ",
                of(2, true),
            ),
            ("RFC 9651 §4.2: a trailing comma", "u=2,", of(3, false)),
            ("RFC 9651 §4.2: no comma", "u=2 i", of(3, false)),
            ("RFC 9651 §4.2: an upper-case key", "U=2", of(3, false)),
            ("RFC 9651 §4.2: an open string", "u=2, x=\"", of(3, false)),
            (
                "RFC 9651 §4.2.4: sixteen digits",
                "u=0000000000000002",
                of(3, false),
            ),
        ];
        for (name, value, want) in cases {
            assert_eq!(Priority::parse(value.as_bytes()), *want, "{name}");
        }
    }
    #[test]
    fn a_response_replaces_the_parameters_that_it_has() {
        let client = Priority {
            urgency: 5,
            incremental: true,
        };
        let cases: &[(&str, &[&str], (u8, bool))] = &[
            ("RFC 9218 §8: no field", &[], (5, true)),
            ("RFC 9218 §8: its example", &["u=1"], (1, true)),
            ("RFC 9218 §8: both", &["u=0, i=?0"], (0, false)),
            ("RFC 9218 §8: the default, said", &["u=3"], (3, true)),
            ("RFC 9218 §4: a wrong value", &["u=9, i=?0"], (5, false)),
            ("RFC 9218 §4: wrong types", &["u, i=1"], (5, true)),
            ("RFC 9651 §4.2: two fields", &["u=1", "i=?0"], (1, false)),
            ("RFC 9651 §4.2: no dictionary", &["u=1,"], (5, true)),
        ];
        for (name, fields, (urgency, incremental)) in cases {
            let mut headers = HeaderMap::new();
            for field in *fields {
                headers.append(FIELD, HeaderValue::from_static(field));
            }
            let want = Priority {
                urgency: *urgency,
                incremental: *incremental,
            };
            assert_eq!(Parameters::of(&headers).or(client), want, "{name}");
        }
    }
}
