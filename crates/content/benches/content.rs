//! Measures the time of a file through [`Content::respond`], its body drained: one thread, no
//! socket, no TLS.
//!
//! Prints one JSON object a line, the median of several rounds: `{"case": .., "requests": ..,
//! "us_per_request": .., "mib_per_s": ..}`.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use hikyaku_content::files::Coding;
use hikyaku_content::{CompressionConfig, Content, FilesConfig, Peer, Scheme, SiteConfig};
use hikyaku_units::ByteSize;
use hikyaku_units::arm::Version;
use http::{Request, header};
use http_body_util::{BodyExt, Empty};

fn main() {
    let root = tempfile::tempdir().unwrap();
    let write = |name: &str, len: usize| std::fs::write(root.path().join(name), vec![b'x'; len]);
    write("small.html", 1024).unwrap();
    write("coded.css", 1024).unwrap();
    write("coded.css.br", 300).unwrap();
    write("medium.jpg", 100 << 10).unwrap();
    write_text(&root.path().join("medium.html"), 4000);
    write_text(&root.path().join("large.html"), 80_000);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(run(root.path()));
}

/// Writes lines that have much in common, as those of a long table.
fn write_text(path: &Path, lines: u32) {
    let lines = (0..lines).map(|line| {
        let (id, price) = (line.wrapping_mul(2_654_435_761), line % 977);
        format!("<li class=\"item\" id=\"i{id:08x}\">number {line}, {price} EUR</li>\n")
    });
    std::fs::write(path, lines.collect::<String>()).unwrap();
}

async fn run(root: &Path) {
    let kept = FilesConfig::default();
    let read = FilesConfig {
        small_body: ByteSize::from_bytes(0),
        ..FilesConfig::default()
    };
    let looked_up = FilesConfig {
        cache_entries: 0,
        ..FilesConfig::default()
    };
    let (range, etag) = (
        (header::RANGE, "bytes=0-99"),
        (header::IF_NONE_MATCH, "\"x\""),
    );
    let (no, all) = (&[][..], &[Coding::Zstd, Coding::Br, Coding::Gzip][..]);
    let cases: &[(&str, &FilesConfig, &[Coding], &str, &[_], u32)] = &[
        (
            "1 KiB, kept in memory",
            &kept,
            no,
            "/small.html",
            &[],
            100_000,
        ),
        (
            "1 KiB, read from the page cache",
            &read,
            no,
            "/small.html",
            &[],
            100_000,
        ),
        (
            "1 KiB, looked up each time",
            &looked_up,
            no,
            "/small.html",
            &[],
            20_000,
        ),
        (
            "1 KiB, precompressed",
            &kept,
            no,
            "/coded.css",
            &[],
            100_000,
        ),
        (
            "1 KiB, compressed and kept",
            &kept,
            all,
            "/small.html",
            &[],
            100_000,
        ),
        (
            "1 KiB, If-None-Match",
            &kept,
            no,
            "/small.html",
            &[etag],
            100_000,
        ),
        ("1 KiB, Range", &kept, no, "/small.html", &[range], 100_000),
        ("not found", &kept, no, "/absent.html", &[], 20_000),
        ("100 KiB", &kept, no, "/medium.jpg", &[], 5_000),
        ("210 KB of text", &kept, no, "/medium.html", &[], 5_000),
        (
            "210 KB of text, compressed and kept",
            &kept,
            all,
            "/medium.html",
            &[],
            100_000,
        ),
        (
            "4.4 MB of text, by zstd each time",
            &kept,
            &all[..1],
            "/large.html",
            &[],
            10,
        ),
        (
            "4.4 MB of text, by br each time",
            &kept,
            &all[1..2],
            "/large.html",
            &[],
            10,
        ),
        (
            "4.4 MB of text, by gzip each time",
            &kept,
            &all[2..],
            "/large.html",
            &[],
            10,
        ),
        ("256 MiB", &kept, no, "/large.mp4", &[], 2),
    ];
    for (name, config, encodings, path, conditions, requests) in cases {
        let compression = CompressionConfig {
            encodings: encodings.to_vec(),
            ..CompressionConfig::default()
        };
        let site = SiteConfig {
            root: Some(root.to_owned()),
            files: (*config).clone(),
            compression,
            ..SiteConfig::default()
        };
        let content = Content::new(&[site]).unwrap();
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            rounds.push(round(&content, path, conditions, *requests).await);
        }
        rounds.sort_unstable();
        let (time, bytes) = rounds[ROUNDS / 2];
        let micros = time.as_secs_f64() * 1e6 / f64::from(*requests);
        let rate = bytes as f64 / f64::from(1 << 20) / time.as_secs_f64();
        println!(
            "{{\"case\": \"{name}\", \"requests\": {requests}, \
             \"us_per_request\": {micros:.3}, \"mib_per_s\": {rate:.0}}}"
        );
    }
}

/// The time of all requests, and the bytes of their bodies.
async fn round(
    content: &Content,
    path: &str,
    conditions: &[(header::HeaderName, &str)],
    requests: u32,
) -> (Duration, u64) {
    let peer = Peer {
        remote: SocketAddr::from(([192, 0, 2, 1], 1234)),
        local: SocketAddr::from(([192, 0, 2, 2], 443)),
        version: Version::H2,
        tls: None,
        server_name: None,
        scheme: Scheme::Https,
        via: None,
    };
    let mut template = Request::builder()
        .uri(format!("https://localhost{path}"))
        .header(header::USER_AGENT, "Mozilla/5.0 (X11; Linux x86_64)")
        .header(header::ACCEPT, "*/*")
        .header(header::ACCEPT_ENCODING, "gzip, deflate, br, zstd")
        .header(header::ACCEPT_LANGUAGE, "en-US,en;q=0.5");
    for (name, value) in conditions {
        template = template.header(name, *value);
    }
    let template = template.body(()).unwrap();
    let (mut time, mut bytes) = (Duration::ZERO, 0);
    for _ in 0..requests {
        let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        let request = template.clone().map(|()| body);
        let start = Instant::now();
        let mut body = content.respond(request, &peer).await.into_body();
        while let Some(frame) = body.frame().await {
            bytes += frame.unwrap().into_data().unwrap().len() as u64;
        }
        time += start.elapsed();
    }
    (time, bytes)
}

const ROUNDS: usize = 5;
