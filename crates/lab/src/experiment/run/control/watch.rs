//! Changes of a namespace's routes, as the kernel notifies of them.

mod message;

use std::io;
use std::net::Ipv6Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_recv_buffer_size_force, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

use super::super::error::{Attempt, RunError};
use super::clock;
use hikyaku_emulator::link::{Netns, become_realtime};

/// A prefix: its address and length.
pub(super) type Prefix = (Ipv6Addr, u8);

/// A change of a namespace's IPv6 routing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// Time of this program's notification, just after the kernel's change.
    pub(super) at: Duration,
    pub(super) table: u32,
    pub(super) what: What,
}

/// The object of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A route was added, perhaps in place of another.
    Route {
        prefix: Prefix,
        gateway: Option<Ipv6Addr>,
    },
    /// A route was removed.
    NoRoute { prefix: Prefix },
    /// A policy rule that looks the table up was added.
    Rule,
    /// A policy rule that looks the table up was removed.
    NoRule,
}

/// A watch from its start until it is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    changes: Receiver<Change>,
    lost: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Bits of the groups `RTNLGRP_IPV6_ROUTE` (11) and `RTNLGRP_IPV6_RULE` (19).
const GROUPS: u32 = 1 << 10 | 1 << 18;
/// Room for changes of about 100,000 routes that nobody has read yet.
const BUFFER: usize = 256 << 20;
/// Time within which a watch notices that it must end.
const TICK: Duration = Duration::from_millis(50);

impl Watch {
    pub(super) fn start(netns: &Netns) -> Result<Self, RunError> {
        let socket = netns
            .enter(open)?
            .attempt(|| format!("watching the routes of {}", netns.name()))?;
        let (sender, changes) = channel();
        let (lost, stop) = (Arc::default(), Arc::default());
        let work = {
            let (lost, stop) = (Arc::clone(&lost), Arc::clone(&stop));
            move || watch(&socket, &sender, &lost, &stop)
        };
        let thread = thread::Builder::new()
            .name("routes".to_owned())
            .spawn(work)
            .attempt(|| "starting a thread".to_owned())?;
        Ok(Self {
            changes,
            lost,
            stop,
            thread: Some(thread),
        })
    }

    /// Returns the next change before `deadline`.
    pub(super) fn next(&self, deadline: Instant) -> Option<Change> {
        let left = deadline.saturating_duration_since(Instant::now());
        self.changes.recv_timeout(left).ok()
    }

    /// Forgets all changes up to now.
    pub(super) fn forget(&self) {
        while self.changes.try_recv().is_ok() {}
    }

    /// Returns all changes up to now.
    pub(super) fn take(&self) -> Vec<Change> {
        self.changes.try_iter().collect()
    }

    /// Whether the kernel had more notifications than were read.
    pub(super) fn has_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it returns nothing
        }
    }
}

fn open() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    set_socket_recv_buffer_size_force(&socket, BUFFER)?;
    set_socket_timeout(&socket, Timeout::Recv, Some(TICK))?;
    bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
    Ok(socket)
}

fn watch(socket: &OwnedFd, changes: &Sender<Change>, lost: &AtomicBool, stop: &AtomicBool) {
    // Without the privilege times are a little late.
    let _ = become_realtime();
    let mut buffer = vec![0_u8; 64 << 10];
    while !stop.load(Ordering::Relaxed) {
        match recv(socket, buffer.as_mut_slice(), RecvFlags::empty()) {
            Ok((_, length)) => {
                let at = clock::now();
                for (table, what) in message::parse(&buffer[..length]) {
                    // The watch may already have ended.
                    let _ = changes.send(Change { at, table, what });
                }
            }
            Err(rustix::io::Errno::NOBUFS) => lost.store(true, Ordering::Relaxed),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}
