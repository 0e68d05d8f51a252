//! Members of a fleet, and their reports on themselves.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::key::is_name;

/// Most members that are listed.
const MAX_MEMBERS: usize = 1024;
/// Longest text of a member's field, in bytes.
const MAX_FIELD: usize = 1024;
/// A member that has not been heard of for this long is silent.
pub(crate) const SILENT: Duration = Duration::from_secs(10);
/// A member that has been silent for this long is forgotten.
pub(crate) const FORGOTTEN: Duration = Duration::from_secs(3600);

/// An edge's report on itself: its field of the key of members, as JSON. Unknown keys are of newer versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Beat {
    /// Differs between processes of the same name.
    pub(crate) run: String,
    pub(crate) version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pop: Option<String>,
    /// When the process began, by its clock, in milliseconds since 1970.
    pub(crate) started_ms: u64,
    /// Digest of its configuration.
    pub(crate) config: String,
    /// Its clock less the store's.
    pub(crate) skew_ms: i64,
    /// How long ago all that it had learnt was written.
    pub(crate) lag_ms: u64,
    /// When this was written, by the store's clock.
    pub(crate) at_ms: u64,
    /// Beginnings of the revisions that it has of answers to authorities; `None`: it has none ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) seen: Option<Vec<String>>,
}

/// An edge of the fleet, as it last reported itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Version of its program.
    pub version: String,
    /// Its point of presence.
    pub pop: Option<String>,
    /// When it began, by its clock, in milliseconds since 1970.
    pub started_ms: u64,
    /// Digest of its configuration, to see which edges differ.
    pub config: String,
    /// Its clock less the store's, in milliseconds.
    pub skew_ms: i64,
    /// How long what it learns has waited to be written, in milliseconds.
    pub lag_ms: u64,
    /// How long ago it was heard of, in milliseconds.
    pub heard_ms: u64,
    /// Whether it has not been heard of for ten seconds.
    pub silent: bool,
    /// Whether it is this edge.
    pub own: bool,
}

/// A member's field, if its name and its value make sense.
pub(crate) fn read(name: &[u8], value: &[u8]) -> Option<(String, Beat)> {
    let name = std::str::from_utf8(name)
        .ok()
        .filter(|name| is_name(name))?;
    if value.len() > MAX_FIELD {
        return None;
    }
    let beat: Beat = serde_json::from_slice(value).ok()?;
    let pop = beat.pop.as_deref().is_none_or(is_name);
    // The version of a build may have more in it, as in 1.2.0+abc.
    let is_plain =
        |text: &str| text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_graphic());
    let is_beat = pop && is_plain(&beat.version) && is_plain(&beat.config) && is_plain(&beat.run);
    is_beat.then(|| (name.to_owned(), beat))
}

/// The members of all beats, by name, with those whose last beat is so old that they are forgotten.
pub(crate) fn members(
    beats: impl IntoIterator<Item = (String, Beat)>,
    own: &str,
    now_ms: u64,
) -> (Vec<Member>, Vec<String>) {
    let mut members = Vec::new();
    let mut forgotten = Vec::new();
    for (name, beat) in beats.into_iter().take(MAX_MEMBERS) {
        let heard = Duration::from_millis(now_ms.saturating_sub(beat.at_ms));
        // A time ahead of the store's clock would never pass.
        let is_ahead = beat.at_ms > now_ms + FORGOTTEN.as_millis() as u64;
        if heard > FORGOTTEN || is_ahead {
            forgotten.push(name);
            continue;
        }
        members.push(Member {
            own: name == own,
            name,
            version: beat.version,
            pop: beat.pop,
            started_ms: beat.started_ms,
            config: beat.config,
            skew_ms: beat.skew_ms,
            lag_ms: beat.lag_ms,
            heard_ms: heard.as_millis() as u64,
            silent: heard > SILENT,
        });
    }
    members.sort_by(|a, b| a.name.cmp(&b.name));
    (members, forgotten)
}

/// Members so long after they were read. Nobody is heard of while the store is down.
pub(crate) fn aged(mut members: Vec<Member>, since: Duration) -> Vec<Member> {
    for member in &mut members {
        let heard = Duration::from_millis(member.heard_ms) + since;
        member.heard_ms = heard.as_millis() as u64;
        member.silent = heard > SILENT;
    }
    members
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Beat, aged, members, read};
    use proptest::collection::vec;
    use proptest::prelude::{any, proptest};

    fn beat(at_ms: u64) -> Beat {
        Beat {
            run: "r".to_owned(),
            version: "0.1.0".to_owned(),
            pop: None,
            started_ms: 1,
            config: "c0ffee".to_owned(),
            skew_ms: -3,
            lag_ms: 0,
            at_ms,
            seen: None,
        }
    }

    #[test]
    fn a_beat_of_a_newer_version_is_read() {
        let mut value = serde_json::to_value(beat(5)).expect("JSON");
        value["new"] = serde_json::json!({"key": 1});
        let text = value.to_string();
        assert_eq!(
            read(b"edge-1", text.as_bytes()),
            Some(("edge-1".to_owned(), beat(5)))
        );
    }

    #[test]
    fn nonsense_is_no_member() {
        let text = serde_json::to_string(&beat(5)).expect("JSON");
        assert_eq!(read(b"a b", text.as_bytes()), None);
        assert_eq!(read(b"a", b"[]"), None);
        let shown = text.replace("0.1.0", "\\u001b[2J");
        assert_eq!(
            read(b"a", shown.as_bytes()),
            None,
            "a terminal is not told what to do"
        );
        let long = text.replace("c0ffee", &"x".repeat(2000));
        assert_eq!(read(b"a", long.as_bytes()), None);
    }

    #[test]
    fn members_fall_silent_and_are_forgotten() {
        let hour = 3_600_000;
        let beats = [
            ("now", 10 * hour - 1000),
            ("late", 10 * hour - 60_000),
            ("gone", 8 * hour),
            ("ahead", 12 * hour),
        ];
        let beats = beats.map(|(name, at)| (name.to_owned(), beat(at)));
        let (members, forgotten) = members(beats, "now", 10 * hour);
        let seen: Vec<_> = members
            .iter()
            .map(|member| (member.name.as_str(), member.silent, member.own))
            .collect();
        assert_eq!(seen, [("late", true, false), ("now", false, true)]);
        assert_eq!(forgotten, ["gone", "ahead"]);
    }

    #[test]
    fn members_are_silent_while_the_store_is() {
        let (read, _) = members([("a".to_owned(), beat(9_000))], "a", 10_000);
        assert_eq!((read[0].heard_ms, read[0].silent), (1_000, false));
        let later = aged(read, Duration::from_secs(15));
        assert_eq!((later[0].heard_ms, later[0].silent), (16_000, true));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_ignored(name in vec(any::<u8>(), 0..70), value in vec(any::<u8>(), 0..200)) {
            let _ = read(&name, &value);
        }
    }
}
