//! Connections of attackers.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use hikyaku_tls::AcceptAny;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// One connection of an attack, which goes on for as long as the server lets it.
pub(super) type Attacker = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// An attack.
pub(super) struct Attack {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// The number of simultaneous connections. Each that ends is replaced.
    pub(super) connections: usize,
    pub(super) http3: bool,
    pub(super) attacker: fn(SocketAddr) -> Attacker,
}

impl Attack {
    /// An attack over HTTP/1.1, HTTP/2 or TLS.
    pub(super) fn over_tcp(
        name: &'static str,
        about: &'static str,
        connections: usize,
        attacker: fn(SocketAddr) -> Attacker,
    ) -> Self {
        Self {
            name,
            about,
            connections,
            http3: false,
            attacker,
        }
    }

    /// An attack over HTTP/3.
    pub(super) fn over_quic(
        name: &'static str,
        about: &'static str,
        connections: usize,
        attacker: fn(SocketAddr) -> Attacker,
    ) -> Self {
        Self {
            http3: true,
            ..Self::over_tcp(name, about, connections, attacker)
        }
    }
}

/// The time after which an ended connection is replaced.
const PAUSE: Duration = Duration::from_millis(10);

/// Attacks for `time`. Prints how many connections were opened, and how many the server ended.
///
/// # Errors
/// If `address` is not this machine's.
pub(super) fn attack(attack: &Attack, address: SocketAddr, time: Duration) -> Result<()> {
    ensure!(
        address.ip().is_loopback(),
        "{address} is no loopback address: only servers here are attacked"
    );
    let ended = Arc::<AtomicU64>::default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        for _ in 0..attack.connections {
            tokio::spawn(again_and_again(
                attack.attacker,
                address,
                Arc::clone(&ended),
            ));
        }
        tokio::time::sleep(time).await;
    });
    let ended = ended.load(Ordering::Relaxed);
    println(format_args!(
        "{} {ended}",
        attack.connections as u64 + ended
    ));
    Ok(())
}

async fn again_and_again(
    attacker: fn(SocketAddr) -> Attacker,
    address: SocketAddr,
    ended: Arc<AtomicU64>,
) {
    loop {
        // However the connection ends, the server ended it.
        let _ = attacker(address).await;
        ended.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(PAUSE).await;
    }
}

/// Prints a line of the result.
#[allow(clippy::print_stdout)]
pub(super) fn println(line: std::fmt::Arguments<'_>) {
    println!("{line}");
}

/// Opens a TLS connection that offers `alpn` and accepts any certificate.
pub(super) async fn tls(address: SocketAddr, alpn: &str) -> Result<TlsStream<TcpStream>> {
    tls_over(TcpStream::connect(address).await?, alpn).await
}

/// Begins TLS over `tcp`, offers `alpn` and accepts any certificate.
pub(super) async fn tls_over(tcp: TcpStream, alpn: &str) -> Result<TlsStream<TcpStream>> {
    tcp.set_nodelay(true)?;
    let name = ServerName::try_from("localhost")?;
    Ok(TlsConnector::from(Arc::new(config(alpn)?))
        .connect(name, tcp)
        .await?)
}

/// Settings of a client that accepts any certificate: servers get theirs for the moment.
pub(super) fn config(alpn: &str) -> Result<ClientConfig> {
    Ok(AcceptAny::new().config(&[alpn])?)
}
