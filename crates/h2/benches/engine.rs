//! The cost of the engine alone: bytes of a client in, bytes of a server out, without a transport.
//!
//! Each figure is the median of many rounds. Prints one line for each case.
#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used
)]

use std::hint::black_box;
use std::io::IoSlice;
use std::time::Instant;

use bytes::{Buf, Bytes};
use hikyaku_h2::connection::{Config, Connection, Event};
use hikyaku_h2::message::Prepared;
use hikyaku_h2::output::Output;
use http::{HeaderMap, HeaderName, StatusCode};

/// Requests that arrive together, and that one gathered write answers.
const BATCH: u32 = 64;
const BATCHES: u32 = 200;
const ROUNDS: usize = 31;

fn main() {
    let small = Bytes::from(vec![b'x'; 1024]);
    for (client, opening, request) in [
        ("h2load", h2load_opening(), h2load_request()),
        ("browser", browser_opening(), browser_request()),
    ] {
        for is_prepared in [true, false] {
            let head = if is_prepared { "prepared" } else { "encoded" };
            let nanos = median(|| gets(&opening, &request, &small, is_prepared));
            println!("GET of 1 KiB, {client}, {head} head: {nanos:.0} ns a request");
        }
    }
    let nanos = median(huffman);
    println!("Huffman decoding of a path of 60 bytes: {nanos:.0} ns");
    let seconds = median(large_download) / 1e9;
    println!("download of 1 GiB: {:.1} GiB/s", 1.0 / seconds);
    let seconds = median(upload) / 1e9;
    println!("upload of 1 GiB: {:.1} GiB/s", 1.0 / seconds);
}

fn median(mut round: impl FnMut() -> f64) -> f64 {
    let mut results: Vec<f64> = (0..ROUNDS).map(|_| round()).collect();
    results.sort_by(f64::total_cmp);
    results[ROUNDS / 2]
}

/// Answers requests on a connection. Returns nanoseconds for each.
fn gets(opening: &[u8], request: &[u8], content: &Bytes, is_prepared: bool) -> f64 {
    let now = Instant::now();
    let mut connection = Connection::server(Config::default(), now);
    let mut output = Output::new();
    receive(
        &mut connection,
        &[PREFACE, &SETTINGS, opening].concat(),
        now,
    );
    output_is_written(&mut connection, &mut output);
    let headers = response_headers();
    let prepared = Prepared::new(StatusCode::OK, &headers);
    let mut with_date = headers.clone();
    with_date.insert("date", "Fri, 27 Nov 2026 01:00:00 GMT".parse().unwrap());
    let mut input = Vec::new();
    let mut stream = 3;
    let start = Instant::now();
    for _ in 0..BATCHES {
        input.clear();
        for _ in 0..BATCH {
            frame(&mut input, 1, 5, stream, request);
            stream += 2;
        }
        let more = (BATCH * 1024).to_be_bytes();
        frame(&mut input, 8, 0, 0, &more);
        let mut left = &input[..];
        while let Some(event) = connection.recv(&mut left, now).unwrap() {
            let Event::Request { stream, head, .. } = event else {
                continue;
            };
            black_box((head.path(), head.fields().count()));
            if is_prepared {
                let date: &[(&str, &[u8])] = &[("date", b"Fri, 27 Nov 2026 01:00:00 GMT")];
                connection.send_prepared(stream, &prepared, date, false)
            } else {
                connection.send_head(stream, StatusCode::OK, &with_date, false)
            }
            .unwrap();
            connection.send_data(stream, content.clone(), true).unwrap();
        }
        output_is_written(&mut connection, &mut output);
    }
    start.elapsed().as_nanos() as f64 / f64::from(BATCHES * BATCH)
}

fn huffman() -> f64 {
    use hikyaku_http_common::compression::huffman::{decode, encode};
    let (mut code, mut text) = (Vec::new(), Vec::new());
    encode(
        b"/assets/images/2026/11/header-background-large@2x.a81fd3.webp",
        &mut code,
    );
    let start = Instant::now();
    for _ in 0..10_000 {
        text.clear();
        decode(black_box(&code), &mut text).unwrap();
    }
    start.elapsed().as_nanos() as f64 / 10_000.0
}

/// Sends a gibibyte. Returns nanoseconds.
fn large_download() -> f64 {
    let now = Instant::now();
    let mut connection = Connection::server(Config::default(), now);
    let mut output = Output::new();
    let content = Bytes::from(vec![b'x'; 1 << 20]);
    let mut input = Vec::new();
    frame(&mut input, 1, 5, 1, &h2load_opening()[9..]);
    receive(
        &mut connection,
        &[PREFACE, &SETTINGS, &input[..]].concat(),
        now,
    );
    connection
        .send_head(1, StatusCode::OK, &HeaderMap::new(), false)
        .unwrap();
    let start = Instant::now();
    for _ in 0..1024 {
        input.clear();
        frame(&mut input, 8, 0, 0, &(1u32 << 20).to_be_bytes());
        frame(&mut input, 8, 0, 1, &(1u32 << 20).to_be_bytes());
        receive(&mut connection, &input, now);
        connection.send_data(1, content.clone(), false).unwrap();
        while connection.has_output() {
            connection.poll_transmit(&mut output, 256 * 1024);
            while connection.poll_sent().is_some() {}
            written(&mut output);
        }
    }
    start.elapsed().as_nanos() as f64
}

/// Receives a gibibyte. Returns nanoseconds.
fn upload() -> f64 {
    let now = Instant::now();
    let mut connection = Connection::server(Config::default(), now);
    let mut output = Output::new();
    let mut input = Vec::new();
    frame(&mut input, 1, 4, 1, &h2load_opening()[9..]);
    receive(
        &mut connection,
        &[PREFACE, &SETTINGS, &input[..]].concat(),
        now,
    );
    input.clear();
    frame(&mut input, 0, 0, 1, &[0; 16_384]);
    let start = Instant::now();
    for _ in 0..1 << 16 {
        let mut left = &input[..];
        while let Some(event) = connection.recv(&mut left, now).unwrap() {
            black_box(&event);
        }
        connection.grow_stream_window(1, 16_384);
        connection.grow_connection_window(16_384);
        output_is_written(&mut connection, &mut output);
    }
    start.elapsed().as_nanos() as f64
}

fn receive(connection: &mut Connection, mut bytes: &[u8], now: Instant) {
    while let Some(event) = connection.recv(&mut bytes, now).unwrap() {
        black_box(&event);
    }
}

fn output_is_written(connection: &mut Connection, output: &mut Output) {
    connection.poll_transmit(output, usize::MAX);
    while connection.poll_sent().is_some() {}
    written(output);
}

/// A gathered write that takes everything.
fn written(output: &mut Output) {
    while output.has_remaining() {
        let mut slices = [IoSlice::new(&[]); 256];
        let count = output.chunks_vectored(&mut slices);
        let length = slices[..count].iter().map(|slice| slice.len()).sum();
        black_box(&slices[..count]);
        output.advance(length);
    }
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: [u8; 18] = [0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0];

fn response_headers() -> HeaderMap {
    let fields = [
        ("content-type", "text/html; charset=utf-8"),
        ("content-length", "1024"),
        ("last-modified", "Thu, 26 Nov 2026 10:00:00 GMT"),
        ("etag", "\"65a1f0c2-400\""),
        ("cache-control", "public, max-age=300"),
        ("accept-ranges", "bytes"),
        ("alt-svc", "h3=\":443\"; ma=86400"),
        ("server", "hikyaku"),
    ];
    let fields =
        fields.map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
    HeaderMap::from_iter(fields)
}

/// A literal that enters the table.
fn indexed(out: &mut Vec<u8>, name: &str, value: &str) {
    out.push(0x40);
    literal(out, name);
    literal(out, value);
}

fn literal(out: &mut Vec<u8>, text: &str) {
    let mut code = Vec::new();
    hikyaku_http_common::compression::huffman::encode(text.as_bytes(), &mut code);
    out.push(0x80 | code.len() as u8);
    out.extend_from_slice(&code);
}

/// The first request: a HEADERS frame whose fields enter the table.
fn opening(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = vec![0x82, 0x87];
    for (name, value) in fields {
        indexed(&mut block, name, value);
    }
    let mut out = Vec::new();
    frame(&mut out, 1, 5, 1, &block);
    out
}

fn h2load_opening() -> Vec<u8> {
    opening(&[
        (":authority", "a.test"),
        (":path", "/1k.html"),
        ("user-agent", "h2load nghttp2/1.64.0"),
    ])
}

/// All fields are in the table.
fn h2load_request() -> Vec<u8> {
    vec![0x82, 0x87, 0xc0, 0xbf, 0xbe]
}

fn browser_opening() -> Vec<u8> {
    opening(&[
        (":authority", "www.example.com"),
        (
            "sec-ch-ua",
            "\"Chromium\";v=\"142\", \"Not_A Brand\";v=\"99\"",
        ),
        ("sec-ch-ua-mobile", "?0"),
        ("sec-ch-ua-platform", "\"Linux\""),
        (
            "user-agent",
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0",
        ),
        (
            "accept",
            "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8",
        ),
        ("sec-fetch-site", "same-origin"),
        ("sec-fetch-mode", "no-cors"),
        ("sec-fetch-dest", "image"),
        ("referer", "https://www.example.com/index.html"),
        ("accept-encoding", "gzip, deflate, br, zstd"),
        ("accept-language", "en-GB,en;q=0.9"),
        ("priority", "u=2, i"),
        ("cookie", "session=0123456789abcdef0123456789abcdef"),
    ])
}

/// All fields are in the table but the path, which is a literal of its own.
fn browser_request() -> Vec<u8> {
    let mut block = vec![0x82, 0x87];
    block.push(0x04);
    literal(
        &mut block,
        "/assets/images/2026/11/header-background-large@2x.a81fd3.webp",
    );
    // :authority first, as the oldest entry.
    block.splice(2..2, [0x80 | 75]);
    block.extend((62..75).rev().map(|index| 0x80 | index));
    block
}
