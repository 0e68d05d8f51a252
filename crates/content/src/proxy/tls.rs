//! TLS towards an `https` upstream.

use std::path::Path;
use std::sync::Arc;

use hikyaku_tls::AcceptAny;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use super::config::{ProxyConfig, UpstreamHttp};
use super::error::ProxyError;
use super::upstream::Upstream;

/// The settings of connections to an `https` upstream.
pub(super) struct Tls {
    pub(super) name: ServerName<'static>,
    /// Offers the HTTP versions of the configuration.
    pub(super) negotiating: TlsConnector,
    /// Offers HTTP/1.1 alone, which has upgrades.
    pub(super) http1: TlsConnector,
}

impl Tls {
    /// Prepares for an upstream at `host`, whose certificate is for that unless another name is
    /// configured.
    pub(super) fn new(
        upstream: &Upstream,
        host: &str,
        config: &ProxyConfig,
    ) -> Result<Self, ProxyError> {
        let host = config.tls_server_name.as_deref().unwrap_or(host);
        let refuse = |source: Box<dyn std::error::Error + Send + Sync>| ProxyError::Tls {
            host: host.to_owned(),
            source,
        };
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|source| refuse(source.into()))?;
        let client = if config.insecure {
            tracing::warn!(
                upstream = %upstream.authority,
                "the upstream's certificate is not checked (`insecure`): \
                 whoever is on the way can read and change everything"
            );
            AcceptAny::new().config(&[])
        } else {
            let roots = authorities(config.ca.as_deref())?;
            ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .map(|builder| builder.with_root_certificates(roots).with_no_client_auth())
        };
        let client = client.map_err(|source| refuse(source.into()))?;
        let offering = |protocols: &[&[u8]]| {
            let mut client = client.clone();
            client.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
            TlsConnector::from(Arc::new(client))
        };
        Ok(Self {
            name,
            negotiating: offering(protocols(upstream.http)),
            http1: offering(&[b"http/1.1"]),
        })
    }
}

/// Names of ALPN (RFC 7301), the preferred one first.
const fn protocols(http: UpstreamHttp) -> &'static [&'static [u8]] {
    match http {
        UpstreamHttp::Auto => &[b"h2", b"http/1.1"],
        UpstreamHttp::Http1 => &[b"http/1.1"],
        UpstreamHttp::Http2 => &[b"h2"],
    }
}

fn authorities(file: Option<&Path>) -> Result<RootCertStore, ProxyError> {
    let mut store = RootCertStore::empty();
    let place = match file {
        Some(path) => {
            let failed = |source| ProxyError::Ca {
                path: path.to_owned(),
                source,
            };
            for certificate in CertificateDer::pem_file_iter(path).map_err(failed)? {
                store.add_parsable_certificates([certificate.map_err(failed)?]);
            }
            format!("`{}`", path.display())
        }
        None => {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            "the system's store".to_owned()
        }
    };
    if store.is_empty() {
        return Err(ProxyError::NoCa { place });
    }
    Ok(store)
}
