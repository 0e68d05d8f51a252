//! Asking a responder over HTTP (RFC 6960, appendix A.1).

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use url::{Position, Url};

/// For connection, request and response.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of the longest response. With the certificate of a responder it has some 2 KiB.
const MAX_RESPONSE: usize = 64 * 1024;

/// Why a responder has given no response.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error("its URL is none of http")]
    Url,
    #[error("connecting: {0}")]
    Connect(io::Error),
    #[error("no response within {}s", TIMEOUT.as_secs())]
    Late,
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error("it answers with {0}")]
    Status(StatusCode),
    #[error("reading the response: {0}")]
    Body(Box<dyn std::error::Error + Send + Sync>),
}

/// Posts a request to the responder at a URL of http, and returns its response.
pub(super) async fn fetch(url: &str, request: Vec<u8>) -> Result<Bytes, FetchError> {
    let asked = tokio::time::timeout(TIMEOUT, ask(url, request)).await;
    asked.unwrap_or(Err(FetchError::Late))
}

async fn ask(url: &str, request: Vec<u8>) -> Result<Bytes, FetchError> {
    let url = Url::parse(url).map_err(|_| FetchError::Url)?;
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return Err(FetchError::Url);
    };
    // Brackets are those of the URL.
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((name, port)).await;
    let (mut sender, connection) =
        handshake(TokioIo::new(stream.map_err(FetchError::Connect)?)).await?;
    // Ends with the sender. The request's own error reports a failure.
    tokio::spawn(connection);
    let authority = &url[Position::BeforeHost..Position::AfterPort];
    let mut post = Request::new(Full::new(Bytes::from(request)));
    *post.method_mut() = Method::POST;
    let target = &url[Position::BeforePath..Position::AfterQuery];
    *post.uri_mut() = target.parse().map_err(|_| FetchError::Url)?;
    let headers = post.headers_mut();
    let authority = HeaderValue::from_str(authority).map_err(|_| FetchError::Url)?;
    headers.insert(header::HOST, authority);
    let media_type = HeaderValue::from_static("application/ocsp-request");
    headers.insert(header::CONTENT_TYPE, media_type);
    let response = sender.send_request(post).await?;
    if response.status() != StatusCode::OK {
        return Err(FetchError::Status(response.status()));
    }
    let body = Limited::new(response.into_body(), MAX_RESPONSE);
    let body = body.collect().await.map_err(FetchError::Body)?;
    Ok(body.to_bytes())
}
