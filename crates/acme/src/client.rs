//! HTTPS towards authorities.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::header::{RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use parking_lot::Mutex;
use rustls::RootCertStore;

/// The time of a request and its response.
const PATIENCE: Duration = Duration::from_secs(30);
/// For a connection's begin.
const CONNECT: Duration = Duration::from_secs(10);
/// Bytes of a response.
const MAX_BODY: usize = 1024 * 1024;
/// For this long, what a response said of the time to wait counts for a failure.
const RECENT: Duration = Duration::from_secs(10);

/// A client of all authorities. Its clones share their connections.
pub(crate) type Https = Client<HttpsConnector<HttpConnector>, BodyWrapper<Bytes>>;

/// A client of one authority.
#[derive(Clone)]
pub(crate) struct Http {
    client: Https,
    /// When the last refusal was, and the time to wait that it named.
    refused: Arc<Mutex<Option<(Instant, Duration)>>>,
}

/// A client that checks certificates against `roots`.
///
/// # Errors
/// When TLS can't be set up.
pub(crate) fn https(roots: RootCertStore) -> Result<Https, rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(CONNECT));
    let https = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_only()
        .enable_http1()
        .wrap_connector(tcp);
    Ok(Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(PATIENCE)
        .build(https))
}

impl Http {
    pub(crate) fn of(client: &Https) -> Self {
        Self {
            client: client.clone(),
            refused: Arc::default(),
        }
    }

    /// How long the authority wants to be left alone, if it has just said so.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let refused = *self.refused.lock();
        let (at, wait) = refused?;
        (at.elapsed() < RECENT).then_some(wait)
    }

    async fn send(self, mut request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Error> {
        let agent = concat!("hikyaku/", env!("CARGO_PKG_VERSION"), " instant-acme");
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        let url = request.uri().to_string();
        let failed = |why: String| Error::Other(format!("asking {url}: {why}").into());
        let exchange = async {
            let response = self.client.request(request).await;
            let response = response.map_err(|error| crate::failure::chain(&error))?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, MAX_BODY).collect().await;
            let body = body.map_err(|error| error.to_string())?.to_bytes();
            Ok::<_, String>((parts, body))
        };
        let answered = tokio::time::timeout(PATIENCE, exchange).await;
        let answered = answered.map_err(|_| failed(format!("no answer within {PATIENCE:?}")))?;
        let (parts, body) = answered.map_err(&failed)?;
        if parts.status.is_client_error() || parts.status.is_server_error() {
            let wait = retry_after(&parts.headers, SystemTime::now());
            *self.refused.lock() = wait.map(|wait| (Instant::now(), wait));
            // Some are of a balancer before the authority, and no problem document.
            if serde_json::from_slice::<serde::de::IgnoredAny>(&body).is_err() {
                return Err(failed(format!("{}{}", parts.status, first_words(&body))));
            }
        }
        Ok(Response::from_parts(parts, Full::new(body)).into())
    }
}

impl HttpClient for Http {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        Box::pin(self.clone().send(request))
    }
}

/// The field's time (RFC 9110 §10.2.3), if it can be read.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

fn first_words(body: &[u8]) -> String {
    const LENGTH: usize = 120;
    let text = String::from_utf8_lossy(body);
    let line = text.lines().find(|line| !line.trim().is_empty());
    let words: Option<String> = line.map(|line| line.trim().chars().take(LENGTH).collect());
    words.map_or_else(String::new, |words| format!(": {words}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_to_wait_is_read() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let cases = [
            ("120", Some(120)),
            ("0", Some(0)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
        ];
        for (value, want) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_static(value));
            let got = retry_after(&headers, now);
            assert_eq!(got, want.map(Duration::from_secs), "{value}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }

    #[test]
    fn pages_in_place_of_problems_are_shown_in_short() {
        assert_eq!(first_words(b"\n  <html>no\nmore"), ": <html>no");
        assert_eq!(first_words(b""), "");
        assert_eq!(first_words(&[b'x'; 500]).len(), 122);
    }
}
