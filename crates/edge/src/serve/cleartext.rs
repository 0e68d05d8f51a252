//! HTTP in the clear: which clients are sent to `https`, and the challenges of certificate authorities.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hikyaku_acme::Answers;
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, header};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::task::TaskTracker;

use super::{Service, Site};
use crate::config::{Config, InClear};
use crate::ledger::host;
use crate::limits::Entered;
use crate::metrics::add;
use hikyaku_content::{
    Body, BoxError, Content, Files, FilesConfig, FilesError, Hosts, Peer, RequestBody, Scheme,
    omit_content,
};
use hikyaku_core::policy::VersionPolicy;
use hikyaku_units::arm::Version;

/// The path below which certificate authorities look for their tokens (RFC 8555 §8.3).
const CHALLENGES: &str = "/.well-known/acme-challenge/";

/// Time for a request and its response, from the connection's begin on.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes of a request's content that are discarded after its response.
const MAX_REST: u64 = 64 << 20;

/// Bytes of a request's head.
const MAX_HEAD: usize = 16 * 1024;

/// The answers to clients that speak HTTP in the clear, but for the content of sites.
#[derive(Debug, Default)]
pub(crate) struct Cleartext {
    /// For hosts that no site names, and sites that do not say.
    usual: InClear,
    /// Of sites that say so.
    sites: Hosts<InClear>,
    serves_content: bool,
    has_http2: bool,
    /// `None` for the port of the server.
    https_port: Option<u16>,
    challenges: Option<Content>,
    /// `Server` of the responses; `None` for none.
    server: Option<HeaderValue>,
    /// For authorities that check names for certificates of our own; `None` where there are none.
    answers: Option<Arc<Answers>>,
}

impl Cleartext {
    /// # Errors
    /// If the directory of challenges can't be served.
    pub(crate) fn new(config: &Config, answers: Option<Arc<Answers>>) -> Result<Self, FilesError> {
        let challenges = config.http.challenges.as_ref();
        let challenges = challenges.map(|root| Files::open(root, &FilesConfig::default()));
        let mut sites = Hosts::default();
        for site in &config.sites {
            let own = site.http.unwrap_or(config.http.serve);
            for name in &site.names {
                // Names that are none, or are there twice, are the content's to refuse.
                let _ = sites.add(name, own);
            }
        }
        Ok(Self {
            usual: config.http.serve,
            sites,
            serves_content: config.serves_in_clear(),
            has_http2: config.policy.version != VersionPolicy::H1,
            https_port: config.http.https_port,
            challenges: challenges.transpose()?.map(Content::from),
            server: config.response_headers.server(),
            answers,
        })
    }

    /// Whether the content of any site is served in the clear.
    pub(super) const fn serves_content(&self) -> bool {
        self.serves_content
    }

    /// Whether clients may begin with HTTP/2.
    pub(super) const fn has_http2(&self) -> bool {
        self.has_http2
    }

    /// Whether a request is answered by [`Cleartext::respond`], and not by the content of its site.
    pub(super) fn takes<B>(&self, request: &Request<B>, scheme: Scheme) -> bool {
        let is_sent_on = || {
            let own = self.sites.get(host(request)).unwrap_or(&self.usual);
            scheme == Scheme::Http && *own == InClear::Redirect
        };
        self.has_challenge(request.uri().path()) || is_sent_on()
    }

    fn has_challenge(&self, path: &str) -> bool {
        path.strip_prefix(CHALLENGES)
            .is_some_and(|token| self.challenges.is_some() || self.answer(token).is_some())
    }

    fn answer(&self, token: &str) -> Option<String> {
        self.answers.as_ref()?.http(token)
    }

    /// Responds to an authority that checks a name, and sends all others to the port of `https`, or to
    /// the one that is `served`.
    pub(super) async fn respond(
        &self,
        request: Request<RequestBody>,
        peer: &Peer,
        served: u16,
    ) -> Response<Body> {
        let token = request.uri().path().strip_prefix(CHALLENGES);
        let answer = token.and_then(|token| self.answer(token));
        match (answer, &self.challenges) {
            (Some(answer), _) => proof(answer),
            (None, Some(content)) if token.is_some() => content.respond(request, peer).await,
            _ => redirect(
                request.uri(),
                request.headers(),
                self.https_port.unwrap_or(served),
            ),
        }
    }
}

/// Answers a request on a connection of its own.
async fn respond_once(
    service: &Service,
    request: Request<Incoming>,
    peer: &Peer,
    served: u16,
) -> Response<Body> {
    let method = request.method().clone();
    let request = request.map(|body| body.map_err(Into::into).boxed_unsync());
    let mut response = service.cleartext.respond(request, peer, served).await;
    omit_content(&method, &mut response);
    if let Some(server) = &service.cleartext.server {
        let headers = response.headers_mut();
        headers.insert(header::SERVER, server.clone());
    }
    response
}

/// The answer to an authority that checks a name.
fn proof(answer: String) -> Response<Body> {
    let mut response = Response::new(Body::from(answer));
    let octets = HeaderValue::from_static("application/octet-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, octets);
    response
}

fn redirect(uri: &Uri, headers: &HeaderMap, port: u16) -> Response<Body> {
    let location = location(uri, headers, port);
    let (status, location) = match location.map(HeaderValue::try_from) {
        Some(Ok(location)) => (StatusCode::PERMANENT_REDIRECT, Some(location)),
        _ => (StatusCode::BAD_REQUEST, None),
    };
    let mut response = Response::new(Body::from(format!("{status}\n")));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    if let Some(location) = location {
        headers.insert(header::LOCATION, location);
    }
    response
}

/// The same address with `https`; `None` without one host (RFC 9112 §3.2).
fn location(uri: &Uri, headers: &HeaderMap, port: u16) -> Option<String> {
    let mut fields = headers.get_all(header::HOST).iter();
    let authority = match (uri.authority(), fields.next(), fields.next()) {
        (_, _, Some(_)) | (None, None, None) => return None,
        (Some(authority), _, None) => authority.clone(),
        (None, Some(host), None) => Authority::try_from(host.as_bytes()).ok()?,
    };
    let host = authority.host();
    let has_user = authority.as_str().contains('@');
    if host.is_empty() || has_user {
        return None;
    }
    let target = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    Some(match port {
        443 => format!("https://{host}{target}"),
        port => format!("https://{host}:{port}{target}"),
    })
}

/// Answers the first request of a connection, where nothing but that is served in the clear.
pub(super) fn accept(site: Arc<Site>, stream: TcpStream, remote: SocketAddr, tasks: &TaskTracker) {
    let Some(entered) = site.enter(remote.ip()) else {
        return;
    };
    add(&site.shared.metrics.cleartext_connections, 1);
    tasks.spawn(async move {
        let connection = connection(&site, stream, remote, entered);
        let connection = tokio::time::timeout(PATIENCE, connection);
        if let Some(Ok(Err(error))) = site.end.run_until_cancelled(connection).await {
            tracing::debug!(client = %remote, "HTTP in the clear: {error}");
        }
    });
}

/// Serves one request, since the client goes on elsewhere.
async fn connection(
    site: &Site,
    mut stream: TcpStream,
    remote: SocketAddr,
    entered: Entered,
) -> Result<(), BoxError> {
    let local = stream.local_addr()?;
    let is_balancer = site.shared.terms().behind.has_balancer(remote.ip());
    let (remote, local) = match is_balancer {
        true => {
            let ends = site.named(&mut stream, remote, local).await?;
            (ends.remote, ends.local)
        }
        false => (remote, local),
    };
    let Some(_admission) = site.admit_entered(entered, remote.ip()) else {
        return Ok(());
    };
    let peer = Peer {
        remote,
        local,
        version: Version::H1,
        tls: None,
        server_name: None,
        scheme: Scheme::Http,
        via: None,
    };
    let has_content = AtomicBool::new(false);
    let service = service_fn(|request: Request<Incoming>| {
        let (service, peer) = (site.service_full(), peer.clone());
        has_content.store(!request.body().is_end_stream(), Ordering::Relaxed);
        async move {
            let responding = respond_once(&service, request, &peer, site.served);
            Ok::<_, Infallible>(responding.await)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .keep_alive(false)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .without_shutdown()
        .await?;
    let mut stream = served.io.into_inner();
    stream.shutdown().await?;
    if has_content.load(Ordering::Relaxed) {
        discard(stream).await?;
    }
    Ok(())
}

/// Discards the rest of a request. A client may read the response only after it has sent all. A socket that
/// is closed with unread bytes would reset the connection before that (RFC 9112 §9.6).
async fn discard(stream: TcpStream) -> io::Result<()> {
    let mut rest = stream.take(MAX_REST);
    let mut buffer = vec![0; 16 * 1024];
    while rest.read(&mut buffer).await? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location_of(port: u16, uri: &str, hosts: &[&str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(header::HOST, HeaderValue::from_str(host).unwrap());
        }
        location(&uri.parse().unwrap(), &headers, port)
    }

    #[test]
    fn clients_are_sent_to_the_same_address_with_https() {
        let cases = [
            (443, "/", "example.org", "https://example.org/"),
            (443, "/a?b=c", "example.org:80", "https://example.org/a?b=c"),
            (8443, "/a", "example.org:8080", "https://example.org:8443/a"),
            (443, "/", "[2001:db8::1]:80", "https://[2001:db8::1]/"),
            (
                443,
                "http://a.example/x",
                "b.example",
                "https://a.example/x",
            ),
            (
                443,
                "//evil.example/",
                "a.example",
                "https://a.example//evil.example/",
            ),
        ];
        for (port, uri, host, want) in cases {
            let got = location_of(port, uri, &[host]);
            assert_eq!(got.as_deref(), Some(want), "{uri} {host}");
        }
    }

    /// RFC 9112 §3.2: a server answers 400 to a request that lacks a Host, has several, or an invalid one.
    #[test]
    fn without_one_host_there_is_no_address() {
        for hosts in [&[][..], &["a", "b"], &[""], &["a b"], &["u@a"], &["a/b"]] {
            assert_eq!(location_of(443, "/", hosts), None, "{hosts:?}");
        }
    }
}
