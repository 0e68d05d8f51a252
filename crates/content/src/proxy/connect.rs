//! New connections to the upstream.

use std::time::Duration;

use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio_rustls::client::TlsStream;

use super::config::{ProxyConfig, UpstreamHttp};
use super::error::{ProxyError, SendError};
use super::http2::Http2;
use super::read_on::ReadOn;
use super::tls::Tls;
use super::upload::Upload;
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

/// A connection of HTTP/1.1.
pub(super) struct Http1 {
    pub(super) sender: http1::SendRequest<Upload>,
    /// The task that drives the connection.
    pub(super) task: AbortHandle,
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
            None => self.http1(self.tcp().await?).await,
            Some(tls) => {
                let connecting = tls.negotiating.connect(tls.name.clone(), self.tcp().await?);
                let stream = connecting.await.map_err(SendError::Tls)?;
                if is_http2 || stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                    self.http2(stream).await
                } else {
                    self.http1(stream).await
                }
            }
        }
    }

    /// Connects with HTTP/1.1 in any case.
    pub(super) async fn connect_http1(&self) -> Result<Sender, SendError> {
        let Some(tls) = &self.tls else {
            return self.http1(self.tcp().await?).await;
        };
        let connecting = tls.http1.connect(tls.name.clone(), self.tcp().await?);
        self.http1(connecting.await.map_err(SendError::Tls)?).await
    }

    async fn tcp(&self) -> Result<TcpStream, SendError> {
        let address = (&*self.upstream.host, self.upstream.port);
        let stream = TcpStream::connect(address).await;
        let stream = stream.map_err(SendError::Connect)?;
        stream.set_nodelay(true).map_err(SendError::Connect)?;
        Ok(stream)
    }

    async fn http1(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Sender, SendError> {
        let handshake = http1::Builder::new()
            .max_headers(self.header_size.fields())
            .max_header_size(self.header_size.head_size())
            .max_buf_size(self.header_size.buffer())
            .handshake(TokioIo::new(ReadOn::new(stream)));
        let (sender, connection) = handshake
            .await
            .map_err(|error| SendError::Handshake(error.into()))?;
        let task = tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "connection to the upstream");
            }
        });
        let task = task.abort_handle();
        Ok(Sender::Http1(Http1 { sender, task }))
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

/// Resets, instead of closing it, a connection of HTTP/1.1 that carried another protocol.
pub(super) fn reset(connection: Upgraded) {
    match connection.downcast::<TokioIo<ReadOn<TcpStream>>>() {
        Ok(parts) => reset_tcp(parts.io.inner().get_ref()),
        Err(connection) => {
            if let Ok(parts) = connection.downcast::<TokioIo<ReadOn<TlsStream<TcpStream>>>>() {
                reset_tcp(parts.io.inner().get_ref().get_ref().0);
            }
        }
    }
}

/// Makes a connection send a reset when it is dropped.
fn reset_tcp(stream: &TcpStream) {
    // It fails only if the connection is closed already.
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}
