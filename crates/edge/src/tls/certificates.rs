//! The certificates of all sites.

use std::sync::Arc;

use hikyaku_content::Hosts;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::TlsError;
use super::certificate::{Certificate, Pair, Source};
use crate::sections::SiteSection;

/// The certificates of all sites. A handshake takes those of the host that the client names (RFC 6066 §3).
#[derive(Debug)]
pub(crate) struct Certificates {
    /// For hosts of sites without certificates of their own, and for all that no site names.
    server: Arc<Certificate>,
    /// Of sites, each with its first name.
    sites: Vec<(String, Arc<Certificate>)>,
    hosts: Hosts<Arc<Certificate>>,
}

impl Certificates {
    /// Reads or makes the certificates of `sites`. Those that the `former` ones were made for stay.
    ///
    /// # Errors
    /// When a file can't be read or is unusable, or when the files of a site do not belong together.
    pub(crate) fn new(
        server: Arc<Certificate>,
        sites: &[SiteSection],
        former: Option<&Self>,
        provider: &CryptoProvider,
    ) -> Result<Self, TlsError> {
        let mut all = Self {
            server,
            sites: Vec::new(),
            hosts: Hosts::default(),
        };
        for site in sites {
            let Some(source) = source(site, &all.server) else {
                continue;
            };
            let kept = former.and_then(|former| former.self_signed(&source));
            let certificate = match kept {
                Some(certificate) => certificate,
                None => Arc::new(Certificate::load(source, provider)?),
            };
            for name in &site.names {
                // Wrong names are refused with the site's content.
                let _ = all.hosts.add(name, Arc::clone(&certificate));
            }
            let name = site.names.first().cloned();
            all.sites.push((name.unwrap_or_default(), certificate));
        }
        Ok(all)
    }

    /// The self-signed certificate that is made for the same names.
    fn self_signed(&self, source: &Source) -> Option<Arc<Certificate>> {
        let is_it = |(_, one): &&(String, Arc<Certificate>)| {
            matches!(source, Source::SelfSigned { .. }) && one.source() == source
        };
        let (_, certificate) = self.sites.iter().find(is_it)?;
        Some(Arc::clone(certificate))
    }

    /// All certificates, the server's first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Certificate>> {
        let sites = self.sites.iter().map(|(_, certificate)| certificate);
        std::iter::once(&self.server).chain(sites)
    }

    /// Adds what Prometheus shall know of the certificates in use.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let not_after = Family::<Vec<(&'static str, String)>, Gauge>::default();
        let add = |site: Option<&String>, certificate: &Certificate| {
            for description in certificate.descriptions() {
                let key = ("key", description.key.to_owned());
                let site = site.map(|site| ("site", site.clone()));
                let labels = std::iter::once(key).chain(site).collect();
                not_after.get_or_create(&labels).set(description.not_after);
            }
        };
        add(None, &self.server);
        for (site, certificate) in &self.sites {
            add(Some(site), certificate);
        }
        registry.register_with_unit(
            "certificate_not_after",
            "When a certificate in use expires, since the Unix epoch",
            Unit::Seconds,
            not_after,
        );
    }
}

/// Where the certificates of a site come from; `None` for those of the server.
fn source(site: &SiteSection, server: &Certificate) -> Option<Source> {
    let pairs = site.tls.cert.iter().zip(&site.tls.key);
    let pairs: Vec<_> = pairs
        .map(|(cert, key)| Pair {
            cert: cert.clone(),
            key: key.clone(),
        })
        .collect();
    match (pairs.is_empty(), server.source()) {
        (false, _) => Some(Source::Files(pairs)),
        (true, Source::Files(_)) => None,
        (true, Source::SelfSigned { .. }) => Some(Source::SelfSigned {
            names: site.names.clone(),
        }),
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named = hello.server_name().and_then(|name| self.hosts.get(name));
        named.unwrap_or(&self.server).resolve(hello)
    }
}
