//! New connections to the upstream.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};

use super::config::{ProxyConfig, UpstreamHttp};
use super::error::{ProxyError, SendError};
use super::http1::{Http1, Transport};
use super::http2::Http2;
use super::tls::Tls;
use super::upstream::{Host, Place, Upstream};
use crate::header_size::HeaderSize;

/// Makes connections to one upstream.
pub(super) struct Connector {
    pub(super) upstream: Upstream,
    pub(super) timeout: Duration,
    way: Way,
    header_size: HeaderSize,
}

/// How an upstream is reached.
enum Way {
    Tcp(Host),
    Tls(Host, Box<Tls>),
    Socket(PathBuf),
}

/// Sends requests over one connection.
pub(super) enum Sender {
    /// Takes one request at a time.
    Http1(Http1),
    /// Takes any number of requests; clones share the connection.
    Http2(Http2),
}

impl Connector {
    pub(super) fn new(
        upstream: Upstream,
        config: &ProxyConfig,
        header_size: HeaderSize,
    ) -> Result<Self, ProxyError> {
        let way = match upstream.place.clone() {
            Place::Tcp(host) => Way::Tcp(host),
            Place::Tls(host) => {
                let tls = Tls::new(&upstream, &host.name, config)?;
                Way::Tls(host, Box::new(tls))
            }
            Place::Socket(path) => Way::Socket(path),
        };
        Ok(Self {
            way,
            timeout: config.connect_timeout,
            upstream,
            header_size,
        })
    }

    /// Connects with the HTTP version by configuration and ALPN.
    pub(super) async fn connect(&self) -> Result<Sender, SendError> {
        let is_http2 = self.upstream.http == UpstreamHttp::Http2;
        let (transport, is_chosen): (Transport, bool) = match &self.way {
            Way::Tcp(host) => (self.tcp(host).await?.into(), false),
            Way::Socket(path) => (Transport::Socket(socket(path).await?), false),
            Way::Tls(host, tls) => {
                let connecting = tls
                    .negotiating
                    .connect(tls.name.clone(), self.tcp(host).await?);
                let stream = connecting.await.map_err(SendError::Tls)?;
                let is_chosen = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                (stream.into(), is_chosen)
            }
        };
        match is_http2 || is_chosen {
            true => self.http2(transport).await,
            false => Ok(Sender::Http1(self.http1(transport))),
        }
    }

    /// Connects with HTTP/1.1 in any case.
    pub(super) async fn connect_http1(&self) -> Result<Http1, SendError> {
        Ok(match &self.way {
            Way::Tcp(host) => self.http1(self.tcp(host).await?),
            Way::Socket(path) => self.http1(Transport::Socket(socket(path).await?)),
            Way::Tls(host, tls) => {
                let connecting = tls.http1.connect(tls.name.clone(), self.tcp(host).await?);
                self.http1(connecting.await.map_err(SendError::Tls)?)
            }
        })
    }

    fn http1(&self, stream: impl Into<Transport>) -> Http1 {
        Http1::new(stream, self.header_size)
    }

    /// Connects to the first address of the host that takes a connection, in the order of the
    /// system's resolver (RFC 6724). Each gets an even part of the time, so that one that does not
    /// answer leaves some to the others.
    async fn tcp(&self, host: &Host) -> Result<TcpStream, SendError> {
        let addresses = tokio::net::lookup_host((&*host.name, host.port)).await;
        let addresses: Vec<_> = addresses.map_err(SendError::Connect)?.collect();
        let part = self.timeout / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        let mut failure = io::Error::from(io::ErrorKind::NotFound);
        for (later, address) in (0..addresses.len()).rev().zip(addresses) {
            let connecting = TcpStream::connect(address);
            let connected = match later {
                // The limit of the whole ends it.
                0 => connecting.await,
                _ => match tokio::time::timeout(part, connecting).await {
                    Ok(connected) => connected,
                    Err(elapsed) => Err(elapsed.into()),
                },
            };
            match connected.and_then(|stream| stream.set_nodelay(true).map(|()| stream)) {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = error,
            }
        }
        Err(SendError::Connect(failure))
    }

    async fn http2(&self, transport: Transport) -> Result<Sender, SendError> {
        let http2 = Http2::begin(transport, self.header_size).await;
        http2
            .map(Sender::Http2)
            .map_err(|error| SendError::Handshake(error.into()))
    }
}

async fn socket(path: &Path) -> Result<UnixStream, SendError> {
    UnixStream::connect(path).await.map_err(SendError::Connect)
}
