//! A small upstream for the reverse proxy.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The protocol of an upstream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Speaks {
    Http1,
    /// HTTP/2 by prior knowledge.
    Http2,
    /// WebSocket, which echoes messages.
    WebSocket,
}

/// Starts an upstream on its own thread; it ends with the process.
///
/// - `/echo` returns the body while it arrives, and its length as the trailer `x-length`.
/// - `/head` returns the request's head.
/// - `/hang` never answers, `/late` after three seconds, and `/early` before it reads the request's
///   body.
/// - `/half` breaks off in the middle of its body.
pub fn start(speaks: Speaks) -> SocketAddr {
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        super::client::block_on(async {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            send.send(listener.local_addr().unwrap()).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, speaks));
            }
        });
    });
    receive.recv().unwrap()
}

/// An upstream like that of [`start`], which ends when dropped: its connections break off.
pub struct Stoppable {
    pub address: SocketAddr,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Stoppable {
    /// Listens on `address`, whose port may be 0.
    pub fn start(address: SocketAddr, speaks: Speaks) -> Self {
        let (send, receive) = std::sync::mpsc::channel();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let thread = std::thread::spawn(move || {
            super::client::block_on(async {
                let listener = TcpListener::bind(address).await.unwrap();
                send.send(listener.local_addr().unwrap()).unwrap();
                let accepting = async {
                    while let Ok((stream, _)) = listener.accept().await {
                        tokio::spawn(serve(stream, speaks));
                    }
                };
                tokio::select! {
                    () = accepting => {}
                    _ = stopped => {}
                }
            });
        });
        Self {
            address: receive.recv().unwrap(),
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

impl Drop for Stoppable {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn serve(stream: tokio::net::TcpStream, speaks: Speaks) {
    let io = TokioIo::new(stream);
    // Connections that end early are part of the tests.
    let _ = match speaks {
        Speaks::Http1 => {
            hyper::server::conn::http1::Builder::new()
                .serve_connection(io, service_fn(answer))
                .await
        }
        Speaks::Http2 => {
            hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(io, service_fn(answer))
                .await
        }
        Speaks::WebSocket => {
            let mut socket = tokio_tungstenite::accept_async(io.into_inner())
                .await
                .unwrap();
            while let Some(Ok(message)) = socket.next().await {
                if message.is_close() || socket.send(message).await.is_err() {
                    break;
                }
            }
            Ok(())
        }
    };
}

/// The time after which the response to `/late` comes.
pub const LATE: Duration = Duration::from_secs(3);

async fn answer(request: Request<Incoming>) -> Result<Response<Body>, BrokenOff> {
    match request.uri().path() {
        "/echo" => Ok(echo(request)),
        "/head" => Ok(head(&request)),
        "/hang" => {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            Err(BrokenOff)
        }
        "/late" => {
            tokio::time::sleep(LATE).await;
            Ok(Response::new(full("late")))
        }
        "/early" => {
            let mut body = request.into_body();
            tokio::spawn(async move { while body.frame().await.is_some() {} });
            let response = Response::builder().status(StatusCode::FORBIDDEN);
            Ok(response.body(full("early")).unwrap())
        }
        "/half" => {
            let half = async { Ok(Frame::data(Bytes::from("half"))) };
            // The head and this chunk must have left when hyper finds that there is no more.
            let pause = async {
                tokio::time::sleep(Duration::from_millis(200)).await;
                Ok(Frame::data(Bytes::new()))
            };
            let frames = futures_util::stream::once(half).chain(futures_util::stream::once(pause));
            let body = BodyExt::boxed_unsync(StreamBody::new(frames));
            let response = Response::builder().header("content-length", "8").body(body);
            Ok(response.unwrap())
        }
        _ => {
            let mut response = Response::new(full("not here"));
            *response.status_mut() = StatusCode::NOT_FOUND;
            Ok(response)
        }
    }
}

/// Returns each frame as it comes.
fn echo(request: Request<Incoming>) -> Response<Body> {
    let state = (request.into_body(), Some(0_u64), HeaderMap::new());
    let frames = futures_util::stream::unfold(state, |(mut body, length, trailers)| async move {
        let length = length?;
        let frame = body.frame().await.and_then(Result::ok);
        match frame.map(Frame::into_data) {
            Some(Ok(data)) => {
                let length = length + data.len() as u64;
                Some((Ok(Frame::data(data)), (body, Some(length), trailers)))
            }
            Some(Err(frame)) => {
                let mut trailers = frame.into_trailers().unwrap_or_default();
                trailers.insert("x-length", HeaderValue::from(length));
                Some((
                    Ok(Frame::trailers(trailers)),
                    (body, None, HeaderMap::new()),
                ))
            }
            None => {
                let mut trailers = trailers;
                trailers.insert("x-length", HeaderValue::from(length));
                Some((
                    Ok(Frame::trailers(trailers)),
                    (body, None, HeaderMap::new()),
                ))
            }
        }
    });
    let body = BodyExt::boxed_unsync(StreamBody::new(frames));
    Response::builder()
        .header("trailer", "x-length, x-from-client")
        .body(body)
        .unwrap()
}

fn head(request: &Request<Incoming>) -> Response<Body> {
    let mut text = format!("{} {}\n", request.method(), request.uri());
    for (name, value) in request.headers() {
        text += &format!("{name}: {}\n", value.to_str().unwrap());
    }
    Response::new(full(text))
}

fn full(text: impl Into<Bytes>) -> Body {
    BodyExt::boxed_unsync(Full::new(text.into()))
}

/// The error that makes hyper close the connection.
#[derive(Debug)]
struct BrokenOff;

impl std::fmt::Display for BrokenOff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("broken off")
    }
}

impl std::error::Error for BrokenOff {}
