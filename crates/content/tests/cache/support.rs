//! A site with a cache, and an upstream that counts.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use hikyaku_content::{
    Body, BoxError, CacheConfig, CacheOutcome, Caches, Content, RequestBody, SiteConfig, WholeFile,
};
use hikyaku_testkit::PATIENCE;
use hikyaku_units::ByteSize;
use hikyaku_units::arm::Version;
use http::{HeaderMap, Method, Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::common::{no_body, peer, respond};

pub(crate) type UpstreamBody = UnsyncBoxBody<Bytes, BoxError>;
pub(crate) type Fields<'a> = &'a [(&'a str, &'a str)];
type Answering = Pin<Box<dyn Future<Output = Response<UpstreamBody>> + Send>>;

/// A server behind the cache.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Request<()>>>>,
}

impl Upstream {
    /// One that answers the request of a number, from 0 on, so.
    pub(crate) async fn answering<F>(answer: F) -> Self
    where
        F: Fn(usize, &Request<()>) -> Response<UpstreamBody> + Send + Sync + 'static,
    {
        Self::waiting(move |number, request| {
            let response = answer(number, request);
            Box::pin(async move { response })
        })
        .await
    }

    /// The same, where answers may take their time.
    pub(crate) async fn waiting<F>(answer: F) -> Self
    where
        F: Fn(usize, &Request<()>) -> Answering + Send + Sync + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Vec<Request<()>>>>::default();
        let (answer, log) = (Arc::new(answer), Arc::clone(&seen));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, log) = (Arc::clone(&answer), Arc::clone(&log));
                let service = service_fn(move |request: Request<Incoming>| {
                    let request = Request::from_parts(request.into_parts().0, ());
                    let number = {
                        let mut log = log.lock().unwrap();
                        log.push(request.clone());
                        log.len() - 1
                    };
                    let answering = answer(number, &request);
                    async move { Ok::<_, Infallible>(answering.await) }
                });
                tokio::spawn(async move {
                    let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { address, seen }
    }

    /// An upstream where nobody listens.
    pub(crate) fn at(address: SocketAddr) -> Self {
        let seen = Arc::default();
        Self { address, seen }
    }

    pub(crate) fn requests(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// A field of a request.
    pub(crate) fn saw(&self, number: usize, name: &str) -> Option<String> {
        let seen = self.seen.lock().unwrap();
        let value = seen[number].headers().get(name)?;
        Some(value.to_str().unwrap().to_owned())
    }
}

/// A site in front of an upstream.
pub(crate) struct Site {
    pub(crate) content: Arc<Content>,
    pub(crate) caches: Caches,
}

impl Site {
    pub(crate) fn before(upstream: &Upstream) -> Self {
        Self::with(upstream, enabled())
    }

    pub(crate) fn with(upstream: &Upstream, cache: CacheConfig) -> Self {
        Self::of(
            upstream,
            SiteConfig {
                cache,
                ..SiteConfig::default()
            },
        )
    }

    /// A site with these settings.
    pub(crate) fn of(upstream: &Upstream, config: SiteConfig) -> Self {
        let caches = Caches::default();
        let url = format!("http://{}", upstream.address);
        let config = SiteConfig {
            upstream: Some(url.as_str().into()),
            header_size: ByteSize::from_kib(64),
            caches: caches.clone(),
            ..config
        };
        let content = Content::new(std::slice::from_ref(&config)).unwrap();
        Self {
            content: Arc::new(content),
            caches,
        }
    }

    /// The response before its content is read.
    pub(crate) async fn respond(
        &self,
        method: Method,
        path: &str,
        fields: Fields<'_>,
    ) -> Response<Body> {
        respond(&self.content, request(method, path, fields), Version::H2).await
    }

    pub(crate) async fn send(&self, method: Method, path: &str, fields: Fields<'_>) -> Answer {
        Answer::of(self.respond(method, path, fields).await).await
    }

    pub(crate) async fn get(&self, path: &str, fields: Fields<'_>) -> Answer {
        self.send(Method::GET, path, fields).await
    }

    /// The stored response that is sent without waiting.
    pub(crate) fn whole(&self, path: &str, fields: Fields<'_>) -> Option<WholeFile> {
        let request = request(Method::GET, path, fields).map(|_| ());
        self.content.whole_file(&request, &peer(Version::H2))
    }

    pub(crate) fn count(&self, outcome: CacheOutcome) -> u64 {
        let statuses = self.caches.statuses();
        let counts = statuses[0].requests.iter();
        counts
            .filter(|(of, _)| *of == outcome)
            .map(|(_, count)| count)
            .sum()
    }
}

pub(crate) fn request(method: Method, path: &str, fields: Fields<'_>) -> Request<RequestBody> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let request = request.header("host", "site.example");
    request.body(no_body()).unwrap()
}

/// A cache that is on.
pub(crate) fn enabled() -> CacheConfig {
    CacheConfig {
        enabled: true,
        ..CacheConfig::default()
    }
}

/// A response that was received to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
    pub(crate) outcome: Option<CacheOutcome>,
}

impl Answer {
    pub(crate) async fn of(response: Response<Body>) -> Self {
        let (parts, body) = response.into_parts();
        let body = tokio::time::timeout(PATIENCE, body.collect()).await;
        let body = body.expect("content that never ends").unwrap().to_bytes();
        Self {
            status: parts.status.as_u16(),
            outcome: parts.extensions.get::<CacheOutcome>().copied(),
            headers: parts.headers,
            body: String::from_utf8(body.to_vec()).unwrap(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The member of this cache.
    pub(crate) fn cache_status(&self) -> &str {
        let mut members = self.headers.get_all("cache-status").iter();
        members
            .next_back()
            .map_or("", |value| value.to_str().unwrap())
    }
}

pub(crate) fn full(content: impl Into<Bytes>) -> UpstreamBody {
    Full::new(content.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// A response with these fields.
pub(crate) fn response(
    status: u16,
    fields: Fields<'_>,
    content: impl Into<Bytes>,
) -> Response<UpstreamBody> {
    streaming(status, fields, full(content))
}

pub(crate) fn streaming(
    status: u16,
    fields: Fields<'_>,
    body: UpstreamBody,
) -> Response<UpstreamBody> {
    let mut response = Response::builder().status(status);
    for (name, value) in fields {
        response = response.header(*name, *value);
    }
    response.body(body).unwrap()
}

/// Content that a test sends bit by bit. An error breaks it off.
pub(crate) fn piecewise() -> (mpsc::UnboundedSender<Result<Bytes, BoxError>>, UpstreamBody) {
    let (sender, receiver) = mpsc::unbounded_channel::<Result<Bytes, BoxError>>();
    let frames = futures_util::stream::unfold(receiver, |mut receiver| async move {
        let piece = receiver.recv().await?;
        Some((piece.map(Frame::data), receiver))
    });
    (sender, StreamBody::new(frames).boxed_unsync())
}

/// The next bytes of a response.
pub(crate) async fn piece(body: &mut Body) -> Option<Result<Bytes, BoxError>> {
    let frame = tokio::time::timeout(PATIENCE, body.frame()).await;
    let frame = frame.expect("bytes are held back")?;
    Some(frame.map(|frame| frame.into_data().unwrap()))
}

/// Waits until there is something to see.
pub(crate) async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let looking = async {
        while !is_so() {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    let seen = tokio::time::timeout(PATIENCE, looking).await;
    seen.unwrap_or_else(|_| panic!("never: {what}"));
}
