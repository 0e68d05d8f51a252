//! Clients that download and upload for long, and that keep a WebSocket.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use hikyaku_testkit::client::{self, H2, H3};
use http::{Request, Response};
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::{self, Message};

use super::clients::{Tally, is_refused_h2, is_refused_h3, piece};

/// Bytes of a download, and of its steps.
pub(crate) const BIG: usize = 2_000_000;
const STEP: usize = 100_000;
/// Pieces of an upload.
const PIECES: usize = 20;
const PIECE: usize = 10_000;
/// After each step, so that a transfer takes about two seconds.
const PAUSE: Duration = Duration::from_millis(100);

/// Repeats transfers until the end. One that the server has refused counts neither way.
async fn repeat(
    name: &str,
    tally: &Tally,
    transfer: impl AsyncFn() -> Result<Option<usize>, String>,
    want: usize,
) {
    while !tally.is_over() {
        match transfer().await {
            Ok(Some(length)) if length == want => tally.answer(),
            Ok(Some(length)) => tally.lose(format!("{name}: {length} bytes of {want}")),
            Ok(None) => {}
            Err(why) => tally.lose(format!("{name}: {why}")),
        }
    }
}

fn text(error: impl std::fmt::Debug) -> String {
    format!("{error:?}")
}

pub(crate) async fn download_h1(address: SocketAddr, tally: &Tally) {
    let download = async || {
        let mut tls = client::tls(address, &["http/1.1"]).await.map_err(text)?;
        let request = b"GET /big.bin HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        tls.write_all(request).await.map_err(text)?;
        let (mut came, mut buffer, mut paused) = (Vec::new(), vec![0; STEP], 0);
        loop {
            let read = tls.read(&mut buffer).await;
            match read.map_err(|error| format!("after {} bytes: {error}", came.len()))? {
                0 => break,
                read => came.extend_from_slice(&buffer[..read]),
            }
            if came.len() / STEP > paused {
                paused = came.len() / STEP;
                tokio::time::sleep(PAUSE).await;
            }
        }
        let head = came.windows(4).position(|four| four == b"\r\n\r\n");
        Ok(head.map(|head| came.len() - head - 4))
    };
    repeat("download of HTTP/1.1", tally, download, BIG).await;
}

pub(crate) async fn download_h2(address: SocketAddr, tally: &Tally) {
    let download = async || {
        let mut h2 = H2::connect(address).await.map_err(text)?;
        let request = Request::get("https://localhost/big.bin").body(()).unwrap();
        let (response, _) = h2.requests.send_request(request, true).map_err(text)?;
        let mut body = match response.await.map(Response::into_body) {
            Ok(body) => body,
            Err(error) if is_refused_h2(&error) => return Ok(None),
            Err(error) => return Err(text(error)),
        };
        let (mut length, mut paused) = (0, 0);
        while let Some(data) = body.data().await {
            let data = data.map_err(|error| format!("after {length} bytes: {error:?}"))?;
            body.flow_control()
                .release_capacity(data.len())
                .map_err(text)?;
            length += data.len();
            if length / STEP > paused {
                paused = length / STEP;
                tokio::time::sleep(PAUSE).await;
            }
        }
        Ok(Some(length))
    };
    repeat("download of HTTP/2", tally, download, BIG).await;
}

pub(crate) async fn download_h3(address: SocketAddr, tally: &Tally) {
    let download = async || {
        let h3 = H3::connect_with(address, Some(200_000))
            .await
            .map_err(text)?;
        let request = Request::get("https://localhost/big.bin").body(()).unwrap();
        let begun = async { h3.begin(request).await?.finish().await }.await;
        let mut receiving = match begun {
            Ok(receiving) => receiving,
            Err(error) if is_refused_h3(&h3, &error) => return Ok(None),
            Err(error) => return Err(text(error)),
        };
        match receiving.head().await {
            Ok(head) if head.status == 200 => {}
            Ok(head) => return Err(text(head)),
            Err(error) if is_refused_h3(&h3, &error) => return Ok(None),
            Err(error) => return Err(text(error)),
        }
        let (mut length, mut paused) = (0, 0);
        while let Some(frame) = receiving.frame().await {
            let frame = frame.map_err(|error| format!("after {length} bytes: {error:?}"))?;
            length += frame.into_data().map_or(0, |data| data.len());
            if length / STEP > paused {
                paused = length / STEP;
                tokio::time::sleep(PAUSE).await;
            }
        }
        Ok(Some(length))
    };
    repeat("download of HTTP/3", tally, download, BIG).await;
}

pub(crate) async fn upload_h1(address: SocketAddr, tally: &Tally) {
    let upload = async || {
        let mut tls = client::tls(address, &["http/1.1"]).await.map_err(text)?;
        let head = format!(
            "POST /echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Length: {}\r\n\r\n",
            PIECES * PIECE
        );
        tls.write_all(head.as_bytes()).await.map_err(text)?;
        let (mut from, mut to) = tokio::io::split(tls);
        let sending = async {
            for _ in 0..PIECES {
                to.write_all(&piece(PIECE)).await.map_err(text)?;
                to.flush().await.map_err(text)?;
                tokio::time::sleep(PAUSE).await;
            }
            Ok(())
        };
        let receiving = async {
            let mut came = Vec::new();
            from.read_to_end(&mut came).await.map_err(text)?;
            Ok::<_, String>(came)
        };
        let ((), came) = tokio::try_join!(sending, receiving)?;
        let body = came.windows(4).position(|four| four == b"\r\n\r\n");
        let length = body.and_then(|head| chunked(&came[head + 4..]));
        length
            .map(Some)
            .ok_or_else(|| format!("{} bytes, not to their end", came.len()))
    };
    repeat("upload of HTTP/1.1", tally, upload, PIECES * PIECE).await;
}

/// The length of a body in chunks (RFC 9112 §7.1); `None` if its end is missing.
fn chunked(mut body: &[u8]) -> Option<usize> {
    let mut length = 0;
    loop {
        let line = body.windows(2).position(|two| two == b"\r\n")?;
        let size = std::str::from_utf8(&body[..line]).ok()?;
        match usize::from_str_radix(size, 16).ok()? {
            0 => return Some(length),
            size => {
                length += size;
                body = body.get(line + 2 + size + 2..)?;
            }
        }
    }
}

pub(crate) async fn upload_h2(address: SocketAddr, tally: &Tally) {
    let upload = async || {
        let mut h2 = H2::connect(address).await.map_err(text)?;
        let request = Request::post("https://localhost/echo").body(()).unwrap();
        let (response, mut sending) = h2.requests.send_request(request, false).map_err(text)?;
        let sending = async {
            for number in 1..=PIECES {
                let sent = sending.send_data(piece(PIECE), number == PIECES);
                if sent.is_err() {
                    // The answer says why.
                    return;
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        let receiving = async {
            let mut body = response.await?.into_body();
            let mut length = 0;
            while let Some(data) = body.data().await {
                let data = data?;
                body.flow_control().release_capacity(data.len())?;
                length += data.len();
            }
            Ok::<_, h2::Error>(length)
        };
        match tokio::join!(sending, receiving).1 {
            Ok(length) => Ok(Some(length)),
            Err(error) if is_refused_h2(&error) => Ok(None),
            Err(error) => Err(text(error)),
        }
    };
    repeat("upload of HTTP/2", tally, upload, PIECES * PIECE).await;
}

pub(crate) async fn upload_h3(address: SocketAddr, tally: &Tally) {
    let upload = async || {
        let h3 = H3::connect(address).await.map_err(text)?;
        let request = Request::post("https://localhost/echo").body(()).unwrap();
        let exchange = async {
            let stream = h3.begin(request).await?;
            let (mut sending, mut receiving) = (stream.sending, stream.receiving);
            let sending = async {
                for _ in 0..PIECES {
                    sending.data(piece(PIECE)).await?;
                    sending.flush().await?;
                    tokio::time::sleep(PAUSE).await;
                }
                sending.finish().await.map(drop)
            };
            let receiving = async {
                receiving.head().await?;
                Ok(receiving.collect().await?.to_bytes().len())
            };
            Ok(tokio::try_join!(sending, receiving)?.1)
        };
        match exchange.await {
            Ok(length) => Ok(Some(length)),
            Err(error) if is_refused_h3(&h3, &error) => Ok(None),
            Err(error) => Err(text(error)),
        }
    };
    repeat("upload of HTTP/3", tally, upload, PIECES * PIECE).await;
}

/// Sends messages and awaits their echo. The server may end the connection in order.
pub(crate) async fn socket(address: SocketAddr, tally: &Tally) {
    while !tally.is_over() {
        if let Err(why) = talk(address, tally).await {
            tally.lose(format!("WebSocket: {why}"));
        }
    }
}

async fn talk(address: SocketAddr, tally: &Tally) -> Result<(), String> {
    let tls = client::tls(address, &["http/1.1"]).await.map_err(text)?;
    let url = format!("wss://localhost:{}/socket", address.port());
    let opened = tokio_tungstenite::client_async(&*url, tls).await;
    let (mut socket, _) = opened.map_err(text)?;
    for number in 0.. {
        if tally.is_over() {
            return Ok(());
        }
        let message = Message::from(format!("message {number}"));
        let echoed = match socket.send(message.clone()).await {
            Ok(()) => socket.next().await,
            Err(error) => Some(Err(error)),
        };
        match echoed {
            Some(Ok(echo)) if echo == message => tally.answer(),
            None
            | Some(Err(tungstenite::Error::Protocol(
                ProtocolError::ResetWithoutClosingHandshake,
            ))) => return Ok(()),
            other => return Err(format!("message {number}: {other:?}")),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
