//! New connections to the upstream.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::config::{ProxyConfig, UpstreamHttp};
use super::error::{ProxyError, SendError};
use super::http1::{Http1, Transport};
use super::http2::Http2;
use super::tls::Tls;
use super::upstream::Upstream;
use crate::header_size::HeaderSize;

/// Makes connections to one upstream.
pub(super) struct Connector {
    pub(super) upstream: Upstream,
    pub(super) timeout: Duration,
    tls: Option<Tls>,
    header_size: HeaderSize,
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
        let tls = upstream.is_tls.then(|| Tls::new(&upstream, config));
        Ok(Self {
            tls: tls.transpose()?,
            timeout: config.connect_timeout,
            upstream,
            header_size,
        })
    }

    /// Connects with the HTTP version by configuration and ALPN.
    pub(super) async fn connect(&self) -> Result<Sender, SendError> {
        let is_http2 = self.upstream.http == UpstreamHttp::Http2;
        match &self.tls {
            None if is_http2 => self.http2(self.tcp().await?).await,
            None => Ok(self.http1(self.tcp().await?)),
            Some(tls) => {
                let connecting = tls.negotiating.connect(tls.name.clone(), self.tcp().await?);
                let stream = connecting.await.map_err(SendError::Tls)?;
                if is_http2 || stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                    self.http2(stream).await
                } else {
                    Ok(self.http1(stream))
                }
            }
        }
    }

    /// Connects with HTTP/1.1 in any case.
    pub(super) async fn connect_http1(&self) -> Result<Http1, SendError> {
        let tcp = self.tcp().await?;
        let Some(tls) = &self.tls else {
            return Ok(Http1::new(tcp, self.header_size));
        };
        let connecting = tls.http1.connect(tls.name.clone(), tcp);
        let stream = connecting.await.map_err(SendError::Tls)?;
        Ok(Http1::new(stream, self.header_size))
    }

    fn http1(&self, stream: impl Into<Transport>) -> Sender {
        Sender::Http1(Http1::new(stream, self.header_size))
    }

    async fn tcp(&self) -> Result<TcpStream, SendError> {
        let address = (&*self.upstream.host, self.upstream.port);
        let stream = TcpStream::connect(address).await;
        let stream = stream.map_err(SendError::Connect)?;
        stream.set_nodelay(true).map_err(SendError::Connect)?;
        Ok(stream)
    }

    async fn http2(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Sender, SendError> {
        let http2 = Http2::begin(stream, self.header_size).await;
        http2
            .map(Sender::Http2)
            .map_err(|error| SendError::Handshake(error.into()))
    }
}
