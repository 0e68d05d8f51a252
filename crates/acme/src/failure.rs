//! Why an order fails, and what follows from that.

use std::fmt;
use std::time::Duration;

use instant_acme::{Error, Problem};

/// A failure of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The attempt and the fault, for people.
    pub(crate) text: String,
    pub(crate) whose: Whose,
}

/// Where the cause lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// With the authority, so that another one may do better.
    Authority,
    /// The authority takes no more orders for this time.
    Limited(Duration),
    /// The authority does not know our account.
    Account,
    /// The authority did not find what it looked for at a name.
    Name,
    /// On this machine: every authority would meet it.
    Own,
}

/// The time without orders where an authority refuses them for a rate limit and says nothing of the time.
const LIMITED: Duration = Duration::from_secs(3600);
/// A longer time is not believed.
const LIMITED_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

impl Failure {
    /// A failure on this machine.
    pub(crate) fn own(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            whose: Whose::Own,
        }
    }

    /// A failure of the authority while `attempt`. `retry_after` is what it said last of the time to wait.
    pub(crate) fn of(attempt: &str, error: &Error, retry_after: Option<Duration>) -> Self {
        let limited = retry_after.unwrap_or(LIMITED).min(LIMITED_MAX);
        let (text, whose) = match error {
            Error::Api(problem) if is(problem, "rateLimited") => {
                (said(problem), Whose::Limited(limited))
            }
            Error::Api(problem) if is(problem, "accountDoesNotExist") => {
                (said(problem), Whose::Account)
            }
            Error::Api(problem) => (said(problem), Whose::Authority),
            other => (chain(other), Whose::Authority),
        };
        Self {
            text: format!("{attempt}: {text}"),
            whose,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether a problem is of a type of RFC 8555 §6.7.
fn is(problem: &Problem, kind: &str) -> bool {
    let named = problem.r#type.as_deref().and_then(short);
    named == Some(kind)
}

/// The text of a problem, with its parts.
pub(crate) fn said(problem: &Problem) -> String {
    let one = |detail: &Option<String>, kind: &Option<String>| {
        let kind = kind.as_deref().map(|kind| short(kind).unwrap_or(kind));
        match (detail.as_deref(), kind) {
            (Some(detail), Some(kind)) => format!("{detail} ({kind})"),
            (Some(text), None) | (None, Some(text)) => text.to_owned(),
            (None, None) => "the authority gave no reason".to_owned(),
        }
    };
    let mut text = one(&problem.detail, &problem.r#type);
    for part in &problem.subproblems {
        let part_text = one(&part.detail, &part.r#type);
        text.push_str(&match &part.identifier {
            Some(name) => format!("; {}: {part_text}", name.authorized(false)),
            None => format!("; {part_text}"),
        });
    }
    text
}

fn short(kind: &str) -> Option<&str> {
    kind.strip_prefix("urn:ietf:params:acme:error:")
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> Problem {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn failures_name_the_reason_and_where_it_lies() {
        const MINUTE: Duration = Duration::from_secs(60);
        let limited = r#"{"type": "urn:ietf:params:acme:error:rateLimited", "detail": "too many"}"#;
        let error = |text| Error::Api(problem(text));
        // what, error, Retry-After, text, whose
        let cases = [
            (
                "a limit with its time",
                error(limited),
                Some(MINUTE),
                "ordering: too many (rateLimited)",
                Whose::Limited(MINUTE),
            ),
            (
                "a limit without a time",
                error(limited),
                None,
                "ordering: too many (rateLimited)",
                Whose::Limited(LIMITED),
            ),
            (
                "a limit for years",
                error(limited),
                Some(Duration::from_secs(u64::from(u32::MAX))),
                "ordering: too many (rateLimited)",
                Whose::Limited(LIMITED_MAX),
            ),
            (
                "parts",
                error(
                    r#"{"type": "urn:ietf:params:acme:error:malformed", "detail": "refused",
                    "subproblems": [{"type": "urn:ietf:params:acme:error:rejectedIdentifier",
                    "detail": "not this one", "identifier": {"type": "dns", "value": "a.example"}}]}"#,
                ),
                None,
                "ordering: refused (malformed); a.example: not this one (rejectedIdentifier)",
                Whose::Authority,
            ),
            (
                "another memory of accounts",
                error(r#"{"type": "urn:ietf:params:acme:error:accountDoesNotExist"}"#),
                None,
                "ordering: accountDoesNotExist",
                Whose::Account,
            ),
            (
                "no reason",
                error("{}"),
                Some(MINUTE),
                "ordering: the authority gave no reason",
                Whose::Authority,
            ),
            (
                "no answer",
                Error::Other("connection refused".into()),
                None,
                "ordering: connection refused",
                Whose::Authority,
            ),
        ];
        for (what, error, retry_after, text, whose) in cases {
            let got = Failure::of("ordering", &error, retry_after);
            assert_eq!((got.text.as_str(), got.whose), (text, whose), "{what}");
        }
    }
}
