//! The upstreams of the originals.

use std::convert::Infallible;
use std::fmt::Write;

use bytes::Bytes;
use hikyaku_testkit::client::block_on;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// Fields of requests that the answer has.
const TOLD: [&str; 10] = [
    "authorization",
    "content-type",
    "cookie",
    "host",
    "remote-user",
    "x-forwarded-host",
    "x-asked",
    "x-forwarded-proto",
    "x-tenant",
    "x-user",
];

/// Starts an upstream on its own thread; it ends with the process.
///
/// The answer has the request, with the fields `also`. `/status/404` has that status, `/moved` is a
/// redirect, and `/verify` says who may pass, by the cookie `session`.
pub(crate) fn start(also: &'static [&'static str]) -> String {
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        block_on(async {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            send.send(listener.local_addr().unwrap().to_string())
                .unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let connection = hyper::server::conn::http1::Builder::new().serve_connection(
                        TokioIo::new(stream),
                        service_fn(move |request| answer(request, also)),
                    );
                    // Health checks break off.
                    let _ = connection.with_upgrades().await;
                });
            }
        });
    });
    receive.recv().unwrap()
}

async fn answer(
    request: Request<Incoming>,
    also: &[&str],
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    let response = Response::builder()
        .header("x-powered-by", "upstream")
        .header("content-type", "text/plain");
    let response = match path.rsplit_once("/status/") {
        Some((_, status)) => response.status(status),
        None if path.ends_with("/moved") => response.status(302).header("location", "/users/1"),
        None if path == "/verify" => match cookie(&head.headers) {
            "session=ada" => response.header("remote-user", "ada"),
            "session=blocked" => response.status(403),
            _ => response.status(401).header("www-authenticate", "Session"),
        },
        None if head.headers.contains_key("upgrade") => {
            return Ok(response
                .status(101)
                .header("connection", "upgrade")
                .header("upgrade", "websocket")
                .body(Full::default())
                .unwrap());
        }
        None => response,
    };
    // The request breaks off where the server has refused its body.
    let size = body.collect().await.map_or(0, |body| body.to_bytes().len());
    if path == "/verify" {
        return Ok(response.body(Full::from("verified")).unwrap());
    }
    let mut text = format!("{} {}\n", head.method, head.uri);
    for name in TOLD.iter().chain(also) {
        if let Some(value) = head.headers.get(*name) {
            writeln!(text, "{name}: {}", value.to_str().unwrap()).unwrap();
        }
    }
    if let Some(id) = head.headers.get("x-request-id") {
        writeln!(text, "a request id of {} digits", digits(id.as_bytes())).unwrap();
    }
    // The addresses behind the client's depend on the proxies in between.
    if let Some(value) = head.headers.get("x-forwarded-for") {
        let client = value
            .to_str()
            .unwrap()
            .split(',')
            .next()
            .unwrap()
            .trim()
            .to_owned();
        writeln!(text, "client: {client}").unwrap();
    }
    writeln!(text, "{size} bytes").unwrap();
    Ok(response.body(Full::from(text)).unwrap())
}

/// The number of hexadecimal digits in an id, which some write with hyphens.
fn digits(id: &[u8]) -> usize {
    id.iter().filter(|byte| byte.is_ascii_hexdigit()).count()
}

fn cookie(fields: &HeaderMap) -> &str {
    let cookie = fields.get("cookie");
    cookie.map_or("", |value| value.to_str().unwrap())
}
