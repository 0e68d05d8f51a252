//! An upstream's responses, coded while they pass.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::StreamExt;
use hikyaku_content::{Body, BoxError, CompressionConfig};
use hikyaku_testkit::PATIENCE;
use http::{HeaderMap, Method, Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::support::*;

type UpstreamBody = UnsyncBoxBody<Bytes, BoxError>;

/// Starts an upstream of both versions, and returns its URL but for the scheme.
async fn upstream<F>(answer: F) -> String
where
    F: Fn(&Request<Incoming>) -> Response<UpstreamBody> + Send + Sync + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = Arc::clone(&answer);
            let service = service_fn(move |request| {
                let response = answer(&request);
                async move { Ok::<_, Infallible>(response) }
            });
            tokio::spawn(async move {
                let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                let _ = server.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    address.to_string()
}

fn full(content: impl Into<Bytes>) -> UpstreamBody {
    Full::new(content.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

fn page(content: impl Into<Bytes>) -> Response<UpstreamBody> {
    let response = Response::builder().header("content-type", "text/html");
    response.body(full(content)).unwrap()
}

#[tokio::test]
async fn responses_are_coded_over_both_versions_and_trailers_stay() {
    let upstream = upstream(|_| {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "1".parse().unwrap());
        let frames = text(300_000).into_bytes();
        let frames: Vec<_> = frames
            .chunks(70_000)
            .map(|chunk| Ok::<_, BoxError>(Frame::data(Bytes::copy_from_slice(chunk))))
            .chain([Ok(Frame::trailers(trailers))])
            .collect();
        let body = StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync();
        let response = Response::builder().header("trailer", "x-sum");
        let response = response.header("content-type", "text/html");
        response.body(body).unwrap()
    })
    .await;
    for scheme in ["http", "h2c"] {
        let site = Site::before(&format!("{scheme}://{upstream}"), config());
        for coding in ["zstd", "br", "gzip"] {
            let fields = [("accept-encoding", coding), ("te", "trailers")];
            let got = site.get("/", &fields).await;
            assert_eq!(got.header("content-encoding"), Some(coding), "{scheme}");
            assert_eq!(got.header("vary"), Some("accept-encoding"), "{scheme}");
            assert!(
                got.decoded() == text(300_000).as_bytes(),
                "{scheme} {coding}"
            );
            assert!(
                got.body.len() < 60_000,
                "{scheme} {coding}: {}",
                got.body.len()
            );
            assert_eq!(got.trailers["x-sum"], "1", "{scheme} {coding}");
        }
    }
}

#[tokio::test]
async fn a_slow_upstreams_bytes_arrive_at_once() {
    for media_type in ["text/html", "text/event-stream"] {
        for coding in ["zstd", "br", "gzip"] {
            let (event, events) = mpsc::unbounded_channel::<&'static str>();
            let events = Mutex::new(Some(events));
            let upstream = upstream(move |_| {
                let events = events.lock().unwrap().take().unwrap();
                let frames = futures_util::stream::unfold(events, |mut events| async move {
                    let text = events.recv().await?;
                    Some((Ok::<_, BoxError>(Frame::data(Bytes::from(text))), events))
                });
                let response = Response::builder().header("content-type", media_type);
                response
                    .body(StreamBody::new(frames).boxed_unsync())
                    .unwrap()
            })
            .await;
            let mut compression = config();
            compression.types.push("text/event-stream".to_owned());
            let site = Site::before(&format!("http://{upstream}"), compression);
            let fields = [("accept-encoding", coding)];
            let response = site.respond(Method::GET, "/", &fields).await;
            assert_eq!(response.headers()["content-encoding"], coding);
            let mut body = response.into_body();
            let (mut coded, mut want) = (Vec::new(), String::new());
            for text in ["data: 1\n\n", "data: 2\n\n", "data: 3\n\n"] {
                event.send(text).unwrap();
                want += text;
                // The upstream sends no more before this has arrived.
                while so_far(coding, &coded) != want.as_bytes() {
                    coded.extend(frame(&mut body).await.unwrap());
                }
            }
            drop(event);
            while let Some(bytes) = frame(&mut body).await {
                coded.extend(bytes);
            }
            assert_eq!(decode(coding, &coded), want.as_bytes());
        }
    }
}

async fn frame(body: &mut Body) -> Option<Bytes> {
    let frame = tokio::time::timeout(PATIENCE, body.frame()).await;
    let frame = frame.expect("bytes are held back")?.unwrap();
    Some(frame.into_data().unwrap())
}

/// Decodes the beginning of a stream.
fn so_far(coding: &str, coded: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    match coding {
        "br" => {
            let mut decoder = brotli::Decompressor::new(coded, 4096);
            let mut buffer = [0; 4096];
            // The end of a part is an error, after all bytes before it.
            while let Ok(length @ 1..) = decoder.read(&mut buffer) {
                content.extend_from_slice(&buffer[..length]);
            }
        }
        "zstd" => {
            let mut decoder = zstd::stream::write::Decoder::new(&mut content).unwrap();
            decoder.write_all(coded).unwrap();
            decoder.flush().unwrap();
        }
        _ => {
            let mut decoder = flate2::write::GzDecoder::new(&mut content);
            decoder.write_all(coded).unwrap();
            decoder.flush().unwrap();
        }
    }
    content
}

#[tokio::test]
async fn events_are_left_alone_unless_they_are_listed() {
    let upstream = upstream(|_| {
        let response = Response::builder().header("content-type", "text/event-stream");
        response.body(full(text(5000))).unwrap()
    })
    .await;
    let site = Site::before(&format!("http://{upstream}"), config());
    let got = site.get("/", &[("accept-encoding", "br")]).await;
    assert_eq!(got.header("content-encoding"), None);
    assert_eq!(got.header("vary"), None);
}

#[tokio::test]
async fn a_tag_that_goes_out_comes_back_to_the_upstream() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let seen_by_upstream = Arc::clone(&seen);
    let upstream = upstream(move |request| {
        let condition = request.headers().get("if-none-match");
        let condition = condition.map(|value| value.to_str().unwrap().to_owned());
        let is_current = condition
            .as_ref()
            .is_some_and(|tags| tags.contains("\"v1\""));
        seen_by_upstream.lock().unwrap().push(condition);
        let mut response = match is_current {
            true => Response::builder().status(304).body(full("")).unwrap(),
            false => page(text(5000)),
        };
        let headers = response.headers_mut();
        headers.insert("etag", "\"v1\"".parse().unwrap());
        headers.insert("vary", "origin".parse().unwrap());
        response
    })
    .await;
    let site = Site::before(&format!("http://{upstream}"), config());
    let gzip = ("accept-encoding", "gzip");
    let first = site.get("/", &[gzip]).await;
    let tag = first.header("etag").unwrap();
    assert!(tag.starts_with("W/\"v1"), "{tag}");
    assert_eq!(first.header("vary"), Some("origin, accept-encoding"));

    let second = site.get("/", &[gzip, ("if-none-match", tag)]).await;
    assert_eq!(second.status, 304);
    assert_eq!(second.header("etag"), Some(tag));
    assert_eq!(second.header("vary"), Some("origin, accept-encoding"));
    let asked = seen.lock().unwrap().last().cloned().flatten().unwrap();
    assert_eq!(asked, format!("{tag}, \"v1\""));

    let plain = site.get("/", &[("if-none-match", "\"v1\"")]).await;
    assert_eq!((plain.status, plain.header("etag")), (304, Some("\"v1\"")));
    let other = site
        .get("/", &[gzip, ("if-none-match", "W/\"v0~coded-gzip\"")])
        .await;
    assert_eq!(other.status, 200);
}

#[tokio::test]
async fn head_has_the_fields_of_get_without_an_encoder() {
    let upstream = upstream(|_| page(text(5000))).await;
    for scheme in ["http", "h2c"] {
        let site = Site::before(&format!("{scheme}://{upstream}"), config());
        let br = ("accept-encoding", "br");
        let mut get = site.get("/", &[br]).await;
        let mut head = site.send(Method::HEAD, "/", &[br]).await;
        assert_eq!(head.header("content-encoding"), Some("br"), "{scheme}");
        assert!(head.body.is_empty(), "{scheme}");
        for answer in [&mut get, &mut head] {
            answer.headers.remove("date");
        }
        assert_eq!(head.headers, get.headers, "{scheme}");
    }
}

#[tokio::test]
async fn what_the_upstream_codes_or_forbids_stays_as_it_is() {
    let upstream = upstream(|request| {
        let mut response = page(text(5000));
        let headers = response.headers_mut();
        match request.uri().path() {
            "/coded" => headers.insert("content-encoding", "gzip".parse().unwrap()),
            "/kept" => headers.insert("cache-control", "no-transform".parse().unwrap()),
            _ => headers.insert("content-type", "image/png".parse().unwrap()),
        };
        headers.insert("etag", "\"v1\"".parse().unwrap());
        response
    })
    .await;
    let site = Site::before(&format!("http://{upstream}"), config());
    for (path, coding) in [
        ("/coded", Some("gzip")),
        ("/kept", None),
        ("/picture", None),
    ] {
        let got = site.get(path, &[("accept-encoding", "gzip, br")]).await;
        assert_eq!(got.header("content-encoding"), coding, "{path}");
        assert_eq!(got.header("etag"), Some("\"v1\""), "{path}");
        assert_eq!(got.header("content-length"), Some("5000"), "{path}");
        assert_eq!(got.body, text(5000), "{path}");
    }
}

#[tokio::test]
async fn content_that_breaks_off_is_never_taken_for_whole() {
    for coding in ["zstd", "br", "gzip"] {
        let (breaks, broken) = mpsc::unbounded_channel::<()>();
        let broken = Mutex::new(Some(broken));
        let upstream = upstream(move |_| {
            let mut broken = broken.lock().unwrap().take().unwrap();
            let first = Ok(Frame::data(Bytes::from(text(100_000))));
            let last = async move {
                broken.recv().await;
                Err(BoxError::from("broken off"))
            };
            let frames =
                futures_util::stream::iter([first]).chain(futures_util::stream::once(last));
            let response = Response::builder().header("content-type", "text/html");
            response
                .body(StreamBody::new(frames).boxed_unsync())
                .unwrap()
        })
        .await;
        let site = Site::before(&format!("http://{upstream}"), config());
        let fields = [("accept-encoding", coding)];
        let response = site.respond(Method::GET, "/", &fields).await;
        assert_eq!(response.headers()["content-encoding"], coding);
        let mut body = response.into_body();
        let mut coded = Vec::new();
        while so_far(coding, &coded) != text(100_000).as_bytes() {
            coded.extend(frame(&mut body).await.unwrap());
        }
        breaks.send(()).unwrap();
        assert!(body.collect().await.is_err(), "{coding}");
    }
}

#[tokio::test]
async fn nothing_is_coded_where_it_is_off() {
    let upstream = upstream(|_| page(text(5000))).await;
    let site = Site::before(&format!("http://{upstream}"), CompressionConfig::default());
    let got = site.get("/", &[("accept-encoding", "br")]).await;
    assert_eq!(got.header("content-encoding"), None);
    assert_eq!(got.header("vary"), None);
    assert_eq!(got.body, text(5000));
}
