//! Connections to the upstream that are used again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use http::Response;
use hyper::body::Incoming;
use hyper::client::conn::http2;

use super::activity::Upload;
use super::config::{ProxyConfig, UpstreamHttp};
use super::connect::{Connector, Sender};
use super::error::SendError;
use super::idle::Idle;
use super::outgoing::Outgoing;

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
    response_timeout: std::time::Duration,
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

    /// Gives the head of the upstream's response, its body still to be read.
    ///
    /// A request that a kept connection did not take, because the upstream had
    /// just closed it, goes over another one. One that it did take is repeated,
    /// once, only if it is safe and has no content (RFC 9110 §9.2.2).
    pub(super) async fn send(
        &self,
        mut outgoing: Outgoing,
    ) -> Result<Response<Incoming>, SendError> {
        let mut repeat = outgoing.repeatable();
        loop {
            let (sender, is_new) = self.sender(outgoing.is_upgrade).await?;
            outgoing = match self.exchange(sender, outgoing).await {
                Ok(response) => return Ok(response),
                Err(Failure::Unsent(unsent, _)) if !is_new => *unsent,
                Err(Failure::Unsent(_, error)) => return Err(SendError::Exchange(error)),
                Err(Failure::Sent(error)) if is_new || error.is_user() => {
                    return Err(SendError::Exchange(error));
                }
                Err(Failure::Sent(error)) => repeat.take().ok_or(SendError::Exchange(error))?,
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
            if self.may_share.load(Relaxed) && !is_upgrade {
                return self.shared().await;
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

    /// The connection of HTTP/2 that all requests share, or a new one of HTTP/1.1
    /// if that is what the upstream chose.
    async fn shared(&self) -> Result<(Sender, bool), SendError> {
        let mut shared = self.shared.lock().await;
        if let Some(sender) = shared.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok((Sender::Http2(sender.clone()), false));
        }
        // Whoever was waiting for the lock when the upstream chose HTTP/1.1.
        if let (false, Some(sender)) = (self.may_share.load(Relaxed), self.idle.take()) {
            return Ok((Sender::Http1(sender), false));
        }
        let sender = self.connector.connect().await?;
        match &sender {
            Sender::Http2(sender) => *shared = Some(sender.clone()),
            Sender::Http1(_) => self.may_share.store(false, Relaxed),
        }
        Ok((sender, true))
    }

    async fn exchange(
        &self,
        sender: Sender,
        mut outgoing: Outgoing,
    ) -> Result<Response<Incoming>, Failure> {
        outgoing.activity.touch();
        let (activity, target, is_upgrade) = (
            Arc::clone(&outgoing.activity),
            outgoing.target.clone(),
            outgoing.is_upgrade,
        );
        let stalled = activity.stalled(self.response_timeout);
        let is_http2 = matches!(sender, Sender::Http2(_));
        let result = match sender {
            Sender::Http1(mut sender) => {
                outgoing.aim_http1();
                let result = tokio::select! {
                    result = sender.try_send_request(outgoing.request) => result,
                    () = stalled => return Err(Failure::TimedOut),
                };
                self.idle.keep(sender);
                result
            }
            Sender::Http2(mut sender) => {
                outgoing.aim_http2();
                tokio::select! {
                    result = sender.try_send_request(outgoing.request) => result,
                    () = stalled => return Err(Failure::TimedOut),
                }
            }
        };
        let mut error = match result {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        let Some(request) = error.take_message() else {
            return Err(Failure::Sent(error.into_error()));
        };
        if is_http2 {
            // It is closing, though it may not say so yet.
            *self.shared.lock().await = None;
        }
        let unsent = Outgoing {
            request,
            target,
            activity,
            is_upgrade,
        };
        Err(Failure::Unsent(Box::new(unsent), error.into_error()))
    }
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
