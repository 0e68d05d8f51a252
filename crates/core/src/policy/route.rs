use std::fmt;
use std::str::FromStr;

use hikyaku_units::serde_as_text;

/// The route: as text `adaptive`, `plain`, `aggregate` or an egress route's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RoutePolicy {
    /// The best route, per client and content class.
    #[default]
    Adaptive,
    /// As BGP chose.
    Plain,
    /// The egress route of this name for every client that it reaches; plain for the others.
    Named(String),
    /// Several by MPTCP for every client that takes part; plain for the others.
    Aggregate,
}

/// A text that is no route policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no route; expected `adaptive`, `plain`, `aggregate` or an egress route's name, which is 1 to 64 \
     letters, digits, `.`, `_` and `-`, and begins with a letter or digit"
)]
pub struct ParseRoutePolicyError(String);

impl fmt::Display for RoutePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Adaptive => ADAPTIVE,
            Self::Plain => PLAIN,
            Self::Named(name) => name,
            Self::Aggregate => AGGREGATE,
        })
    }
}

impl FromStr for RoutePolicy {
    type Err = ParseRoutePolicyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            ADAPTIVE => Ok(Self::Adaptive),
            PLAIN => Ok(Self::Plain),
            AGGREGATE => Ok(Self::Aggregate),
            name if is_name(name) => Ok(Self::Named(name.to_owned())),
            _ => Err(ParseRoutePolicyError(text.chars().take(64).collect())),
        }
    }
}

serde_as_text!(RoutePolicy);

/// The agents' rule for names (`conf/egress-server.toml`), which has these two kept for itself.
fn is_name(text: &str) -> bool {
    let rest = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let reserved = ["steered", "aggregated"].contains(&text);
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.len() <= 64
        && text.chars().all(rest)
        && !reserved
}

const ADAPTIVE: &str = "adaptive";
const PLAIN: &str = "plain";
const AGGREGATE: &str = "aggregate";

#[cfg(test)]
mod tests {
    use super::RoutePolicy;

    #[test]
    fn texts() {
        let named = |name: &str| Some(RoutePolicy::Named(name.to_owned()));
        let cases = [
            ("adaptive", Some(RoutePolicy::Adaptive)),
            ("plain", Some(RoutePolicy::Plain)),
            ("aggregate", Some(RoutePolicy::Aggregate)),
            ("transit-a", named("transit-a")),
            ("6core_b.2", named("6core_b.2")),
            ("aggregated", None),
            ("steered", None),
            ("", None),
            ("-a", None),
            ("transit a", None),
            (&"a".repeat(65), None),
        ];
        for (text, want) in cases {
            let parsed = text.parse::<RoutePolicy>();
            assert_eq!(parsed.as_ref().ok(), want.as_ref(), "{text}");
            match parsed {
                Ok(route) => assert_eq!(route.to_string(), text),
                Err(error) => assert!(
                    error.to_string().contains("an egress route's name"),
                    "{error}"
                ),
            }
        }
    }
}
