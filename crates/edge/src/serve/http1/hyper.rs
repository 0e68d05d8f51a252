//! Requests that hyper answers.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use ::hyper::body::Incoming;
use ::hyper::server::conn::http1;
use ::hyper::service::{HttpService, service_fn};
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::super::interim::{Coming, InterimWriter, Next, WithInterim};
use super::super::tcp::{DriveHttp, Driving};
use super::super::{Answerer, Service};
use super::front::Given;
use crate::measure::TrackedBody;
use hikyaku_content::{BoxError, HeaderSize, Interim, Refused, RequestBody};

type Io<T> = TokioIo<WithInterim<Given<T>>>;

/// The work that hyper has.
pub(super) enum Task {
    /// One request with few fields, which has arrived whole.
    Request,
    /// All that the client still sends.
    Connection,
}

/// Lets hyper serve what it is given. It closes the connection after the `last` request.
pub(super) fn serve<T>(
    given: Given<T>,
    answerer: &Arc<Answerer>,
    service: &Service,
    task: &Task,
    last: bool,
) -> Driving
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let answerer = Arc::clone(answerer);
    let header_size = HeaderSize::from(service.limits.header_size);
    let (stream, writer) = WithInterim::new(given);
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .keep_alive(!last)
        .max_header_size(header_size.head_size())
        .max_buf_size(header_size.buffer());
    match task {
        Task::Request => builder.header_read_timeout(None),
        Task::Connection => builder
            .header_read_timeout(service.timeouts.header)
            .max_headers(header_size.fields()),
    };
    let answer = move |request| answer(Arc::clone(&answerer), request, Some(writer.clone()));
    let connection = builder
        .serve_connection(TokioIo::new(stream), service_fn(answer))
        .with_upgrades();
    Box::pin(connection)
}

impl<T, S, B> DriveHttp for http1::UpgradeableConnection<Io<T>, S>
where
    T: AsyncRead + AsyncWrite + Unpin,
    Self: Future<Output = ::hyper::Result<()>>,
    S: HttpService<Incoming, ResBody = B>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: http_body::Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Future::poll(self, cx).map_err(Into::into)
    }

    fn stop(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// The reason of a request that hyper has refused, by the error that ends its connection.
pub(super) fn refused(error: &BoxError) -> Option<Refused> {
    let error = error.downcast_ref::<::hyper::Error>()?;
    match (error.is_parse_too_large(), error.is_parse()) {
        (true, _) => Some(Refused::HeaderSize),
        (false, true) => Some(Refused::Malformed),
        (false, false) => None,
    }
}

async fn answer(
    answerer: Arc<Answerer>,
    request: Request<Incoming>,
    writer: Option<InterimWriter>,
) -> Result<Response<TrackedBody>, Infallible> {
    let mut ticket = answerer.conn.ledger.open(&request);
    let mut request = request.map(|body| RequestBody::new(body.map_err(Into::into)));
    // HTTP/1.0 has none (RFC 9110 §15.2).
    let writer = writer.filter(|_| {
        request.version() == http::Version::HTTP_11
            && answerer.site.service().content.has_interim_responses()
    });
    let response = match writer {
        Some(writer) => {
            let (interim, heads) = Interim::channel();
            request.extensions_mut().insert(interim);
            let responding = pin!(answerer.respond(request, &mut ticket));
            let mut coming = Coming::new(Some(heads), responding);
            loop {
                match coming.next().await {
                    Next::Interim(head) => writer.send(head).await,
                    Next::Response(response) => break response,
                }
            }
        }
        None => answerer.respond(request, &mut ticket).await,
    };
    Ok(response.map(|body| TrackedBody::new(body, ticket)))
}
