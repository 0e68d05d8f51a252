//! Listening on sockets that another process has bound.

use std::io;

use hikyaku_quic::Steering;
use socket2::Protocol;

use super::{BACKLOG, QuicSocket, TcpSocket, set_tcp, set_udp};
use crate::handover::Given;
use crate::mptcp::MptcpGate;

/// Takes sockets that listen already; returns whether clients may use MPTCP.
pub(super) fn adopt_tcp(
    given: Vec<Given>,
    gate: Option<&MptcpGate>,
) -> io::Result<(Vec<TcpSocket>, bool)> {
    let mptcp = given
        .first()
        .is_some_and(|first| matches!(first.socket.protocol(), Ok(Some(Protocol::MPTCP))));
    for one in given.iter().filter(|one| one.is_foreign) {
        set_tcp(&one.socket)?;
        // Again, with our backlog.
        one.socket.listen(BACKLOG)?;
    }
    let tcp = given.into_iter().map(|one| TcpSocket {
        listener: one.socket.into(),
        refused: one.refused,
    });
    let tcp: Vec<_> = tcp.collect();
    choose_among(&tcp, gate)?;
    Ok((tcp, mptcp))
}

/// Lets a gate choose among the sockets of an address, if they are of MPTCP and TCP.
///
/// # Errors
/// The kernel's.
pub(crate) fn choose_among(tcp: &[TcpSocket], gate: Option<&MptcpGate>) -> io::Result<()> {
    match (gate, tcp.iter().find(|socket| socket.refused)) {
        (Some(gate), Some(socket)) => gate.choose_among(&socket.listener),
        _ => Ok(()),
    }
}

/// Takes sockets of UDP. Where there are fewer than workers, the others send by the first one.
pub(super) fn adopt_udp(given: Vec<Given>, steering: Steering) -> io::Result<Vec<QuicSocket>> {
    let workers = steering.workers();
    let mut udp = Vec::with_capacity(workers);
    for one in given.into_iter().take(workers) {
        if one.is_foreign {
            set_udp(&one.socket)?;
        }
        udp.push(QuicSocket {
            socket: one.socket.into(),
            only_sends: one.only_sends,
            link: one.link,
        });
    }
    let Some(first) = udp.first() else {
        return Ok(udp);
    };
    if udp.len() == workers && workers > 1 && !udp.iter().any(|one| one.only_sends) {
        let attached = steering.attach(&first.socket);
        if let Err(error) = attached {
            tracing::info!("steering QUIC datagrams in the kernel: {error}; they are forwarded");
        }
    }
    let others = (udp.len()..workers).map(|_| first.socket.try_clone());
    let others: Vec<_> = others.collect::<io::Result<_>>()?;
    udp.extend(others.into_iter().map(|socket| QuicSocket {
        only_sends: true,
        ..QuicSocket::new(socket)
    }));
    Ok(udp)
}
