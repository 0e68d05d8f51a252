//! Listening without TLS.

use std::io;
use std::net::{SocketAddr, TcpListener};

use super::{BACKLOG, ListenAddress, bind_each, bind_tcp, is_absent, set_tcp, tcp_socket};
use crate::handover::{Pool, Role};

/// A listening socket without TLS: of HTTP in the clear, or of the admin API.
#[derive(Debug)]
pub(crate) struct PlainListener {
    /// The address that was asked for.
    pub asked: SocketAddr,
    /// The socket.
    pub listener: TcpListener,
}

impl PlainListener {
    /// Binds what an address means, or takes the sockets that were given for it.
    ///
    /// # Errors
    /// When one can't be bound; of those of a name, when none can.
    pub(crate) fn bind(address: &ListenAddress, role: Role, pool: &Pool) -> io::Result<Vec<Self>> {
        let bind = |asked: SocketAddr| {
            let socket = match pool.take(role, asked).pop() {
                Some(given) => {
                    set_tcp(&given.socket)?;
                    given.socket
                }
                None => {
                    let (socket, _) = tcp_socket(asked, false)?;
                    bind_tcp(&socket, asked)?;
                    socket.listen(BACKLOG)?;
                    socket
                }
            };
            let listener = socket.into();
            Ok(Self { asked, listener })
        };
        bind_each(address, bind, is_absent, |error| error)
    }
}
