//! Field blocks of HTTP/2 with any bytes, on one connection: its table passes from block to block.
#![no_main]

use std::time::Instant;

use hikyaku_h2::connection::{Config, Connection, Event};
use hikyaku_h2::error::Code;
use hikyaku_http_common::compression::huffman;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // What the decoder takes has one encoding.
    let mut text = Vec::new();
    if huffman::decode(data, &mut text).is_ok() {
        let mut code = Vec::new();
        huffman::encode(&text, &mut code);
        assert_eq!(code, data);
    }
    let now = Instant::now();
    let mut server = Connection::server(Config::default(), now);
    let mut received = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    let mut stream = 1u32;
    let mut left = data;
    while let Some((&length, rest)) = left.split_first() {
        let (block, rest) = rest.split_at(rest.len().min(length.into()));
        left = rest;
        received.extend_from_slice(&[0, 0, block.len() as u8, 1, 5]);
        received.extend_from_slice(&stream.to_be_bytes());
        received.extend_from_slice(block);
        stream += 2;
    }
    let mut input = &received[..];
    loop {
        match server.recv(&mut input, now) {
            Ok(Some(Event::Request { stream, head, .. })) => {
                for field in head.fields() {
                    assert!(!field.name.is_empty() && !field.name.starts_with(b":"));
                }
                server.reset(stream, Code::CANCEL);
            }
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(error) => {
                let codes = [Code::COMPRESSION_ERROR, Code::ENHANCE_YOUR_CALM];
                assert!(codes.contains(&error.code), "{error}");
                break;
            }
        }
    }
});
