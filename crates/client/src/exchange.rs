//! One request and its response on an open connection.

use std::fs::File;
use std::future::Future;
use std::io::Write;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use hikyaku_h3_quic::{Client, Receiving, RequestHead};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Request, StatusCode, Version, response};
use http_body_util::{BodyExt, Full};
use tokio::task::JoinHandle;

use super::connection::{Http1Sender, Http1Turn, Sender};
use super::error::FetchError;
use super::progress::Progress;
use super::target::{Target, Template};
use super::timeline::Timeline;

/// A response whose header section has arrived.
pub(super) struct Response {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    body: Body,
    /// Sends the rest of the request while the body is read.
    _upload: Option<Rest>,
}

/// The rest of a request's body after its response began. On drop it is not sent.
struct Rest(JoinHandle<Result<Instant, FetchError>>);

impl Drop for Rest {
    fn drop(&mut self) {
        self.0.abort();
    }
}

enum Body {
    /// A body with the connection's turn, which ends with the body.
    Http1(hyper::body::Incoming, Http1Turn),
    Http2(h2::RecvStream),
    Http3(Box<Receiving<response::Parts>>),
}

/// Sends the request for `target` and waits for the response's header section.
pub(super) async fn send(
    sender: &mut Sender,
    template: &Template,
    target: &Target,
    timeline: &mut Timeline,
) -> Result<Response, FetchError> {
    let body = template.body.clone();
    let response = match sender {
        Sender::Http1(sender) => {
            let request = template.request(target, Version::HTTP_11);
            http1(sender, request, body, timeline).await
        }
        Sender::Http2(sender) => {
            let request = template.request(target, Version::HTTP_2);
            http2(sender, request, body, timeline).await
        }
        Sender::Http3(sender) => {
            let request = template.request(target, Version::HTTP_3);
            http3(sender, request, body, timeline).await
        }
    }?;
    timeline.first_byte = Some(Instant::now());
    Ok(response)
}

async fn http1(
    sender: &Http1Sender,
    request: Request<()>,
    body: Bytes,
    timeline: &mut Timeline,
) -> Result<Response, FetchError> {
    let mut turn = sender.turn().await;
    turn.sender.ready().await.map_err(sending)?;
    timeline.send = Some(Instant::now());
    let (parts, ()) = request.into_parts();
    let request = Request::from_parts(parts, Full::new(body));
    let response = turn.sender.send_request(request).await;
    timeline.sent = Some(sender.clock.last_write());
    let (head, body) = response.map_err(waiting)?.into_parts();
    Ok(Response {
        status: head.status,
        headers: head.headers,
        body: Body::Http1(body, turn),
        _upload: None,
    })
}

async fn http2(
    sender: &mut h2::client::SendRequest<Bytes>,
    request: Request<()>,
    body: Bytes,
    timeline: &mut Timeline,
) -> Result<Response, FetchError> {
    futures_util::future::poll_fn(|cx| sender.poll_ready(cx))
        .await
        .map_err(sending)?;
    timeline.send = Some(Instant::now());
    let (response, stream) = sender
        .send_request(request, body.is_empty())
        .map_err(sending)?;
    let upload = async {
        if !body.is_empty() {
            upload_http2(stream, body).await?;
        }
        Ok(Instant::now())
    };
    let response = async { response.await.map_err(waiting) };
    let (response, rest) = answer(upload, response, &mut timeline.sent).await?;
    let (head, body) = response.into_parts();
    Ok(Response {
        status: head.status,
        headers: head.headers,
        body: Body::Http2(body),
        _upload: rest,
    })
}

async fn upload_http2(
    mut stream: h2::SendStream<Bytes>,
    mut body: Bytes,
) -> Result<(), FetchError> {
    while !body.is_empty() {
        stream.reserve_capacity(body.len());
        let capacity = futures_util::future::poll_fn(|cx| stream.poll_capacity(cx)).await;
        let granted = match capacity {
            Some(granted) => granted.map_err(sending)?,
            // The server reset the stream; its response has the reason.
            None => return Ok(()),
        };
        let chunk = body.split_to(granted.min(body.len()));
        stream.send_data(chunk, body.is_empty()).map_err(sending)?;
    }
    Ok(())
}

async fn http3(
    client: &Client,
    request: Request<()>,
    body: Bytes,
    timeline: &mut Timeline,
) -> Result<Response, FetchError> {
    timeline.send = Some(Instant::now());
    let head = RequestHead::from(request.into_parts().0);
    let (mut upload, mut response) = client.request(&head).await.map_err(sending)?;
    let upload = async move {
        if !body.is_empty() {
            upload.data(body).await.map_err(sending)?;
        }
        drop(upload.finish().await.map_err(sending)?);
        Ok(Instant::now())
    };
    let (head, rest) = answer(upload, final_head(&mut response), &mut timeline.sent).await?;
    Ok(Response {
        status: head.status,
        headers: head.headers,
        body: Body::Http3(Box::new(response)),
        _upload: rest,
    })
}

/// The final header section, after any interim ones (RFC 9114 §4.1).
async fn final_head(
    response: &mut Receiving<response::Parts>,
) -> Result<response::Parts, FetchError> {
    loop {
        let head = response.head().await.map_err(waiting)?;
        if !head.status.is_informational() {
            return Ok(head);
        }
    }
}

/// Returns the response, which may come before the request is complete. The rest of the request is
/// then sent in the background. `sent` is set if the request is complete before the response.
async fn answer<T>(
    upload: impl Future<Output = Result<Instant, FetchError>> + Send + 'static,
    response: impl Future<Output = Result<T, FetchError>>,
    sent: &mut Option<Instant>,
) -> Result<(T, Option<Rest>), FetchError> {
    let mut upload = Box::pin(upload);
    let mut response = pin!(response);
    tokio::select! {
        biased;
        result = &mut upload => {
            *sent = result.as_ref().ok().copied();
            // A server may reject the upload and respond all the same.
            match (result, response.await) {
                (Err(error), Err(_)) => Err(error),
                (_, response) => Ok((response?, None)),
            }
        }
        result = &mut response => Ok((result?, Some(Rest(tokio::spawn(upload))))),
    }
}

impl Response {
    /// Reads the body to its end into `sink`, and counts its bytes in `received` as they arrive.
    pub(super) async fn read(
        self,
        sink: &mut Sink,
        received: &mut u64,
        progress: &Progress,
    ) -> Result<(), FetchError> {
        let mut arrived = |sink: &mut Sink, data: Bytes| {
            *received += data.len() as u64;
            progress.received(data.len() as u64);
            sink.take(&data)
        };
        match self.body {
            Body::Http1(mut body, mut turn) => {
                while let Some(frame) = body.frame().await {
                    if let Ok(data) = frame.map_err(reading)?.into_data() {
                        arrived(sink, data)?;
                    }
                }
                turn.complete = true;
            }
            Body::Http2(mut body) => {
                while let Some(data) = body.data().await {
                    let data = data.map_err(reading)?;
                    // This fails only at the stream's end.
                    let _ = body.flow_control().release_capacity(data.len());
                    arrived(sink, data)?;
                }
                body.trailers().await.map_err(reading)?;
            }
            Body::Http3(mut body) => {
                while let Some(frame) = body.frame().await {
                    if let Ok(data) = frame.map_err(reading)?.into_data() {
                        arrived(sink, data)?;
                    }
                }
            }
        }
        sink.finish()
    }
}

pub(super) fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn sending(error: impl std::error::Error + Send + Sync + 'static) -> FetchError {
    FetchError::exchange("sending the request", error)
}

fn waiting(error: impl std::error::Error + Send + Sync + 'static) -> FetchError {
    FetchError::exchange("waiting for the response", error)
}

fn reading(error: impl std::error::Error + Send + Sync + 'static) -> FetchError {
    FetchError::exchange("reading the body", error)
}

/// The destination of a body's bytes.
pub(super) enum Sink {
    /// They are counted and dropped.
    Discard,
    /// They are counted here, too, for an observer, and dropped.
    Count(Arc<AtomicU64>),
    /// They are kept, up to [`Sink::LARGEST_DOCUMENT`].
    Collect(Vec<u8>),
    /// They are written to a file.
    File(File, PathBuf),
}

impl Sink {
    /// Bytes of a document that are searched for its resources.
    const LARGEST_DOCUMENT: usize = 16 << 20;

    fn take(&mut self, data: &[u8]) -> Result<(), FetchError> {
        match self {
            Self::Discard => Ok(()),
            Self::Count(bytes) => {
                bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
                Ok(())
            }
            Self::Collect(document) => {
                let room = Self::LARGEST_DOCUMENT.saturating_sub(document.len());
                document.extend_from_slice(&data[..data.len().min(room)]);
                Ok(())
            }
            Self::File(file, path) => file.write_all(data).map_err(|e| output(path, e)),
        }
    }

    fn finish(&mut self) -> Result<(), FetchError> {
        match self {
            Self::File(file, path) => file.flush().map_err(|e| output(path, e)),
            Self::Discard | Self::Count(_) | Self::Collect(_) => Ok(()),
        }
    }
}

fn output(path: &std::path::Path, source: std::io::Error) -> FetchError {
    FetchError::Output {
        path: path.to_owned(),
        source: Arc::new(source),
    }
}
