//! A root directory, a file server for it, and its answers.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hikyaku_content::{
    Body, Content, ErrorReason, Files, FilesConfig, Peer, RequestBody, omit_content,
};
use hikyaku_units::arm::Version;
use http::{HeaderMap, Method, Request, Response};
use http_body::Body as _;
use http_body_util::{BodyExt, Empty};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tempfile::TempDir;
use tokio::net::TcpListener;

/// A root directory and the content served from it.
pub(crate) struct Server {
    pub(crate) outer: TempDir,
    pub(crate) content: Arc<Content>,
}

impl Server {
    pub(crate) fn new(config: &FilesConfig, fill: impl FnOnce(&Path)) -> Self {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        fs::create_dir(&root).unwrap();
        fill(&root);
        let files = Files::open(&root, config).unwrap();
        let content = Arc::new(Content::Files(files));
        Self { outer, content }
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.outer.path().join("root").join(name)
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        uri: &str,
        headers: &[(&str, &str)],
    ) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        respond(&self.content, request.body(no_body()).unwrap()).await
    }

    pub(crate) async fn get(&self, uri: &str, headers: &[(&str, &str)]) -> Answer {
        Answer::of(self.send(Method::GET, uri, headers).await).await
    }

    /// Serves on loopback until the test's runtime ends.
    pub(crate) async fn listen(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let content = Arc::clone(&self.content);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let content = Arc::clone(&content);
                let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                    let content = Arc::clone(&content);
                    async move {
                        let request = request.map(|body| body.map_err(Into::into).boxed_unsync());
                        Ok::<_, std::convert::Infallible>(respond(&content, request).await)
                    }
                });
                tokio::spawn(async move {
                    let builder =
                        hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    let _ = builder
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        address
    }
}

/// Responds as the server does: content that must not be sent is left out.
pub(crate) async fn respond(content: &Content, request: Request<RequestBody>) -> Response<Body> {
    let method = request.method().clone();
    let mut response = content.respond(request, &peer()).await;
    omit_content(&method, &mut response);
    response
}

/// A response that was received to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) reason: Option<String>,
}

impl Answer {
    pub(crate) async fn of(response: Response<Body>) -> Self {
        let (parts, body) = response.into_parts();
        let announced = body.size_hint().exact();
        let body = body.collect().await.unwrap().to_bytes();
        assert_eq!(announced, Some(body.len() as u64), "length as announced");
        Self {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
            reason: parts
                .extensions
                .get::<ErrorReason>()
                .map(ToString::to_string),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

pub(crate) fn no_body() -> RequestBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

pub(crate) fn peer() -> Peer {
    Peer {
        remote: SocketAddr::from(([192, 0, 2, 1], 1234)),
        local: SocketAddr::from(([192, 0, 2, 2], 443)),
        version: Version::H2,
        server_name: None,
    }
}

pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Sets the file's modification time to a long time ago.
pub(crate) fn set_modified(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    File::open(path).unwrap().set_modified(time).unwrap();
}
