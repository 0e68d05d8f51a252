//! Connections to the upstream that end at the wrong time.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::support::{
    Edge, Kind, Upstream, connections_become_idle, counted, full, impatient, post, raw_upstream,
    read, reason,
};
use bytes::Bytes;
use hikyaku_content::ProxyConfig;
use http::HeaderName;
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test]
async fn a_request_is_repeated_only_where_that_does_no_harm() {
    let large = vec![b'x'; 100_000];
    let cases: [(&str, &str, Vec<u8>, u16, usize); 8] = [
        ("safe", "GET", Vec::new(), 200, 3),
        ("safe, with content", "GET", b"content".to_vec(), 200, 3),
        ("idempotent", "DELETE", Vec::new(), 200, 3),
        (
            "idempotent, with content",
            "PUT",
            b"content".to_vec(),
            200,
            3,
        ),
        ("more content than is kept", "PUT", large, 502, 2),
        ("not idempotent", "POST", Vec::new(), 502, 2),
        (
            "not idempotent, with content",
            "POST",
            b"content".to_vec(),
            502,
            2,
        ),
        ("unknown", "UNKNOWN", b"content".to_vec(), 502, 2),
    ];
    for (name, method, content, status, seen) in cases {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let upstream = dies_of_its_second_request(Arc::clone(&requests)).await;
        let edge = Edge::new(&format!("http://{upstream}"), &ProxyConfig::default());
        assert_eq!(edge.get("/").await.status(), 200, "{name}");
        tokio::time::sleep(Duration::from_millis(20)).await;
        let mut request = post("/", full(content.clone()));
        *request.method_mut() = method.parse().unwrap();
        assert_eq!(edge.send(request).await.status(), status, "{name}");
        let requests = requests.lock().unwrap();
        assert_eq!(requests.len(), seen, "{name}");
        if seen == 3 {
            let last = requests.last().unwrap();
            assert!(last.starts_with(method), "{name}: {last}");
            let content = String::from_utf8(content).unwrap();
            assert!(
                last.ends_with(&format!("\r\n\r\n{content}")),
                "{name}: {last}"
            );
        }
    }
}

/// Answers once on its first connection, takes a second request and closes.
async fn dies_of_its_second_request(requests: Arc<Mutex<Vec<String>>>) -> std::net::SocketAddr {
    raw_upstream(move |mut stream, number| {
        let requests = Arc::clone(&requests);
        async move {
            let mut answered = 0;
            while let Some(request) = read_request(&mut stream).await {
                requests.lock().unwrap().push(request);
                if number == 0 && answered == 1 {
                    return;
                }
                answered += 1;
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                let _ = stream.write_all(answer).await;
            }
        }
    })
    .await
}

/// Reads a request, with its content by its length.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut got = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&got);
        if let Some((head, content)) = text.split_once("\r\n\r\n") {
            let length = head.split("content-length: ").nth(1);
            let length = length.map_or(0, |text| text.lines().next().unwrap().parse().unwrap());
            if content.len() >= length {
                return Some(text.into_owned());
            }
        }
        match stream.read_buf(&mut got).await {
            Ok(1..) => {}
            _ => return None,
        }
    }
}

#[tokio::test]
async fn the_upstreams_keep_alive_is_heeded() {
    // the lifetime that the upstream allows in seconds, the pause, connections after a second
    // request
    let cases = [
        ("timeout=1", 0, 2),
        ("timeout=2", 1200, 2),
        ("timeout=60", 1200, 1),
        ("max=100", 1200, 1),
    ];
    let all = cases.map(|(value, pause, want)| async move {
        let upstream = Upstream::start(Kind::Http1, move |_| async move {
            let mut response = Response::new(full("x"));
            let keep_alive = HeaderName::from_static("keep-alive");
            let value = HeaderValue::from_static(value);
            response.headers_mut().insert(keep_alive, value);
            response
        })
        .await;
        let edge = upstream.edge(&ProxyConfig::default());
        read(edge.get("/").await).await;
        connections_become_idle().await;
        tokio::time::sleep(Duration::from_millis(pause)).await;
        read(edge.get("/").await).await;
        assert_eq!(upstream.connections(), want, "{value} after {pause} ms");
    });
    futures_util::future::join_all(all).await;
}

#[tokio::test]
async fn headers_of_an_upstream_are_bounded_by_their_size_over_every_version() {
    for kind in Kind::ALL {
        let upstream = Upstream::start(kind, |request: Request<Incoming>| async move {
            let count = request.uri().path()[1..].parse().unwrap();
            let mut response = Response::new(full("x"));
            for number in 0..count {
                let name = HeaderName::try_from(format!("x-{number:04}")).unwrap();
                let value = HeaderValue::from_static("v");
                response.headers_mut().insert(name, value);
            }
            response
        })
        .await;
        let edge = upstream.edge(&ProxyConfig::default());
        // The fields have 6 + 1 + 32 bytes each, within 64 KiB.
        let many = edge.get("/1600").await;
        assert_eq!(many.status(), 200, "{kind:?}");
        assert!(many.headers().len() > 1600, "{kind:?}");
        let too_many = edge.get("/1800").await;
        assert_eq!(too_many.status(), 502, "{kind:?}");
        let why = reason(&too_many);
        assert!(
            why.contains("larger than limits.header_size"),
            "{kind:?}: {why}"
        );
        assert_eq!(edge.get("/1").await.status(), 200, "{kind:?}: and goes on");
    }
}

/// The upstream answers, keeps the connection open and takes no more of the request.
#[tokio::test]
async fn an_upload_that_is_not_read_ends_after_the_answer() {
    let closed = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&closed);
    let upstream = raw_upstream(move |mut stream, _| {
        let closed = Arc::clone(&counter);
        async move {
            stream.read_exact(&mut [0; 100]).await.unwrap();
            let answer = b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 2\r\n\r\nno";
            stream.write_all(answer).await.unwrap();
            // The upstream reads on only after the edge must have given up.
            tokio::time::sleep(Duration::from_millis(900)).await;
            while stream
                .read(&mut [0; 65536])
                .await
                .is_ok_and(|read| read > 0)
            {}
            closed.fetch_add(1, Relaxed);
        }
    })
    .await;
    let edge = Edge::new(&format!("http://{upstream}"), &impatient());
    let made = Arc::new(AtomicUsize::new(0));
    let body = counted(1000, 1 << 20, Arc::clone(&made));
    let response = edge.send(post("/", body)).await;
    assert_eq!(response.status(), 413);
    assert_eq!(read(response).await, "no");
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(closed.load(Relaxed), 1, "the connection is still open");
    assert!(
        made.load(Relaxed) < 100 << 20,
        "{} bytes",
        made.load(Relaxed)
    );
}

/// The rest of the request is reset once the whole response is on its way.
#[tokio::test]
async fn a_response_is_read_to_its_end_although_the_request_cannot_be_written() {
    let upstream = raw_upstream(|mut stream, _| async move {
        stream.read_exact(&mut [0; 100]).await.unwrap();
        let page = "p".repeat(50_000);
        let head = format!(
            "HTTP/1.1 401 Unauthorized\r\ncontent-length: {}\r\n\r\n",
            page.len()
        );
        stream.write_all((head + &page).as_bytes()).await.unwrap();
    })
    .await;
    for round in 0..20 {
        let edge = Edge::new(&format!("http://{upstream}"), &ProxyConfig::default());
        let made = Arc::new(AtomicUsize::new(0));
        let response = edge.send(post("/", counted(64, 1 << 20, made))).await;
        assert_eq!(response.status(), 401, "{round}");
        assert_eq!(read(response).await.len(), 50_000, "{round}");
    }
}

/// The upstream does not read the content at all.
#[tokio::test]
async fn an_answer_that_comes_early_passes_from_every_kind_of_upstream() {
    for kind in Kind::ALL {
        let upstream = Upstream::start(kind, |_| async {
            let mut response = Response::new(full("n".repeat(20_000)));
            *response.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
            response
        })
        .await;
        let edge = upstream.edge(&ProxyConfig::default());
        for round in 0..10 {
            let made = Arc::new(AtomicUsize::new(0));
            let response = edge.send(post("/", counted(64, 1 << 20, made))).await;
            assert_eq!(response.status(), 413, "{kind:?}, {round}");
            assert_eq!(read(response).await.len(), 20_000, "{kind:?}, {round}");
        }
    }
}

/// Answers each request at once, and takes no content.
async fn answers_early_and_reads_nothing(stream: TcpStream, _: usize) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    let mut kept = Vec::new();
    while let Some(Ok((request, mut reply))) = connection.accept().await {
        kept.push(request.into_body());
        let mut body = reply.send_response(Response::new(()), false).unwrap();
        body.send_data(Bytes::from("early"), true).unwrap();
    }
}

#[tokio::test]
async fn content_that_an_upstream_of_http2_never_takes_is_given_up() {
    let upstream = raw_upstream(answers_early_and_reads_nothing).await;
    let edge = Edge::new(&format!("h2c://{upstream}"), &impatient());
    let made = Arc::new(AtomicUsize::new(0));
    let response = edge
        .send(post("/", counted(64, 1 << 20, Arc::clone(&made))))
        .await;
    assert_eq!(read(response).await, "early");
    let given_up = async {
        // The content has the other count.
        while Arc::strong_count(&made) > 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let given_up = tokio::time::timeout(Duration::from_secs(10), given_up).await;
    given_up.expect("the content waits for ever");
    assert!(made.load(Relaxed) < 3 << 20, "it was read regardless");
}
