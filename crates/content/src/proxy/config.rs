//! Settings of the reverse proxy.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

/// Settings of a reverse proxy (`[proxy]` of the configuration).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProxyConfig {
    /// HTTP version towards the upstream: `auto` (HTTP/1.1 in the clear, by ALPN
    /// over TLS), `1.1`, or `2` (in the clear by prior knowledge, RFC 9113 §3.3).
    /// A URL of scheme `h2c` means `2` in the clear. Default `auto`.
    pub upstream_http: UpstreamHttp,
    /// Whether the upstream sees the host that the client requested. Otherwise it sees the host of
    /// the upstream's URL. Default `true`.
    pub preserve_host: bool,
    /// Whether `Forwarded` and `X-Forwarded-*` of the client are kept and extended. Only where
    /// another proxy of yours is in front: anybody can send them. Default `false`: they are
    /// dropped.
    pub trust_forwarded: bool,
    /// PEM file of the certificate authorities for the certificate of an `https` upstream. Default:
    /// the system's.
    pub ca: Option<PathBuf>,
    /// Whether an `https` upstream's certificate is not checked at all. Default `false`.
    pub insecure: bool,
    /// Time to connect to the upstream, TLS included. Default `5s`.
    #[serde(with = "hikyaku_units::duration")]
    pub connect_timeout: Duration,
    /// Time from the request's last byte, or from the last one that the upstream took, to the head
    /// of its response. Default `60s`.
    #[serde(with = "hikyaku_units::duration")]
    pub response_timeout: Duration,
    /// Time without a byte after which a response's body or a tunnel (WebSocket) ends. Default
    /// `60s`.
    #[serde(with = "hikyaku_units::duration")]
    pub idle_timeout: Duration,
    /// Time for which an unused connection to the upstream is kept. The upstream can shorten it
    /// (`Keep-Alive: timeout=N`). Default `30s`.
    #[serde(with = "hikyaku_units::duration")]
    pub keep_alive: Duration,
    /// Unused HTTP/1.1 connections to the upstream that are kept. Default 128.
    pub keep_connections: usize,
}

impl Default for ProxyConfig {
    fn default() -> Self {
        Self {
            upstream_http: UpstreamHttp::Auto,
            preserve_host: true,
            trust_forwarded: false,
            ca: None,
            insecure: false,
            connect_timeout: Duration::from_secs(5),
            response_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(60),
            keep_alive: Duration::from_secs(30),
            keep_connections: 128,
        }
    }
}

/// HTTP version towards the upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum UpstreamHttp {
    /// HTTP/1.1 in the clear; the choice of ALPN over TLS.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// HTTP/1.1 only.
    #[serde(rename = "1.1")]
    Http1,
    /// HTTP/2 only.
    #[serde(rename = "2")]
    Http2,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read_and_unknown_ones_are_refused() {
        let text = r#"
            upstream_http = "1.1"
            preserve_host = false
            trust_forwarded = true
            ca = "ca.pem"
            insecure = true
            connect_timeout = "1s"
            response_timeout = "2m"
            idle_timeout = "1h"
            keep_alive = "500ms"
            keep_connections = 4
        "#;
        let want = ProxyConfig {
            upstream_http: UpstreamHttp::Http1,
            preserve_host: false,
            trust_forwarded: true,
            ca: Some(PathBuf::from("ca.pem")),
            insecure: true,
            connect_timeout: Duration::from_secs(1),
            response_timeout: Duration::from_secs(120),
            idle_timeout: Duration::from_secs(3600),
            keep_alive: Duration::from_millis(500),
            keep_connections: 4,
        };
        assert_eq!(toml::from_str::<ProxyConfig>(text).unwrap(), want);
        assert_eq!(
            toml::from_str::<ProxyConfig>("").unwrap(),
            ProxyConfig::default()
        );
        let error = toml::from_str::<ProxyConfig>("upstream_http = \"3\"").unwrap_err();
        assert!(error.to_string().contains("`1.1`"), "{error}");
        let error = toml::from_str::<ProxyConfig>("timeout = \"1s\"").unwrap_err();
        assert!(error.to_string().contains("`connect_timeout`"), "{error}");
    }
}
