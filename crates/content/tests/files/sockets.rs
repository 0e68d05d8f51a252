//! Responses as clients see them through hyper, and the memory that they take.

use std::fs::{self, File};

use bytes::Bytes;
use hikyaku_content::FilesConfig;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::*;

#[tokio::test]
async fn a_large_file_is_streamed_in_little_memory() {
    const LEN: u64 = 300 << 20;
    let server = Server::new(&FilesConfig::default(), |root| {
        File::create(root.join("sparse"))
            .unwrap()
            .set_len(LEN)
            .unwrap();
    });
    let before = resident_bytes();
    let mut body = server.send(Method::GET, "/sparse", &[]).await.into_body();
    let (mut received, mut most, mut largest) = (0, 0, 0);
    while let Some(frame) = body.frame().await {
        let chunk = frame.unwrap().into_data().unwrap();
        received += chunk.len() as u64;
        largest = largest.max(chunk.len());
        if received % (16 << 20) < chunk.len() as u64 {
            most = most.max(resident_bytes());
        }
    }
    assert_eq!(received, LEN);
    assert!(largest <= 256 << 10, "chunks of {largest} B");
    let grown = most.saturating_sub(before);
    assert!(
        grown < LEN / 4,
        "resident memory grew by {} MiB",
        grown >> 20
    );
}

#[tokio::test]
async fn clients_see_whole_responses_or_a_break() {
    let server = Server::new(&FilesConfig::default(), |root| {
        write(&root.join("a.txt"), "hello");
        File::create(root.join("big"))
            .unwrap()
            .set_len(64 << 20)
            .unwrap();
    });
    let address = server.listen().await;
    let ask = |request: String| async move {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.to_ascii_lowercase()
    };
    let request = |head: &str| format!("{head}\r\nHost: x\r\nConnection: close\r\n\r\n");

    let get = ask(request("GET /a.txt HTTP/1.1")).await;
    assert!(
        get.starts_with("http/1.1 200 ok\r\n") && get.ends_with("\r\n\r\nhello"),
        "{get}"
    );
    assert_eq!(get.matches("content-length: 5\r\n").count(), 1, "{get}");
    assert_eq!(get.matches("date: ").count(), 1, "{get}");
    let head = ask(request("HEAD /a.txt HTTP/1.1")).await;
    assert!(
        head.contains("content-length: 5\r\n") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
    let current = ask(request("GET /a.txt HTTP/1.1\r\nIf-None-Match: *")).await;
    assert!(current.starts_with("http/1.1 304 "), "{current}");
    assert!(
        !current.contains("content-length") && current.ends_with("\r\n\r\n"),
        "{current}"
    );
    let traversal = ask(request("GET /../../../../etc/passwd HTTP/1.1")).await;
    assert!(traversal.starts_with("http/1.1 400 "), "{traversal}");

    let mut stream = TcpStream::connect(address).await.unwrap();
    stream
        .write_all(request("GET /big HTTP/1.1").as_bytes())
        .await
        .unwrap();
    stream.read_exact(&mut [0; 4096]).await.unwrap();
    File::options()
        .write(true)
        .open(server.path("big"))
        .unwrap()
        .set_len(0)
        .unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert!(rest.len() < 64 << 20, "the connection ended early");
}

#[tokio::test]
async fn one_connection_of_http_2_is_answered_alike() {
    let server = Server::new(&FilesConfig::default(), |root| {
        write(&root.join("a.txt"), "hello");
        write(&root.join("big"), vec![7; 3 << 20]);
    });
    let stream = TcpStream::connect(server.listen().await).await.unwrap();
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let cases = [
        (Method::GET, "/a.txt", None, 200, 5),
        (Method::HEAD, "/a.txt", None, 200, 0),
        (Method::GET, "/big", None, 200, 3 << 20),
        (Method::GET, "/big", Some("bytes=-5"), 206, 5),
        (Method::GET, "/absent", None, 404, 14),
    ];
    for (method, path, range, status, len) in cases {
        let mut request = Request::builder()
            .method(&method)
            .uri(format!("http://host{path}"));
        if let Some(range) = range {
            request = request.header(header::RANGE, range);
        }
        let request = request.body(Empty::<Bytes>::new()).unwrap();
        let response = client.send_request(request).await.unwrap();
        assert_eq!(
            response.status(),
            StatusCode::from_u16(status).unwrap(),
            "{method} {path}"
        );
        assert!(
            response.headers().contains_key(header::CONTENT_LENGTH),
            "{method} {path}"
        );
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body.len(), len, "{method} {path}");
    }
}

/// Physical memory that this process has, with page cache it maps left out.
fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let mut fields = statm.split(' ').map(|field| field.parse::<u64>().unwrap());
    let resident = fields.nth(1).unwrap();
    let shared = fields.next().unwrap();
    (resident - shared) * 4096
}
