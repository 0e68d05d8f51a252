//! Opens many connections, sends one request on each, and keeps them open and idle until standard
//! input ends.
//!
//! Prints a JSON line `{"open":N}` when the last one is idle, and another at the end with the
//! number that is still open. `make bench-edge` reads the server's memory in between.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt};
use hikyaku_h3_quinn::Config;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{Endpoint, TransportConfig};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpSocket;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use url::Url;

/// Options of `cargo xtask idle`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// URL that is requested once on each connection, on an IPv4 loopback address
    url: Url,

    /// HTTP version
    #[arg(long, value_name = "VERSION", value_parser = ["2", "3"])]
    http: String,

    /// Connections to open
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    connections: u32,

    /// Certificate that is trusted
    #[arg(long, value_name = "PEM")]
    cacert: PathBuf,
}

/// Simultaneous handshakes: enough to keep the server busy, but few enough that it sends no Retry.
const OPENING: usize = 64;

/// Source addresses, 127.0.1.1 and following. A server limits the connections of one, and one has
/// ports for some 28,000 only.
const SOURCES: u32 = 16;

/// The interval of pings, well below QUIC's idle timeout of 30 s.
const KEEP_ALIVE: Duration = Duration::from_secs(12);

/// Holds idle connections open until standard input ends.
pub(crate) fn run(args: &Args) -> Result<()> {
    raise_descriptor_limit(args.connections)?;
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(hold(args))
}

async fn hold(args: &Args) -> Result<()> {
    let client = Client::new(args)?;
    let (mut opening, mut open) = (FuturesUnordered::new(), Vec::new());
    for number in 0..args.connections {
        if opening.len() >= OPENING
            && let Some(connection) = opening.next().await
        {
            open.push(connection?);
        }
        opening.push(client.open(number));
    }
    while let Some(connection) = opening.next().await {
        open.push(connection?);
    }
    println!("{{\"open\":{}}}", open.len());
    // A thread waits for the end of the input, while connections answer pings.
    tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()))
        .await??;
    let left = open
        .iter()
        .filter(|connection| !connection.driver.is_finished());
    println!("{{\"open\":{}}}", left.count());
    Ok(())
}

/// A connection without requests.
struct Idle {
    /// The task that ends with the connection.
    driver: JoinHandle<()>,
    /// Dropping it would close the connection.
    _sender: Sender,
}

#[allow(dead_code, reason = "held, not used")]
enum Sender {
    Http2(h2::client::SendRequest<Bytes>),
    Http3(hikyaku_h3_quinn::Client),
}

struct Client {
    url: Url,
    remote: SocketAddr,
    transport: Transport,
}

enum Transport {
    Tcp(TlsConnector),
    /// QUIC endpoints, one for each source address.
    Quic(Vec<Endpoint>),
}

impl Client {
    fn new(args: &Args) -> Result<Self> {
        let port = args.url.port_or_known_default();
        let host = args.url.host_str().context("the URL names no host")?;
        let host: Ipv4Addr = host.parse().context("the URL's host is no IPv4 address")?;
        ensure!(host.is_loopback(), "{host} is not on loopback");
        let remote = SocketAddr::from((host, port.context("the URL has no port")?));
        let transport = match args.http.as_str() {
            "2" => Transport::Tcp(TlsConnector::from(Arc::new(tls(args, b"h2")?))),
            _ => Transport::Quic(endpoints(tls(args, b"h3")?)?),
        };
        let url = args.url.clone();
        Ok(Self {
            url,
            remote,
            transport,
        })
    }

    async fn open(&self, number: u32) -> Result<Idle> {
        let opening: Pin<Box<dyn Future<Output = Result<Idle>>>> = match &self.transport {
            Transport::Tcp(connector) => Box::pin(self.open_http2(connector, source(number))),
            Transport::Quic(endpoints) => {
                Box::pin(self.open_http3(&endpoints[(number % SOURCES) as usize]))
            }
        };
        opening
            .await
            .with_context(|| format!("opening connection {number}"))
    }

    async fn open_http2(&self, connector: &TlsConnector, source: IpAddr) -> Result<Idle> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(source, 0))?;
        let stream = socket.connect(self.remote).await?;
        let name = ServerName::from(self.remote.ip());
        let stream = connector.connect(name, stream).await?;
        let (mut sender, connection) = h2::client::handshake(stream).await?;
        let driver = tokio::spawn(async move {
            // The reason for the end does not matter.
            let _ = connection.await;
        });
        let (response, _) = sender.send_request(self.request()?, true)?;
        let response = response.await?;
        ensure!(response.status() == StatusCode::OK, "{}", response.status());
        let mut body = response.into_body();
        while let Some(data) = body.data().await {
            body.flow_control().release_capacity(data?.len())?;
        }
        Ok(Idle {
            driver,
            _sender: Sender::Http2(sender),
        })
    }

    async fn open_http3(&self, endpoint: &Endpoint) -> Result<Idle> {
        let name = self.remote.ip().to_string();
        let connection = endpoint.connect(self.remote, &name)?.await?;
        let (sender, driver) = hikyaku_h3_quinn::Client::new(connection, Config::default());
        let driver = tokio::spawn(async move {
            // The reason for the end does not matter.
            driver.await;
        });
        let head = self.request()?.into_parts().0.into();
        let (sending, mut receiving) = sender.request(&head).await?;
        drop(sending.finish().await?);
        let status = receiving.head().await?.status;
        ensure!(status == StatusCode::OK, "{status}");
        while let Some(frame) = receiving.frame().await {
            frame?;
        }
        Ok(Idle {
            driver,
            _sender: Sender::Http3(sender),
        })
    }

    fn request(&self) -> Result<Request<()>> {
        Ok(Request::get(self.url.as_str()).body(())?)
    }
}

fn source(number: u32) -> IpAddr {
    let first = Ipv4Addr::new(127, 0, 1, 1).to_bits();
    Ipv4Addr::from_bits(first + number % SOURCES).into()
}

fn endpoints(tls: ClientConfig) -> Result<Vec<Endpoint>> {
    let mut transport = TransportConfig::default();
    transport.keep_alive_interval(Some(KEEP_ALIVE));
    let mut config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(Arc::new(transport));
    let endpoint = |number| {
        let mut endpoint = Endpoint::client(SocketAddr::new(source(number), 0))?;
        endpoint.set_default_client_config(config.clone());
        Ok(endpoint)
    };
    (0..SOURCES).map(endpoint).collect()
}

fn tls(args: &Args, alpn: &[u8]) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let file = || format!("reading {}", args.cacert.display());
    for certificate in CertificateDer::pem_file_iter(&args.cacert).with_context(file)? {
        roots.add(certificate.with_context(file)?)?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.to_vec()];
    Ok(config)
}

/// Raises the limit of descriptors to one for each connection, and some more.
fn raise_descriptor_limit(connections: u32) -> Result<()> {
    let needed = u64::from(connections) + 100;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let maximum = limit.maximum.map(|maximum| maximum.max(needed));
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    if setrlimit(Resource::Nofile, raised).is_err() {
        bail!("{connections} connections need {needed} file descriptors: raise `ulimit -n`");
    }
    Ok(())
}
