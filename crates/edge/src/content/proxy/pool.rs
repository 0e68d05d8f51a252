//! Connections to the upstream that are used again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use http::Response;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use tokio::task::AbortHandle;

use super::config::{ProxyConfig, UpstreamHttp};
use super::connect::{Connector, Sender};
use super::error::{SendError, is_refused};
use super::idle::Idle;
use super::outgoing::{Outgoing, Route};
use super::response::keep_alive;
use super::upload::Upload;

/// Sends requests over connections to one upstream, kept ones before new ones.
///
/// HTTP/2 has one connection that all requests share; HTTP/1.1 has one for each
/// request that is under way, which then waits among the idle ones. The pool of
/// hyper-util's client is keyed by the request's authority: over HTTP/2 it could
/// pass the client's own host on only with a connection for each host.
pub(super) struct Pool {
    connector: Connector,
    idle: Arc<Idle>,
    shared: tokio::sync::Mutex<Option<http2::SendRequest<Upload>>>,
    /// Whether a connection may turn out to be of HTTP/2, so that it is waited
    /// for, not made once for each request.
    may_share: AtomicBool,
    response_timeout: Duration,
}

impl Pool {
    pub(super) fn new(connector: Connector, config: &ProxyConfig) -> Self {
        let may_share = match connector.upstream.http {
            UpstreamHttp::Auto => connector.upstream.is_tls,
            UpstreamHttp::Http1 => false,
            UpstreamHttp::Http2 => true,
        };
        Self {
            connector,
            idle: Idle::new(config.keep_connections, config.keep_alive),
            shared: tokio::sync::Mutex::default(),
            may_share: AtomicBool::new(may_share),
            response_timeout: config.response_timeout,
        }
    }

    /// Whether the upstream can be asked to change the protocol.
    pub(super) fn has_upgrades(&self) -> bool {
        self.connector.upstream.http != UpstreamHttp::Http2
    }

    /// Returns the head of the upstream's response, its body still to be read.
    ///
    /// A request that a kept connection did not take, because the upstream had
    /// just closed it, goes over another one. One that it did take is repeated,
    /// once, if it is idempotent (RFC 9110 §9.2.2) or the upstream refused to look
    /// at it, and as long as what was sent of its content is still known.
    pub(super) async fn send(&self, mut outgoing: Outgoing) -> Result<Answer, SendError> {
        let mut second = Some(outgoing.second());
        loop {
            let is_idempotent = outgoing.is_idempotent();
            let (sender, is_new) = self.sender(outgoing.route.is_upgrade).await?;
            outgoing = match self.exchange(sender, outgoing).await {
                Ok(answer) => return Ok(answer),
                Err(Failure::Unsent(unsent, _)) if !is_new => *unsent,
                Err(Failure::Unsent(_, error)) => return Err(SendError::exchange(error)),
                Err(Failure::Sent(error)) => {
                    let is_stale = !is_new && !error.is_user() && !error.is_parse();
                    let may_repeat = is_stale && is_idempotent || is_refused(&error);
                    let second = second.take().filter(|_| may_repeat);
                    let second = second.and_then(Outgoing::restart);
                    second.ok_or_else(|| SendError::exchange(error))?
                }
                Err(Failure::TimedOut) => {
                    return Err(SendError::ResponseTimeout(self.response_timeout));
                }
            };
        }
    }

    /// A connection, and whether it was made for this request.
    async fn sender(&self, is_upgrade: bool) -> Result<(Sender, bool), SendError> {
        let limit = self.connector.timeout;
        let sender = async {
            if !is_upgrade && let Some(sender) = self.shared().await? {
                return Ok(sender);
            }
            if let Some(sender) = self.idle.take() {
                return Ok((Sender::Http1(sender), false));
            }
            let sender = if is_upgrade {
                self.connector.connect_http1().await?
            } else {
                self.connector.connect().await?
            };
            if matches!(sender, Sender::Http2(_)) {
                self.may_share.store(true, Relaxed);
            }
            Ok((sender, true))
        };
        let sender = tokio::time::timeout(limit, sender).await;
        sender.unwrap_or(Err(SendError::ConnectTimeout(limit)))
    }

    /// The connection of HTTP/2 that all requests share, or the one that was to
    /// be it, when the upstream chose HTTP/1.1. `None` once that is known.
    async fn shared(&self) -> Result<Option<(Sender, bool)>, SendError> {
        if !self.may_share.load(Relaxed) {
            return Ok(None);
        }
        let mut shared = self.shared.lock().await;
        if let Some(sender) = shared.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok(Some((Sender::Http2(sender.clone()), false)));
        }
        // Whoever had the lock before may have found out.
        if !self.may_share.load(Relaxed) {
            return Ok(None);
        }
        let sender = self.connector.connect().await?;
        match &sender {
            Sender::Http2(sender) => *shared = Some(sender.clone()),
            Sender::Http1(_) => self.may_share.store(false, Relaxed),
        }
        Ok(Some((sender, true)))
    }

    async fn exchange(&self, sender: Sender, mut outgoing: Outgoing) -> Result<Answer, Failure> {
        let route = Arc::clone(&outgoing.route);
        let is_http2 = matches!(sender, Sender::Http2(_));
        let (result, connection) = match sender {
            Sender::Http1(mut http1) => {
                outgoing.aim_http1();
                let sending = http1.sender.try_send_request(outgoing.request);
                let result = self.unless_stalled(&route, sending).await?;
                let connection = http1.task.clone();
                let response = result.as_ref().ok();
                let allows = response.and_then(|response| keep_alive(response.headers()));
                self.idle.keep(http1, allows);
                (result, Some(connection))
            }
            Sender::Http2(mut sender) => {
                outgoing.aim_http2();
                let sending = sender.try_send_request(outgoing.request);
                (self.unless_stalled(&route, sending).await?, None)
            }
        };
        let mut error = match result {
            Ok(response) => {
                return Ok(Answer {
                    response,
                    connection,
                });
            }
            Err(error) => error,
        };
        let Some(request) = error.take_message() else {
            return Err(Failure::Sent(error.into_error()));
        };
        if is_http2 {
            // It is closing, though it may not say so yet.
            *self.shared.lock().await = None;
        }
        let unsent = Box::new(Outgoing { request, route });
        Err(Failure::Unsent(unsent, error.into_error()))
    }

    async fn unless_stalled<T>(
        &self,
        route: &Route,
        sending: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        route.activity.touch();
        tokio::select! {
            result = sending => Ok(result),
            () = route.activity.stalled(self.response_timeout) => Err(Failure::TimedOut),
        }
    }
}

/// The head of an upstream's response.
pub(super) struct Answer {
    pub(super) response: Response<Incoming>,
    /// What drives the connection of HTTP/1.1 that it came on.
    pub(super) connection: Option<AbortHandle>,
}

/// How an exchange failed.
enum Failure {
    /// Nothing of the request was sent.
    Unsent(Box<Outgoing>, hyper::Error),
    /// Some or all of it was.
    Sent(hyper::Error),
    TimedOut,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("upstream", &self.connector.upstream)
            .finish_non_exhaustive()
    }
}
