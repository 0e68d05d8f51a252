//! Connections to the upstream, kept for further requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use http::Response;
use tokio::task::AbortHandle;

use super::config::{ProxyConfig, UpstreamHttp};
use super::connect::{Connector, Sender};
use super::error::{ExchangeError, SendError};
use super::http1::{self, Http1, Http1Error};
use super::http2::{Http2, ResponseBody};
use super::idle::Idle;
use super::outgoing::{Outgoing, Route};

/// Sends requests over connections to one upstream, kept ones before new ones.
///
/// HTTP/2 has one connection that all requests share. HTTP/1.1 has one for each request, which
/// later waits among the idle ones. The pool of hyper-util's client is keyed by the request's
/// authority. Over HTTP/2 it could pass the client's own host on only with a connection for each
/// host.
pub(super) struct Pool {
    connector: Arc<Connector>,
    idle: Arc<Idle>,
    shared: tokio::sync::Mutex<Option<Http2>>,
    /// Whether a new connection may turn out to be of HTTP/2. Requests then wait for it instead of
    /// making one each.
    may_share: AtomicBool,
    response_timeout: Duration,
    connection_age: Duration,
}

impl Pool {
    pub(super) fn new(connector: Arc<Connector>, config: &ProxyConfig) -> Self {
        let may_share = match connector.upstream.http {
            UpstreamHttp::Auto => connector.upstream.is_tls(),
            UpstreamHttp::Http1 => false,
            UpstreamHttp::Http2 => true,
        };
        Self {
            connector,
            idle: Idle::new(
                config.keep_connections,
                config.keep_alive,
                config.connection_age,
            ),
            shared: tokio::sync::Mutex::default(),
            may_share: AtomicBool::new(may_share),
            response_timeout: config.response_timeout,
            connection_age: config.connection_age,
        }
    }

    /// Whether the upstream can be asked to change the protocol.
    pub(super) fn has_upgrades(&self) -> bool {
        self.connector.upstream.http != UpstreamHttp::Http2
    }

    /// Sends a request, and returns the head of the response with its body still to be read.
    ///
    /// A kept connection may fail to take a request, since the upstream has just closed it; the
    /// request then goes over a new one. A request that was taken is repeated once if it is
    /// idempotent (RFC 9110 §9.2.2) or refused unprocessed, and its sent content is still kept.
    pub(super) async fn send(&self, outgoing: &mut Outgoing) -> Result<Answer, Unanswered> {
        let mut reuse = true;
        loop {
            let kept = match reuse {
                true => self.kept(outgoing.route.is_upgrade),
                false => None,
            };
            let (sender, is_new) = match kept {
                Some(http1) => (Sender::Http1(http1), false),
                None => Box::pin(self.sender(outgoing.route.is_upgrade))
                    .await
                    .map_err(Unanswered::unsent)?,
            };
            let (may_repeat, unanswered) = match self.exchange(sender, outgoing).await {
                Ok(answer) => return Ok(answer),
                Err(Failure::Untaken(_)) if !is_new => continue,
                Err(Failure::Untaken(error)) => {
                    (false, Unanswered::unsent(SendError::exchange(error)))
                }
                Err(Failure::Unsent(error)) => {
                    (!is_new, Unanswered::unsent(SendError::exchange(error)))
                }
                Err(Failure::Sent(error)) => {
                    let is_unsent = error.is_refused();
                    let is_stale = !is_new && error.may_be_stale();
                    let may_repeat = is_unsent || is_stale && outgoing.method().is_idempotent();
                    let error = SendError::exchange(error);
                    (may_repeat, Unanswered { error, is_unsent })
                }
                Err(Failure::TimedOut) => {
                    let error = SendError::ResponseTimeout(self.response_timeout);
                    let is_unsent = false;
                    return Err(Unanswered { error, is_unsent });
                }
            };
            if !reuse || !may_repeat || !outgoing.restart() {
                return Err(unanswered);
            }
            reuse = false;
        }
    }

    /// Returns an idle connection, unless an HTTP/2 connection is to be shared.
    fn kept(&self, is_upgrade: bool) -> Option<Http1> {
        match is_upgrade || !self.may_share.load(Relaxed) {
            true => self.idle.take(),
            false => None,
        }
    }

    /// Returns the shared connection or a new one, and whether it was made for this request.
    async fn sender(&self, is_upgrade: bool) -> Result<(Sender, bool), SendError> {
        let limit = self.connector.timeout;
        let sender = async {
            if is_upgrade {
                let http1 = self.connector.connect_http1().await?;
                return Ok((Sender::Http1(http1), true));
            }
            if let Some(sender) = self.shared().await? {
                return Ok(sender);
            }
            let sender = self.connector.connect().await?;
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
        let usable = |sender: &&Http2| sender.is_usable(self.connection_age);
        if let Some(sender) = shared.as_ref().filter(usable) {
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

    async fn exchange(&self, sender: Sender, outgoing: &mut Outgoing) -> Result<Answer, Failure> {
        match sender {
            Sender::Http1(http1) => self.exchange_http1(http1, outgoing).await,
            Sender::Http2(http2) => Box::pin(self.exchange_http2(http2, outgoing)).await,
        }
    }

    async fn exchange_http1(
        &self,
        http1: Http1,
        outgoing: &mut Outgoing,
    ) -> Result<Answer, Failure> {
        let framed = outgoing.http1().map_err(Http1Error::Length);
        let (head, encoder) = framed.map_err(|error| Failure::Sent(error.into()))?;
        let request = http1::Request {
            head,
            encoder,
            content: outgoing.content.take(),
            method: outgoing.method(),
            interim: outgoing.route.interim.as_ref(),
        };
        let sending = http1.send(request, &self.idle);
        match self.unless_stalled(&outgoing.route, sending).await? {
            Ok(response) => Ok(Answer {
                rest: response.body().rest(),
                response: response.map(Content::Http1),
            }),
            Err(failure) if failure.is_unsent => Err(Failure::Unsent(failure.error)),
            Err(failure) => Err(Failure::Sent(failure.error)),
        }
    }

    async fn exchange_http2(
        &self,
        mut http2: Http2,
        outgoing: &mut Outgoing,
    ) -> Result<Answer, Failure> {
        if let Err(error) = http2.ready().await {
            // The connection is closing, though it may not show so yet.
            *self.shared.lock().await = None;
            return Err(Failure::Untaken(error.into()));
        }
        let request = outgoing.http2();
        let content = outgoing.content.take();
        let sending = http2.send(request, content, outgoing.route.interim.as_ref());
        let response = self.unless_stalled(&outgoing.route, sending).await?;
        let response = response.map_err(Failure::Sent)?;
        Ok(Answer {
            rest: response.body().upload(),
            response: response.map(Content::Http2),
        })
    }

    async fn unless_stalled<T>(
        &self,
        route: &Route,
        sending: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        route.activity.touch();
        tokio::select! {
            biased;
            result = sending => Ok(result),
            () = route.activity.stalled(self.response_timeout) => Err(Failure::TimedOut),
        }
    }
}

/// The head of an upstream's response.
pub(super) struct Answer {
    pub(super) response: Response<Content>,
    /// The task that sends the rest of the request.
    pub(super) rest: Option<AbortHandle>,
}

/// The content of an upstream's response.
pub(super) enum Content {
    Http1(http1::Content),
    Http2(ResponseBody),
}

/// A request without an answer.
pub(super) struct Unanswered {
    pub(super) error: SendError,
    /// Whether the upstream has processed nothing of it for sure.
    pub(super) is_unsent: bool,
}

impl Unanswered {
    const fn unsent(error: SendError) -> Self {
        Self {
            error,
            is_unsent: true,
        }
    }
}

/// How an exchange failed.
enum Failure {
    /// The connection took nothing of the request.
    Untaken(ExchangeError),
    /// Nothing was sent of what the connection took.
    Unsent(ExchangeError),
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
