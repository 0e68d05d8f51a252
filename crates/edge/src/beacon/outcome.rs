//! The lesson of a page's report on its client.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hikyaku_core::client::sample::{Observation, Outcome};

use super::ids::Page;
use crate::clients::Clients;
use crate::pages::Seen;

/// Shorter times are mostly the rounding of the browser's clock.
const MIN_BUSY: Duration = Duration::from_millis(5);

/// Hands the times of a page to the knowledge of its client, where they say something of the arm that the
/// page was sent by. Returns whether they do.
///
/// The outcome is made as the server makes its own: the time in which a response was under way, for all
/// bytes of the page. So both have the same level, and may stand beside each other (`docs/beacon.md`).
pub(super) fn page_outcome(clients: &Clients, page: &Page, seen: &Seen) -> bool {
    let Some(outcome) = outcome(page, seen) else {
        return false;
    };
    clients.observe(page.client, &Observation::Outcome(outcome));
    true
}

/// `None` where the time says nothing of the arm. The path may be another than the client's, or the congestion
/// control may have changed. The page may have two protocols, or nobody who saw it to its end.
fn outcome(page: &Page, seen: &Seen) -> Option<Outcome> {
    let [transfers] = &seen.transfers[..] else {
        return None;
    };
    let duration = Duration::from_micros(transfers.busy_us);
    let is_whole = seen.load_us.is_some() && !seen.hidden;
    let is_visit = matches!(seen.kind, "navigate" | "reload");
    let is_of_arm = transfers.hop == seen.version && !page.switched.load(Ordering::Relaxed);
    let counts = page.is_of_client && is_whole && is_visit && is_of_arm;
    (counts && transfers.bytes > 0 && duration >= MIN_BUSY).then_some(Outcome {
        arm: page.arm,
        size: transfers.bytes,
        duration,
        shared: false,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::ids::tests::page;
    use super::*;
    use crate::pages::Transfers;

    fn seen() -> Seen {
        let transfers = Transfers {
            hop: "h2",
            responses: 4,
            bytes: 30_000,
            busy_us: 120_000,
        };
        Seen {
            version: "h2",
            decision: "h3",
            reason: "too_few_samples",
            group: "plain",
            kind: "navigate",
            hidden: false,
            connected_us: 1,
            requested_us: 2,
            first_byte_us: 3,
            document_us: 4,
            interactive_us: Some(5),
            load_us: Some(200_000),
            lcp_us: None,
            transfers: vec![transfers],
            counted: false,
        }
    }

    #[test]
    fn whole_pages_of_one_protocol_count() {
        let page = page(Instant::now());
        let got = outcome(&page, &seen()).unwrap();
        assert_eq!((got.arm, got.size), (page.arm, 30_000));
        assert_eq!(got.duration, Duration::from_millis(120));

        type Change = fn(&mut Page, &mut Seen);
        let cases: [(&str, Change); 10] = [
            ("of a proxy", |page, _| page.is_of_client = false),
            ("switched", |page, _| {
                page.switched.store(true, Ordering::Relaxed);
            }),
            ("hidden", |_, seen| seen.hidden = true),
            ("left", |_, seen| seen.load_us = None),
            ("of the history", |_, seen| seen.kind = "back_forward"),
            ("another protocol", |_, seen| seen.transfers[0].hop = "h3"),
            ("two protocols", |_, seen| {
                seen.transfers.extend(seen.transfers.clone());
            }),
            ("none", |_, seen| seen.transfers.clear()),
            ("no bytes", |_, seen| seen.transfers[0].bytes = 0),
            ("too short", |_, seen| seen.transfers[0].busy_us = 4999),
        ];
        for (name, change) in cases {
            let (mut page, mut seen) = (page.clone(), seen());
            page.switched = std::sync::Arc::default();
            change(&mut page, &mut seen);
            assert_eq!(outcome(&page, &seen), None, "{name}");
        }
    }
}
