//! An intermediary before Pebble, with rate limits and renewal information, which Pebble has not.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::Pebble;
use crate::client;

/// An intermediary in front of a [`Pebble`]. It ends with the process.
pub struct Between {
    /// URL of the directory, by way of this.
    pub directory: String,
    rules: Arc<Mutex<Rules>>,
}

/// Rules for requests.
#[derive(Debug, Default)]
pub struct Rules {
    /// Orders that are refused for a rate limit, from now on.
    pub limited: u32,
    /// The time that the refusals ask for, in seconds.
    pub retry_after: Option<u64>,
    /// The window of renewal information (RFC 9773 §4.2), in RFC 3339; `None` for an authority without it.
    pub window: Option<[&'static str; 2]>,
    /// The `replaces` of each order.
    pub replaced: Vec<Value>,
}

impl Between {
    pub fn start(pebble: &Pebble, port: u16) -> Self {
        let rules = Arc::<Mutex<Rules>>::default();
        let address = (pebble.address, port);
        let tls = tls(pebble);
        let (shared, target) = (Arc::clone(&rules), (pebble.address, 14000).into());
        let (send, bound) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            client::block_on(async {
                let listener = TcpListener::bind(address).await.unwrap();
                send.send(()).unwrap();
                loop {
                    let (tcp, _) = listener.accept().await.unwrap();
                    let (tls, rules) = (tls.clone(), Arc::clone(&shared));
                    tokio::spawn(async move {
                        let Ok(stream) = tls.accept(tcp).await else {
                            return;
                        };
                        let service = service_fn(|request| answer(request, target, &rules));
                        let http = hyper::server::conn::http1::Builder::new();
                        let _ = http.serve_connection(TokioIo::new(stream), service).await;
                    });
                }
            });
        });
        bound.recv().unwrap();
        Self {
            directory: format!("https://{}:{port}/dir", address.0),
            rules,
        }
    }

    /// Looks at the rules, and changes them.
    pub fn rules<T>(&self, change: impl FnOnce(&mut Rules) -> T) -> T {
        change(&mut self.rules.lock().unwrap())
    }
}

fn tls(pebble: &Pebble) -> TlsAcceptor {
    let cert = CertificateDer::from_pem_file(pebble.ca_file()).unwrap();
    let key = PrivateKeyDer::from_pem_file(pebble.dir().join("pebble.key")).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

async fn answer(
    request: Request<Incoming>,
    pebble: std::net::SocketAddr,
    rules: &Mutex<Rules>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let host = request.headers()[header::HOST].to_str().unwrap().to_owned();
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let mut replaces = None;
    if path == "/order-plz" {
        replaces = payload(&body).get("replaces").cloned();
        let mut rules = rules.lock().unwrap();
        if rules.limited > 0 {
            rules.limited -= 1;
            return Ok(refuse(rules.retry_after));
        }
        rules.replaced.extend(replaces.clone());
    }
    let window = rules.lock().unwrap().window;
    if let (true, Some([start, end])) = (path.starts_with("/renewal/"), window) {
        let info = json!({ "suggestedWindow": { "start": start, "end": end } });
        let mut response = Response::new(info.to_string().into());
        let hour = HeaderValue::from_static("3600");
        response.headers_mut().insert(header::RETRY_AFTER, hour);
        return Ok(response);
    }
    let response = forward(Request::from_parts(head, Full::new(body)), pebble).await;
    let added = match (path.as_str(), window, replaces) {
        ("/dir", Some(_), _) => ("renewalInfo", json!(format!("https://{host}/renewal"))),
        ("/order-plz", _, Some(replaced)) => ("replaces", replaced),
        _ => return Ok(response),
    };
    Ok(with(response, added).await)
}

fn payload(body: &[u8]) -> Value {
    let signed: Value = serde_json::from_slice(body).unwrap();
    let payload = URL_SAFE_NO_PAD.decode(signed["payload"].as_str().unwrap());
    serde_json::from_slice(&payload.unwrap()).unwrap()
}

fn refuse(retry_after: Option<u64>) -> Response<Full<Bytes>> {
    let problem = json!({
        "type": "urn:ietf:params:acme:error:rateLimited",
        "detail": "too many orders",
    });
    let mut response = Response::new(problem.to_string().into());
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    if let Some(seconds) = retry_after {
        let headers = response.headers_mut();
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

async fn forward(
    request: Request<Full<Bytes>>,
    pebble: std::net::SocketAddr,
) -> Response<Full<Bytes>> {
    let tls = client::tls(pebble, &["http/1.1"]).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls))
        .await
        .unwrap();
    tokio::spawn(connection);
    let (head, body) = sender.send_request(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Response::from_parts(head, Full::new(body))
}

/// The response with another member of its JSON.
async fn with(
    response: Response<Full<Bytes>>,
    (name, value): (&str, Value),
) -> Response<Full<Bytes>> {
    let (mut head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let Ok(Value::Object(mut object)) = serde_json::from_slice(&body) else {
        return Response::from_parts(head, Full::new(body));
    };
    object.insert(name.to_owned(), value);
    head.headers.remove(header::CONTENT_LENGTH);
    let body = Value::Object(object).to_string();
    Response::from_parts(head, Full::new(body.into()))
}
