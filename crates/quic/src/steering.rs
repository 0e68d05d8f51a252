//! Which worker has a connection: its index is hidden in the ids that the worker gives.
//!
//! The kernel can read it there, too. With a program of the socket group (`SO_ATTACH_REUSEPORT_CBPF`,
//! socket(7)) it gives each datagram to the right worker's socket. That takes no privilege. Without the
//! program a [`Group`](crate::Group) forwards datagrams that came to another worker.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;

use socket2::{Domain, Protocol, Socket, Type};

use crate::sys;

/// Bytes of a connection id that the worker's index is read from: its first ones, or those behind a prefix.
pub const STEERED_LEN: usize = 8;

/// How the connections of an address are distributed among workers.
///
/// The index is combined with a keyed sum of the id's next bytes. So observers without the key see no
/// pattern that links the ids of a connection (RFC 9000 §5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steering {
    workers: u8,
    key: [u32; 2],
    /// Bytes before those that the index is read from.
    prefix: u8,
    /// Bytes of ids with a prefix.
    id_len: u8,
}

impl Steering {
    /// Connections for `workers` workers, at least one and at most 255. The key must be the same
    /// for all of an address.
    pub fn new(workers: usize, key: u64) -> Self {
        let workers = u8::try_from(workers).unwrap_or(u8::MAX).max(1);
        // Odd factors lose no bit.
        let key = [key as u32 | 1, (key >> 32) as u32 | 1];
        Self {
            workers,
            key,
            prefix: 0,
            id_len: 0,
        }
    }

    /// For ids that have `prefix` bytes, as for a balancer, before `rest` bytes that are
    /// [stamped](Self::stamp), 20 in all at most. Ids of other lengths, which clients have drawn, are read
    /// from their first byte.
    #[must_use]
    pub const fn behind(mut self, prefix: usize, rest: usize) -> Self {
        self.prefix = prefix as u8;
        self.id_len = (prefix + rest) as u8;
        self
    }

    /// The key, by which another process makes the same [`Steering`].
    pub const fn key(&self) -> u64 {
        (self.key[1] as u64) << 32 | self.key[0] as u64
    }

    /// Number of workers.
    pub const fn workers(&self) -> usize {
        self.workers as usize
    }

    /// Writes the index of `worker` into a connection id, in its first byte. The [`STEERED_LEN`] - 1
    /// bytes behind must be random. Shorter ids stay as they are.
    pub fn stamp(&self, id: &mut [u8], worker: usize) {
        if let Some(id) = id.first_chunk_mut::<STEERED_LEN>() {
            id[0] = worker as u8 ^ self.sum(*id);
        }
    }

    /// The worker that has the connection of a datagram. Ids that a client has drawn (RFC 9000 §7.2) are
    /// distributed evenly, and all datagrams of one id go to the same worker.
    pub fn worker_of(&self, datagram: &[u8]) -> usize {
        let first = datagram.first().copied().unwrap_or_default();
        let is_short = first & LONG_HEADER == 0;
        let start = match datagram.get(LONG_ID_LEN as usize) {
            _ if is_short => self.short(),
            Some(length) if *length == self.id_len => self.long(),
            _ => LONG_ID,
        };
        let id = datagram.get(start as usize..);
        let Some(id) = id.and_then(<[u8]>::first_chunk::<STEERED_LEN>) else {
            return 0;
        };
        usize::from((id[0] ^ self.sum(*id)) % self.workers)
    }

    /// Where an id's stamped part begins behind a short header.
    fn short(&self) -> u32 {
        SHORT_ID + u32::from(self.prefix)
    }

    /// Where it begins in a long one.
    fn long(&self) -> u32 {
        LONG_ID + u32::from(self.prefix)
    }

    fn sum(&self, id: [u8; STEERED_LEN]) -> u8 {
        let [_, a, b, c, d, e, f, g] = id;
        let high = u32::from_be_bytes([0, a, b, c]).wrapping_mul(self.key[0]);
        let low = u32::from_be_bytes([d, e, f, g]).wrapping_mul(self.key[1]);
        (high.wrapping_add(low) >> 24) as u8
    }

    /// Has the kernel choose the socket of each datagram among those of `socket`'s group, which were
    /// bound in the order of their workers.
    ///
    /// # Errors
    /// When the kernel can't, as before Linux 4.5; datagrams are distributed by their addresses then.
    pub fn attach(&self, socket: &impl AsFd) -> io::Result<()> {
        sys::attach_to_group(socket.as_fd(), &self.program())
    }

    /// [`Steering::worker_of`] for the kernel. It sees the payload of UDP, and a load from behind its end
    /// ends the program with 0.
    fn program(&self) -> [libc::sock_filter; 23] {
        use libc::{
            BPF_ADD, BPF_ALU, BPF_AND, BPF_B, BPF_IMM, BPF_IND, BPF_JA, BPF_JEQ, BPF_JMP, BPF_JSET,
            BPF_K, BPF_LD, BPF_LDX, BPF_MEM, BPF_MOD, BPF_MUL, BPF_RET, BPF_RSH, BPF_ST, BPF_W,
            BPF_X, BPF_XOR,
        };
        let to = |code: u32, k: u32, jt: u8| libc::sock_filter {
            code: code as u16,
            jt,
            jf: 0,
            k,
        };
        let step = |code, k| to(code, k, 0);
        [
            step(BPF_LD | BPF_B | libc::BPF_ABS, 0),
            to(BPF_JMP | BPF_JSET | BPF_K, LONG_HEADER.into(), 2),
            step(BPF_LDX | BPF_W | BPF_IMM, self.short()),
            step(BPF_JMP | BPF_JA, 4),
            step(BPF_LD | BPF_B | libc::BPF_ABS, LONG_ID_LEN),
            step(BPF_LDX | BPF_W | BPF_IMM, self.long()),
            to(BPF_JMP | BPF_JEQ | BPF_K, self.id_len.into(), 1),
            step(BPF_LDX | BPF_W | BPF_IMM, LONG_ID),
            // The first half of the id: its index is kept, and the rest summed.
            step(BPF_LD | BPF_W | BPF_IND, 0),
            step(BPF_ST, 0),
            step(BPF_ALU | BPF_AND | BPF_K, 0x00ff_ffff),
            step(BPF_ALU | BPF_MUL | BPF_K, self.key[0]),
            step(BPF_ST, 1),
            step(BPF_LD | BPF_W | BPF_IND, 4),
            step(BPF_ALU | BPF_MUL | BPF_K, self.key[1]),
            step(BPF_LDX | BPF_W | BPF_MEM, 1),
            step(BPF_ALU | BPF_ADD | BPF_X, 0),
            // The sum's first byte, combined with the index.
            step(BPF_LDX | BPF_W | BPF_MEM, 0),
            step(BPF_ALU | BPF_XOR | BPF_X, 0),
            step(BPF_ALU | BPF_RSH | BPF_K, 24),
            step(BPF_ALU | BPF_MOD | BPF_K, self.workers.into()),
            step(BPF_RET | libc::BPF_A, 0),
            // Never reached; classic programs end with a constant's return on every kernel.
            step(BPF_RET | BPF_K, 0),
        ]
    }

    /// Binds a socket for each worker to one address, after `prepare` has set its options. Returns whether
    /// the kernel steers datagrams, too.
    ///
    /// # Errors
    /// When the address can't be bound, also because another process has it.
    pub fn bind(
        &self,
        mut address: SocketAddr,
        prepare: impl Fn(&Socket) -> io::Result<()>,
    ) -> io::Result<(Vec<UdpSocket>, bool)> {
        let mut sockets = Vec::with_capacity(self.workers());
        for worker in 0..self.workers {
            let domain = Domain::for_address(address);
            let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
            prepare(&socket)?;
            // The first one shares its address only once it has it: so it gets none of another process.
            socket.set_reuse_port(worker > 0)?;
            socket.bind(&address.into())?;
            socket.set_reuse_port(self.workers > 1)?;
            let socket = UdpSocket::from(socket);
            // Where a port is chosen, the first socket has it.
            address = socket.local_addr()?;
            sockets.push(socket);
        }
        if self.workers == 1 {
            return Ok((sockets, true));
        }
        let attached = sockets.first().map(|socket| self.attach(socket));
        if let Some(Err(error)) = &attached {
            tracing::info!("steering QUIC datagrams in the kernel: {error}; they are forwarded");
        }
        Ok((sockets, attached.is_some_and(|attached| attached.is_ok())))
    }
}

/// Bit of the first byte of packets with a long header (RFC 9000 §17.2).
const LONG_HEADER: u8 = 0x80;
/// Where the destination's connection id begins behind a short header (RFC 9000 §17.3.1).
const SHORT_ID: u32 = 1;
/// Where its length is in a long header (RFC 9000 §17.2).
const LONG_ID_LEN: u32 = 5;
/// Where it begins in a long header: after the version and its length (RFC 9000 §17.2).
const LONG_ID: u32 = 6;
