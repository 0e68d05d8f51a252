//! Connections that a balancer hands on: who their client is.

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::io::{AsyncRead, AsyncReadExt};

use super::Site;
use crate::behind::Through;
use crate::behind::proxy_protocol::{self, Fault, Header, Progress};
use crate::clock;
use crate::metrics::HeaderFault;

/// The ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    /// The client's.
    pub(super) remote: SocketAddr,
    /// The one to which the client has connected.
    pub(super) local: SocketAddr,
    /// The intermediary between them.
    pub(super) through: Through,
}

/// Why a balancer's header was not read.
#[derive(Debug, thiserror::Error)]
enum HeaderError {
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error("reading the PROXY header")]
    Io(#[from] io::Error),
}

impl Site {
    /// Reads the header of a connection that the balancer at `own` hands on, within the time of
    /// a handshake. Returns the ends that it names; `own` and `local` where it names none.
    ///
    /// # Errors
    /// When there is no header, which is counted and reported.
    pub(super) async fn named(
        &self,
        io: &mut (impl AsyncRead + Unpin),
        own: SocketAddr,
        local: SocketAddr,
    ) -> io::Result<Ends> {
        let timeout = self.service().timeouts.handshake;
        let read = tokio::time::timeout(timeout, read_header(io)).await;
        let read = read.unwrap_or_else(|late| Err(HeaderError::Io(late.into())));
        let header = read.map_err(|error| self.refuse_header(own.ip(), error))?;
        let balancer = own.ip().to_canonical();
        let (remote, local) = match header {
            Header::Client {
                source,
                destination,
            } => (source, destination),
            Header::Own => (own, local),
        };
        let through = match self.shared.terms().behind.through(remote.ip()) {
            Through::Nothing => Through::Balancer(balancer),
            proxy => proxy,
        };
        Ok(Ends {
            remote,
            local,
            through,
        })
    }

    /// Counts a connection of a balancer that has no header, and warns of it once a minute at most.
    fn refuse_header(&self, balancer: IpAddr, error: HeaderError) -> io::Error {
        let (kind, error) = match error {
            HeaderError::Fault(fault) => {
                self.warn_of_header(balancer, &fault.to_string(), "names");
                let kind = match fault {
                    Fault::Missing => HeaderFault::Missing,
                    Fault::Malformed(_) => HeaderFault::Malformed,
                };
                (kind, io::Error::new(io::ErrorKind::InvalidData, fault))
            }
            // A balancer that only looks whether the port is open is no fault to report.
            HeaderError::Io(error) => (HeaderFault::Incomplete, error),
        };
        self.shared.metrics.on_header_fault(kind);
        error
    }

    /// Reports a client that sends a header, though it is none of the balancers. Returns what to log.
    pub(super) fn refuse_stray_header(&self, client: IpAddr) -> io::Error {
        let fault = "it begins with a PROXY header";
        self.warn_of_header(client, fault, "does not name");
        io::Error::new(io::ErrorKind::InvalidData, fault)
    }

    fn warn_of_header(&self, from: IpAddr, fault: &str, names: &str) {
        if self.headers.is_due(clock::now()) {
            let from = from.to_canonical();
            tracing::warn!(
                "a connection from {from} is closed: {fault}, and behind.proxy_protocol {names} its network"
            );
        }
    }
}

/// Reads a header, and no byte behind it.
async fn read_header(io: &mut (impl AsyncRead + Unpin)) -> Result<Header, HeaderError> {
    let mut bytes = Vec::new();
    loop {
        match proxy_protocol::read(&bytes)? {
            Progress::Whole(header) => return Ok(header),
            Progress::Needs(count) => {
                let end = bytes.len();
                bytes.resize(end + count, 0);
                io.read_exact(&mut bytes[end..]).await?;
            }
        }
    }
}

#[cfg(test)]
mod tests;
