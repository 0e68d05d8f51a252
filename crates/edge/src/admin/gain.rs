//! `GET /v1/gain`.

use std::time::Duration;

use hikyaku_core::gain::By;
use hikyaku_units::duration;
use http::{Response, StatusCode};

use super::{json, problem};
use crate::gain::{FRESH, Gain, USUAL};
use hikyaku_content::Body;

/// Answers with the report that a query asks for.
pub(super) fn gain(query: Option<&str>, gain: &Gain) -> Response<Body> {
    let question = match Question::read(query.unwrap_or_default()) {
        Ok(question) => question,
        Err(why) => return problem(StatusCode::BAD_REQUEST, &why),
    };
    if question.by == Some(By::Country) && !gain.knows_countries() {
        return problem(StatusCode::UNPROCESSABLE_ENTITY, NO_COUNTRIES);
    }
    json(&*gain.report(question.since, question.by, FRESH))
}

const NO_COUNTRIES: &str = "no database of countries: set `gain.countries` to the path of one in MaxMind's \
                            format, such as GeoLite2-Country.mmdb";

#[derive(Debug, PartialEq, Eq)]
struct Question {
    since: Duration,
    by: Option<By>,
}

impl Question {
    fn read(query: &str) -> Result<Self, String> {
        let mut question = Self {
            since: USUAL,
            by: None,
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("since", since)) => {
                    let since = duration::parse(since);
                    question.since = since.map_err(|error| format!("`since`: {error}"))?;
                }
                Some(("by", by)) => {
                    question.by = Some(by.parse().map_err(|error| format!("`by`: {error}"))?);
                }
                _ => {
                    return Err(format!(
                        "`{pair}` is unknown here: there are `since` and `by`"
                    ));
                }
            }
        }
        Ok(question)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_read_strictly() {
        let days = |days: u64| Duration::from_secs(days * 86_400);
        let cases = [
            ("", Ok((USUAL, None))),
            ("since=14d", Ok((days(14), None))),
            ("by=site&since=1d", Ok((days(1), Some(By::Site)))),
            ("since=yesterday", Err("`since`: ")),
            ("by=moon", Err("`by`: `moon` is no kind of group")),
            ("from=7d", Err("`from=7d` is unknown here")),
        ];
        for (query, want) in cases {
            match (Question::read(query), want) {
                (Ok(got), Ok(want)) => assert_eq!((got.since, got.by), want, "{query}"),
                (Err(got), Err(want)) => assert!(got.starts_with(want), "{query}: {got}"),
                (got, _) => panic!("{query}: {got:?}"),
            }
        }
    }
}
