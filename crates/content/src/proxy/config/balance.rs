//! How requests are shared among the upstreams of a group.

use std::str::FromStr;

use http::HeaderName;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// Which upstream of a group gets a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// Of two that are drawn at random, the one with fewer requests under way.
    #[default]
    LeastRequests,
    /// The same one for all requests that have this in common, as long as it is well.
    Hash(HashBy),
}

/// The part of requests by which they go to the same upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HashBy {
    /// The client's address.
    Address,
    /// The path, without the query.
    Path,
    /// The value of this header field; the client's address where it is missing.
    Header(HeaderName),
    /// The value of this cookie; the client's address where it is missing.
    Cookie(String),
}

impl FromStr for Balance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let by = match text.split(':').collect::<Vec<_>>()[..] {
            ["least_requests"] => return Ok(Self::LeastRequests),
            ["hash", "address"] => HashBy::Address,
            ["hash", "path"] => HashBy::Path,
            ["hash", "header", name] => {
                let name = name.parse();
                HashBy::Header(name.map_err(|_| format!("`{text}` names no header field"))?)
            }
            ["hash", "cookie", name] if is_token(name) => HashBy::Cookie(name.to_owned()),
            ["hash", "cookie", _] => return Err(format!("`{text}` names no cookie")),
            _ => {
                return Err(format!(
                    "`{text}` is none of `least_requests`, `hash:address`, `hash:path`, \
                     `hash:header:NAME` and `hash:cookie:NAME`"
                ));
            }
        };
        Ok(Self::Hash(by))
    }
}

/// Whether a text is a token (RFC 9110 §5.6.2), as a cookie's name is (RFC 6265 §4.1.1).
fn is_token(text: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_fine)
}

impl<'de> Deserialize<'de> for Balance {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read_and_others_are_refused() {
        let header = HeaderName::from_static("x-user");
        let cases = [
            ("least_requests", Ok(Balance::LeastRequests)),
            ("hash:address", Ok(Balance::Hash(HashBy::Address))),
            ("hash:path", Ok(Balance::Hash(HashBy::Path))),
            (
                "hash:header:X-User",
                Ok(Balance::Hash(HashBy::Header(header))),
            ),
            (
                "hash:cookie:session",
                Ok(Balance::Hash(HashBy::Cookie("session".to_owned()))),
            ),
            ("hash:header:a b", Err("no header field")),
            ("hash:header:", Err("no header field")),
            ("hash:cookie:", Err("no cookie")),
            ("hash:cookie:a=b", Err("no cookie")),
            ("hash", Err("`hash:address`")),
            ("hash:address:x", Err("`hash:address`")),
            ("round_robin", Err("`least_requests`")),
        ];
        for (text, want) in cases {
            match (text.parse::<Balance>(), want) {
                (Ok(got), Ok(want)) => assert_eq!(got, want, "{text}"),
                (Err(error), Err(want)) => {
                    assert!(
                        error.contains(want) && error.contains(text),
                        "{text}: {error}"
                    );
                }
                (got, want) => panic!("{text}: {got:?}, but expected {want:?}"),
            }
        }
    }
}
