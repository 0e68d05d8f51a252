//! Connections to the upstream, kept for further requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use http::Response;
use tokio::task::AbortHandle;

use super::config::{ProxyConfig, UpstreamHttp};
use super::connect::{Connector, Http1, Sender};
use super::download::Incoming;
use super::error::{ExchangeError, SendError};
use super::http2::Http2;
use super::idle::Idle;
use super::outgoing::{Outgoing, Route};
use super::response::keep_alive;

/// Sends requests over connections to one upstream, kept ones before new ones.
///
/// HTTP/2 has one connection that all requests share. HTTP/1.1 has one for each request, which
/// later waits among the idle ones. The pool of hyper-util's client is keyed by the request's
/// authority. Over HTTP/2 it could pass the client's own host on only with a connection for each
/// host.
pub(super) struct Pool {
    connector: Connector,
    idle: Arc<Idle>,
    shared: tokio::sync::Mutex<Option<Http2>>,
    /// Whether a new connection may turn out to be of HTTP/2. Requests then wait for it instead of
    /// making one each.
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

    /// Sends a request, and returns the head of the response with its body still to be read.
    ///
    /// A kept connection may fail to take a request, since the upstream has just closed it; the
    /// request then goes over another one. A request that was taken is repeated once if it is
    /// idempotent (RFC 9110 §9.2.2) or refused unprocessed, and its sent content is still kept.
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
                    let is_stale = !is_new && error.may_be_stale();
                    let may_repeat = is_stale && is_idempotent || error.is_refused();
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

    /// Returns a connection, and whether it was made for this request.
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

    /// Returns the HTTP/2 connection that all requests share.
    ///
    /// If the upstream chooses HTTP/1.1, the first caller gets that connection, and later callers
    /// get `None`.
    async fn shared(&self) -> Result<Option<(Sender, bool)>, SendError> {
        if !self.may_share.load(Relaxed) {
            return Ok(None);
        }
        let mut shared = self.shared.lock().await;
        if let Some(sender) = shared.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok(Some((Sender::Http2(sender.clone()), false)));
        }
        // The former holder of the lock may have found that the upstream has no HTTP/2.
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

    async fn exchange(&self, sender: Sender, outgoing: Outgoing) -> Result<Answer, Failure> {
        match sender {
            Sender::Http1(http1) => self.exchange_http1(http1, outgoing).await,
            Sender::Http2(http2) => self.exchange_http2(http2, outgoing).await,
        }
    }

    async fn exchange_http1(
        &self,
        mut http1: Http1,
        mut outgoing: Outgoing,
    ) -> Result<Answer, Failure> {
        outgoing.aim_http1();
        let Outgoing { request, route } = outgoing;
        let sending = http1.sender.try_send_request(request);
        let result = self.unless_stalled(&route, sending).await?;
        let rest = Some(http1.task.clone());
        let response = result.as_ref().ok();
        let allows = response.and_then(|response| keep_alive(response.headers()));
        self.idle.keep(http1, allows);
        match result {
            Ok(response) => Ok(Answer {
                response: response.map(Incoming::Left),
                rest,
            }),
            Err(mut error) => Err(match error.take_message() {
                Some(request) => {
                    let unsent = Box::new(Outgoing { request, route });
                    Failure::Unsent(unsent, error.into_error().into())
                }
                None => Failure::Sent(error.into_error().into()),
            }),
        }
    }

    async fn exchange_http2(
        &self,
        mut http2: Http2,
        mut outgoing: Outgoing,
    ) -> Result<Answer, Failure> {
        if let Err(error) = http2.ready().await {
            // The connection is closing, though it may not show so yet.
            *self.shared.lock().await = None;
            return Err(Failure::Unsent(Box::new(outgoing), error.into()));
        }
        outgoing.aim_http2();
        let Outgoing { request, route } = outgoing;
        let sending = http2.send(request, route.interim.as_ref());
        let response = self.unless_stalled(&route, sending).await?;
        let response = response.map_err(Failure::Sent)?;
        Ok(Answer {
            rest: response.body().upload(),
            response: response.map(Incoming::Right),
        })
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
    /// The task that sends the rest of the request: on HTTP/1.1 the one that drives the connection.
    pub(super) rest: Option<AbortHandle>,
}

/// How an exchange failed.
enum Failure {
    /// The request was not sent at all.
    Unsent(Box<Outgoing>, ExchangeError),
    /// Some or all of the request was sent.
    Sent(ExchangeError),
    TimedOut,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("upstream", &self.connector.upstream)
            .finish_non_exhaustive()
    }
}
