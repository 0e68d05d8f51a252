//! A client that asks one site over and over, on one connection of HTTP/1.1.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hikyaku_tls::AcceptAny;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use super::server::{BODY, LIMIT};

/// A connection to a site.
pub(super) struct Client {
    tls: StreamOwned<ClientConnection, TcpStream>,
    request: String,
}

impl Client {
    /// Connects to the site `host`, and gets its first answer.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn open(address: SocketAddr, host: &str) -> Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(LIMIT))?;
        let config = AcceptAny::new().config(&["http/1.1"])?;
        let name = ServerName::try_from(host.to_owned())?;
        let tls = ClientConnection::new(Arc::new(config), name)?;
        let mut client = Self {
            tls: StreamOwned::new(tls, socket),
            request: format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        };
        client.ask()?;
        Ok(client)
    }

    /// Asks as long as `goes_on` says after each answer, by the time since the call. Returns the longest wait
    /// for an answer.
    ///
    /// # Errors
    /// If an answer is missing or another one.
    pub(super) fn longest_wait(
        &mut self,
        mut goes_on: impl FnMut(Duration) -> bool,
    ) -> Result<Duration> {
        let begun = Instant::now();
        let mut longest = Duration::ZERO;
        while goes_on(begun.elapsed()) {
            let asked = Instant::now();
            self.ask()?;
            longest = longest.max(asked.elapsed());
        }
        Ok(longest)
    }

    fn ask(&mut self) -> Result<()> {
        self.tls.write_all(self.request.as_bytes())?;
        let mut answer = Vec::new();
        let mut buffer = [0; 4096];
        while !answer.ends_with(BODY.as_bytes()) {
            let read = self.tls.read(&mut buffer)?;
            ensure!(read > 0, "the server closed the connection");
            answer.extend_from_slice(&buffer[..read]);
        }
        ensure!(
            answer.starts_with(b"HTTP/1.1 200"),
            "another answer than 200"
        );
        Ok(())
    }
}
