//! An honest client: its waiting time is the cost of an attack to others.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::time::timeout;

use super::attacker;
use super::server::SMALL;

/// The client's address, another than the attackers'.
const FROM: (Ipv4Addr, u16) = (Ipv4Addr::new(127, 0, 0, 2), 0);
/// The time between two requests.
const INTERVAL: Duration = Duration::from_millis(10);
/// Requests on a connection before the client opens another.
const PER_CONNECTION: usize = 10;
/// The time after which a request has failed.
const PATIENCE: Duration = Duration::from_secs(5);

/// Times from a request to the response's last byte. The first of a connection includes the
/// handshake.
#[derive(Debug, Default)]
pub(super) struct Waits {
    sorted: Vec<Duration>,
    /// The number of requests without their response.
    pub(super) failed: usize,
}

impl Waits {
    /// The number of requests that were answered.
    pub(super) const fn answered(&self) -> usize {
        self.sorted.len()
    }

    /// The time within which `share` of the requests were answered.
    pub(super) fn quantile(&self, share: f64) -> Duration {
        let last = self.sorted.len().saturating_sub(1);
        let index = (last as f64 * share).round() as usize;
        self.sorted.get(index).copied().unwrap_or(PATIENCE)
    }
}

/// Requests a small file repeatedly for `time`.
///
/// # Errors
/// If the client cannot be set up.
pub(super) fn wait(address: SocketAddr, time: Duration) -> Result<Waits> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(runtime.block_on(async {
        let end = Instant::now() + time;
        let mut waits = Waits::default();
        while Instant::now() < end {
            if connection(address, end, &mut waits).await.is_err() {
                waits.failed += 1;
                tokio::time::sleep(INTERVAL).await;
            }
        }
        waits.sorted.sort_unstable();
        waits
    }))
}

async fn connection(address: SocketAddr, end: Instant, waits: &mut Waits) -> Result<()> {
    let mut begun = Instant::now();
    let connecting = async {
        let socket = TcpSocket::new_v4()?;
        socket.bind(FROM.into())?;
        attacker::tls_over(socket.connect(address).await?, "http/1.1").await
    };
    let mut tls = timeout(PATIENCE, connecting).await??;
    for _ in 0..PER_CONNECTION {
        timeout(PATIENCE, request(&mut tls)).await??;
        waits.sorted.push(begun.elapsed());
        tokio::time::sleep(INTERVAL).await;
        begun = Instant::now();
        if begun >= end {
            break;
        }
    }
    Ok(())
}

async fn request<T: AsyncReadExt + AsyncWriteExt + Unpin>(tls: &mut T) -> Result<()> {
    tls.write_all(b"GET /small.bin HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await?;
    let mut answer = Vec::with_capacity(SMALL + 1024);
    loop {
        ensure!(tls.read_buf(&mut answer).await? > 0, "closed");
        if let Some(head) = answer.windows(4).position(|four| four == b"\r\n\r\n") {
            ensure!(answer.starts_with(b"HTTP/1.1 200"), "not 200");
            let rest = (head + 4 + SMALL).checked_sub(answer.len());
            let rest = rest.context("more than the file")?;
            let mut body = vec![0; rest];
            tls.read_exact(&mut body).await?;
            return Ok(());
        }
    }
}
