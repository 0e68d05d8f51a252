//! Interim responses of the upstream (RFC 9110 §15.2), for all who wait for its response.

use http::{HeaderMap, Response, StatusCode, header};
use parking_lot::Mutex;

use super::directives::Directives;
use crate::Interim;

/// Interim responses of one request to the upstream.
#[derive(Debug, Default)]
pub(super) struct Hints(Mutex<Vec<Hint>>);

/// An interim response, for the client whose request it answers and for the others.
#[derive(Debug)]
struct Hint {
    own: Response<()>,
    shared: Option<Response<()>>,
}

/// Interim responses that are kept for those who come later.
const MAX_KEPT: usize = 8;

impl Hints {
    /// Adds one, unless there are too many. One of a request that is somebody's own is not shared.
    pub(super) fn add(&self, head: Response<()>, is_personal: bool) {
        let mut all = self.0.lock();
        if all.len() < MAX_KEPT {
            let shared = if is_personal { None } else { shared(&head) };
            all.push(Hint { own: head, shared });
        }
    }

    /// Passes those from the number `passed` on to a client, which `leads` if its request is the one that
    /// they answer.
    pub(super) fn pass_on(&self, passed: &mut usize, interim: &Interim, leads: bool) {
        let all = self.0.lock();
        for hint in all.iter().skip(*passed) {
            let head = match leads {
                true => Some(&hint.own),
                false => hint.shared.as_ref(),
            };
            if let Some(head) = head {
                interim.send(head.clone());
            }
        }
        *passed = all.len();
    }
}

/// The part of an interim response that is for other clients: the links of a 103 (RFC 8297). All else describes
/// one exchange. `None` for one that says that it is for one client, or not to be stored.
fn shared(head: &Response<()>) -> Option<Response<()>> {
    let directives = Directives::of(head.headers());
    if head.status() != StatusCode::EARLY_HINTS || directives.private || directives.no_store {
        return None;
    }
    let mut links = HeaderMap::new();
    for link in head.headers().get_all(header::LINK) {
        links.append(header::LINK, link.clone());
    }
    if links.is_empty() {
        return None;
    }
    let mut shared = Response::new(());
    *shared.status_mut() = StatusCode::EARLY_HINTS;
    *shared.headers_mut() = links;
    Some(shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(status: u16, fields: &[(&str, &str)]) -> Response<()> {
        let mut head = Response::builder().status(status);
        for (name, value) in fields {
            head = head.header(*name, *value);
        }
        head.body(()).unwrap()
    }

    /// The fields that the client of the request gets, and those of others.
    fn passed(hints: &Hints, leads: bool) -> Vec<Vec<String>> {
        let (interim, heads) = Interim::channel();
        hints.pass_on(&mut 0, &interim, leads);
        let heads = std::iter::from_fn(|| heads.pop());
        let names = |head: Response<()>| {
            let names = head.headers().keys();
            names.map(ToString::to_string).collect::<Vec<_>>()
        };
        heads.map(names).collect()
    }

    #[test]
    fn others_get_the_links_alone() {
        let link = ("link", "</a.css>; rel=preload");
        let private = ("cache-control", "private");
        // status, fields, the number of fields for the client and for others
        let cases: &[(u16, &[(&str, &str)], bool, usize, Option<usize>)] = &[
            (103, &[link], false, 1, Some(1)),
            (103, &[link, ("set-cookie", "a=1")], false, 2, Some(1)),
            (103, &[("server-timing", "db")], false, 1, None),
            (103, &[link, private], false, 2, None),
            (103, &[link, ("cache-control", "no-store")], false, 2, None),
            (103, &[link], true, 1, None),
            (102, &[link], false, 1, None),
        ];
        for (status, fields, is_personal, own, others) in cases {
            let hints = Hints::default();
            hints.add(head(*status, fields), *is_personal);
            let lengths = |leads| {
                passed(&hints, leads)
                    .iter()
                    .map(Vec::len)
                    .collect::<Vec<_>>()
            };
            assert_eq!(lengths(true), [*own], "{status} {fields:?}");
            let others: Vec<_> = others.iter().copied().collect();
            assert_eq!(lengths(false), others, "{status} {fields:?}");
        }
    }

    #[test]
    fn each_is_passed_once_and_a_flood_ends() {
        let hints = Hints::default();
        let (interim, heads) = Interim::channel();
        let mut count = 0;
        for number in 0..20 {
            hints.add(head(103, &[("link", &format!("</{number}>"))]), false);
            hints.pass_on(&mut count, &interim, false);
            let expected = (number < MAX_KEPT).then(|| format!("</{number}>"));
            let got = heads
                .pop()
                .map(|head| head.headers()["link"].to_str().unwrap().to_owned());
            assert_eq!(got, expected);
            assert!(heads.pop().is_none());
        }
    }
}
