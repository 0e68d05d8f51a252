//! Changes of the links in mid-transfer.

use std::time::Duration;

use hikyaku_netsim::{Change, LinkPatch};

use super::super::error::RunError;
use crate::experiment::record::Links;
use crate::experiment::spec::{Event, PAUSE, Pattern, Visitors};
use crate::table::of_table;
use hikyaku_emulator::link::ChangePair;

/// Returns the changes of `links` by a pattern. They come `at` after the start, and at its
/// multiples up to `until`.
///
/// # Errors
/// If a key cannot be read.
pub(super) fn changes(
    pattern: &Pattern,
    at: Duration,
    links: &[Links; 2],
    until: Duration,
) -> Result<[ChangePair; 2], RunError> {
    let mut changes = [ChangePair::default(), ChangePair::default()];
    for (pair, table) in changes.iter_mut().zip([&pattern.then.a, &pattern.then.b]) {
        if !table.is_empty() {
            push(pair, at, table)?;
        }
    }
    let pausing = match pattern.event {
        Some(Event::Pause) => 1,
        Some(Event::PauseAll) => 2,
        Some(Event::Blackhole) => {
            let all_lost = patch(&key("loss", "100%"))?;
            changes[0].down.push(Change {
                at,
                patch: all_lost,
            });
            0
        }
        Some(
            Event::PeerDown
            | Event::Drain
            | Event::Flap
            | Event::Policy
            | Event::DeadBorder
            | Event::UnpluggedBorder,
        )
        | None => 0,
    };
    for (pair, links) in changes.iter_mut().zip(links).take(pausing) {
        let rate = links.rate().map(|rate| rate.to_string());
        let (stop, go_on) = (
            key("rate", "0bps"),
            key("rate", rate.as_deref().unwrap_or("unlimited")),
        );
        for time in (1..).map(|n| at * n).take_while(|time| *time < until) {
            push(pair, time, &stop)?;
            push(pair, time + PAUSE, &go_on)?;
        }
    }
    Ok(changes)
}

/// Returns the changes of a link by transit A that decays while clients visit.
pub(super) fn decay(visitors: &Visitors) -> [ChangePair; 2] {
    let mut changes = [ChangePair::default(), ChangePair::default()];
    for (step, rate) in (1..).zip(&visitors.decay) {
        let patch = LinkPatch {
            rate: Some((*rate).into()),
            ..LinkPatch::default()
        };
        changes[0].down.push(Change {
            at: visitors.step * step,
            patch,
        });
    }
    changes
}

/// Adds a change of both directions.
fn push(pair: &mut ChangePair, at: Duration, table: &toml::Table) -> Result<(), RunError> {
    let patch = patch(table)?;
    for direction in [&mut pair.up, &mut pair.down] {
        direction.push(Change {
            at,
            patch: patch.clone(),
        });
    }
    Ok(())
}

fn key(name: &str, value: &str) -> toml::Table {
    toml::Table::from_iter([(name.to_owned(), value.into())])
}

/// Returns the changes by a table of a link's keys.
fn patch(table: &toml::Table) -> Result<LinkPatch, RunError> {
    of_table(table).map_err(|error| RunError::Arguments(error.message().to_owned()))
}

#[cfg(test)]
mod tests {
    use hikyaku_netsim::Capacity;

    use super::*;
    use crate::experiment::spec::Then;

    fn links(rate: &str) -> Links {
        let keys = key("rate", rate);
        Links {
            up: keys.clone(),
            down: keys,
        }
    }

    /// Seconds, link, and rate in Mbit/s.
    fn rates(event: Option<Event>, then: Then) -> Vec<(f64, usize, Option<f64>)> {
        let pattern = Pattern {
            then,
            event,
            ..Pattern::default()
        };
        let (at, until) = (Duration::from_secs(2), Duration::from_secs(5));
        let both = changes(&pattern, at, &[links("20Mbps"), links("10Mbps")], until).unwrap();
        let mut all = Vec::new();
        for (link, pair) in both.iter().enumerate() {
            if event != Some(Event::Blackhole) {
                assert_eq!(pair.up, pair.down);
            }
            for change in &pair.down {
                let rate = match change.patch.rate {
                    Some(Capacity::Rate(rate)) => Some(rate.mbps()),
                    _ => None,
                };
                all.push((change.at.as_secs_f64(), link, rate));
            }
        }
        all
    }

    #[test]
    fn links_pause_again_and_again_and_go_on_as_before() {
        let a = [
            (2.0, 0, Some(0.0)),
            (2.12, 0, Some(20.0)),
            (4.0, 0, Some(0.0)),
            (4.12, 0, Some(20.0)),
        ];
        assert_eq!(rates(Some(Event::Pause), Then::default()), a);
        let b = a.map(|(at, _, rate)| (at, 1, rate.map(|rate| rate / 2.0)));
        assert_eq!(
            rates(Some(Event::PauseAll), Then::default()),
            [a, b].concat()
        );
    }

    #[test]
    fn others_change_once() {
        let then = Then {
            b: key("rate", "5Mbps"),
            ..Then::default()
        };
        assert_eq!(rates(None, then), [(2.0, 1, Some(5.0))]);
        assert_eq!(
            rates(Some(Event::Blackhole), Then::default()),
            [(2.0, 0, None)]
        );
        assert_eq!(rates(Some(Event::Flap), Then::default()), []);
    }
}
