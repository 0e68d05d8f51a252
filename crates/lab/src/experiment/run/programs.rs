//! Locations of the other programs that measurements need.

use std::env;
use std::path::{Path, PathBuf};

use super::error::RunError;
use hikyaku_emulator::link::privileges::is_program;

/// The program of the agents.
pub(super) const EGRESS: &str = "hikyaku-egress";
/// The program that announces routes to the agents.
pub(super) const FEED: &str = "hikyaku-bgp-feed";
/// The program of the reflector and the transits' routers, in the arms of `GoBGP`.
pub(super) const GOBGPD: &str = "gobgpd";
/// FRR's daemon of BGP, which Debian keeps off the PATH.
pub(super) const BGPD: &str = "/usr/lib/frr/bgpd";
/// FRR's daemon that puts routes into the kernel.
pub(super) const ZEBRA: &str = "/usr/lib/frr/zebra";

/// The program of a fleet's stores.
pub(super) const REDIS: &str = "redis-server";
/// The programs that may take its place, and itself.
const STORES: [&str; 2] = [REDIS, "valkey-server"];

/// Returns the program of stores that is installed.
pub(super) fn store() -> Option<&'static str> {
    STORES.into_iter().find(|name| is_program(name.as_ref()))
}

/// Finds one of the programs of `egress/`. It is beside this one, in `build/` of the sources that
/// this one was built from, or on the PATH.
///
/// # Errors
/// If none exists.
pub(super) fn of_egress(name: &str) -> Result<PathBuf, RunError> {
    let own = env::current_exe().unwrap_or_default();
    let beside = own.parent().map(|directory| directory.join(name));
    let built = own.ancestors().map(|place| place.join("build").join(name));
    let found = beside.into_iter().chain(built).find(|path| path.is_file());
    match found {
        Some(path) => Ok(path),
        None if is_program(name.as_ref()) => Ok(name.into()),
        None => Err(RunError::Arguments(not_found(name))),
    }
}

/// Whether the program is part of this project, which builds it.
pub(super) fn is_own(name: &str) -> bool {
    matches!(name, EGRESS | FEED)
}

/// Returns the places of the search for a missing program, and the remedy.
pub(super) fn not_found(name: &str) -> String {
    if is_own(name) {
        return format!(
            "`{name}` is neither beside this program, nor in `build/`, nor on the PATH: \
             build it by `scripts/egress.sh build`"
        );
    }
    let advice = match name {
        REDIS => ": install Debian's package redis-server, or Valkey",
        _ => "",
    };
    format!("`{name}` is not installed, or not on the PATH{advice}")
}

/// Returns the first of these programs that is not installed.
pub(super) fn missing<'a>(names: &[&'a str]) -> Option<&'a str> {
    let missing = |name: &&&str| match **name {
        name if is_own(name) => of_egress(name).is_err(),
        name => !is_program(Path::new(name).as_os_str()),
    };
    names.iter().find(missing).copied()
}
