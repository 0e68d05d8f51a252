//! Allocations of a request that passes through the proxy.

use std::io::{Read, Write};
use std::net::SocketAddr;

use crate::support::{Edge, read};
use hikyaku_content::ProxyConfig;

#[test]
fn fields_of_a_response_are_not_allocated_one_by_one() {
    const NAMES: [&str; 20] = [
        "accept-ranges",
        "age",
        "allow",
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-location",
        "content-security-policy",
        "content-type",
        "date",
        "etag",
        "expires",
        "last-modified",
        "link",
        "location",
        "retry-after",
        "server",
        "strict-transport-security",
        "vary",
    ];
    let count = |names: &[&str]| {
        let fields = names.iter().map(|name| format!("{name}: a value\r\n"));
        let fields = fields.collect::<String>();
        let answer = format!("HTTP/1.1 200 OK\r\n{fields}content-length: 2\r\n\r\nok");
        allocations_of(1, &answer, &ProxyConfig::default())
    };
    let (few, many) = (count(&NAMES[..4]), count(&NAMES));
    assert!(many <= few + 2, "{few} with 4 fields, {many} with 20");
}

#[test]
fn a_group_allocates_no_more_than_a_single_upstream() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    for balance in ["least_requests", "hash:path"] {
        let config = ProxyConfig {
            balance: balance.parse().unwrap(),
            ..ProxyConfig::default()
        };
        let of = |upstreams| allocations_of(upstreams, answer, &config);
        let (one, two, five) = (of(1), of(2), of(5));
        assert!(two <= one && five <= one, "{balance}: {one}, {two}, {five}");
    }
}

/// Counts the allocations of a request over a kept connection, and of reading its response.
fn allocations_of(upstreams: usize, answer: &str, config: &ProxyConfig) -> u64 {
    let urls = (0..upstreams).map(|_| format!("http://{}", answers(answer.to_owned())));
    let urls: Vec<_> = urls.collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let edge = Edge::of_group(&urls, config);
    let request = || {
        let content = runtime.block_on(async { read(edge.get("/").await).await });
        assert_eq!(content, "ok");
    };
    // The first ones make the connections and the buffers that stay.
    (0..20 * upstreams).for_each(|_| request());
    // Some look for an answer that has not come yet.
    let counts = (0..20).map(|_| allocation_counter::measure(request).count_total);
    counts.min().unwrap()
}

/// Answers every request of one connection, in a thread of its own.
fn answers(answer: String) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut got = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            got.extend_from_slice(&buffer[..length]);
            if got.ends_with(b"\r\n\r\n") {
                got.clear();
                stream.write_all(answer.as_bytes()).unwrap();
            }
        }
    });
    address
}
