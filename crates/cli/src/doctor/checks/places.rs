//! Directories that the server writes to.

use hikyaku_units::ByteSize;
use hikyaku_units::human::size;

use super::{Facts, Finding, or_ok};
use crate::doctor::facts::{FileSystem, Place};

/// Bytes below which a file system is nearly full, where a twentieth of it is not less.
const ROOM: u64 = 256 << 20;

pub(super) fn writable(facts: &Facts) -> Vec<Finding> {
    let unwritable = |place: &Place| {
        let (key, path) = (place.key, place.path.display());
        let why = place.fault.as_ref()?;
        let (id, effect, mend) = match key {
            "state.dir" => (
                "state.writable",
                "the server forgets its clients at each restart, and their TLS sessions",
                format!(
                    "install -d -m 0750 -o hikyaku {path}, and ReadWritePaths= or StateDirectory= in the unit"
                ),
            ),
            _ => (
                "log.writable",
                "the server does not start without its access log",
                format!(
                    "install -d -m 0750 -o hikyaku the directory of {path}, and LogsDirectory= in the unit"
                ),
            ),
        };
        Some(
            Finding::warn(id, format!("{key} = {path} can't be written to: {why}"))
                .so(effect)
                .mend(mend),
        )
    };
    let mut found: Vec<_> = facts.places.iter().filter_map(unwritable).collect();
    if facts.config.state.dir.is_none() {
        found.push(
            Finding::note("state.writable", "no state.dir is set")
                .so("the server forgets its clients at each restart, and their TLS sessions")
                .mend("state.dir = \"/var/lib/hikyaku\", or --state /var/lib/hikyaku"),
        );
    }
    or_ok(
        found,
        "state.writable",
        "the server can write to all its places",
    )
}

pub(super) fn lasting(facts: &Facts) -> Vec<Finding> {
    let findings = facts
        .places
        .iter()
        .flat_map(|place| [volatile(place), full(place)]);
    let found: Vec<_> = findings.flatten().collect();
    match facts.places.is_empty() {
        true => found,
        false => or_ok(found, "disk.space", "there is room on disk"),
    }
}

fn volatile(place: &Place) -> Option<Finding> {
    let (path, key) = (place.path.display(), place.key);
    let (until, mend) = match place.file_system {
        FileSystem::Memory => (
            "the machine stops",
            format!("set {key} to a directory on disk"),
        ),
        FileSystem::Layer => (
            "the container is made anew",
            format!("a volume: docker run --volume hikyaku:{path} ..."),
        ),
        FileSystem::Lasting => return None,
    };
    let state = format!("{key} = {path} lasts only until {until}");
    (key == "state.dir").then(|| {
        Finding::warn("state.lasting", state)
            .so("then the server forgets its clients and its keys")
            .mend(mend)
    })
}

fn full(place: &Place) -> Option<Finding> {
    let (path, key) = (place.path.display(), place.key);
    let human = |bytes| size(ByteSize::from_bytes(bytes)).to_string();
    let is_full = place.free < ROOM.min(place.size / 20);
    is_full.then(|| {
        Finding::warn(
            "disk.space",
            format!(
                "{} of {} are free for {key} = {path}",
                human(place.free),
                human(place.size)
            ),
        )
        .so("when the disk is full, lines of the access log are lost and nothing is remembered")
        .mend(format!(
            "df -h {path}; du -xh --max-depth=2 / | sort -h shows who takes it"
        ))
    })
}
