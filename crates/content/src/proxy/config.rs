//! Settings of the reverse proxy.

mod balance;
mod health;
mod upstreams;

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

pub use balance::{Balance, HashBy};
pub use health::{HealthConfig, Statuses};
pub use upstreams::{UpstreamConfig, UpstreamsConfig};

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
    /// Whether pages of `error_pages` take the place of an upstream's own errors, too. Default `false`.
    pub intercept_errors: bool,
    /// Whether the proxy names itself in `Via` (RFC 9110 §7.6.3), in requests and in responses. Some
    /// upstreams compress nothing for proxies. Without it, nobody notices a loop of
    /// proxies. Default `true`.
    pub via: bool,
    /// PEM file of the certificate authorities for the certificate of an `https` upstream. Default:
    /// the system's.
    pub ca: Option<PathBuf>,
    /// Name that an `https` upstream's certificate is for, and that it is asked for (RFC 6066 §3).
    /// Default: the host of the upstream's URL.
    pub tls_server_name: Option<String>,
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
    /// Age from which on a connection to the upstream gets no more requests, so that changes of the
    /// addresses of its name are followed. Default `5m`.
    #[serde(with = "hikyaku_units::duration")]
    pub connection_age: Duration,
    /// Which upstream of a group gets a request: `least_requests`, `hash:address`, `hash:path`,
    /// `hash:header:NAME` or `hash:cookie:NAME`. Default `least_requests`.
    pub balance: Balance,
    /// Requests under way at once to an upstream. Further ones go to another; if all have as many, they
    /// get 503. 0: any number. Default 0.
    pub max_requests: u64,
    /// Other upstreams of a group that are asked when one has failed to answer a request, if that may be
    /// repeated (RFC 9110 §9.2.2). Default 1.
    pub retries: usize,
    /// Statuses of responses that count as failures; 400 to 599. Default none.
    pub failure_status: Vec<u16>,
    /// Failures in a row after which an upstream is avoided while there are others; 0: never.
    /// Default 3.
    pub avoid_after: u32,
    /// Time for which it is avoided first. The time doubles whenever it fails again soon. Default `5s`.
    #[serde(with = "hikyaku_units::duration")]
    pub avoid_min: Duration,
    /// Longest time for which it is avoided; at least `avoid_min`. Default `2m`.
    #[serde(with = "hikyaku_units::duration")]
    pub avoid_max: Duration,
    /// Time in which an upstream that is back comes to its usual part of the requests. Default `10s`.
    #[serde(with = "hikyaku_units::duration")]
    pub slow_start: Duration,
    /// Active checks. Default: none.
    pub health: Option<HealthConfig>,
}

impl ProxyConfig {
    /// Returns the key that is wrong, and why.
    pub(super) fn fault(&self) -> Option<(&'static str, &'static str)> {
        if self.avoid_max < self.avoid_min {
            return Some(("avoid_max", "it is below `avoid_min`"));
        }
        let mut statuses = self.failure_status.iter();
        if !statuses.all(|status| (400..600).contains(status)) {
            return Some(("failure_status", "it has a status that is not 400 to 599"));
        }
        None
    }
}

impl Default for ProxyConfig {
    fn default() -> Self {
        Self {
            upstream_http: UpstreamHttp::Auto,
            preserve_host: true,
            intercept_errors: false,
            via: true,
            ca: None,
            tls_server_name: None,
            insecure: false,
            connect_timeout: Duration::from_secs(5),
            response_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(60),
            keep_alive: Duration::from_secs(30),
            keep_connections: 128,
            connection_age: Duration::from_secs(300),
            balance: Balance::LeastRequests,
            max_requests: 0,
            retries: 1,
            failure_status: Vec::new(),
            avoid_after: 3,
            avoid_min: Duration::from_secs(5),
            avoid_max: Duration::from_secs(120),
            slow_start: Duration::from_secs(10),
            health: None,
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
            intercept_errors = true
            via = false
            ca = "ca.pem"
            tls_server_name = "app.example"
            insecure = true
            connect_timeout = "1s"
            response_timeout = "2m"
            idle_timeout = "1h"
            keep_alive = "500ms"
            keep_connections = 4
            connection_age = "1m"
            balance = "hash:path"
            max_requests = 100
            retries = 2
            failure_status = [502, 503]
            avoid_after = 1
            avoid_min = "1s"
            avoid_max = "1m"
            slow_start = "0s"
            health = { path = "/healthz", host = "a.example", interval = "1s", timeout = "500ms", rise = 1, fall = 2, status = "204" }
        "#;
        let want = ProxyConfig {
            upstream_http: UpstreamHttp::Http1,
            preserve_host: false,
            intercept_errors: true,
            via: false,
            ca: Some(PathBuf::from("ca.pem")),
            tls_server_name: Some("app.example".to_owned()),
            insecure: true,
            connect_timeout: Duration::from_secs(1),
            response_timeout: Duration::from_secs(120),
            idle_timeout: Duration::from_secs(3600),
            keep_alive: Duration::from_millis(500),
            keep_connections: 4,
            connection_age: Duration::from_secs(60),
            balance: Balance::Hash(HashBy::Path),
            max_requests: 100,
            retries: 2,
            failure_status: vec![502, 503],
            avoid_after: 1,
            avoid_min: Duration::from_secs(1),
            avoid_max: Duration::from_secs(60),
            slow_start: Duration::ZERO,
            health: Some(HealthConfig {
                path: "/healthz".to_owned(),
                host: Some("a.example".to_owned()),
                interval: Duration::from_secs(1),
                timeout: Duration::from_millis(500),
                rise: 1,
                fall: 2,
                status: "204".parse().unwrap(),
            }),
        };
        assert_eq!(want.fault(), None);
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

    #[test]
    fn settings_that_do_not_fit_are_named() {
        let cases = [
            ("avoid_max = \"1s\"", Some("avoid_max")),
            ("avoid_max = \"5s\"", None),
            ("failure_status = [503, 200]", Some("failure_status")),
            ("failure_status = [400, 599]", None),
        ];
        for (text, want) in cases {
            let config: ProxyConfig = toml::from_str(text).unwrap();
            assert_eq!(config.fault().map(|(key, _)| key), want, "{text}");
        }
    }
}
