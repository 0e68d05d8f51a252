//! Upstreams that fail, and settings that cannot be used.

use std::future::pending;
use std::time::Duration;

use crate::support::{Edge, Kind, Upstream, echo, impatient, proxy, raw_upstream, read, reason};
use hikyaku_content::proxy::HealthConfig;
use hikyaku_content::{ProxyConfig, Upstreams};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn an_upstream_that_fails_gives_502_or_504_with_the_reason() {
    let closed = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let silent = raw_upstream(|stream, _| async move {
        let _open = stream;
        pending::<()>().await;
    })
    .await;
    let hangs_up = raw_upstream(|mut stream, _| async move {
        let _ = stream.read(&mut [0; 1024]).await;
    })
    .await;
    let garbage = raw_upstream(|mut stream, _| async move {
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").await;
        pending::<()>().await;
    })
    .await;
    let switches = raw_upstream(|mut stream, _| async move {
        let _ = stream.read(&mut [0; 1024]).await;
        let answer =
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n";
        let _ = stream.write_all(answer).await;
        pending::<()>().await;
    })
    .await;
    let cases = [
        (
            "refused",
            format!("http://{closed}"),
            502,
            "connecting: Connection refused",
        ),
        (
            "silent",
            format!("http://{silent}"),
            504,
            "waiting for the response: none within 300ms",
        ),
        (
            "silent with HTTP/2",
            format!("h2c://{silent}"),
            504,
            "waiting for the response",
        ),
        (
            "silent with TLS",
            format!("https://{silent}"),
            504,
            "no connection within 300ms",
        ),
        (
            "hangs up",
            format!("http://{hangs_up}"),
            502,
            "exchanging request and response: ",
        ),
        (
            "hangs up with TLS",
            format!("https://{hangs_up}"),
            502,
            "TLS handshake: ",
        ),
        (
            "garbage",
            format!("http://{garbage}"),
            502,
            "exchanging request and response: ",
        ),
        (
            "garbage with TLS",
            format!("https://{garbage}"),
            502,
            "TLS handshake: ",
        ),
        ("garbage with HTTP/2", format!("h2c://{garbage}"), 502, ": "),
        (
            "switches unasked",
            format!("http://{switches}"),
            502,
            "it was not asked to",
        ),
    ];
    for (name, url, status, why) in cases {
        let edge = Edge::new(
            &url,
            &ProxyConfig {
                insecure: true,
                ..impatient()
            },
        );
        let response = edge.get("/").await;
        assert_eq!(response.status(), status, "{name}: {}", reason(&response));
        let authority = url.split_once("://").unwrap().1;
        let reason = reason(&response);
        assert!(
            reason.starts_with(&format!("upstream {authority}: ")),
            "{name}: {reason}"
        );
        assert!(reason.contains(why), "{name}: {reason}");
        let body = read(response).await;
        let body = std::str::from_utf8(&body).unwrap();
        assert!(body.starts_with(&status.to_string()), "{name}: {body}");
        assert!(!body.contains("127.0.0.1"), "{name}: {body}");
    }
}

#[tokio::test]
async fn certificates_are_checked_unless_insecure() {
    let upstream = Upstream::start(Kind::TlsHttp1, echo).await;
    let other = Upstream::start(Kind::TlsHttp1, echo).await;
    let wrong_ca = Some(other.ca.path().to_owned());
    let edge = Edge::new(
        &upstream.url(),
        &ProxyConfig {
            ca: wrong_ca,
            ..ProxyConfig::default()
        },
    );
    let response = edge.get("/").await;
    assert_eq!(response.status(), 502);
    assert!(
        reason(&response).contains("TLS handshake: invalid peer certificate"),
        "{}",
        reason(&response)
    );

    let by_address = format!("https://{}", upstream.address);
    let ca = Some(upstream.ca.path().to_owned());
    let edge = Edge::new(
        &by_address,
        &ProxyConfig {
            ca,
            ..ProxyConfig::default()
        },
    );
    let response = edge.get("/").await;
    assert_eq!(response.status(), 502, "the certificate is for localhost");

    let edge = Edge::new(
        &by_address,
        &ProxyConfig {
            insecure: true,
            ..ProxyConfig::default()
        },
    );
    assert_eq!(edge.get("/").await.status(), 200);
}

fn health(path: &str, host: Option<&str>) -> ProxyConfig {
    ProxyConfig {
        health: Some(HealthConfig {
            path: path.to_owned(),
            host: host.map(str::to_owned),
            ..HealthConfig::default()
        }),
        ..ProxyConfig::default()
    }
}

#[test]
fn unusable_settings_are_reported_with_the_reason() {
    let empty = tempfile::NamedTempFile::new().unwrap();
    let ca = |path: &std::path::Path| ProxyConfig {
        ca: Some(path.to_owned()),
        ..ProxyConfig::default()
    };
    let cases = [
        (
            "ftp://a",
            ProxyConfig::default(),
            "reading the upstream's URL `ftp://a`: its scheme",
        ),
        (
            "https://a",
            ca(empty.path()),
            "no usable certificate authority in `",
        ),
        (
            "https://a",
            ca("absent.pem".as_ref()),
            "reading certificate authorities from `absent.pem`",
        ),
        (
            "https://a_b..",
            ca(empty.path()),
            "setting up TLS towards `a_b..`",
        ),
        (
            "https://a",
            ProxyConfig {
                tls_server_name: Some("a b".to_owned()),
                ca: ca(empty.path()).ca,
                ..ProxyConfig::default()
            },
            "setting up TLS towards `a b`",
        ),
        (
            "http://a",
            ProxyConfig {
                avoid_max: Duration::from_secs(1),
                ..ProxyConfig::default()
            },
            "reading the setting `proxy.avoid_max`: it is below `avoid_min`",
        ),
        (
            "http://a",
            health("healthz", None),
            "reading the setting `proxy.health.path`: it is no path",
        ),
        (
            "http://a",
            health("/", Some("a b")),
            "reading the setting `proxy.health.host`: it is no host",
        ),
    ];
    let twice = proxy(
        &["http://a", "http://a"],
        &ProxyConfig::default(),
        &Upstreams::default(),
    );
    let twice = twice.unwrap_err().to_string();
    assert!(twice.contains("`http://a`: it is named twice"), "{twice}");
    for (url, config, want) in cases {
        let error = proxy(&[url], &config, &Upstreams::default());
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with(want), "{url}: {error}");
    }
}
