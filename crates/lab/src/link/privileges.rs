//! What emulating a network needs of the machine.

use std::env;
use std::path::Path;

use rustix::thread::{CapabilitySet, capabilities};

use super::error::LinkError;

/// Refuses with everything that is missing at once.
pub(super) fn check() -> Result<(), LinkError> {
    let mut missing = Vec::new();
    // Without /proc the kernel has the last word.
    let effective = capabilities(None).map_or(CapabilitySet::all(), |sets| sets.effective);
    let needed = [
        (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
        (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN"),
    ];
    for (capability, name) in needed {
        if !effective.contains(capability) {
            missing.push(format!("the capability {name}"));
        }
    }
    if !Path::new("/dev/net/tun").exists() {
        missing.push("/dev/net/tun".to_owned());
    }
    if !on_path("ip") {
        missing.push("`ip` of iproute2 on the PATH".to_owned());
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(LinkError::Missing(missing.join(", ")))
}

fn on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|directory| directory.join(program).is_file())
}
