//! The grants of the kernel to a UDP socket that asks for as much as the server does.

use std::io;

use hikyaku_edge::UDP_BUFFER;
use quinn_udp::UdpSocketState;
use socket2::{Domain, Protocol, Socket, Type};

/// The grants of the kernel to a UDP socket. Zeros where there is no such socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Udp {
    /// Bytes.
    pub(crate) receive_buffer: usize,
    /// Bytes.
    pub(crate) send_buffer: usize,
    /// Datagrams that leave with one system call (`UDP_SEGMENT`, udp(7)).
    pub(crate) send_segments: usize,
    /// Datagrams that arrive with one (`UDP_GRO`).
    pub(crate) receive_segments: usize,
}

impl Udp {
    pub(super) fn measure() -> Self {
        Self::try_measure().unwrap_or_default()
    }

    fn try_measure() -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_recv_buffer_size(UDP_BUFFER)?;
        socket.set_send_buffer_size(UDP_BUFFER)?;
        // The kernel doubles the size asked for, for its own overhead, and reports that.
        let (receive, send) = (socket.recv_buffer_size()?, socket.send_buffer_size()?);
        let state = UdpSocketState::new((&socket).into())?;
        Ok(Self {
            receive_buffer: receive / 2,
            send_buffer: send / 2,
            send_segments: state.max_gso_segments(),
            receive_segments: state.gro_segments(),
        })
    }
}
