//! Clients that send one request after the other, and count the lost ones.
//!
//! A client repeats a request only where the protocol says that the server has not handled it. That is
//! after GOAWAY, and on a connection of HTTP/1.1 that had ended before an answer began.

use std::io;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hikyaku_h3_quic::{Code, StreamError};
use hikyaku_testkit::client::{self, H2, H3};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// The body of the answer to each request.
pub(crate) const PAGE: &[u8] = b"a small page";

/// The requests that were answered and those that were lost.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    answered: AtomicU64,
    connections: AtomicU64,
    lost: Mutex<Vec<String>>,
    over: AtomicBool,
}

impl Tally {
    pub(crate) fn answer(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    pub(crate) fn lose(&self, why: String) {
        self.lost.lock().unwrap().push(why);
    }

    pub(crate) fn lost(&self) -> Vec<String> {
        self.lost.lock().unwrap().clone()
    }

    /// Connections that were begun by clients of small requests.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    fn connect(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// Has the clients end.
    pub(crate) fn finish(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// An end of a connection that loses no request.
#[derive(Debug)]
pub(crate) struct Again;

/// Sends requests by `send` until the end; `connect` makes a connection for it.
async fn keep_asking<C>(
    name: &str,
    tally: &Tally,
    pause: Duration,
    connect: impl AsyncFn() -> Result<C, String>,
    send: impl AsyncFn(&mut C) -> Result<Result<Vec<u8>, Again>, String>,
) {
    let mut connection = None;
    while !tally.is_over() {
        let mut current = match connection.take() {
            Some(connection) => connection,
            None => {
                tally.connect();
                match connect().await {
                    Ok(connection) => connection,
                    Err(why) => {
                        tally.lose(format!("{name}: connecting: {why}"));
                        continue;
                    }
                }
            }
        };
        match send(&mut current).await {
            Ok(Ok(body)) if body == PAGE => tally.answer(),
            Ok(Ok(body)) => tally.lose(format!("{name}: {} bytes", body.len())),
            Ok(Err(Again)) => continue,
            Err(why) => {
                tally.lose(format!("{name}: {why}"));
                continue;
            }
        }
        connection = Some(current);
        tokio::time::sleep(pause).await;
    }
}

/// A connection of HTTP/1.1.
struct H1 {
    tls: TlsStream<TcpStream>,
    used: bool,
    closes: bool,
}

impl H1 {
    async fn get(&mut self) -> Result<Result<Vec<u8>, Again>, String> {
        if self.closes {
            return Ok(Err(Again));
        }
        match self.exchange().await {
            Ok(body) => {
                self.used = true;
                Ok(Ok(body))
            }
            // It ended before an answer began.
            Err((0, error)) if self.used && is_end(&error) => Ok(Err(Again)),
            Err((came, error)) => Err(format!("after {came} bytes: {error}")),
        }
    }

    async fn exchange(&mut self) -> Result<Vec<u8>, (usize, io::Error)> {
        let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let none = |error| (0, error);
        self.tls.write_all(request).await.map_err(none)?;
        self.tls.flush().await.map_err(none)?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let byte = self.tls.read_u8().await;
            head.push(byte.map_err(|error| (head.len(), error))?);
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        self.closes = head.contains("connection: close");
        if !head.starts_with("http/1.1 200") {
            return Err((head.len(), io::Error::other(head)));
        }
        let mut body = vec![0; PAGE.len()];
        let read = self.tls.read_exact(&mut body).await;
        read.map_err(|error| (head.len(), error))?;
        Ok(body)
    }
}

/// An orderly end, and never a reset.
fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe
    )
}

pub(crate) async fn h1(address: SocketAddr, tally: &Tally, pause: Duration) {
    let connect = async || {
        let tls = client::tls(address, &["http/1.1"]).await;
        Ok(H1 {
            tls: tls.map_err(|error| error.to_string())?,
            used: false,
            closes: false,
        })
    };
    keep_asking("HTTP/1.1", tally, pause, connect, async |h1| h1.get().await).await;
}

/// Each request on a connection of its own.
pub(crate) async fn h1_anew(address: SocketAddr, tally: &Tally, pause: Duration) {
    while !tally.is_over() {
        tally.connect();
        let once = async {
            let tls = client::tls(address, &["http/1.1"]).await;
            let mut h1 = H1 {
                tls: tls.map_err(|error| error.to_string())?,
                used: false,
                closes: false,
            };
            h1.get().await
        };
        match once.await {
            Ok(Ok(body)) if body == PAGE => tally.answer(),
            other => tally.lose(format!("HTTP/1.1 anew: {other:?}")),
        }
        tokio::time::sleep(pause).await;
    }
}

pub(crate) async fn h2(address: SocketAddr, tally: &Tally, pause: Duration) {
    let connect = async || {
        let h2 = H2::connect(address).await;
        h2.map_err(|error| error.to_string())
    };
    let send = async |h2: &mut H2| {
        // A connection that has ended meanwhile has got no request.
        let Ok(ready) = h2.requests.clone().ready().await else {
            return Ok(Err(Again));
        };
        h2.requests = ready;
        match h2.get("/").await {
            Ok(response) => Ok(Ok(response.body)),
            Err(error) if is_refused_h2(&error) => Ok(Err(Again)),
            Err(error) => Err(format!("{error:?}")),
        }
    };
    keep_asking("HTTP/2", tally, pause, connect, send).await;
}

/// RFC 9113 §6.8 and §8.7.
pub(crate) fn is_refused_h2(error: &h2::Error) -> bool {
    let refused = [h2::Reason::NO_ERROR, h2::Reason::REFUSED_STREAM];
    error.is_remote()
        && error
            .reason()
            .is_some_and(|reason| refused.contains(&reason))
}

pub(crate) async fn h3(address: SocketAddr, tally: &Tally, pause: Duration) {
    let connect = async || {
        let h3 = H3::connect(address).await;
        h3.map_err(|error| error.to_string())
    };
    let send = async |h3: &mut H3| match h3.get("/").await {
        Ok(response) => Ok(Ok(response.body)),
        Err(error) if is_refused_h3(h3, &error) => Ok(Err(Again)),
        Err(error) => Err(format!("{error:?}, {:?}", h3.quic.close_reason())),
    };
    keep_asking("HTTP/3", tally, pause, connect, send).await;
}

/// RFC 9114 §5.2: refused by GOAWAY, or the connection was closed after it.
pub(crate) fn is_refused_h3(h3: &H3, error: &StreamError) -> bool {
    let refused = match error {
        StreamError::GoingAway => true,
        StreamError::Reset(code) | StreamError::Stopped(code) => {
            *code == Code::RequestRejected.value()
        }
        _ => false,
    };
    let no_error = Code::NoError.value();
    let closed = h3.quic.close_reason();
    refused
        || matches!(closed, Some(quinn::ConnectionError::ApplicationClosed(close))
            if close.error_code.into_inner() == no_error)
}

/// A body for an upload.
pub(crate) fn piece(size: usize) -> Bytes {
    hikyaku_testkit::noise(size).into()
}
