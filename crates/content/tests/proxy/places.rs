//! Where upstreams are: Unix sockets, and hosts by address with the name of their certificate.

use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::support::{Edge, Handler, Kind, Seen, Upstream, echo, full, post, read, serve};
use hikyaku_content::ProxyConfig;
use hikyaku_content::proxy::UpstreamHttp;
use tokio::net::UnixListener;

/// Serves HTTP/1.1 and 2 on a socket, and returns the requests that it sees.
fn listen(path: &Path) -> Arc<Mutex<Vec<Seen>>> {
    let listener = UnixListener::bind(path).unwrap();
    let seen = Arc::<Mutex<Vec<Seen>>>::default();
    let all = Arc::clone(&seen);
    let handler: Arc<Handler> = Arc::new(|request| Box::pin(echo(request)));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, Arc::clone(&handler), Arc::clone(&all)));
        }
    });
    seen
}

#[tokio::test]
async fn unix_sockets_carry_both_versions() {
    use http::Version;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("app.sock");
    let seen = listen(&path);
    // scheme, `upstream_http`, `preserve_host`, the version and the host that the upstream sees
    let cases = [
        (
            "unix",
            UpstreamHttp::Auto,
            true,
            Version::HTTP_11,
            "site.example",
        ),
        (
            "unix",
            UpstreamHttp::Auto,
            false,
            Version::HTTP_11,
            "localhost",
        ),
        (
            "unix",
            UpstreamHttp::Http2,
            true,
            Version::HTTP_2,
            "site.example",
        ),
        (
            "h2c+unix",
            UpstreamHttp::Auto,
            true,
            Version::HTTP_2,
            "site.example",
        ),
        (
            "h2c+unix",
            UpstreamHttp::Auto,
            false,
            Version::HTTP_2,
            "localhost",
        ),
    ];
    for (scheme, upstream_http, preserve_host, version, host) in cases {
        let config = ProxyConfig {
            upstream_http,
            preserve_host,
            ..ProxyConfig::default()
        };
        let edge = Edge::new(&format!("{scheme}:{}", path.display()), &config);
        let body = vec![b'a'; 1 << 20];
        for _ in 0..3 {
            let response = edge.send(post("/a?b", full(body.clone()))).await;
            assert_eq!(response.status(), 200, "{scheme}");
            assert_eq!(read(response).await, body, "{scheme}");
        }
        let last = seen.lock().unwrap().last().unwrap().clone();
        assert_eq!(last.version, version, "{scheme}");
        assert_eq!(last.host(), host, "{scheme} {preserve_host}");
        assert_eq!(last.uri.path_and_query().unwrap(), "/a?b", "{scheme}");
    }
}

#[tokio::test]
async fn a_socket_that_is_not_there_is_reported_by_its_path() {
    let edge = Edge::new("unix:/nowhere/app.sock", &ProxyConfig::default());
    let response = edge.get("/").await;
    assert_eq!(response.status(), 502);
    let reason = crate::support::reason(&response);
    let want = "upstream unix:/nowhere/app.sock: connecting: No such file";
    assert!(reason.starts_with(want), "{reason}");
}

#[tokio::test]
async fn an_upstream_by_address_has_the_configured_name() {
    for kind in [Kind::TlsHttp1, Kind::TlsHttp2] {
        let upstream = Upstream::start(kind, echo).await;
        let by_address = format!("https://{}", upstream.address);
        for (name, status) in [("localhost", 200), ("other.example", 502)] {
            let config = ProxyConfig {
                ca: Some(upstream.ca.path().to_owned()),
                tls_server_name: Some(name.to_owned()),
                ..ProxyConfig::default()
            };
            let edge = Edge::new(&by_address, &config);
            assert_eq!(edge.get("/").await.status(), status, "{kind:?} {name}");
        }
    }
}
