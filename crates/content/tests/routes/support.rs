//! A site with directories and an upstream, and its answers.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use hikyaku_content::{
    AccessConfig, Content, FilesConfig, HeadersConfig, NoServer, Peer, RequestId, RouteConfig,
    SiteConfig, User, WholeFile,
};
use hikyaku_units::ByteSize;
use hikyaku_units::arm::Version;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::common::{no_body, peer, respond_to};

/// Sites with their directories, `www` and `docs`.
pub(crate) struct Site {
    content: Content,
    _root: TempDir,
}

/// The configuration of a test's sites.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Keys {
    root: Option<String>,
    request_headers: HeadersConfig,
    response_headers: HeadersConfig,
    error_pages: BTreeMap<String, PathBuf>,
    files: FilesConfig,
    access_log: Option<bool>,
    access: AccessConfig,
    #[serde(rename = "route")]
    routes: Vec<RouteConfig>,
    #[serde(rename = "site")]
    sites: Vec<Named>,
}

/// A site with names.
#[derive(Deserialize)]
struct Named {
    names: Vec<String>,
    root: String,
}

impl Site {
    /// A site by its configuration, in which ROOT and UPSTREAM stand for the real ones.
    pub(crate) async fn new(config: &str) -> Self {
        let root = directories();
        let upstream = upstream().await;
        let config = config.replace("UPSTREAM", &upstream);
        let content = Content::new(&sites(&config, root.path())).unwrap();
        Self {
            content,
            _root: root,
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path).await
    }

    pub(crate) async fn send(&self, method: Method, path: &str) -> Answer {
        let request = Request::builder().method(method).uri(path);
        self.exchange(request.header("host", HOST).header("cookie", "a=1"))
            .await
    }

    /// Makes a request as it is.
    pub(crate) async fn exchange(&self, request: http::request::Builder) -> Answer {
        self.exchange_from(peer(Version::H1), request).await
    }

    /// Makes a request as a client of another address does.
    pub(crate) async fn get_from(&self, address: &str, path: &str) -> Answer {
        let peer = Peer {
            remote: (address.parse::<IpAddr>().unwrap(), 1234).into(),
            ..peer(Version::H1)
        };
        let request = Request::get(path).header("host", HOST);
        self.exchange_from(peer, request).await
    }

    async fn exchange_from(&self, peer: Peer, request: http::request::Builder) -> Answer {
        let request = request.body(no_body()).unwrap();
        let response = respond_to(&self.content, request, &peer).await;
        let extensions = response.extensions();
        let user = extensions.get::<User>().cloned();
        let id = extensions.get::<RequestId>().map(ToString::to_string);
        let has_no_server = extensions.get::<NoServer>().is_some();
        let (parts, body) = response.into_parts();
        Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            user: user.map(|user| user.0.to_string()),
            id,
            has_no_server,
            body: body.collect().await.unwrap().to_bytes(),
        }
    }

    /// The file that answers a request from memory.
    pub(crate) fn whole_file(&self, path: &str) -> Option<WholeFile> {
        let request = Request::get(path).header("host", HOST).body(()).unwrap();
        self.content.whole_file(&request, &peer(Version::H2))
    }

    /// Whether the access log has a request.
    pub(crate) fn is_logged(&self, path: &str) -> bool {
        let request = Request::get(path).header("host", HOST).body(()).unwrap();
        self.content.is_logged(&request, &peer(Version::H2))
    }

    /// The head of a file that is in memory, as an engine would encode it.
    pub(crate) fn whole(&self, path: &str) -> Option<String> {
        let file = self.whole_file(path)?;
        let head = file.prepared_h1(|headers| lines(headers).into());
        Some(String::from_utf8(head.to_vec()).unwrap())
    }
}

fn lines(headers: &HeaderMap) -> String {
    let fields = headers.iter();
    fields
        .map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap()))
        .collect()
}

/// An answer that was received to its end.
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: HeaderMap,
    pub(crate) user: Option<String>,
    /// The number of the request, for the log.
    pub(crate) id: Option<String>,
    pub(crate) has_no_server: bool,
    body: Bytes,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// The error of a configuration that is refused, with its causes.
pub(crate) fn error_of(config: &str) -> String {
    let root = directories();
    let error = Content::new(&sites(config, root.path())).unwrap_err();
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
    format!("{error}{}", cause.unwrap_or_default())
}

/// The site that most requests are for.
const HOST: &str = "site.example:8443";

fn sites(config: &str, root: &Path) -> Vec<SiteConfig> {
    let config = config.replace("ROOT", root.to_str().unwrap());
    let keys: Keys = toml::from_str(&config).unwrap();
    let named = keys.sites.into_iter().map(|site| SiteConfig {
        names: site.names,
        root: Some(site.root.into()),
        ..SiteConfig::default()
    });
    let mut sites: Vec<_> = named.collect();
    if keys.root.is_some() || !keys.routes.is_empty() {
        sites.push(SiteConfig {
            root: keys.root.map(Into::into),
            request_headers: keys.request_headers,
            response_headers: keys.response_headers,
            error_pages: keys.error_pages,
            files: keys.files,
            access_log: keys.access_log,
            access: keys.access,
            routes: keys.routes,
            header_size: ByteSize::from_kib(64),
            ..SiteConfig::default()
        });
    }
    sites
}

fn directories() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in [
        ("www/index.html", "www index"),
        ("www/a.txt", "www a"),
        ("www/sub/index.html", "www sub"),
        ("www/sub.html", "www sub page"),
        ("www/about.html", "www about"),
        ("www/app/index.html", "app index"),
        ("www/app/app.js", "app js"),
        ("docs/index.html", "docs index"),
        ("docs/a.txt", "docs a"),
        ("docs/deep/index.html", "docs deep"),
        ("pages/404.html", "no such page"),
        ("pages/5xx.txt", "broken"),
        // The password is `secret`.
        (
            "users",
            "ada:$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n",
        ),
    ] {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    root
}

/// Starts an upstream that reports what it sees, and returns its URL.
async fn upstream() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service =
                service_fn(|request| async move { Ok::<_, Infallible>(report(&request)) });
            let serving = hyper::server::conn::http1::Builder::new();
            tokio::spawn(serving.serve_connection(TokioIo::new(stream), service));
        }
    });
    url
}

fn report(request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let target = request.uri().path_and_query().unwrap().as_str();
    if let Some(status) = target.strip_prefix("/status/") {
        let response = Response::builder().status(status).header("etag", "\"a\"");
        return response.body(Full::from("of the upstream")).unwrap();
    }
    let mut response = Response::builder()
        .header("x-target", target)
        .header("x-method", request.method().as_str())
        .header("server", "upstream")
        .header("x-powered-by", "test");
    for (name, seen) in [
        ("x-asked", "x-saw-asked"),
        ("cookie", "x-saw-cookie"),
        ("remote-user", "x-saw-user"),
        ("remote-seen", "x-saw-seen"),
        ("x-request-id", "x-saw-id"),
    ] {
        if let Some(value) = request.headers().get(name) {
            response = response.header(seen, value);
        }
    }
    response.body(Full::default()).unwrap()
}
