//! Servers that answer with as many bytes as they are asked for, on a core of their own.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bytes::Bytes;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{EndpointConfig, ServerConfig};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

/// The driver of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Quinn,
    Worker,
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Quinn => "quinn",
            Self::Worker => "worker",
        }
    }
}

/// A server on a thread with a runtime of its own.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) certificate: CertificateDer<'static>,
    thread: i32,
    _stop: tokio::sync::oneshot::Sender<()>,
}

impl Running {
    pub(crate) fn start(kind: Kind) -> Self {
        let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let certificate = certified.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key.into())
            .unwrap();
        let config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()));
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let (started, start) = mpsc::channel();
        let thread = std::thread::Builder::new().name("server".to_owned());
        let spawned = thread.spawn(move || {
            pin(0);
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
                let address = socket.local_addr().unwrap();
                let thread = rustix::thread::gettid().as_raw_nonzero().get();
                match kind {
                    Kind::Quinn => quinn_server(config, socket),
                    Kind::Worker => worker_server(config, socket),
                }
                started.send((address, thread)).unwrap();
                let _ = stopped.await;
            });
        });
        spawned.unwrap();
        let (address, thread) = start.recv().unwrap();
        Self {
            address,
            certificate,
            thread,
            _stop: stop,
        }
    }

    /// How often the server's thread has waited so far.
    pub(crate) fn sleeps(&self) -> u64 {
        let path = format!("/proc/self/task/{}/status", self.thread);
        let text = std::fs::read_to_string(path).unwrap();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.unwrap().trim().parse().unwrap()
    }

    /// CPU time of the server's thread, with what the kernel does on its account.
    pub(crate) fn cpu(&self) -> Duration {
        let path = format!("/proc/self/task/{}/schedstat", self.thread);
        let text = std::fs::read_to_string(path).unwrap();
        Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
    }
}

/// Binds this thread to a core, where there are enough.
pub(crate) fn pin(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        eprintln!("binding a thread to core {core}: {error}");
    }
}

/// Both drivers have the same names.
macro_rules! serve {
    ($endpoint:ident) => {
        tokio::spawn(async move {
            let content = Bytes::from(vec![7; 64 << 10]);
            while let Some(incoming) = $endpoint.accept().await {
                let content = content.clone();
                tokio::spawn(async move {
                    let connection = incoming.accept().unwrap().await.unwrap();
                    while let Ok((mut send, mut recv)) = connection.accept_bi().await {
                        let mut request = Vec::new();
                        while let Some(chunk) = recv.read_chunk(1 << 20, true).await.unwrap() {
                            request.extend_from_slice(&chunk.bytes);
                        }
                        let length = *request.first_chunk().unwrap();
                        let mut length = u64::from_be_bytes(length) as usize;
                        while length > 0 {
                            let part = content.slice(..length.min(content.len()));
                            length -= part.len();
                            send.write_all_chunks(&mut [part]).await.unwrap();
                        }
                        send.finish().unwrap();
                    }
                });
            }
        });
    };
}

fn quinn_server(config: ServerConfig, socket: std::net::UdpSocket) {
    let runtime = Arc::new(quinn::TokioRuntime);
    let endpoint = EndpointConfig::default();
    let endpoint = quinn::Endpoint::new(endpoint, Some(config), socket, runtime).unwrap();
    serve!(endpoint);
}

fn worker_server(config: ServerConfig, socket: std::net::UdpSocket) {
    let socket = Arc::new(hikyaku_quic::UdpSocket::new(socket).unwrap());
    let endpoint = EndpointConfig::default();
    let (endpoint, driver) = hikyaku_quic::Endpoint::new(endpoint, Some(config), socket).unwrap();
    tokio::spawn(driver);
    serve!(endpoint);
}
