//! Taking MPTCP only of the clients to which it is of use.
//!
//! MPTCP's options take 28 bytes of each packet (RFC 8684 §3.3.1). So it has 2 % less goodput on one
//! path than TCP, and a connection cannot give it up. It is therefore answered or not in the handshake,
//! before the server has a connection to decide about. Three sockets listen on an address (`listen.rs`),
//! and a program in the kernel (`bpf/mptcp.bpf.c`) chooses among them. It goes by the options of the SYN
//! and by the client's address.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle, Object, ObjectBuilder};
use parking_lot::Mutex;

use crate::bpf::{LoadError, Prefix, log_debug, map};
use crate::sys;

/// `bpf/mptcp.bpf.c`, built by `scripts/bpf.sh`.
const OBJECT: &[u8] = include_bytes!("../bpf/mptcp.bpf.o");

/// A share of connections, as the program draws them: it is taken of those below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share(u64);

impl Share {
    pub(crate) const ALL: Self = Self(1 << 32);

    /// `share` is from 0 to 1.
    pub(crate) fn new(share: f64) -> Self {
        Self((share * Self::ALL.0 as f64) as u64)
    }

    const fn encode(self) -> [u8; 8] {
        self.0.to_ne_bytes()
    }
}

/// Use of MPTCP by a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mptcp {
    /// Nothing; the client has not asked for it.
    None,
    /// The client has asked for it, and got TCP.
    Refused,
    /// It is of MPTCP: the token that names it to the kernel's path managers.
    Token(u32),
}

/// Says to the kernel of which clients MPTCP is taken, while this lives; at first of all.
#[derive(Debug)]
pub(crate) struct MptcpGate {
    clients: MapHandle,
    share: MapHandle,
    /// Not all are taken.
    in_force: AtomicBool,
    /// Those of which it is taken as the operator says.
    operators: Mutex<Vec<Prefix>>,
    object: Object,
}

impl MptcpGate {
    /// Loads the program.
    ///
    /// # Errors
    /// When the kernel refuses or does not allow it.
    pub(crate) fn load() -> Result<Self, LoadError> {
        log_debug();
        let gate = Self::try_load().map_err(LoadError::new)?;
        gate.set_share(None)
            .map_err(|error| LoadError::new(error.into()))?;
        Ok(gate)
    }

    fn try_load() -> libbpf_rs::Result<Self> {
        let object = ObjectBuilder::default().open_memory(OBJECT)?.load()?;
        Ok(Self {
            clients: map(&object, "clients")?,
            share: map(&object, "share")?,
            in_force: AtomicBool::new(false),
            operators: Mutex::default(),
            object,
        })
    }

    /// Lets the program choose among the sockets that listen on the address of `socket`, which has to be
    /// one of them. The first that began to listen speaks MPTCP, the others TCP, the last for clients
    /// that are refused.
    ///
    /// # Errors
    /// Those of setsockopt(2).
    pub(crate) fn choose_among(&self, socket: impl AsFd) -> io::Result<()> {
        let program = self.object.progs().next();
        let program = program.ok_or(io::ErrorKind::NotFound)?;
        sys::attach_reuseport_ebpf(socket, program.as_fd())
    }

    /// Sets of which share of the connections it is taken whose clients are not [put](Self::put); `None`
    /// takes all of everybody.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub(crate) fn set_share(&self, share: Option<Share>) -> io::Result<()> {
        let value = share.unwrap_or(Share::ALL).encode();
        let put = self
            .share
            .update(&0_u32.to_ne_bytes(), &value, MapFlags::ANY);
        put.map_err(io::Error::other)?;
        self.in_force.store(share.is_some(), Ordering::Relaxed);
        Ok(())
    }

    /// Whether it is taken of some clients only.
    pub(crate) fn is_in_force(&self) -> bool {
        self.in_force.load(Ordering::Relaxed)
    }

    /// Whether it is taken of all connections of a client.
    pub(crate) fn takes_all_of(&self, client: IpAddr) -> bool {
        let key = Prefix::of(client).encode();
        let found = || self.clients.lookup(&key, MapFlags::ANY).ok().flatten();
        !self.is_in_force() || found().is_some_and(|share| share == Share::ALL.encode())
    }

    /// Sets from which share of the connections of a prefix's clients MPTCP is taken, where no longer
    /// prefix has a share. `None` leaves them to shorter prefixes. The operator's setting for the prefix
    /// prevails.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub(crate) fn put(&self, prefix: Prefix, share: Option<Share>) -> io::Result<()> {
        let key = prefix.encode();
        let by_operator = || {
            self.operators
                .lock()
                .contains(&prefix)
                .then_some(Share::ALL)
        };
        let Some(share) = by_operator().or(share) else {
            return match self.clients.delete(&key) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(io::Error::other(error)),
                _ => Ok(()),
            };
        };
        let put = || self.clients.update(&key, &share.encode(), MapFlags::ANY);
        if put().is_err() {
            // Full: useful entries are soon put again, as connections end.
            self.clear();
            put().map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Says that it is taken of all connections of the clients in these prefixes, and no longer in those
    /// that were said before.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub(crate) fn set_operators(&self, prefixes: Vec<Prefix>) -> io::Result<()> {
        let former = std::mem::replace(&mut *self.operators.lock(), prefixes.clone());
        for gone in former.iter().filter(|former| !prefixes.contains(former)) {
            self.put(*gone, None)?;
        }
        prefixes
            .into_iter()
            .try_for_each(|prefix| self.put(prefix, Some(Share::ALL)))
    }

    /// Forgets all but what the operator says.
    fn clear(&self) {
        for key in self.clients.keys().collect::<Vec<_>>() {
            let _ = self.clients.delete(&key);
        }
        for prefix in self.operators.lock().iter() {
            let (key, value) = (prefix.encode(), Share::ALL.encode());
            let _ = self.clients.update(&key, &value, MapFlags::ANY);
        }
    }
}

#[cfg(test)]
mod tests;
