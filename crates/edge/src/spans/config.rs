//! `[tracing]` of the configuration.

use std::str::FromStr;

use serde::Deserialize;
use url::{Position, Url};

/// Traces for OpenTelemetry.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TracingConfig {
    /// URL of a collector that takes OTLP over http. Default: none, and `traceparent` passes unchanged.
    pub otlp: Option<Collector>,
    /// Share of the traces that begin here which are recorded, 0 to 1. Default 0.01.
    pub sample: f64,
    /// Take part in the traces of clients, and record those that they record. Default `true`.
    pub parents: bool,
    /// The service's name. Default `"hikyaku"`.
    pub service: String,
}

impl Default for TracingConfig {
    fn default() -> Self {
        Self {
            otlp: None,
            sample: 0.01,
            parents: true,
            service: "hikyaku".to_owned(),
        }
    }
}

impl TracingConfig {
    /// The fault of a value.
    pub(crate) fn fault(&self) -> Option<String> {
        let sample = self.sample;
        let is_share = (0.0..=1.0).contains(&sample);
        (!is_share).then(|| format!("`tracing.sample` is {sample}, which is no share from 0 to 1"))
    }
}

/// Where a collector takes OTLP over http.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Collector {
    /// Name or address of the host, an IPv6 one without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// Host and port as the URL has them.
    pub(super) authority: String,
    /// The path of traces.
    pub(super) path: String,
}

/// Why a URL names no collector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseCollectorError {
    /// It is no URL.
    #[error("`{0}` is no URL: expected one such as http://127.0.0.1:4318")]
    Url(String),
    /// It is of another scheme.
    #[error(
        "`{0}` is not of http: OTLP goes to a collector on this host or in its network, which passes it on \
         over TLS"
    )]
    Scheme(String),
}

impl FromStr for Collector {
    type Err = ParseCollectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let no_url = || ParseCollectorError::Url(text.to_owned());
        let url = Url::parse(text).map_err(|_| no_url())?;
        if url.scheme() != "http" {
            return Err(ParseCollectorError::Scheme(text.to_owned()));
        }
        let host = url.host_str().ok_or_else(no_url)?;
        // Brackets are those of the URL.
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Ok(Self {
            host: host.to_owned(),
            // OTLP's own port is written out by everybody; http's is that of the URL (OTLP 1.9, OTLP/HTTP).
            port: url.port_or_known_default().unwrap_or(80),
            authority: url[Position::BeforeHost..Position::AfterPort].to_owned(),
            path: format!("{}/v1/traces", url.path().trim_end_matches('/')),
        })
    }
}

impl TryFrom<String> for Collector {
    type Error = ParseCollectorError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectors_are_read_or_refused_with_the_reason() {
        let cases = [
            (
                "http://127.0.0.1:4318",
                Ok(("127.0.0.1", 4318, "/v1/traces")),
            ),
            ("http://[::1]:4318/", Ok(("::1", 4318, "/v1/traces"))),
            ("http://otel/a/", Ok(("otel", 80, "/a/v1/traces"))),
            ("https://otel:4318", Err("not of http")),
            ("grpc://otel:4317", Err("not of http")),
            ("127.0.0.1:4318", Err("no URL")),
            ("", Err("no URL")),
        ];
        for (text, want) in cases {
            match (text.parse::<Collector>(), want) {
                (Ok(got), Ok((host, port, path))) => {
                    assert_eq!(
                        (&*got.host, got.port, &*got.path),
                        (host, port, path),
                        "{text}"
                    );
                }
                (Err(error), Err(want)) => {
                    assert!(error.to_string().contains(want), "{text}: {error}");
                }
                (got, _) => panic!("{text}: {got:?}"),
            }
        }
    }

    #[test]
    fn the_sample_is_a_share() {
        for (sample, is_right) in [
            (0.0, true),
            (1.0, true),
            (-0.1, false),
            (1.1, false),
            (f64::NAN, false),
        ] {
            let config = TracingConfig {
                sample,
                ..TracingConfig::default()
            };
            assert_eq!(config.fault().is_none(), is_right, "{sample}");
        }
    }
}
