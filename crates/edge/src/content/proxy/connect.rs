//! New connections to the upstream.

use std::time::Duration;

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::activity::Upload;
use super::config::{ProxyConfig, UpstreamHttp};
use super::error::{ProxyError, SendError};
use super::tls::Tls;
use super::upstream::Upstream;

/// Makes connections to one upstream.
pub(super) struct Connector {
    pub(super) upstream: Upstream,
    pub(super) timeout: Duration,
    tls: Option<Tls>,
}

/// Takes requests for one connection.
pub(super) enum Sender {
    /// One request at a time.
    Http1(http1::SendRequest<Upload>),
    /// Any number; clones share the connection.
    Http2(http2::SendRequest<Upload>),
}

impl Connector {
    pub(super) fn new(upstream: Upstream, config: &ProxyConfig) -> Result<Self, ProxyError> {
        let tls = upstream.is_tls.then(|| Tls::new(&upstream, config));
        Ok(Self {
            tls: tls.transpose()?,
            timeout: config.connect_timeout,
            upstream,
        })
    }

    /// Connects with the HTTP version that configuration and ALPN give.
    pub(super) async fn connect(&self) -> Result<Sender, SendError> {
        let is_http2 = self.upstream.http == UpstreamHttp::Http2;
        match &self.tls {
            None if is_http2 => http2(self.tcp().await?).await,
            None => http1(self.tcp().await?).await,
            Some(tls) => {
                let connecting = tls.negotiating.connect(tls.name.clone(), self.tcp().await?);
                let stream = connecting.await.map_err(SendError::Tls)?;
                if is_http2 || stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                    http2(stream).await
                } else {
                    http1(stream).await
                }
            }
        }
    }

    /// Connects with HTTP/1.1 in any case.
    pub(super) async fn connect_http1(&self) -> Result<Sender, SendError> {
        let Some(tls) = &self.tls else {
            return http1(self.tcp().await?).await;
        };
        let connecting = tls.http1.connect(tls.name.clone(), self.tcp().await?);
        http1(connecting.await.map_err(SendError::Tls)?).await
    }

    async fn tcp(&self) -> Result<TcpStream, SendError> {
        let address = (&*self.upstream.host, self.upstream.port);
        let stream = TcpStream::connect(address).await;
        let stream = stream.map_err(SendError::Connect)?;
        stream.set_nodelay(true).map_err(SendError::Connect)?;
        Ok(stream)
    }
}

async fn http1(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<Sender, SendError> {
    let handshake = http1::Builder::new().handshake(TokioIo::new(stream));
    let (sender, connection) = handshake.await.map_err(SendError::Handshake)?;
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "connection to the upstream");
        }
    });
    Ok(Sender::Http1(sender))
}

async fn http2(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<Sender, SendError> {
    let handshake = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .handshake(TokioIo::new(stream));
    let (sender, connection) = handshake.await.map_err(SendError::Handshake)?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "connection to the upstream");
        }
    });
    Ok(Sender::Http2(sender))
}

/// Bytes that an upstream may send ahead of a slow client.
const STREAM_WINDOW: u32 = 256 * 1024;
/// The most that there is (RFC 9113 §6.9.1): clients that stand still must not
/// take the connection's window from the others.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;
/// A connection that died without a word is noticed while requests wait on it.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
