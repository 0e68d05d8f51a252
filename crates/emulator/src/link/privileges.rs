//! The machine's requirements for emulating a network.

use std::env;
use std::ffi::OsStr;
use std::path::Path;

use rustix::thread::{CapabilitySet, capabilities};

use super::error::LinkError;

/// Checks the requirements and reports all that are missing at once.
pub fn check() -> Result<(), LinkError> {
    let mut missing = Vec::new();
    // Without /proc the kernel decides.
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
    if !is_program("ip".as_ref()) {
        missing.push("`ip` of iproute2 on the PATH".to_owned());
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(LinkError::Missing(missing.join(", ")))
}

/// Whether `program` exists: on the PATH, or at its own path.
pub fn is_program(program: &OsStr) -> bool {
    let program = Path::new(program);
    if program.components().count() > 1 {
        return program.is_file();
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|directory| directory.join(program).is_file())
}
