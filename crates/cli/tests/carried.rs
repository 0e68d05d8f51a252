//! First visits at one server that begin as a return to another: by summaries in session tickets, and by a
//! store. Over an emulated link; needs root. Without, the tests report a skip and pass.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hikyaku_emulator::link::{CLIENT_V4, LinkPair, SERVER_V4, Topology};
use hikyaku_netsim::{Capacity, LinkConfig, Loss, QueueLimit};
use hikyaku_quic::Endpoint;
use hikyaku_quic::proto::ClientConfig;
use hikyaku_quic::proto::crypto::rustls::QuicClientConfig;
use hikyaku_testkit::client::{H2, H3, block_on, tls_config};
use hikyaku_testkit::store::Store;
use hikyaku_testkit::{PATIENCE, Server, Site, eventually, skip, this_test};
use hikyaku_units::{ByteSize, LossRate, Rate};
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Concurrent links would disturb each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Bytes of a visit.
const SIZE: usize = 2_000_000;

/// Two namespaces with a link, and what servers in one of them serve.
struct Lab {
    topology: Topology,
    site: Site,
    keys: tempfile::NamedTempFile,
}

/// A client that keeps its sessions, and no connection.
#[derive(Clone)]
struct Client {
    quic: ClientConfig,
    tls: Arc<rustls::ClientConfig>,
}

/// How a client comes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Over {
    Tcp,
    Quic,
}

impl Over {
    /// Its name in explanations.
    fn transport(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Quic => "quic",
        }
    }
}

/// An open connection of the client.
enum Open {
    Tcp(H2),
    Quic(H3),
}

impl Lab {
    fn on(link: LinkPair) -> Self {
        let mut topology = Topology::create().unwrap();
        topology.start_link(link, 7).unwrap();
        let keys = tempfile::NamedTempFile::new().unwrap();
        fs::write(keys.path(), "01".repeat(32)).unwrap();
        fs::set_permissions(keys.path(), fs::Permissions::from_mode(0o600)).unwrap();
        Self {
            topology,
            site: Site::with_big_file(SIZE),
            keys,
        }
    }

    /// Starts a server whose choices hold still.
    fn start(&self, args: &[&str]) -> Server {
        let keys = format!("fleet.key_file={}", self.keys.path().display());
        let listen = format!("{SERVER_V4}:0");
        let usual = [self.site.path(), "--listen", &listen, "--set", &keys];
        let policy = [
            "--set",
            "policy.holdback=0",
            "--set",
            "policy.exploration=0",
        ];
        let args = [&usual[..], &policy, args].concat();
        self.in_server(|| Server::start(&args))
    }

    fn in_server<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.topology.server().enter(work).unwrap()
    }

    fn in_client<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.topology.client().enter(work).unwrap()
    }

    /// A server's knowledge of the client.
    fn explain(&self, server: &Server) -> Value {
        let path = format!("/v1/clients/{CLIENT_V4}");
        self.in_server(|| server.admin_json(&path))
    }

    /// The time of a visit, from the first packet to the last byte.
    fn visit(&self, client: &Client, over: Over, server: &Server) -> Duration {
        let address = server.address();
        let visit = || block_on(async { timeout(PATIENCE, client.visit(over, address)).await });
        self.in_client(visit).unwrap()
    }

    /// The window of a connection that has sent nothing but its handshake.
    fn first_window(&self, client: &Client, over: Over, server: &Server) -> u64 {
        let address = server.address();
        let (done, told) = tokio::sync::oneshot::channel::<()>();
        let (heard, hears) = std::sync::mpsc::channel();
        let client = client.clone();
        let visit = async move {
            let open = timeout(PATIENCE, client.open(over, address)).await.unwrap();
            open.hear().await;
            let _ = heard.send(());
            let _ = told.await;
            open.close().await;
        };
        let held = self.in_client(|| std::thread::spawn(move || block_on(visit)));
        hears.recv_timeout(PATIENCE).unwrap();
        let window = eventually("the connection is listed", || {
            bytes(&self.explain(server)["open"][0]["cwnd"]).filter(|&window| window > 0)
        });
        done.send(()).unwrap();
        held.join().unwrap();
        window
    }

    /// Waits until the store has all that the server knows.
    fn wait_for_store(&self, store: &Store, server: &Server) {
        self.in_server(|| {
            let paths = || store.run(&["KEYS", "hikyaku:1:path:*"]);
            let waits = || server.metric("hikyaku_fleet_lag_seconds") > 0.0;
            eventually("all that it knows in the store", || {
                (!paths().is_empty() && !waits()).then_some(())
            });
        });
    }

    /// The window of a new client's connection after a short response, which it requests once the server has
    /// read of its path from the store.
    fn window_after_a_response(&self, over: Over, server: &Server) -> u64 {
        let (read, is_read) = tokio::sync::oneshot::channel::<()>();
        let (seen, is_seen) = tokio::sync::oneshot::channel::<()>();
        let (came, comes) = std::sync::mpsc::channel();
        let (client, address) = (Client::new(), server.address());
        let visit = async move {
            let mut open = timeout(PATIENCE, client.open(over, address)).await.unwrap();
            let _ = is_read.await;
            assert_eq!(open.get("/small.txt").await, 3000);
            came.send(()).unwrap();
            let _ = is_seen.await;
            open.close().await;
        };
        let held = self.in_client(|| std::thread::spawn(move || block_on(visit)));
        eventually("what the store knows", || {
            let explained = self.explain(server);
            let known = bytes(&explained["path"]["known"][over.transport()]["bdp"]);
            known.filter(|_| explained["open"][0]["cwnd"].is_string())
        });
        read.send(()).unwrap();
        comes.recv().unwrap();
        let window = bytes(&self.explain(server)["open"][0]["cwnd"]).unwrap();
        seen.send(()).unwrap();
        held.join().unwrap();
        window
    }
}

impl Client {
    fn new() -> Self {
        let quic = QuicClientConfig::try_from(tls_config(&["h3"])).unwrap();
        Self {
            quic: ClientConfig::new(Arc::new(quic)),
            tls: Arc::new(tls_config(&["h2"])),
        }
    }

    async fn open(&self, over: Over, address: SocketAddr) -> Open {
        match over {
            Over::Quic => {
                let any = SocketAddr::from((CLIENT_V4, 0));
                let endpoint = Endpoint::bind(any, None).unwrap();
                let connecting = endpoint.connect(self.quic.clone(), address, "localhost");
                let quic = connecting.unwrap().await.unwrap();
                Open::Quic(H3::over(endpoint, quic))
            }
            Over::Tcp => {
                let tcp = TcpStream::connect(address).await.unwrap();
                tcp.set_nodelay(true).unwrap();
                let connector = TlsConnector::from(Arc::clone(&self.tls));
                let name = ServerName::try_from("localhost").unwrap();
                let tls = connector.connect(name, tcp).await.unwrap();
                let mut settings = h2::client::Builder::new();
                settings
                    .initial_window_size(8 << 20)
                    .initial_connection_window_size(8 << 20);
                let (requests, connection) = settings.handshake(tls).await.unwrap();
                let driver = tokio::spawn(connection);
                Open::Tcp(H2 { requests, driver })
            }
        }
    }

    async fn visit(&self, over: Over, address: SocketAddr) -> Duration {
        let begun = Instant::now();
        let mut open = self.open(over, address).await;
        let length = open.get("/big.bin").await;
        let took = begun.elapsed();
        assert_eq!(length, SIZE);
        open.close().await;
        took
    }
}

impl Open {
    /// Waits for the server's SETTINGS over QUIC. They are the first that it sends with a window which a
    /// summary has set: the summary counts from the end of the handshake on.
    async fn hear(&self) {
        if let Self::Quic(h3) = self {
            let heard = async {
                while h3.quic.stats().frame_rx.stream == 0 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            timeout(PATIENCE, heard).await.unwrap();
        }
    }

    /// The length of a response's content.
    async fn get(&mut self, path: &str) -> usize {
        let response = match self {
            Self::Tcp(h2) => h2.get(path).await.unwrap(),
            Self::Quic(h3) => h3.get(path).await.unwrap(),
        };
        response.body.len()
    }

    async fn close(self) {
        match self {
            Self::Quic(h3) => h3.close().await,
            Self::Tcp(H2 { requests, driver }) => {
                drop(requests);
                let _ = driver.await;
            }
        }
    }
}

/// Bytes of an explanation.
fn bytes(value: &Value) -> Option<u64> {
    let size: ByteSize = value.as_str()?.parse().ok()?;
    Some(size.bytes())
}

fn link(mbps: u64, rtt: Duration, loss: f64) -> LinkPair {
    let up = LinkConfig {
        rate: Capacity::Rate(Rate::from_mbps(mbps)),
        one_way_delay: rtt / 2,
        queue: QueueLimit::Time(Duration::from_millis(50)),
        ..LinkConfig::default()
    };
    let mut down = up.clone();
    if loss > 0.0 {
        down.loss = Loss::Bernoulli(LossRate::from_fraction(loss));
    }
    LinkPair { up, down }
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip(&this_test(), "emulated links need root");
    }
    is_root
}

#[test]
fn a_first_visit_begins_with_the_window_of_a_return() {
    if !is_root() {
        return;
    }
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::on(link(100, Duration::from_millis(40), 0.0));
    for (over, version) in [(Over::Quic, "h3"), (Over::Tcp, "h2")] {
        let policy = ["--set", &format!("policy.version={version}")];
        let [a, b, without] = [(); 3].map(|()| lab.start(&policy));
        let [client, stranger] = [(); 2].map(|()| Client::new());
        for _ in 0..4 {
            lab.visit(&client, over, &a);
        }
        let there = lab.explain(&a)["path"]["known"].clone();
        let unknown = lab.first_window(&stranger, over, &without);
        let first = lab.first_window(&client, over, &b);
        let known = lab.explain(&b);
        let levels = known["levels"].as_array().unwrap();
        assert!(
            levels.iter().any(|level| level["carried"] == true),
            "{known}"
        );
        let transport = over.transport();
        let bdp = |known: &Value| bytes(&known[transport]["bdp"]).unwrap() as f64;
        let (there, here) = (bdp(&there), bdp(&known["path"]["known"]));
        // The ticket is of the beginning of the last visit, which has measured the rate once more.
        assert!(
            (here / there - 1.0).abs() < 0.25,
            "{over:?}: {here}, {there}"
        );

        let floors = known["decision"]["congestion"][transport]["chosen"] == "floor";
        if !floors {
            skip(&this_test(), &format!("{over:?} has no floor here"));
            continue;
        }
        let returning = lab.first_window(&client, over, &a);
        assert!(first > 2 * unknown, "{over:?}: {first}, {unknown}");
        // The acknowledgements of a handshake are a packet more or less.
        assert!(
            first.abs_diff(returning) <= 4 * 1500,
            "{over:?}: {first}, {returning}"
        );
    }
}

#[test]
fn a_first_visit_goes_on_with_the_path_that_the_store_knows() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if !is_root() {
        return;
    }
    let lab = Lab::on(link(100, Duration::from_millis(40), 0.0));
    lab.site.write("small.txt", &[b'x'; 3000]);
    let test = this_test();
    for (over, version) in [(Over::Quic, "h3"), (Over::Tcp, "h2")] {
        let Some(store) = lab.in_server(|| Store::start(&test, &[])) else {
            return;
        };
        let start = |name: &str| {
            let settings = [
                format!("fleet.store={}", store.url()),
                format!("fleet.name={name}"),
                "fleet.pop=here".to_owned(),
                "fleet.carry=false".to_owned(),
                format!("policy.version={version}"),
            ];
            let args = settings.iter().flat_map(|setting| ["--set", setting]);
            lab.start(&args.collect::<Vec<_>>())
        };
        let (a, b) = (start("a"), start("b"));
        for _ in 0..4 {
            lab.visit(&Client::new(), over, &a);
        }
        let known = lab.explain(&a);
        let transport = over.transport();
        if known["decision"]["congestion"][transport]["chosen"] != "floor" {
            skip(&test, &format!("{over:?} has no floor here"));
            continue;
        }
        lab.wait_for_store(&store, &a);
        let window = lab.window_after_a_response(over, &b);
        // Three packets more than ten, at most, on a path that nobody knows.
        assert!(window > 20 * 1200, "{over:?}: {window}");
    }
}

/// The goal: at most 1.03 times a return. To be run by itself, on a machine that does nothing else.
#[test]
#[ignore = "long: 15 rounds of visits over eight links"]
fn first_visits_beside_returns() {
    const ROUNDS: usize = 15;
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64() * 1000.0
    };
    let (mut firsts, mut strangers) = (0.0, 0.0);
    eprintln!("over, RTT, loss: unknown, first at B, return at A in ms; first / return");
    for rtt in [Duration::from_micros(12_500), Duration::from_millis(25)] {
        for loss in [0.0, 0.025] {
            let lab = Lab::on(link(200, rtt, loss));
            for (over, version) in [(Over::Quic, "h3"), (Over::Tcp, "h2")] {
                let policy = [
                    "--set",
                    &format!("policy.version={version}"),
                    "--set",
                    "policy.session_idle=1s",
                ];
                let [mut unknown, mut first, mut returns] = [(); 3].map(|()| Vec::new());
                for _ in 0..ROUNDS {
                    let [a, b, none] = [(); 3].map(|()| lab.start(&policy));
                    let client = Client::new();
                    unknown.push(lab.visit(&Client::new(), over, &none));
                    for _ in 0..4 {
                        lab.visit(&client, over, &a);
                    }
                    // The ticket that brings the client to B is that of its last visit to A.
                    let other = client.clone();
                    first.push(lab.visit(&other, over, &b));
                    returns.push(lab.visit(&client, over, &a));
                }
                let [unknown, first, returns] = [unknown, first, returns].map(median);
                firsts += first;
                strangers += unknown;
                eprintln!(
                    "{over:?}, {rtt:?}, {loss}: {unknown:.1}, {first:.1}, {returns:.1}; {:.3}",
                    first / returns
                );
            }
        }
    }
    assert!(
        firsts < strangers,
        "the summaries spare nothing: {firsts:.0} ms, and {strangers:.0} ms without"
    );
}
