//! The certificates of all sites.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use hikyaku_acme::{ACME_TLS, Answers, Status, file_of};
use hikyaku_content::Hosts;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::certificate::{Certificate, Pair, Source};
use super::{CertificateReport, OcspReport, TlsError};
use crate::sections::SiteSection;

/// The certificates of all sites. A handshake takes those of the host that the client names (RFC 6066 §3).
#[derive(Debug)]
pub(crate) struct Certificates {
    /// For hosts of sites without certificates of their own, and for all that no site names.
    server: Arc<Certificate>,
    /// Of sites, each with its first name.
    sites: Vec<(String, Arc<Certificate>)>,
    hosts: Hosts<Arc<Certificate>>,
    /// For authorities that check names by TLS; `None` where nothing is got by ACME.
    answers: Option<Arc<Answers>>,
    /// OCSP responses come with them.
    staples: bool,
}

impl Certificates {
    /// Reads or makes the certificates of `sites`. Those that the `former` ones were made for stay. Those that
    /// are got by ACME are kept in `state`.
    ///
    /// # Errors
    /// When a file can't be read or is unusable, or when the files of a site do not belong together.
    pub(crate) fn new(
        server: Arc<Certificate>,
        sites: &[SiteSection],
        state: Option<&Path>,
        former: Option<&Self>,
        provider: &CryptoProvider,
    ) -> Result<Self, TlsError> {
        let mut all = Self {
            server,
            sites: Vec::new(),
            hosts: Hosts::default(),
            answers: None,
            staples: false,
        };
        for site in sites {
            let Some(source) = source(site, &all.server, state) else {
                continue;
            };
            let name = site.names.first().cloned().unwrap_or_default();
            let kept = former.and_then(|former| former.kept(&name, &source));
            let certificate = match kept {
                Some(certificate) => certificate,
                None => Arc::new(Certificate::load(source, provider)?),
            };
            for name in &site.names {
                // Wrong names are refused with the site's content.
                let _ = all.hosts.add(name, Arc::clone(&certificate));
            }
            all.sites.push((name, certificate));
        }
        Ok(all)
    }

    /// Answers authorities that check names by TLS, too.
    pub(crate) fn answering(self, answers: Arc<Answers>) -> Self {
        Self {
            answers: Some(answers),
            ..self
        }
    }

    /// Has OCSP responses sent with them, or not.
    pub(crate) fn stapling(self, staples: bool) -> Self {
        Self { staples, ..self }
    }

    /// Whether OCSP responses are sent with them.
    pub(super) const fn staples(&self) -> bool {
        self.staples
    }

    /// The certificate of the site with this name, if that was made for the same names, and not of files.
    fn kept(&self, name: &str, source: &Source) -> Option<Arc<Certificate>> {
        let certificate = self.hosts.get(name)?;
        let is_kept = !matches!(source, Source::Files(_)) && certificate.source() == source;
        is_kept.then(|| Arc::clone(certificate))
    }

    /// All certificates, the server's first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Certificate>> {
        let sites = self.sites.iter().map(|(_, certificate)| certificate);
        std::iter::once(&self.server).chain(sites)
    }

    /// Reports on all certificates, with the status of those that are `kept` by ACME, and the standing that
    /// `ocsp` has by their fingerprints.
    pub(crate) fn reports(
        &self,
        kept: &[Status],
        ocsp: &HashMap<String, OcspReport>,
    ) -> Vec<CertificateReport> {
        let server = CertificateReport::of(None, &self.server, kept, ocsp);
        let sites = self.sites.iter();
        let sites = sites.map(|(site, one)| CertificateReport::of(Some(site), one, kept, ocsp));
        std::iter::once(server).chain(sites).collect()
    }

    /// Adds what Prometheus shall know of the certificates in use.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let not_after = Family::<Vec<(&'static str, String)>, Gauge>::default();
        let add = |site: Option<&String>, certificate: &Certificate| {
            for description in certificate.descriptions() {
                let key = ("key", description.key.to_owned());
                let site = site.map(|site| ("site", site.clone()));
                let labels = std::iter::once(key).chain(site).collect();
                // Of several with these labels the first to expire counts.
                let gauge = not_after.get_or_create(&labels);
                let earliest = match gauge.get() {
                    0 => description.not_after,
                    other => other.min(description.not_after),
                };
                gauge.set(earliest);
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
fn source(site: &SiteSection, server: &Certificate, state: Option<&Path>) -> Option<Source> {
    if let (true, Some(state)) = (site.tls.acme, state) {
        return Some(Source::Acme {
            names: site.names.clone(),
            file: file_of(state, &site.names),
        });
    }
    let pairs = site.tls.cert.iter().zip(&site.tls.key);
    let pairs: Vec<_> = pairs
        .map(|(cert, key)| Pair {
            cert: cert.clone(),
            key: key.clone(),
        })
        .collect();
    match (pairs.is_empty(), server.source()) {
        (false, _) => Some(Source::Files(pairs)),
        (true, Source::Files(_) | Source::Acme { .. }) => None,
        (true, Source::SelfSigned { .. }) => Some(Source::SelfSigned {
            names: site.names.clone(),
        }),
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if let Some(answers) = &self.answers
            && hello.alpn().is_some_and(|offered| offered.eq([ACME_TLS]))
        {
            return answers.tls(hello.server_name()?);
        }
        let named = hello.server_name().and_then(|name| self.hosts.get(name));
        named.unwrap_or(&self.server).resolve(hello)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};

    use super::*;
    use crate::sections::SiteTls;

    /// Files of a certificate for a name, which expires at the beginning of 2040.
    fn files(dir: &Path, name: &str) -> SiteTls {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(2040, 1, 1);
        let made = params.self_signed(&key).unwrap();
        let (cert, secret) = (dir.join("cert.pem"), dir.join("key.pem"));
        fs::write(&cert, made.pem()).unwrap();
        fs::write(&secret, key.serialize_pem()).unwrap();
        SiteTls {
            cert: vec![cert],
            key: vec![secret],
            acme: false,
        }
    }

    #[test]
    fn the_end_of_every_kind_of_certificate_is_a_metric() {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let dir = tempfile::tempdir().unwrap();
        let names = vec!["localhost".to_owned()];
        let server = Certificate::load(Source::SelfSigned { names }, &provider).unwrap();
        let server = Arc::new(server);
        let site = |name: &str, tls| SiteSection {
            names: vec![name.to_owned()],
            tls,
            ..SiteSection::default()
        };
        let acme = SiteTls {
            acme: true,
            ..SiteTls::default()
        };
        let sites = [
            site("files.example", files(dir.path(), "files.example")),
            site("made.example", SiteTls::default()),
            site("acme.example", acme),
        ];
        let state = Some(dir.path());
        let all = Certificates::new(Arc::clone(&server), &sites, state, None, &provider).unwrap();
        let mut registry = Registry::default();
        all.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let made = |site: &str| {
            let certificate = all.hosts.get(site).unwrap();
            certificate.description().not_after
        };
        let name = "certificate_not_after_seconds";
        let (ours, none_yet) = (made("made.example"), made("acme.example"));
        for line in [
            format!("{name}{{key=\"ecdsa\"}} {}", server.description().not_after),
            format!("{name}{{key=\"ed25519\",site=\"files.example\"}} 2208988800"),
            format!("{name}{{key=\"ecdsa\",site=\"made.example\"}} {ours}"),
            format!("{name}{{key=\"ecdsa\",site=\"acme.example\"}} {none_yet}"),
        ] {
            assert!(text.lines().any(|other| other == line), "{line} in {text}");
        }
    }
}
