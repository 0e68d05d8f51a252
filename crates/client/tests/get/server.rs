//! A server for the client to be tested against, on loopback, in all versions of HTTP.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use hikyaku_h3_quic::Config;
use hikyaku_quic::Endpoint;
use hikyaku_quic::proto::crypto::rustls::QuicServerConfig;
use hikyaku_quic::proto::{EndpointConfig, ServerConfig};
use http::{HeaderMap, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Collected, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::server::{ServerSessionMemoryCache, StoresServerSessions};
use rustls::version::{TLS12, TLS13};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

/// A request as the server saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) version: Version,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Number of the connection, from 1 over all versions.
    pub(crate) connection: u64,
    /// Position in the order of arrival, which differs from that of the tasks' responses.
    arrival: u64,
}

/// The server's behaviour.
#[derive(Default)]
pub(crate) struct State {
    /// Alt-Svc on HTTP/1.1 and 2; `PORT` stands for the server's own.
    pub(crate) alt_svc_tcp: Option<String>,
    /// Alt-Svc on HTTP/3.
    pub(crate) alt_svc_quic: Option<String>,
    /// Documents by path; the path defines the content of others.
    pub(crate) documents: Vec<(String, &'static str, String)>,
    pub(crate) seen: Vec<Seen>,
}

/// The protocols that the server offers.
#[derive(Clone, Copy)]
pub(crate) struct Offer {
    pub(crate) alpn: &'static [&'static str],
    /// `None`: nothing listens. `Some(false)`: packets are swallowed.
    pub(crate) http3: Option<bool>,
    pub(crate) tls: bool,
    /// TLS 1.2 alone over TCP.
    pub(crate) tls12: bool,
    /// Multipath TCP, which takes plain TCP, too.
    pub(crate) mptcp: bool,
}

pub(crate) const ALL: Offer = Offer {
    alpn: &["h2", "http/1.1"],
    http3: Some(true),
    tls: true,
    tls12: false,
    mptcp: false,
};

/// The TLS sessions of a server, or of several.
#[derive(Debug)]
pub(crate) struct Sessions {
    kept: Arc<ServerSessionMemoryCache>,
    /// How many clients came with one that is kept.
    resumed: AtomicU64,
}

impl Sessions {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            kept: ServerSessionMemoryCache::new(1000),
            resumed: AtomicU64::new(0),
        })
    }

    fn found(&self, session: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let count = u64::from(session.is_some());
        self.resumed.fetch_add(count, Ordering::Relaxed);
        session
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.kept.put(key, value)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.found(self.kept.get(key))
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.found(self.kept.take(key))
    }

    fn can_cache(&self) -> bool {
        true
    }
}

/// A running server; it ends on drop.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) certificate: tempfile::NamedTempFile,
    shared: Arc<Shared>,
    sessions: Arc<Sessions>,
    /// Swallows the packets that are sent to it.
    _blackhole: Option<UdpSocket>,
    _runtime: Runtime,
}

struct Shared {
    port: u16,
    state: Mutex<State>,
    connections: AtomicU64,
    arrivals: AtomicU64,
    /// Connections of HTTP/3 that have ended.
    ended: AtomicU64,
}

impl Server {
    pub(crate) fn start(offer: Offer) -> Self {
        Self::at(
            sockets(Ipv4Addr::LOCALHOST, offer.mptcp),
            offer,
            Sessions::new(),
        )
    }

    /// Starts two servers that share their sessions, at 127.0.0.1 and 127.0.0.2, on the same port.
    pub(crate) fn pair(offer: Offer) -> [Self; 2] {
        for _ in 0..100 {
            let first = sockets(Ipv4Addr::LOCALHOST, offer.mptcp);
            let port = first.0.local_addr().unwrap().port();
            let other = Ipv4Addr::new(127, 0, 0, 2);
            if let Some(second) = sockets_at((other, port).into(), offer.mptcp) {
                let sessions = Sessions::new();
                return [first, second].map(|at| Self::at(at, offer, Arc::clone(&sessions)));
            }
        }
        panic!("no port is free at two addresses");
    }

    fn at((tcp, udp): (TcpListener, UdpSocket), offer: Offer, sessions: Arc<Sessions>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let address = tcp.local_addr().unwrap();
        let shared = Arc::new(Shared {
            port: address.port(),
            state: Mutex::default(),
            connections: AtomicU64::new(0),
            arrivals: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        });
        let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let mut certificate = tempfile::NamedTempFile::new().unwrap();
        certificate
            .write_all(certified.cert.pem().as_bytes())
            .unwrap();
        let config = |alpn: &[&str]| {
            let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            let versions = match offer.tls12 && alpn != ["h3"] {
                true => &[&TLS12][..],
                false => &[&TLS12, &TLS13],
            };
            let mut tls = rustls::ServerConfig::builder_with_provider(provider)
                .with_protocol_versions(versions)
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![certified.cert.der().clone()], key.into())
                .unwrap();
            tls.session_storage = Arc::<Sessions>::clone(&sessions);
            tls.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
            tls
        };
        let _guard = runtime.enter();
        let acceptor = offer
            .tls
            .then(|| TlsAcceptor::from(Arc::new(config(offer.alpn))));
        tcp.set_nonblocking(true).unwrap();
        let listener = tokio::net::TcpListener::from_std(tcp).unwrap();
        runtime.spawn(serve_tcp(listener, acceptor, shared.clone()));
        let mut blackhole = None;
        match offer.http3 {
            Some(true) => {
                let crypto = QuicServerConfig::try_from(config(&["h3"])).unwrap();
                let server = ServerConfig::with_crypto(Arc::new(crypto));
                let socket = Arc::new(hikyaku_quic::UdpSocket::new(udp).unwrap());
                let endpoint = Endpoint::spawn(EndpointConfig::default(), Some(server), socket);
                runtime.spawn(serve_quic(endpoint.unwrap(), shared.clone()));
            }
            Some(false) => blackhole = Some(udp),
            None => {}
        }
        drop(_guard);
        Self {
            address,
            certificate,
            shared,
            sessions,
            _blackhole: blackhole,
            _runtime: runtime,
        }
    }

    /// `https://localhost:PORT` and the path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.address.port())
    }

    /// Options that make the client trust and find the server.
    pub(crate) fn trust(&self) -> String {
        format!("-4 --cacert {}", self.certificate.path().display())
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.shared.state.lock().unwrap());
    }

    pub(crate) fn document(&self, path: &str, kind: &'static str, text: impl Into<String>) {
        self.set(|state| state.documents.push((path.to_owned(), kind, text.into())));
    }

    /// Returns how many connections of HTTP/3 have ended so far.
    pub(crate) fn ended(&self) -> u64 {
        self.shared.ended.load(Ordering::Relaxed)
    }

    /// Returns how many clients have come with a session of this server, or of one that shares it.
    pub(crate) fn resumed(&self) -> u64 {
        self.sessions.resumed.load(Ordering::Relaxed)
    }

    /// Returns the requests so far, in the order of arrival, and forgets them.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        let mut seen = std::mem::take(&mut self.shared.state.lock().unwrap().seen);
        seen.sort_by_key(|request| request.arrival);
        seen
    }
}

/// TCP and UDP on the same free port.
fn sockets(address: Ipv4Addr, mptcp: bool) -> (TcpListener, UdpSocket) {
    let mut tries = (0..100).filter_map(|_| sockets_at((address, 0).into(), mptcp));
    tries.next().expect("a port that is free for TCP and UDP")
}

/// TCP and UDP at an address; `None` if they are taken.
fn sockets_at(at: SocketAddr, mptcp: bool) -> Option<(TcpListener, UdpSocket)> {
    let protocol = if mptcp {
        Protocol::MPTCP
    } else {
        Protocol::TCP
    };
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol)).unwrap();
    socket.bind(&at.into()).ok()?;
    socket.listen(1024).ok()?;
    let tcp = TcpListener::from(socket);
    let udp = UdpSocket::bind(tcp.local_addr().unwrap()).ok()?;
    Some((tcp, udp))
}

async fn serve_tcp(
    listener: tokio::net::TcpListener,
    acceptor: Option<TlsAcceptor>,
    shared: Arc<Shared>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let shared = shared.clone();
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            let connection = shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
            let service = service_fn(move |request: Request<Incoming>| {
                let shared = shared.clone();
                let arrival = shared.arrive();
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await.map(Collected::to_bytes);
                    let request = Request::from_parts(head, body.unwrap_or_default());
                    let answer = shared.answer(request, connection, arrival).await;
                    Ok::<_, Infallible>(answer.map(Full::new))
                }
            });
            let Some(acceptor) = acceptor else {
                let http = hyper::server::conn::http1::Builder::new();
                let _ = http.serve_connection(TokioIo::new(stream), service).await;
                return;
            };
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            let stream = TokioIo::new(stream);
            if is_h2 {
                let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let _ = http.serve_connection(stream, service).await;
            } else {
                let http = hyper::server::conn::http1::Builder::new();
                let _ = http.serve_connection(stream, service).await;
            }
        });
    }
}

async fn serve_quic(endpoint: Endpoint, shared: Arc<Shared>) {
    while let Some(incoming) = endpoint.accept().await {
        let shared = shared.clone();
        tokio::spawn(async move {
            let Ok(connecting) = incoming.accept() else {
                return;
            };
            let Ok(quic) = connecting.await else { return };
            let connection = shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
            let mut http = hikyaku_h3_quic::Server::new(quic.clone(), Config::default(), 12 << 20);
            while let Ok(request) = poll_fn(|cx| http.poll_accept(cx)).await {
                let shared = shared.clone();
                let quic = quic.clone();
                let arrival = shared.arrive();
                tokio::spawn(async move {
                    let (mut receiving, mut sending) = (request.receiving, request.sending);
                    let Ok(head) = receiving.head().await else {
                        return;
                    };
                    if head.parts.uri.path() == "/hangup" {
                        quic.close(0x0102u32.into(), b"");
                        return;
                    }
                    sending.answers(&head.parts.method, head.priority);
                    let body = receiving.collect().await.map(Collected::to_bytes);
                    let request = Request::from_parts(head.parts, body.unwrap_or_default());
                    let answer = shared.answer(request, connection, arrival).await;
                    let (head, body) = answer.into_parts();
                    let _ = sending.head(head.status, &head.headers);
                    if !body.is_empty() && sending.takes_content() {
                        let _ = sending.data(body).await;
                    }
                    let _ = sending.finish().await;
                });
            }
            shared.ended.fetch_add(1, Ordering::Relaxed);
        });
    }
}

impl Shared {
    fn arrive(&self) -> u64 {
        self.arrivals.fetch_add(1, Ordering::Relaxed)
    }

    async fn answer(
        &self,
        request: Request<Bytes>,
        connection: u64,
        arrival: u64,
    ) -> Response<Bytes> {
        let path = request.uri().path().to_owned();
        let version = request.version();
        let mut answer = Response::new(Bytes::new());
        {
            let mut state = self.state.lock().unwrap();
            state.seen.push(Seen {
                version,
                method: request.method().to_string(),
                path: path.clone(),
                headers: request.headers().clone(),
                body: request.body().clone(),
                connection,
                arrival,
            });
            let alt_svc = match version {
                Version::HTTP_3 => &state.alt_svc_quic,
                _ => &state.alt_svc_tcp,
            };
            if let Some(value) = alt_svc {
                let value = value.replace("PORT", &self.port.to_string());
                answer
                    .headers_mut()
                    .insert("alt-svc", value.parse().unwrap());
            }
            let document = state.documents.iter().find(|(at, ..)| *at == path);
            if let Some((_, kind, text)) = document {
                *answer.body_mut() = Bytes::from(text.clone());
                answer
                    .headers_mut()
                    .insert("content-type", kind.parse().unwrap());
                return answer;
            }
        }
        match path.split('/').collect::<Vec<_>>()[..] {
            ["", "bytes", count] => *answer.body_mut() = vec![7; count.parse().unwrap()].into(),
            ["", "echo"] => *answer.body_mut() = request.into_body(),
            ["", "status", code] => {
                *answer.status_mut() = StatusCode::from_bytes(code.as_bytes()).unwrap();
            }
            ["", "delay", ms] => {
                tokio::time::sleep(Duration::from_millis(ms.parse().unwrap())).await;
            }
            // Half of the announced length, which only HTTP/3's library lets through.
            ["", "half"] => {
                *answer.body_mut() = Bytes::from_static(b"12345");
                answer.headers_mut().insert("content-length", 10.into());
            }
            ["", "never"] => std::future::pending().await,
            _ => *answer.status_mut() = StatusCode::NOT_FOUND,
        }
        answer
    }
}
