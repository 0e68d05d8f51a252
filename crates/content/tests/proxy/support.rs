//! An upstream that records its requests, and a proxy in front of it.

use std::convert::Infallible;
use std::io::Write as _;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use hikyaku_content::{
    Body, BoxError, Content, ErrorReason, Proxy, ProxyConfig, ProxyError, RequestBody,
    UpstreamStatus, Upstreams, UpstreamsConfig,
};
use hikyaku_units::ByteSize;
use hikyaku_units::arm::Version;
use http::uri::Authority;
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

pub(crate) use crate::common::no_body;
use crate::common::{listen, respond};

pub(crate) type ServerBody = UnsyncBoxBody<Bytes, BoxError>;
type Answering = Pin<Box<dyn Future<Output = Response<ServerBody>> + Send>>;
pub(crate) type Handler = dyn Fn(Request<Incoming>) -> Answering + Send + Sync;

/// A request as the upstream saw it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) version: http::Version,
    pub(crate) headers: HeaderMap,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The requested host, from the field or target of the request's version.
    pub(crate) fn host(&self) -> &str {
        let authority = self.uri.authority().map(Authority::as_str);
        authority.or_else(|| self.header("host")).unwrap()
    }
}

/// The protocols of an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Http1,
    Http2,
    TlsHttp1,
    TlsHttp2,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Http1, Self::Http2, Self::TlsHttp1, Self::TlsHttp2];

    pub(crate) fn version(self) -> http::Version {
        match self {
            Self::Http1 | Self::TlsHttp1 => http::Version::HTTP_11,
            Self::Http2 | Self::TlsHttp2 => http::Version::HTTP_2,
        }
    }

    fn alpn(self) -> Option<&'static [u8]> {
        match self {
            Self::Http1 | Self::Http2 => None,
            Self::TlsHttp1 => Some(b"http/1.1"),
            Self::TlsHttp2 => Some(b"h2"),
        }
    }
}

/// An HTTP server on loopback, until the test's runtime ends.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    pub(crate) kind: Kind,
    pub(crate) ca: tempfile::NamedTempFile,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<AtomicUsize>,
}

impl Upstream {
    pub(crate) async fn start<F, A>(kind: Kind, handler: F) -> Self
    where
        F: Fn(Request<Incoming>) -> A + Send + Sync + 'static,
        A: Future<Output = Response<ServerBody>> + Send + 'static,
    {
        let handler: Arc<Handler> = Arc::new(move |request| Box::pin(handler(request)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tls, ca) = certificate(kind);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(AtomicUsize::new(0));
        let (seen_by_all, counter) = (Arc::clone(&seen), Arc::clone(&connections));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counter.fetch_add(1, Relaxed);
                let (handler, seen) = (Arc::clone(&handler), Arc::clone(&seen_by_all));
                let tls = tls.clone().filter(|_| kind.alpn().is_some());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, handler, seen).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, handler, seen).await;
                            }
                        }
                    }
                });
            }
        });
        Self {
            address,
            kind,
            ca,
            seen,
            connections,
        }
    }

    pub(crate) fn url(&self) -> String {
        let port = self.address.port();
        match self.kind {
            Kind::Http1 => format!("http://127.0.0.1:{port}"),
            Kind::Http2 => format!("h2c://127.0.0.1:{port}"),
            Kind::TlsHttp1 | Kind::TlsHttp2 => format!("https://localhost:{port}"),
        }
    }

    /// Makes a proxy that passes requests to this upstream and trusts its certificate.
    pub(crate) fn edge(&self, config: &ProxyConfig) -> Edge {
        let ca = Some(self.ca.path().to_owned());
        Edge::new(
            &self.url(),
            &ProxyConfig {
                ca,
                ..config.clone()
            },
        )
    }

    pub(crate) fn last_seen(&self) -> Seen {
        self.seen.lock().unwrap().last().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Relaxed)
    }
}

pub(crate) async fn serve<S>(stream: S, handler: Arc<Handler>, seen: Arc<Mutex<Vec<Seen>>>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        seen.lock().unwrap().push(Seen {
            method: request.method().clone(),
            uri: request.uri().clone(),
            version: request.version(),
            headers: request.headers().clone(),
        });
        let answering = handler(request);
        async move { Ok::<_, Infallible>(answering.await) }
    });
    let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    let _ = builder
        .serve_connection_with_upgrades(TokioIo::new(stream), service)
        .await;
}

fn certificate(kind: Kind) -> (Option<TlsAcceptor>, tempfile::NamedTempFile) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let mut ca = tempfile::NamedTempFile::new().unwrap();
    ca.write_all(made.cert.pem().as_bytes()).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], PrivateKeyDer::from(key))
        .unwrap();
    config.alpn_protocols = kind.alpn().into_iter().map(<[u8]>::to_vec).collect();
    (Some(TlsAcceptor::from(Arc::new(config))), ca)
}

/// A server of raw bytes: each connection is given to `serve`, with its number.
pub(crate) async fn raw_upstream<F, A>(serve: F) -> SocketAddr
where
    F: Fn(TcpStream, usize) -> A + Send + 'static,
    A: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut number = 0;
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, number));
            number += 1;
        }
    });
    address
}

/// The proxy under test.
pub(crate) struct Edge {
    content: Arc<Content>,
    pub(crate) upstreams: Upstreams,
}

impl Edge {
    pub(crate) fn new(url: &str, config: &ProxyConfig) -> Self {
        Self::of_group(&[url], config)
    }

    pub(crate) fn of_group(urls: &[impl ToString], config: &ProxyConfig) -> Self {
        let upstreams = Upstreams::default();
        let proxy = proxy(urls, config, &upstreams).unwrap();
        Self {
            content: Arc::new(Content::from(proxy)),
            upstreams,
        }
    }

    /// The state of an upstream.
    pub(crate) fn status(&self, url: &str) -> UpstreamStatus {
        let mut all = self.upstreams.statuses().into_iter();
        all.find(|status| status.url == url).unwrap()
    }

    pub(crate) async fn send(&self, request: Request<RequestBody>) -> Response<Body> {
        respond(&self.content, request, Version::H2).await
    }

    pub(crate) async fn get(&self, path: &str) -> Response<Body> {
        self.send(get(path)).await
    }

    /// Serves HTTP/1.1 and 2 on loopback until the test's runtime ends.
    pub(crate) async fn listen(&self) -> SocketAddr {
        listen(&self.content).await
    }
}

pub(crate) fn proxy(
    urls: &[impl ToString],
    config: &ProxyConfig,
    known: &Upstreams,
) -> Result<Proxy, ProxyError> {
    let urls: Vec<_> = urls.iter().map(ToString::to_string).collect();
    let urls = UpstreamsConfig::from(urls);
    Proxy::new(&urls, config, ByteSize::from_kib(64), known)
}

/// Waits until there is something to see.
pub(crate) async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(seen) = look() {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let seen = tokio::time::timeout(Duration::from_secs(60), looking).await;
    seen.unwrap_or_else(|_| panic!("never: {what}"))
}

pub(crate) fn get(path: &str) -> Request<RequestBody> {
    Request::builder()
        .uri(format!("https://site.example{path}"))
        .body(no_body())
        .unwrap()
}

pub(crate) fn post(path: &str, body: RequestBody) -> Request<RequestBody> {
    let request = Request::builder().method(Method::POST);
    let uri = format!("https://site.example{path}");
    request.uri(uri).body(body).unwrap()
}

pub(crate) fn full(bytes: impl Into<Bytes>) -> ServerBody {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// `count` chunks of `len` bytes, each made on request and counted.
pub(crate) fn counted(count: usize, len: usize, made: Arc<AtomicUsize>) -> ServerBody {
    let chunk = Bytes::from(vec![b'x'; len]);
    let frames = (0..count).map(move |_| {
        made.fetch_add(len, Relaxed);
        Ok::<_, BoxError>(Frame::data(chunk.clone()))
    });
    StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync()
}

/// Reads the bytes of a body that must end well.
pub(crate) async fn read(response: Response<Body>) -> Bytes {
    response.into_body().collect().await.unwrap().to_bytes()
}

pub(crate) fn reason(response: &Response<Body>) -> String {
    response
        .extensions()
        .get::<ErrorReason>()
        .unwrap()
        .to_string()
}

/// Time limits short enough for a test to wait for.
pub(crate) fn impatient() -> ProxyConfig {
    let soon = Duration::from_millis(300);
    ProxyConfig {
        connect_timeout: soon,
        response_timeout: soon,
        idle_timeout: soon,
        ..ProxyConfig::default()
    }
}

/// Answers with the request's body.
pub(crate) async fn echo(request: Request<Incoming>) -> Response<ServerBody> {
    let body = request.into_body().map_err(Into::into).boxed_unsync();
    Response::new(body)
}

/// Lets the tasks run that keep connections whose response has been read.
pub(crate) async fn connections_become_idle() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}
