//! HTTP/2 towards the upstream (RFC 9113).

mod body;
mod send;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Connection, ResponseFuture, SendRequest};
use h2::{Ping, SendStream};
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::error::ExchangeError;
use super::http1::Transport;
use super::response;
use super::upload::Upload;
use crate::Interim;
use crate::header_size::HeaderSize;
use body::Http2Body;
use send::SendError;

/// A connection; clones share it.
#[derive(Clone)]
pub(super) struct Http2 {
    requests: SendRequest<Bytes>,
    driver: Arc<AbortHandle>,
    /// A count shared with each response that is being read.
    in_use: Arc<()>,
    since: Instant,
}

impl Http2 {
    /// Begins HTTP/2 over `transport`. Header sections may have up to `header_size` bytes.
    ///
    /// # Errors
    /// If the connection fails.
    pub(super) async fn begin(
        transport: Transport,
        header_size: HeaderSize,
    ) -> Result<Self, h2::Error> {
        let (requests, connection) = h2::client::Builder::new()
            .enable_push(false)
            .max_header_list_size(header_size.list_size())
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(transport)
            .await?;
        let in_use = Arc::new(());
        let driver = tokio::spawn(drive(connection, Arc::downgrade(&in_use)));
        Ok(Self {
            requests,
            driver: Arc::new(driver.abort_handle()),
            in_use,
            since: Instant::now(),
        })
    }

    /// Whether it takes further requests: it is open, and no older than `age`.
    pub(super) fn is_usable(&self, age: Duration) -> bool {
        !self.driver.is_finished() && self.since.elapsed() < age
    }

    /// Waits until the connection takes a request.
    ///
    /// # Errors
    /// If it takes none any more.
    pub(super) async fn ready(&mut self) -> Result<(), h2::Error> {
        poll_fn(|cx| self.requests.poll_ready(cx)).await
    }

    /// Sends a request, and waits for its response. Interim responses go to `interim`.
    ///
    /// # Errors
    /// If the connection, the upstream, or the request's content fails.
    pub(super) async fn send(
        &mut self,
        request: Request<()>,
        content: Option<Upload>,
        interim: Option<&Interim>,
    ) -> Result<Response<ResponseBody>, ExchangeError> {
        let content = content.filter(|content| !content.is_end_stream());
        let sent = self.requests.send_request(request, content.is_none());
        let (mut response, stream) = sent?;
        let mut upload = content.map(|content| Box::pin(send_content(stream, content)));
        let response = poll_fn(|cx| {
            if let Some(sending) = &mut upload
                && let Poll::Ready(sent) = sending.as_mut().poll(cx)
            {
                upload = None;
                sent?;
            }
            poll_response(&mut response, interim, cx)
        });
        let response = response.await?;
        // A response may come early; the rest of the request is then sent beside it.
        let upload = upload.map(|upload| tokio::spawn(upload).abort_handle());
        Ok(response.map(|body| ResponseBody {
            body,
            upload,
            _in_use: Arc::clone(&self.in_use),
        }))
    }
}

/// Passes interim responses on, up to the response.
fn poll_response(
    response: &mut ResponseFuture,
    interim: Option<&Interim>,
    cx: &mut Context<'_>,
) -> Poll<Result<Response<Http2Body>, ExchangeError>> {
    while let Some(head) = ready!(response.poll_informational(cx)).transpose()? {
        let head = response::interim(head.status(), head.headers());
        if let (Some(interim), Some(head)) = (interim, head) {
            interim.send(head);
        }
    }
    let (head, stream) = ready!(Pin::new(response).poll(cx))?.into_parts();
    let body = Http2Body::new(stream, &head.headers);
    Poll::Ready(Ok(Response::from_parts(head, body)))
}

/// Sends a request's content as fast as the upstream takes it, until the upstream wants no more.
async fn send_content(stream: SendStream<Bytes>, body: Upload) -> Result<(), ExchangeError> {
    match send::send(stream, body).await {
        Ok(()) => Ok(()),
        Err(SendError::Content(error)) => Err(ExchangeError::Content(error)),
        // The response shows whether that is an error.
        Err(SendError::Stopped(error)) => {
            tracing::debug!(%error, "content for the upstream");
            Ok(())
        }
    }
}

/// Drives a connection until it ends, or until it does not answer while requests wait for it.
async fn drive(mut connection: Connection<Transport>, in_use: Weak<()>) {
    let mut pings = connection.ping_pong();
    let first = Instant::now() + PING_INTERVAL;
    let mut interval = tokio::time::interval_at(first, PING_INTERVAL);
    loop {
        let answers = async {
            interval.tick().await;
            // The pool holds one of the references.
            let is_waited_for = in_use.strong_count() > 1;
            let Some(pings) = pings.as_mut().filter(|_| is_waited_for) else {
                return true;
            };
            let pong = pings.ping(Ping::opaque());
            tokio::time::timeout(PING_TIMEOUT, pong).await.is_ok()
        };
        tokio::select! {
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "connection to the upstream");
                }
                return;
            }
            answers = answers => if !answers {
                tracing::debug!("connection to the upstream: no answer to a PING");
                return;
            }
        }
    }
}

/// A response's content. Dropped before its end, it also ends the rest of the request.
#[derive(Debug)]
pub(super) struct ResponseBody {
    body: Http2Body,
    upload: Option<AbortHandle>,
    _in_use: Arc<()>,
}

impl ResponseBody {
    /// The task that still sends the request's content.
    pub(super) fn upload(&self) -> Option<AbortHandle> {
        self.upload.clone()
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        if let Some(upload) = &self.upload
            && !self.body.is_end_stream()
        {
            upload.abort();
        }
    }
}

/// Bytes that an upstream may send ahead of a slow client.
const STREAM_WINDOW: u32 = 256 * 1024;
/// The maximum (RFC 9113 §6.9.1): clients that stand still must not take the connection's window
/// from the others.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;
/// The interval of pings, which find a connection that died silently while requests wait for it.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
