//! Responses of several classes on one connection, whose class each route is for.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use hikyaku_testkit::client::{H2, H3, block_on, tls, tls_over};
use hikyaku_testkit::fetch::Http;
use hikyaku_testkit::{PATIENCE, Site, noise, skip, this_test};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::{ADAPTIVE, World, received};

const SERVER: &str = "[2001:db8:5::1]:8443";
/// The bytes of the interactive response, which are sent at once by a connection that has sent much.
const PAGE: usize = 60_000;
/// The bytes of a longer one.
const LONG: usize = 400_000;
/// The bytes of the bulk response.
const FILE: usize = 2_000_000;
/// The bytes over the other link of a response that took one: acknowledgements of the request.
const OTHER: u64 = 1_500;

/// Writes the content.
pub(super) fn write(site: &Site) {
    site.write("page.html", &noise(PAGE));
    site.write("long.html", &noise(LONG));
    site.write("file.bin", &noise(FILE));
}

/// One connection that stays open.
enum Client {
    H1(Box<BufReader<TlsStream<TcpStream>>>),
    H2(H2),
    H3(H3),
}

impl Client {
    async fn connect(http: Http) -> Self {
        let server: SocketAddr = SERVER.parse().unwrap();
        match http {
            Http::H1 => Self::H1(Box::new(BufReader::new(
                tls(server, &["http/1.1"]).await.unwrap(),
            ))),
            Http::H2 => Self::H2(H2::connect(server).await.unwrap()),
            Http::H3 => Self::H3(H3::connect(server).await.unwrap()),
        }
    }

    /// Loads a file, and returns its size.
    async fn get(&mut self, path: &str) -> usize {
        match self {
            Self::H1(stream) => get_h1(stream, path).await,
            Self::H2(client) => client.get(path).await.unwrap().body.len(),
            Self::H3(client) => client.get(path).await.unwrap().body.len(),
        }
    }

    /// The bytes over the links `a` and `b` while a file is loaded.
    async fn loads(&mut self, path: &str, size: usize) -> [u64; 2] {
        let before = ["a", "b"].map(received);
        let loading = tokio::time::timeout(PATIENCE, self.get(path));
        assert_eq!(loading.await.unwrap(), size);
        let after = ["a", "b"].map(received);
        // The last acknowledgements are sent, so that none of them counts for the next response.
        tokio::time::sleep(Duration::from_millis(50)).await;
        [after[0] - before[0], after[1] - before[1]]
    }

    #[track_caller]
    fn check(what: &str, [a, b]: [u64; 2], size: usize, link: &str) {
        let (on, other) = if link == "a" { (a, b) } else { (b, a) };
        assert!(
            on >= size as u64 && other <= OTHER,
            "{what}: {a} bytes over a and {b} over b of {size}"
        );
    }
}

async fn get_h1(stream: &mut BufReader<TlsStream<TcpStream>>, path: &str) -> usize {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    let (mut line, mut length) = (String::new(), 0);
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).await.unwrap();
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    body.len()
}

/// Bulk content takes link b, all else is plain, which is link a.
fn start() -> Option<World> {
    let world = World::start(ADAPTIVE)?;
    world.agent.as_ref().unwrap().steer(&["bulk"]);
    Some(world)
}

/// Has the server know the agent's answer for the client.
async fn until_steered(client: &mut Client) {
    let steered = async { while client.loads("/file.bin", FILE).await[1] < FILE as u64 {} };
    tokio::time::timeout(PATIENCE, steered).await.unwrap();
}

/// Each response of a connection takes the route of its class, whatever the former one was.
fn takes_turns(http: Http) {
    let Some(world) = start() else {
        return;
    };
    let turns = async || {
        let mut client = Client::connect(http).await;
        until_steered(&mut client).await;
        for turn in 0..3 {
            let page = client.loads("/page.html", PAGE).await;
            Client::check(&format!("page {turn}"), page, PAGE, "a");
            let file = client.loads("/file.bin", FILE).await;
            Client::check(&format!("file {turn}"), file, FILE, "b");
        }
    };
    world.client().enter(|| block_on(turns())).unwrap();
}

#[test]
fn responses_of_http1_take_turns() {
    takes_turns(Http::H1);
}

#[test]
fn responses_of_http2_take_turns() {
    takes_turns(Http::H2);
}

#[test]
fn responses_of_http3_take_turns() {
    takes_turns(Http::H3);
}

/// Responses that run together take the route of the class with the most bytes still to send.
fn runs_together(http: Http) {
    let Some(world) = start() else {
        return;
    };
    let together = async || {
        let mut client = Client::connect(http).await;
        until_steered(&mut client).await;
        let before = ["a", "b"].map(received);
        let sizes = match &mut client {
            Client::H2(client) => {
                let [mut one, mut two] = [(); 2].map(|()| H2 {
                    requests: client.requests.clone(),
                    driver: tokio::spawn(std::future::pending()),
                });
                let (page, file) = tokio::join!(one.get("/long.html"), two.get("/file.bin"));
                [page.unwrap().body.len(), file.unwrap().body.len()]
            }
            Client::H3(client) => {
                let (page, file) = tokio::join!(client.get("/long.html"), client.get("/file.bin"));
                [page.unwrap().body.len(), file.unwrap().body.len()]
            }
            Client::H1(_) => unreachable!("it has one at a time"),
        };
        assert_eq!(sizes, [LONG, FILE]);
        let after = ["a", "b"].map(received);
        let [a, b] = [after[0] - before[0], after[1] - before[1]];
        // The page comes first, and the file joins it a moment later.
        assert!(
            b >= (FILE + LONG / 2) as u64,
            "{a} bytes over a, {b} over b"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
        let page = client.loads("/page.html", PAGE).await;
        Client::check("a page alone", page, PAGE, "a");
    };
    world.client().enter(|| block_on(together())).unwrap();
}

#[test]
fn streams_of_http2_share_the_route_of_most_bytes() {
    runs_together(Http::H2);
}

#[test]
fn streams_of_http3_share_the_route_of_most_bytes() {
    runs_together(Http::H3);
}

/// Opens a connection of MPTCP that stays open.
async fn connect_mptcp() -> Client {
    let (ipv6, stream) = (socket2::Domain::IPV6, socket2::Type::STREAM);
    let socket = socket2::Socket::new(ipv6, stream, Some(socket2::Protocol::MPTCP)).unwrap();
    let server: SocketAddr = SERVER.parse().unwrap();
    socket.connect(&server.into()).unwrap();
    socket.set_nonblocking(true).unwrap();
    let tcp = TcpStream::from_std(socket.into()).unwrap();
    let tls = tls_over(tcp, &["http/1.1"]).await.unwrap();
    Client::H1(Box::new(BufReader::new(tls)))
}

/// Each response over several egress routes has the subflows of its class, whatever the former one
/// had. The page goes over the subflow with the lowest RTT, the file over both.
#[test]
fn responses_over_mptcp_have_the_subflows_of_their_class() {
    if !Path::new("/proc/sys/net/mptcp/enabled").exists() {
        skip(&this_test(), "this kernel has no MPTCP");
        return;
    }
    let Some(world) = World::start("[policy]\nroute = \"aggregate\"") else {
        return;
    };
    for node in ["server", "client"] {
        world.ip(node, "mptcp limits set subflows 2 add_addr_accepted 2");
    }
    world.ip("server", "mptcp endpoint add 2001:db8:5::b1 signal");
    let agent = world.agent.as_ref().unwrap();
    let last_is = |class: &str, subflows: usize| {
        let hints = agent.hints();
        let order = |hint: &Value| hint["order"].as_array().map(Vec::len);
        let last = hints.last();
        last.is_some_and(|hint| hint["class"] == class && order(hint) == Some(subflows))
    };
    let turns = async || {
        let mut client = connect_mptcp().await;
        for turn in 0..3 {
            let loading = async {
                // The second subflow may still be joining, and a busy machine may look too late.
                while !last_is("interactive", 2) {
                    client.get("/long.html").await;
                }
                while !last_is("bulk", 0) {
                    client.get("/file.bin").await;
                }
            };
            let loaded = tokio::time::timeout(PATIENCE, loading).await;
            assert!(loaded.is_ok(), "turn {turn}: {:?}", agent.hints().last());
        }
    };
    world.client().enter(|| block_on(turns())).unwrap();
}
