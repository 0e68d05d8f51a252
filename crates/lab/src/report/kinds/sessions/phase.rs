//! The parts of a run between two changes of the link.

use crate::experiment::Change;

/// Sessions between two changes of the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Phase {
    /// The change of the link at its begin.
    pub(super) name: String,
    pub(super) first: u32,
    /// Session behind the last.
    pub(super) end: u32,
}

impl Phase {
    pub(super) fn has(&self, session: u32) -> bool {
        (self.first..self.end).contains(&session)
    }
}

/// Cuts a run into phases by its changes. A change within a session belongs to the next phase.
pub(super) fn phases(changes: &[Change], sessions: u32) -> Vec<Phase> {
    let mut phases = vec![Phase {
        name: "start".to_owned(),
        first: 0,
        end: sessions,
    }];
    for change in changes {
        let first = change.session + u32::from(change.at.is_some());
        let name = change_text(change);
        let Some(last) = phases.last_mut() else { break };
        if first == last.first {
            last.name = match last.name.as_str() {
                "start" => name,
                before => format!("{before}; {name}"),
            };
        } else if first < sessions {
            last.end = first;
            phases.push(Phase {
                name,
                first,
                end: sessions,
            });
        }
    }
    phases
}

/// Formats a change as `loss 5%` or `down: rate 20Mbps`.
pub(super) fn change_text(change: &Change) -> String {
    let direction = |name: &str, table: &toml::Table| {
        let keys = table.iter().map(|(key, value)| {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            format!("{} {text}", key.replace('_', " "))
        });
        let keys: Vec<String> = keys.collect();
        (!keys.is_empty()).then(|| format!("{name}{}", keys.join(", ")))
    };
    let parts = [
        direction("", &change.both),
        direction("up: ", &change.up),
        direction("down: ", &change.down),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(text: &str) -> Change {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn changes_cut_phases() {
        let changes = [
            change("session = 10\nboth.loss = '5%'"),
            change("session = 20\nat = '2s'\ndown.loss = '0%'"),
        ];
        let phases: Vec<(String, u32, u32)> = phases(&changes, 30)
            .into_iter()
            .map(|p| (p.name, p.first, p.end))
            .collect();
        let want = [
            ("start", 0, 10),
            ("loss 5%", 10, 21),
            ("down: loss 0%", 21, 30),
        ];
        assert_eq!(
            phases,
            want.map(|(name, first, end)| (name.to_owned(), first, end))
        );
    }

    #[test]
    fn a_change_before_the_first_session_names_the_first_phase() {
        let phases = phases(&[change("session = 0\nboth.udp = 'drop'")], 5);
        assert_eq!(phases.len(), 1);
        assert_eq!(phases[0].name, "udp drop");
    }
}
