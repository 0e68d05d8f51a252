//! The way from this machine's own network to the admin page in the server's node.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use hikyaku_emulator::topology::Network;

use super::networks::SERVER;

/// Carries connections of `listener` to an address within the server's node, until the process ends.
pub(super) fn open(listener: TcpListener, network: Arc<Network>, to: SocketAddr) -> io::Result<()> {
    let accept = move || {
        for from in listener.incoming().flatten() {
            let Ok(to) = connect(&network, to) else {
                continue;
            };
            // A connection that cannot be carried is closed.
            let _ = carry(from, to);
        }
    };
    thread::Builder::new()
        .name("dashboard".to_owned())
        .spawn(accept)?;
    Ok(())
}

/// Connects to an address within the server's node: a socket stays in the node that it was made in.
pub(super) fn connect(network: &Network, to: SocketAddr) -> io::Result<TcpStream> {
    let node = network.node(SERVER).ok_or(io::ErrorKind::NotFound)?;
    let connected = node.enter(|| TcpStream::connect(to));
    connected.map_err(io::Error::other)?
}

/// Carries both directions, each in a thread of its own.
fn carry(from: TcpStream, to: TcpStream) -> io::Result<()> {
    for (mut from, mut to) in [(from.try_clone()?, to.try_clone()?), (to, from)] {
        let copy = move || {
            let _ = io::copy(&mut from, &mut to);
            // The other direction may have been the first to end.
            let _ = to.shutdown(Shutdown::Write);
        };
        thread::Builder::new()
            .name("dashboard".to_owned())
            .spawn(copy)?;
    }
    Ok(())
}
