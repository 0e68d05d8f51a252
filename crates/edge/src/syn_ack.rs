//! How soon a lost SYN-ACK is sent again.
//!
//! The kernel waits a second before it does, on a path of which it knows nothing (RFC 6298 §2.1). A program
//! in the kernel (`bpf/syn_ack.bpf.c`) remembers the round-trip times of a client's network, a /24 or /48.
//! The next connection from there waits three of them, and 200 ms at least. The program runs for the sockets
//! of this process's control group, and minds those of the given ports and namespace alone.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use libbpf_rs::{ErrorKind, Link, MapCore, MapFlags, Object, ObjectBuilder};
use rustix::time::{ClockId, clock_getres};

use crate::bpf::{log_debug, map};
use crate::sys;

/// `bpf/syn_ack.bpf.c`, built by `scripts/bpf.sh`.
const OBJECT: &[u8] = include_bytes!("../bpf/syn_ack.bpf.o");

/// Why the kernel does not run the program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum SynAckError {
    #[error("finding this process's control group (cgroup v2)")]
    Group(#[source] io::Error),
    #[error("the kernel does not allow it: CAP_BPF and CAP_NET_ADMIN are needed")]
    NotAllowed(#[source] libbpf_rs::Error),
    #[error("the kernel does not take it")]
    Refused(#[source] libbpf_rs::Error),
}

impl From<libbpf_rs::Error> for SynAckError {
    fn from(error: libbpf_rs::Error) -> Self {
        match error.kind() {
            ErrorKind::PermissionDenied => Self::NotAllowed(error),
            _ => Self::Refused(error),
        }
    }
}

/// Has lost SYN-ACKs sent again early, while this lives.
#[derive(Debug)]
pub struct SynAcks {
    _link: Link,
    _object: Object,
}

impl SynAcks {
    /// Does so for the sockets of this process that listen on `ports`, in this thread's network namespace.
    ///
    /// # Errors
    /// Where the kernel lacks something or does not allow it; nothing stays behind then.
    pub fn load(ports: &[u16]) -> Result<Self, SynAckError> {
        log_debug();
        let group = own_group().and_then(File::open);
        let group = group.map_err(SynAckError::Group)?;
        let object = ObjectBuilder::default().open_memory(OBJECT)?.load()?;
        let terms = map(&object, "terms")?;
        terms.update(&0_u32.to_ne_bytes(), &own_terms()?, MapFlags::ANY)?;
        let served = map(&object, "ports")?;
        for port in ports {
            served.update(&u32::from(*port).to_ne_bytes(), &[1], MapFlags::ANY)?;
        }
        let program = object.progs_mut().next();
        let program = program.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound));
        let link = program
            .map_err(libbpf_rs::Error::from)?
            .attach_cgroup(group.as_raw_fd())?;
        Ok(Self {
            _link: link,
            _object: object,
        })
    }
}

/// The network namespace of this thread, and the ticks of the kernel's clock a second: `struct terms`.
fn own_terms() -> libbpf_rs::Result<[u8; 16]> {
    let cookie = sys::netns_cookie(UnixDatagram::unbound()?)?;
    // A coarse clock shows the time of the last tick.
    let tick = clock_getres(ClockId::MonotonicCoarse);
    let ticks = 1_000_000_000 / tick.tv_nsec.max(1);
    let mut terms = [0; 16];
    terms[..8].copy_from_slice(&cookie.to_ne_bytes());
    terms[8..12].copy_from_slice(&u32::try_from(ticks).unwrap_or(u32::MAX).to_ne_bytes());
    Ok(terms)
}

/// The directory of this process's control group (cgroups(7)).
fn own_group() -> io::Result<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup")?;
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    group_of(&groups, &mounts).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}

/// `groups` and `mounts` are /proc/self/cgroup and /proc/self/mountinfo.
fn group_of(groups: &str, mounts: &str) -> Option<PathBuf> {
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (fields, kind) = line.split_once(" - ")?;
        let mut fields = fields.split(' ').skip(3);
        let (root, place) = (fields.next()?, fields.next()?);
        let below = Path::new(group).strip_prefix(root).ok()?;
        kind.starts_with("cgroup2 ")
            .then(|| Path::new(place).join(below))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_group_is_found_where_it_is_mounted() {
        let mount = |root: &str, place: &str, kind: &str| {
            format!("41 31 0:38 {root} {place} rw,relatime shared:9 - {kind} {kind} rw\n")
        };
        let proc = mount("/", "/proc", "proc");
        let whole = proc.clone() + &mount("/", "/sys/fs/cgroup", "cgroup2");
        let hybrid = mount("/", "/sys/fs/cgroup/cpu", "cgroup")
            + &mount("/", "/sys/fs/cgroup/unified", "cgroup2");
        let part = mount("/docker/4cec", "/sys/fs/cgroup", "cgroup2");
        let service = "0::/system.slice/hikyaku.service\n";
        let cases = [
            (
                service,
                &whole,
                Some("/sys/fs/cgroup/system.slice/hikyaku.service"),
            ),
            ("1:cpu:/a\n0::/\n", &hybrid, Some("/sys/fs/cgroup/unified/")),
            ("0::/docker/4cec/web\n", &part, Some("/sys/fs/cgroup/web")),
            // Mounted is another part of the tree.
            (service, &part, None),
            ("1:cpu:/a\n", &whole, None),
            (service, &proc, None),
        ];
        for (groups, mounts, want) in cases {
            let found = group_of(groups, mounts);
            assert_eq!(found.as_deref(), want.map(Path::new), "{groups}{mounts}");
        }
    }

    #[test]
    fn terms_are_laid_out_as_the_program_reads_them() {
        let terms = own_terms().unwrap();
        let ticks = u32::from_ne_bytes(terms[8..12].try_into().unwrap());
        assert!([100, 250, 300, 1000].contains(&ticks), "{ticks}");
        assert_ne!(terms[..8], [0; 8]);
    }
}
