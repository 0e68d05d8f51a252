//! Frames, streams and datagrams that ask for work and give none.

use std::net::UdpSocket;
use std::time::Instant;

use hikyaku_testkit::client::{self, H3};
use hikyaku_testkit::{PATIENCE, Server, Site, noise};
use http::Request;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use crate::support::*;

/// Sends the frames of `flood` until the server closes, and reads meanwhile. Returns the received
/// bytes. Other clients are served meanwhile.
fn expect_flood_ends(server: &Server, mut flood: impl FnMut(u32) -> Vec<u8>) -> Vec<u8> {
    std::thread::scope(|threads| {
        let others = threads.spawn(|| expect_service(server));
        let came = client::block_on(async {
            let (mut read, mut write) = tokio::io::split(raw_h2(server.address()).await);
            let flooding = async {
                let begun = Instant::now();
                for count in 0.. {
                    if write.write_all(&flood(count)).await.is_err() {
                        return;
                    }
                    assert!(begun.elapsed() < PATIENCE, "the flood is never ended");
                }
            };
            futures_util::future::join(flooding, read_to_end(&mut read))
                .await
                .1
        });
        others.join().unwrap();
        came
    })
}

/// The code of the last GOAWAY among frames.
fn goaway(mut frames: &[u8]) -> Option<u32> {
    let mut code = None;
    while let [a, b, c, kind, _, _, _, _, _, rest @ ..] = frames {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let payload = rest.get(..length)?;
        if *kind == 7 {
            code = Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
        }
        frames = &rest[length..];
    }
    code
}

const ENHANCE_YOUR_CALM: u32 = 11;

#[test]
fn rapid_resets_end_their_own_connection_alone() {
    let site = site();
    let server = start(&[site.path()], &[]);
    let came = expect_flood_ends(&server, |count| {
        let stream = 2 * count + 1;
        let reset = frame(3, 0, stream, &8_u32.to_be_bytes());
        // END_STREAM and END_HEADERS, then CANCEL.
        [frame(1, 5, stream, &GET), reset].concat()
    });
    assert!(goaway(&came).is_none_or(|code| code == ENHANCE_YOUR_CALM));
    expect_service(&server);
}

#[test]
fn endless_continuations_end_their_own_connection_alone() {
    let site = site();
    let server = start(&[site.path()], &[]);
    let filler = [&[0x00, 0x01, b'a', 0x7f, 0x00][..], &[b'x'; 127]].concat();
    let came = expect_flood_ends(&server, |count| match count {
        // Without END_HEADERS, ever.
        0 => frame(1, 1, 1, &GET),
        _ => frame(9, 0, 1, &filler),
    });
    assert!(
        goaway(&came).is_some_and(|code| code != 0),
        "{} bytes",
        came.len()
    );
    expect_service(&server);
}

#[test]
fn frames_that_ask_for_nothing_are_limited() {
    let site = site();
    let server = start(&[site.path()], &[]);
    let one = 1_u32.to_be_bytes();
    let floods = [
        ("SETTINGS", frame(4, 0, 0, &[])),
        (
            "SETTINGS with a value",
            frame(4, 0, 0, &[0, 3, 0, 0, 0, 100]),
        ),
        ("PING", frame(6, 0, 0, &[0; 8])),
        ("PRIORITY", frame(2, 0, 7, &[0, 0, 0, 0, 15])),
        ("WINDOW_UPDATE", frame(8, 0, 0, &one)),
        ("unknown", frame(0xfa, 0, 0, &[1, 2, 3])),
    ];
    for (count, (name, flood)) in floods.iter().enumerate() {
        let flood = flood.repeat(500);
        expect_flood_ends(&server, |_| flood.clone());
        let ended = server.metric("hikyaku_connections_refused_total{limit=\"flood\"}");
        assert_eq!(ended, (count + 1) as f64, "{name}");
    }
}

#[test]
fn stream_resets_on_http3_do_no_harm() {
    let site = Site::with_big_file(1_000_000);
    let mut server = start(&[site.path()], &[]);
    client::block_on(async {
        let h3 = H3::connect(server.address()).await.unwrap();
        for _ in 0..3000 {
            let request = Request::get("https://localhost/big.bin").body(()).unwrap();
            match h3.begin(request).await {
                // Reset and stopped by H3_REQUEST_CANCELLED.
                Ok(stream) => drop(stream),
                // The server has refused more.
                Err(_) => return,
            }
        }
        let answer = timeout(PATIENCE, h3.get("/")).await;
        match answer.expect("the connection hangs") {
            Ok(response) => assert_eq!(response.status, 200),
            Err(error) => assert!(
                h3.quic.close_reason().is_some(),
                "neither served nor closed: {error}"
            ),
        }
    });
    assert!(server.is_alive());
    expect_service(&server);
}

#[test]
fn broken_http3_streams_hurt_their_own_connection_alone() {
    let site = site();
    let mut server = start(&[site.path()], &[]);
    let payloads: [&[u8]; 5] = [
        // DATA before HEADERS.
        &[0, 3, b'a', b'b', b'c'],
        // HEADERS that are no QPACK.
        &[1, 4, 0xff, 0xff, 0xff, 0xff],
        // SETTINGS on a request stream.
        &[4, 0],
        // Half a frame.
        &[1, 40, 0],
        &[],
    ];
    client::block_on(async {
        for payload in payloads {
            let h3 = H3::connect(server.address()).await.unwrap();
            let (mut send, mut receive) = h3.quic.open_bi().await.unwrap();
            send.write_all(payload).await.unwrap();
            send.finish().unwrap();
            let end = timeout(PATIENCE, receive.read_to_end(10_000)).await;
            assert!(end.is_ok(), "{payload:?} hangs");
            // A connection error or a stream error, as RFC 9114 has it.
            h3.close().await;
        }
        // Another protocol's ALPN.
        assert!(client::quic(server.address(), "hq", None).await.is_err());
    });
    assert!(server.is_alive());
    expect_service(&server);
}

#[test]
fn garbage_datagrams_do_no_harm() {
    let site = site();
    let mut server = start(&[site.path()], &[]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let noise = noise(2_000_000);
    let mut rest = &noise[..];
    for size in (0..1400).cycle() {
        let Some((datagram, left)) = rest.split_at_checked(size) else {
            break;
        };
        socket.send_to(datagram, server.address()).unwrap();
        // Datagrams as long, with headers of version 1: an Initial that is malformed.
        let long = [&[0xc3, 0, 0, 0, 1][..], datagram].concat();
        socket.send_to(&long, server.address()).unwrap();
        rest = left;
    }
    assert!(server.is_alive());
    expect_service(&server);
}
