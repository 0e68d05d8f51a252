//! The network of a measurement: a namespace whose loopback has the MTU of Ethernet.
//!
//! With loopback's own MTU of 65,536 some servers send QUIC datagrams of nearly 10 kB, which no
//! network carries. The namespace has no name: it ends with its last process. The processes have a
//! namespace of process IDs, too, and so end with the benchmark however that ends.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// The MTU of loopback in bytes.
pub(super) const MTU: u32 = 1500;

/// Names the network namespace outside, by its inode, for the program within.
const OUTSIDE: &str = "HIKYAKU_BENCH_OUTSIDE";

/// Continues in a new namespace: the program starts again there.
///
/// # Errors
/// If namespaces cannot be made, or their loopback cannot be set up.
pub(super) fn enter() -> Result<()> {
    match env::var(OUTSIDE) {
        Ok(outside) => set_up(&outside),
        Err(_) => start_again(),
    }
}

fn start_again() -> Result<()> {
    let program = env::current_exe().context("finding this program")?;
    let mut command = Command::new("unshare");
    command.args(["--net", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command.arg("--").arg(program).args(env::args_os().skip(1));
    let fault = command.env(OUTSIDE, own()?.to_string()).exec();
    Err(fault).context("starting `unshare` (install util-linux)")
}

/// The inode of this process's network namespace.
fn own() -> Result<u64> {
    let path = "/proc/self/ns/net";
    let found = fs::metadata(path).with_context(|| format!("reading {path}"))?;
    Ok(found.ino())
}

fn set_up(outside: &str) -> Result<()> {
    // The loopback of the machine must keep its MTU.
    ensure!(
        own()?.to_string() != outside,
        "this is no namespace of its own, though {OUTSIDE} is set: unset it"
    );
    let mtu = MTU.to_string();
    let output = Command::new("ip")
        .args(["link", "set", "lo", "mtu", &mtu, "up"])
        .output()
        .context("starting `ip` (install iproute2)")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("setting up loopback in the namespace: {}", said.trim());
    }
    Ok(())
}
