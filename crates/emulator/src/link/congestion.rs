//! The machine's list of congestion controls that namespaces may choose.
//!
//! `tcp_allowed_congestion_control` is one list for all namespaces, and only the initial namespace
//! can change it. A file of the register first notes what the lab adds. When the last lab ends, the
//! additions are removed.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::error::LinkError;
use super::owner::{DIRECTORY, Register};

const ALLOWED: &str = "net/ipv4/tcp_allowed_congestion_control";
const AVAILABLE: &str = "net/ipv4/tcp_available_congestion_control";

/// Congestion controls that networks may need, if the kernel has them.
const WANTED: [&str; 2] = ["cubic", "bbr"];

const ATTEMPTS: u32 = 10;

/// Number of bytes at which the kernel cuts a list that is read or written (`TCP_CA_BUF_MAX`). About 30 servers
/// with congestion controls of their own fill it. Names that a written list lacks are forbidden.
const CUT: usize = 2047;

/// Allows the wanted congestion controls that are available. It leaves a list that the kernel cuts as it is: a
/// network cannot have them as its default then.
pub(super) fn allow(_: &Register) -> Result<(), LinkError> {
    let allowed = read(ALLOWED);
    let missing = missing(&read(AVAILABLE), &allowed);
    let add = |allowed: &mut Vec<String>| allowed.extend(missing.iter().cloned());
    if missing.is_empty() || !is_machines_root() || changed(&allowed, add).is_none() {
        return Ok(());
    }
    let added = join(&[noted(), missing.clone()].concat());
    let path = note();
    fs::write(&path, added).map_err(|source| LinkError::Register { path, source })?;
    update(add).map(drop)
}

/// Whether root here is that of the machine, and not of a user namespace, which cannot change the list
/// (user_namespaces(7)). Without /proc the kernel decides.
fn is_machines_root() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let map: Vec<&str> = map.split_whitespace().collect();
    matches!(map.as_slice(), [] | ["0", "0", _])
}

/// Removes the added congestion controls and returns them. Where the kernel cuts the list they stay, and noted
/// for the end of a later lab.
pub(super) fn restore(_: &Register) -> Result<Vec<String>, LinkError> {
    let added = added();
    let remove = |allowed: &mut Vec<String>| allowed.retain(|name| !added.contains(name));
    if !added.is_empty() && !update(remove)? {
        return Ok(Vec::new());
    }
    let path = note();
    match fs::remove_file(&path) {
        Err(source) if source.kind() != ErrorKind::NotFound => {
            Err(LinkError::Register { path, source })
        }
        _ => Ok(added),
    }
}

/// Returns the congestion controls that the lab added and that are still on the list.
pub(super) fn added() -> Vec<String> {
    let mut added = noted();
    let allowed = words(&read(ALLOWED));
    added.retain(|name| allowed.contains(name));
    added
}

fn missing(available: &str, allowed: &str) -> Vec<String> {
    let (available, allowed) = (words(available), words(allowed));
    let mut missing: Vec<String> = WANTED.map(str::to_owned).into();
    missing.retain(|name| available.contains(name) && !allowed.contains(name));
    missing
}

fn note() -> PathBuf {
    Path::new(DIRECTORY).join("congestion-controls")
}

fn noted() -> Vec<String> {
    words(&fs::read_to_string(note()).unwrap_or_default())
}

fn read(key: &str) -> String {
    fs::read_to_string(Path::new("/proc/sys").join(key)).unwrap_or_default()
}

/// Changes the list. It also has the modules of running servers, and the kernel refuses a list with
/// one that has gone since it was read. Returns whether the list is short enough to be changed.
fn update(change: impl Fn(&mut Vec<String>)) -> Result<bool, LinkError> {
    let mut attempts = 0;
    loop {
        let Some(value) = changed(&read(ALLOWED), &change) else {
            return Ok(false);
        };
        match fs::write(Path::new("/proc/sys").join(ALLOWED), &value) {
            Ok(()) => return Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound && attempts < ATTEMPTS => {
                attempts += 1;
            }
            Err(source) => {
                return Err(LinkError::Sysctl {
                    key: ALLOWED.to_owned(),
                    value,
                    source,
                });
            }
        }
    }
}

/// Returns a list after a change; `None` if the kernel cuts the one or the other.
fn changed(list: &str, change: impl Fn(&mut Vec<String>)) -> Option<String> {
    let mut names = words(list);
    change(&mut names);
    let value = join(&names);
    let is_whole = list.trim_end().len() < CUT && value.len() < CUT;
    is_whole.then_some(value)
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn join(words: &[String]) -> String {
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::{CUT, changed, missing};

    #[test]
    fn only_wanted_available_and_not_yet_allowed_controls_are_added() {
        let cases: &[(&str, &str, &[&str])] = &[
            ("reno bbr cubic", "reno", &["cubic", "bbr"]),
            ("reno bbr cubic", "reno bbr", &["cubic"]),
            ("reno cubic", "reno cubic", &[]),
            ("reno", "reno", &[]),
            ("reno bbr2 cubic2", "reno", &[]),
        ];
        for (available, allowed, expected) in cases {
            assert_eq!(
                missing(available, allowed),
                *expected,
                "{available}: {allowed}"
            );
        }
    }

    #[test]
    fn a_list_that_the_kernel_cuts_is_not_written_back() {
        let bbr = |names: &mut Vec<String>| names.push("bbr".to_owned());
        assert_eq!(changed("reno cubic\n", bbr), Some("reno cubic bbr".into()));
        let names = |bytes: usize| format!("reno {}\n", "x".repeat(bytes - 5));
        assert!(changed(&names(CUT - 5), bbr).is_some());
        assert_eq!(changed(&names(CUT - 4), bbr), None, "cut when written");
        let first = |names: &mut Vec<String>| names.truncate(1);
        assert!(changed(&names(CUT - 1), first).is_some());
        assert_eq!(changed(&names(CUT), first), None, "cut when read");
    }
}
