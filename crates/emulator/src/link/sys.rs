//! System calls that no safe library offers. Nothing else here is `unsafe`.

#![allow(unsafe_code)]

use std::hint;
use std::io;
use std::os::fd::AsFd;

use libc::{c_char, c_int, c_short, c_uint};
use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{IntegerSetter, Opcode, Setter, ioctl};
use rustix::process::{Pid, getppid, setsid};
use rustix::thread::{CpuSet, sched_setaffinity, set_name};

/// Longest name of an interface, without its terminating zero.
pub(super) const MAX_INTERFACE_NAME: usize = libc::IFNAMSIZ - 1;

// The constants are those of the C header, whose `ioctl` numbers fit 32 bits.
const TUNSETIFF: Opcode = libc::TUNSETIFF as Opcode;
const TUNSETOFFLOAD: Opcode = libc::TUNSETOFFLOAD as Opcode;

/// Offloads that every kernel with `IFF_VNET_HDR` knows: the other end may send packets without a
/// checksum, and TCP super-packets.
const TCP_OFFLOADS: c_uint =
    libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;

/// UDP super-packets, since Linux 6.2.
const UDP_OFFLOADS: c_uint = libc::TUN_F_USO4 | libc::TUN_F_USO6;

/// Makes the file, an open `/dev/net/tun`, a TUN interface in the calling thread's network
/// namespace. Packets have a `virtio_net_hdr`.
///
/// # Errors
/// The kernel's error; `InvalidInput` for a name of a wrong length.
pub(super) fn create_tun(file: impl AsFd, name: &str) -> io::Result<()> {
    if name.is_empty() || name.len() > MAX_INTERFACE_NAME {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "interface name of wrong length",
        ));
    }
    let mut ifr_name: [c_char; libc::IFNAMSIZ] = [0; libc::IFNAMSIZ];
    for (to, from) in ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    // The flags are small positive numbers, made for this field.
    let ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as c_short;
    let request = libc::ifreq {
        ifr_name,
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags },
    };
    // SAFETY: TUNSETIFF reads and writes one `struct ifreq`, which `request` is,
    // with a zero-terminated name. `Setter` passes a pointer to its own copy.
    unsafe { ioctl(file, Setter::<TUNSETIFF, libc::ifreq>::new(request)) }?;
    Ok(())
}

/// Turns on checksum, TCP and, if the kernel has it, UDP segmentation offload of a TUN interface.
///
/// # Errors
/// The kernel's error.
pub(super) fn enable_offloads(tun: impl AsFd) -> io::Result<()> {
    let set = |offloads: c_uint| {
        // SAFETY: TUNSETOFFLOAD takes its flags as the argument itself and
        // dereferences nothing; unknown flags give EINVAL.
        unsafe {
            let flags = IntegerSetter::<TUNSETOFFLOAD>::new_usize(offloads as usize);
            ioctl(tun.as_fd(), flags)
        }
    };
    match set(TCP_OFFLOADS | UDP_OFFLOADS) {
        Err(rustix::io::Errno::INVAL) => set(TCP_OFFLOADS)?,
        result => result?,
    }
    Ok(())
}

/// Gives the calling thread the lowest real-time priority (`SCHED_FIFO` 1), so that it runs before
/// every ordinary thread as soon as it wakes.
///
/// # Errors
/// `PermissionDenied` without `CAP_SYS_NICE`.
pub fn become_realtime() -> io::Result<()> {
    set_policy(libc::SCHED_FIFO, 1)
}

/// Starts a process that spins on these CPUs in their idle time (`SCHED_IDLE`), as long as `parent`
/// is its parent. It has a session of its own with the least weight, and none of this process's
/// files.
///
/// # Errors
/// The kernel's error at its start. A process that then can't get the policy or the CPUs would
/// disturb instead, and ends at once.
pub(super) fn start_spinning(cpus: &CpuSet, parent: Pid) -> io::Result<Pid> {
    // SAFETY: this process's other threads are not in the child, and their locks stay locked there.
    // The child makes system calls alone, allocates nothing, and does not return.
    match unsafe { libc::fork() } {
        0 => {
            let ended = spin(cpus, parent);
            // SAFETY: it ends the process, without the handlers of an exit.
            unsafe { libc::_exit(ended.is_err().into()) }
        }
        process => Pid::from_raw(process.max(0)).ok_or_else(io::Error::last_os_error),
    }
}

fn spin(cpus: &CpuSet, parent: Pid) -> io::Result<()> {
    setsid()?;
    set_name(c"awake")?;
    lower_autogroup();
    // Before the policy: a process of the least priority may wait long for its turn, and would keep
    // the sockets of its parent open meanwhile. SAFETY: nothing here uses a file after that.
    unsafe { libc::close_range(0, c_uint::MAX, 0) };
    set_policy(libc::SCHED_IDLE, 0)?;
    sched_setaffinity(None, cpus)?;
    while getppid() == Some(parent) {
        for _ in 0..100_000 {
            hint::spin_loop();
        }
    }
    Ok(())
}

/// Gives the session of the calling process the least weight, if sessions have one (sched(7),
/// autogroup).
fn lower_autogroup() {
    let file = rustix::fs::open(c"/proc/self/autogroup", OFlags::WRONLY, Mode::empty());
    let _ = file.and_then(|file| rustix::io::write(file, b"19"));
}

fn set_policy(policy: c_int, sched_priority: c_int) -> io::Result<()> {
    let param = libc::sched_param { sched_priority };
    // SAFETY: the kernel reads one `sched_param` through a valid pointer; process
    // 0 is the calling thread.
    let result: c_int = unsafe { libc::sched_setscheduler(0, policy, &raw const param) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
