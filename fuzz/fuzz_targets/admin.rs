//! Requests to the admin API of a running server: method, target and body, a line each.
#![no_main]

use std::net::SocketAddr;
use std::sync::{LazyLock, Mutex};

use bytes::Bytes;
use hikyaku_edge::{Config, Server};
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

fuzz_target!(|text: &str| {
    let mut lines = text.splitn(3, '\n');
    let (Some(method), Some(target)) = (lines.next(), lines.next()) else {
        return;
    };
    let body = lines.next().unwrap_or_default().to_owned();
    let request = Request::builder()
        .method(method)
        .uri(target)
        .header(header::HOST, SERVICE.admin.to_string())
        .body(Full::from(body));
    // Events never end, and traces end late.
    if let Ok(request) = request
        && !["/v1/events", "/v1/qlog"].contains(&request.uri().path())
    {
        let status = SERVICE.runtime.block_on(send(request));
        assert!(status.is_none_or(|status| !status.is_server_error()));
    }
});

/// Returns the response's status; `None` if client or server refuse the message as such.
async fn send(request: Request<Full<Bytes>>) -> Option<StatusCode> {
    let kept = SERVICE
        .connection
        .lock()
        .expect("never held in a panic")
        .take();
    let mut connection = match kept.filter(SendRequest::is_ready) {
        Some(connection) => connection,
        None => connect().await,
    };
    let response = connection.send_request(request).await.ok()?;
    let status = response.status();
    response.into_body().collect().await.ok()?;
    *SERVICE.connection.lock().expect("never held in a panic") = Some(connection);
    Some(status)
}

async fn connect() -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(SERVICE.admin).await;
    let stream = stream.expect("the server takes connections");
    let (sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .expect("HTTP/1.1 begins without an exchange");
    tokio::spawn(connection);
    sender
}

struct Service {
    runtime: Runtime,
    admin: SocketAddr,
    connection: Mutex<Option<SendRequest<Full<Bytes>>>>,
    _server: Server,
    _root: TempDir,
}

static SERVICE: LazyLock<Service> = LazyLock::new(|| {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let root = tempfile::tempdir().expect("a directory");
    let settings = [
        "listen=[\"127.0.0.1:0\"]",
        "admin.listen=127.0.0.1:0",
        "log.access=off",
    ];
    let mut config = Config::load(None, &settings.map(str::to_owned)).expect("it is sound");
    config.root = Some(root.path().to_owned());
    let server = {
        let _context = runtime.enter();
        Server::start(config).expect("the server starts")
    };
    Service {
        admin: server.admin().expect("it has an admin address"),
        connection: Mutex::default(),
        runtime,
        _server: server,
        _root: root,
    }
});
