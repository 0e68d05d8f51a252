//! A root directory, a file server for it, and its answers.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hikyaku_content::{Body, Content, ErrorReason, Files, FilesConfig};
use hikyaku_units::arm::Version;
use http::{HeaderMap, Method, Request, Response};
use http_body::Body as _;
use http_body_util::BodyExt;
use tempfile::TempDir;

use crate::common::{listen, no_body, respond};

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
        let content = Arc::new(Content::from(files));
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
        let request = request.body(no_body()).unwrap();
        respond(&self.content, request, Version::H2).await
    }

    pub(crate) async fn get(&self, uri: &str, headers: &[(&str, &str)]) -> Answer {
        Answer::of(self.send(Method::GET, uri, headers).await).await
    }

    /// Serves on loopback until the test's runtime ends.
    pub(crate) async fn listen(&self) -> SocketAddr {
        listen(&self.content).await
    }
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

pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Sets the file's modification time to a long time ago.
pub(crate) fn set_modified(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    File::open(path).unwrap().set_modified(time).unwrap();
}
