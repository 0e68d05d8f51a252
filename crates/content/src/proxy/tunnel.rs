//! Connections and streams that carry another protocol, such as WebSocket.

mod stream;

use std::future::{pending, ready};
use std::io;
use std::time::Duration;

use futures_util::TryStreamExt;
use hikyaku_units::arm::Version;
use http::{HeaderValue, request, response};
use http_body_util::BodyDataStream;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_util::io::StreamReader;
use tokio_util::sync::CancellationToken;

use super::activity::Activity;
use super::error::SendError;
use super::group::Kept;
use super::headers;
use super::http1::Upgraded;
use super::websocket::{self, Key};
use crate::{Body, Protocol, RequestBody, Stopping};

/// A tunnel that a client asks for. It begins when the upstream switches protocols.
pub(super) struct Tunnel {
    client: Client,
    protocol: HeaderValue,
    stop: CancellationToken,
}

/// The client's end of a tunnel.
enum Client {
    /// A connection of HTTP/1.1 (RFC 9110 §7.8).
    Connection(OnUpgrade),
    /// A stream of HTTP/2 or 3 (RFC 8441 §5, RFC 9220 §3), with the data from the client.
    Stream(RequestBody, Key),
}

impl Tunnel {
    /// Returns the tunnel that a request asks for. An extended CONNECT becomes an HTTP/1.1 request
    /// for the same tunnel, and loses its body to it.
    ///
    /// # Errors
    /// If the system has no randomness for a WebSocket key.
    pub(super) fn asked(
        request: &mut request::Parts,
        body: &mut RequestBody,
        version: Version,
    ) -> Result<Option<Self>, aws_lc_rs::error::Unspecified> {
        let stop = |request: &mut request::Parts| {
            let stopping = request.extensions.remove::<Stopping>();
            stopping.unwrap_or_default().0
        };
        if request.extensions.remove::<Protocol>().is_some() {
            let key = Key::random()?;
            key.ask(request);
            return Ok(Some(Self {
                client: Client::Stream(std::mem::take(body), key),
                protocol: HeaderValue::from_static(websocket::NAME),
                stop: stop(request),
            }));
        }
        if version != Version::H1 {
            return Ok(None);
        }
        let connection = request.extensions.remove::<OnUpgrade>();
        let asked = headers::upgrade_of(&request.headers).zip(connection);
        Ok(asked.map(|(protocol, connection)| Self {
            client: Client::Connection(connection),
            protocol,
            stop: stop(request),
        }))
    }

    /// The protocol to which the upstream is asked to switch.
    pub(super) const fn protocol(&self) -> &HeaderValue {
        &self.protocol
    }

    /// Whether a response without a switch of protocols would look like a tunnel: any success does
    /// for CONNECT (RFC 9110 §9.3.6).
    pub(super) const fn is_of_stream(&self) -> bool {
        matches!(self.client, Client::Stream(..))
    }

    /// Begins the tunnel with an upstream that has switched to `protocol`. Turns the upstream's
    /// response into the client's, and returns the body of that. The tunnel ends after `idle`
    /// without data, and the `turn` with it.
    ///
    /// # Errors
    /// If the upstream has switched to another protocol.
    pub(super) fn begin(
        self,
        upstream: Upgraded,
        response: &mut response::Parts,
        protocol: Option<HeaderValue>,
        idle: Duration,
        turn: Kept,
    ) -> Result<Body, SendError> {
        let terms = Terms {
            idle,
            stop: self.stop,
            _turn: turn,
        };
        match self.client {
            Client::Connection(client) => {
                if let Some(protocol) = protocol {
                    headers::set_upgrade(&mut response.headers, protocol);
                }
                let client = async { Ok(tokio::io::split(TokioIo::new(client.await?))) };
                tokio::spawn(run(client, pending(), upstream, terms));
                Ok(Body::empty())
            }
            Client::Stream(from_client, key) => {
                key.accept(response, protocol.as_ref())?;
                let from_client = BodyDataStream::new(from_client).map_err(io::Error::other);
                let (to_client, gone, body) = stream::open();
                let client = ready(Ok((StreamReader::new(from_client), to_client)));
                tokio::spawn(run(client, gone, upstream, terms));
                Ok(Body::boxed(body))
            }
        }
    }
}

/// The conditions that end a tunnel from outside, and what ends with it.
struct Terms {
    idle: Duration,
    stop: CancellationToken,
    _turn: Kept,
}

/// Copies between client and upstream once both have changed protocol. Ends when both have ended,
/// one fails, the client is `gone`, the server stops, or no data moves for too long.
async fn run<R, W>(
    client: impl Future<Output = hyper::Result<(R, W)>>,
    gone: impl Future<Output = ()>,
    upstream: Upgraded,
    terms: Terms,
) where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut client = match client.await {
        Ok(client) => client,
        Err(error) => {
            tracing::debug!(%error, "upgrading a connection");
            return;
        }
    };
    let mut upstream = tokio::io::split(upstream);
    if let Err(error) = copy_both(&mut client, &mut upstream, gone, &terms).await {
        tracing::debug!(%error, "copying between client and upstream");
        // The upstream must not take a tunnel for ended if the client has not ended it. A client of
        // HTTP/1.1 that leaves without `close_notify` has ended it: the data that it sent before
        // must arrive.
        if error.kind() != io::ErrorKind::UnexpectedEof {
            let (from_upstream, to_upstream) = upstream;
            from_upstream.unsplit(to_upstream).reset();
        }
    }
}

async fn copy_both(
    (from_client, to_client): &mut (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    (from_upstream, to_upstream): &mut (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    gone: impl Future<Output = ()>,
    terms: &Terms,
) -> io::Result<()> {
    let activity = Activity::new();
    let down = async {
        tokio::select! {
            // A client that has seen the end may go.
            biased;
            copied = copy(from_upstream, to_client, &activity) => copied,
            () = gone => Err(io::ErrorKind::ConnectionReset.into()),
        }
    };
    tokio::select! {
        both = async { tokio::try_join!(copy(from_client, to_upstream, &activity), down) } => {
            return both.map(|_| ());
        }
        () = activity.stalled(terms.idle) => return Err(io::ErrorKind::TimedOut.into()),
        () = terms.stop.cancelled() => {}
    }
    // That direction has no end to wait for.
    let ending = async { tokio::try_join!(to_client.shutdown(), to_upstream.shutdown()) };
    tokio::time::timeout(GOODBYE, ending).await??;
    Ok(())
}

/// Copies to the end of `from`, and passes that end on.
async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    activity: &Activity,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = from.read(&mut buffer).await?;
        activity.touch();
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..read]).await?;
        to.flush().await?;
        activity.touch();
    }
}

const BUFFER: usize = 16 * 1024;
/// The time for either side to take the end of a tunnel when the server stops.
const GOODBYE: Duration = Duration::from_secs(1);
