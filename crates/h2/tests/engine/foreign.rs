//! The client of the crate `h2` against the engine, over a pipe in memory.

use std::time::Instant;

use bytes::{Buf, Bytes, BytesMut};
use h2::client::{self, SendRequest};
use hikyaku_h2::connection::{Config, Connection, Event, Shutdown};
use hikyaku_h2::error::Code;
use hikyaku_h2::message::Prepared;
use hikyaku_h2::output::Output;
use http::{HeaderMap, Method, Request, StatusCode, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;

/// A request as far as the server has it.
#[derive(Default)]
struct Exchange {
    stream: u32,
    path: String,
    content: Vec<u8>,
}

/// A server that answers by the path.
struct Server {
    connection: Connection,
    prepared: Prepared,
    exchanges: Vec<Exchange>,
}

impl Server {
    fn new(config: Config) -> Self {
        let headers = HeaderMap::from_iter([
            (http::header::CONTENT_TYPE, "text/plain".parse().unwrap()),
            (http::header::SERVER, "hikyaku".parse().unwrap()),
            (http::header::CONTENT_LENGTH, "5".parse().unwrap()),
        ]);
        Self {
            connection: Connection::server(config, Instant::now()),
            prepared: Prepared::new(StatusCode::OK, &headers),
            exchanges: Vec::new(),
        }
    }

    async fn run(mut self, mut pipe: DuplexStream) {
        let mut input = BytesMut::with_capacity(1 << 14);
        let mut output = Output::new();
        loop {
            while self.connection.has_output() {
                self.connection.poll_transmit(&mut output, 10_000);
                while output.has_remaining() {
                    if pipe.write_buf(&mut output).await.is_err() {
                        return;
                    }
                }
                while let Some(sent) = self.connection.poll_sent() {
                    if !sent.is_complete {
                        self.go_on(sent.stream);
                    }
                }
            }
            if self.connection.is_finished() {
                return;
            }
            input.clear();
            if pipe.read_buf(&mut input).await.unwrap_or(0) == 0 {
                return;
            }
            self.receive(&input);
        }
    }

    fn receive(&mut self, mut input: &[u8]) {
        while let Some(event) = self.connection.recv(&mut input, Instant::now()).unwrap() {
            let (stream, ended) = match event {
                Event::Request { stream, head, end } => {
                    let path = head.path().unwrap_or(head.authority().unwrap()).to_owned();
                    self.exchanges.push(Exchange {
                        stream,
                        path,
                        content: Vec::new(),
                    });
                    (stream, end)
                }
                Event::Data { stream, data, end } => {
                    let length = data.len() as u32;
                    let is_it = |it: &&mut Exchange| it.stream == stream;
                    let exchange = self.exchanges.iter_mut().find(is_it).unwrap();
                    exchange.content.extend_from_slice(data);
                    self.connection.grow_stream_window(stream, length);
                    self.connection.grow_connection_window(length);
                    (stream, end)
                }
                Event::Trailers { stream, trailers } => {
                    let value = trailers.get("x-sum").unwrap().to_vec();
                    let is_it = |it: &&mut Exchange| it.stream == stream;
                    let exchange = self.exchanges.iter_mut().find(is_it).unwrap();
                    exchange.content.extend_from_slice(&value);
                    (stream, true)
                }
                Event::Reset { stream, .. } => {
                    self.exchanges.retain(|it| it.stream != stream);
                    continue;
                }
                Event::TooLarge { stream, .. } => {
                    let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
                    let none = HeaderMap::new();
                    self.connection
                        .send_head(stream, status, &none, true)
                        .unwrap();
                    continue;
                }
                Event::Pong { .. } | Event::GoAway { .. } => continue,
            };
            self.answer(stream, ended);
        }
    }

    fn answer(&mut self, stream: u32, ended: bool) {
        let Some(at) = self.exchanges.iter().position(|it| it.stream == stream) else {
            return;
        };
        let none = HeaderMap::new();
        let Exchange { path, content, .. } = &mut self.exchanges[at];
        let connection = &mut self.connection;
        match &**path {
            "/tunnel" | "a.test:443" => {
                if content.is_empty() && !ended {
                    connection
                        .send_head(stream, StatusCode::OK, &none, false)
                        .unwrap();
                } else {
                    let echo = Bytes::from(std::mem::take(content));
                    connection.send_data(stream, echo, ended).unwrap();
                }
            }
            "/reset" => connection.reset(stream, Code::INTERNAL_ERROR),
            "/wait" => {}
            "/stop" => {
                connection.stop_reading(stream);
                connection
                    .send_head(stream, StatusCode::FORBIDDEN, &none, true)
                    .unwrap();
            }
            "/bye" => {
                connection.shutdown(Shutdown::Announce, Instant::now());
                connection
                    .send_head(stream, StatusCode::OK, &none, true)
                    .unwrap();
            }
            _ if !ended => {}
            "/echo" => {
                connection
                    .send_head(stream, StatusCode::CONTINUE, &none, false)
                    .unwrap();
                connection
                    .send_head(stream, StatusCode::OK, &none, false)
                    .unwrap();
                let echo = Bytes::from(std::mem::take(content));
                connection.send_data(stream, echo, false).unwrap();
                let trailers =
                    HeaderMap::from_iter([("x-sum".parse().unwrap(), "1".parse().unwrap())]);
                connection.send_trailers(stream, trailers).unwrap();
            }
            "/large" => {
                connection
                    .send_head(stream, StatusCode::OK, &none, false)
                    .unwrap();
                connection
                    .send_data(stream, vec![1; 30_000].into(), false)
                    .unwrap();
            }
            _ => {
                let date: &[(&str, &[u8])] = &[("date", b"Thu, 01 Jan 1970 00:00:00 GMT")];
                connection
                    .send_prepared(stream, &self.prepared, date, false)
                    .unwrap();
                connection
                    .send_data(stream, Bytes::from_static(b"hello"), true)
                    .unwrap();
            }
        }
    }

    /// Goes on with a large response, up to a megabyte.
    fn go_on(&mut self, stream: u32) {
        let Some(exchange) = self.exchanges.iter_mut().find(|it| it.stream == stream) else {
            return;
        };
        if exchange.path != "/large" {
            return;
        }
        exchange.content.push(0);
        let end = exchange.content.len() == 40;
        self.connection
            .send_data(stream, vec![1; 30_000].into(), end)
            .unwrap();
    }
}

async fn connect(config: Config) -> (SendRequest<Bytes>, JoinHandle<()>) {
    let (near, far) = tokio::io::duplex(20_000);
    let server = tokio::spawn(Server::new(config).run(far));
    let (requests, connection) = client::Builder::new()
        .initial_window_size(100_000)
        .handshake(near)
        .await
        .unwrap();
    tokio::spawn(async move {
        let _ = connection.await;
    });
    (requests.ready().await.unwrap(), server)
}

fn request(method: Method, path: &str) -> Request<()> {
    let uri = format!("https://a.test{path}");
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .version(Version::HTTP_2);
    request
        .header("cookie", "a=1")
        .header("cookie", "b=2")
        .body(())
        .unwrap()
}

async fn content(body: &mut h2::RecvStream) -> Result<Vec<u8>, h2::Error> {
    let mut content = Vec::new();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len()).unwrap();
        content.extend_from_slice(&data);
    }
    Ok(content)
}

#[tokio::test]
async fn many_requests_at_once() {
    let (mut requests, _server) = connect(Config::default()).await;
    for round in 0..20 {
        let mut waiting = Vec::new();
        for _ in 0..100 {
            requests = requests.ready().await.unwrap();
            let (response, _) = requests
                .send_request(request(Method::GET, "/"), true)
                .unwrap();
            waiting.push(response);
        }
        for response in waiting {
            let mut response = response.await.unwrap();
            assert_eq!(response.status(), StatusCode::OK, "round {round}");
            assert_eq!(response.headers()["server"], "hikyaku");
            assert_eq!(response.headers()["date"], "Thu, 01 Jan 1970 00:00:00 GMT");
            assert_eq!(content(response.body_mut()).await.unwrap(), b"hello");
        }
    }
}

#[tokio::test]
async fn uploads_with_trailers_come_back() {
    let (mut requests, _server) = connect(Config::default()).await;
    let (response, mut upload) = requests
        .send_request(request(Method::POST, "/echo"), false)
        .unwrap();
    let sent: Vec<u8> = (0..300_000u32).map(|byte| byte as u8).collect();
    upload.send_data(sent.clone().into(), false).unwrap();
    let trailers = HeaderMap::from_iter([("x-sum".parse().unwrap(), "!".parse().unwrap())]);
    upload.send_trailers(trailers).unwrap();
    let mut response = response.await.unwrap();
    let echo = content(response.body_mut()).await.unwrap();
    assert_eq!(echo, [&sent[..], b"!"].concat());
    let trailers = response.body_mut().trailers().await.unwrap().unwrap();
    assert_eq!(trailers["x-sum"], "1");
}

#[tokio::test]
async fn large_responses_share_the_connection() {
    let (mut requests, _server) = connect(Config::default()).await;
    let mut tasks = Vec::new();
    for _ in 0..5 {
        let (response, _) = requests
            .send_request(request(Method::GET, "/large"), true)
            .unwrap();
        tasks.push(tokio::spawn(async move {
            let mut response = response.await.unwrap();
            content(response.body_mut()).await.unwrap().len()
        }));
    }
    for task in tasks {
        assert_eq!(task.await.unwrap(), 41 * 30_000);
    }
}

#[tokio::test]
async fn resets_in_both_directions() {
    let (mut requests, _server) = connect(Config::default()).await;
    let (response, _) = requests
        .send_request(request(Method::GET, "/reset"), true)
        .unwrap();
    let error = response.await.unwrap_err();
    assert_eq!(error.reason(), Some(h2::Reason::INTERNAL_ERROR));
    for _ in 0..150 {
        requests = requests.ready().await.unwrap();
        let (response, _) = requests
            .send_request(request(Method::GET, "/wait"), true)
            .unwrap();
        drop(response);
    }
    let (response, mut upload) = requests
        .send_request(request(Method::POST, "/stop"), false)
        .unwrap();
    assert_eq!(response.await.unwrap().status(), StatusCode::FORBIDDEN);
    let reason = std::future::poll_fn(|cx| upload.poll_reset(cx))
        .await
        .unwrap();
    assert_eq!(reason, h2::Reason::NO_ERROR);
    let (response, _) = requests
        .send_request(request(Method::GET, "/"), true)
        .unwrap();
    assert_eq!(response.await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn tunnels() {
    let (mut requests, _server) = connect(Config {
        connect_protocol: true,
        ..Config::default()
    })
    .await;
    // The settings come before the first response.
    let (response, _) = requests
        .send_request(request(Method::GET, "/"), true)
        .unwrap();
    response.await.unwrap();
    assert!(
        requests.is_extended_connect_protocol_enabled(),
        "RFC 8441 §3"
    );
    let plain = Request::builder()
        .method(Method::CONNECT)
        .uri("a.test:443")
        .body(())
        .unwrap();
    let mut extended = request(Method::CONNECT, "/tunnel");
    extended
        .extensions_mut()
        .insert(h2::ext::Protocol::from_static("websocket"));
    for request in [plain, extended] {
        let (response, mut up) = requests.send_request(request, false).unwrap();
        let mut response = response.await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        for text in ["one", "two"] {
            up.send_data(Bytes::from_static(text.as_bytes()), false)
                .unwrap();
            let echo = response.body_mut().data().await.unwrap().unwrap();
            assert_eq!(echo, text);
        }
        up.send_data(Bytes::new(), true).unwrap();
        assert!(content(response.body_mut()).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn heads_that_are_too_large() {
    let (mut requests, _server) = connect(Config {
        max_section_size: 20_000,
        ..Config::default()
    })
    .await;
    let mut large = request(Method::GET, "/");
    for _ in 0..15 {
        // Bytes whose Huffman code is shorter.
        large
            .headers_mut()
            .append("a", "0".repeat(1_900).parse().unwrap());
    }
    let (response, _) = requests.send_request(large, true).unwrap();
    let status = response.await.unwrap().status();
    assert_eq!(status, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    let (response, _) = requests
        .send_request(request(Method::GET, "/"), true)
        .unwrap();
    assert_eq!(response.await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn a_stop() {
    let (near, far) = tokio::io::duplex(20_000);
    let server = tokio::spawn(Server::new(Config::default()).run(far));
    let (mut requests, connection) = client::handshake(near).await.unwrap();
    let client = tokio::spawn(connection);
    let (response, _) = requests
        .send_request(request(Method::GET, "/bye"), true)
        .unwrap();
    assert_eq!(response.await.unwrap().status(), StatusCode::OK);
    let ended = client.await.unwrap().map_err(|error| error.reason());
    assert!(matches!(ended, Ok(()) | Err(Some(h2::Reason::NO_ERROR))));
    server.await.unwrap();
}
