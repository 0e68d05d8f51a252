//! Readiness of the test bed for clients.

use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use super::super::error::RunError;
use super::api::{EgressState, Reach};
use super::{CLIENT, READY_LIMIT, SERVER, Side, TestBed};

impl TestBed {
    /// Waits until the agents are ready, and all paths are up and reach the client. The client must
    /// also answer over the plain route and over each path.
    ///
    /// # Errors
    /// If that takes longer than a minute, or an agent or a daemon has ended.
    pub(super) fn wait_until_ready(&mut self) -> Result<(), RunError> {
        let began = Instant::now();
        loop {
            let missing = match self.missing() {
                Ok(None) => return Ok(()),
                Ok(Some(missing)) => missing,
                Err(error) => error.to_string(),
            };
            self.check()?;
            if began.elapsed() > READY_LIMIT {
                let said = self.said();
                return Err(RunError::TestBed {
                    what: missing,
                    said,
                });
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the first condition that does not hold.
    fn missing(&self) -> Result<Option<String>, RunError> {
        let server = self.agent("server");
        if !server.status()?.ready {
            return Ok(Some("the server's agent is not ready".to_owned()));
        }
        let lookup = server.lookup(CLIENT)?;
        for side in Side::ALL {
            let name = side.path();
            let up = |path: &&Reach| path.name == name && path.state == EgressState::Up;
            if !lookup.paths.iter().any(|path| up(&path)) {
                return Ok(Some(format!("`{name}` does not reach the client")));
            }
        }
        if lookup.best.as_deref() != Some(Side::A.path()) {
            return Ok(Some("BGP's best path is not that by transit A".to_owned()));
        }
        for from in [SERVER, Side::A.epe_address(), Side::B.epe_address()] {
            if !self.answers(from)? {
                return Ok(Some(format!("the client does not answer to {from}")));
            }
        }
        Ok(None)
    }

    /// Whether the client answers a packet from an address of the server: nobody listens there, and
    /// its kernel reports that.
    pub(super) fn answers(&self, from: Ipv6Addr) -> Result<bool, RunError> {
        const NOBODY: u16 = 9;
        let connect = || -> io::Result<()> {
            let socket = Socket::new(Domain::IPV6, Type::STREAM, None)?;
            socket.bind(&SocketAddr::from((from, 0)).into())?;
            let limit = Duration::from_millis(300);
            socket.connect_timeout(&SocketAddr::from((CLIENT, NOBODY)).into(), limit)
        };
        let connected = self.node("server").enter(connect)?;
        let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        Ok(connected.is_err_and(refused))
    }
}
