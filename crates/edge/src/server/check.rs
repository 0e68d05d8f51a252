//! Checking a configuration without serving it.

mod cleartext;

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use hikyaku_acme::ChallengeKind;
use rustix::fs::{Access, access};
use rustls::crypto::CryptoProvider;

use super::ServerError;
use super::in_force::{acme, site_configs};
use super::setup::{available, certificate_source, check_available, load_model};
use crate::config::{AccessTarget, Config, SiteSection};
use crate::listen::{ListenError, try_tcp, try_udp};
use crate::policies::Policies;
use crate::secrets::check_key_file;
use crate::sections::ListenAddress;
use crate::serve::cleartext::Cleartext;
use crate::shards::Shards;
use crate::tcp_cc::Controls;
use crate::tls::{Certificate, Pair, Source};
use hikyaku_content::{Caches, Content, Directories, SiteConfig, Upstreams};

/// The errors of a configuration, and the doubts about it.
#[derive(Debug, Default)]
pub struct Findings {
    /// A server would not start for these.
    pub errors: Vec<ServerError>,
    /// Sentences.
    pub warnings: Vec<String>,
}

impl Findings {
    /// Checks a configuration against this machine: how its keys fit together, files and their permissions,
    /// certificates, upstreams' URLs, and addresses to listen on. Nothing is served, and nothing is left
    /// changed.
    ///
    /// Files and ports are those that the user who checks may read and listen on.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let mut findings = Self::default();
        let faults = config.faults().into_iter().map(ServerError::from);
        findings.errors.extend(faults);
        findings.note(config.policy.validate());
        findings.note(load_model(config));
        findings.note(Policies::new(config));
        findings.note(available(&config.policy, &Controls::plain()));
        findings.note(check_available(config, &Controls::plain()));
        let key_file = config.fleet.key_file.as_deref();
        findings.note(key_file.map_or(Ok(()), check_key_file));
        findings.check_certificates(config);
        findings.check_content(config);
        findings.check_cleartext(config);
        findings.note(acme(config));
        findings.check_acme(config);
        findings.note(Cleartext::new(config, None));
        findings.check_places(config);
        findings.check_addresses(config);
        findings
    }

    /// Takes over an error.
    fn note<T, E: Into<ServerError>>(&mut self, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.errors.push(error.into())).ok()
    }

    fn check_certificates(&mut self, config: &Config) {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let is_on = config.tls.ocsp;
        let server = self.check_certificate(certificate_source(config), &provider, None);
        if let Some(server) = &server {
            self.warnings.extend(server.concerns_of_ocsp(is_on));
        }
        if let Some(server) = server {
            self.note(Shards::new(&config.shards, Arc::new(server)));
        }
        for site in &config.sites {
            let source = files_of(site);
            if !site.tls.cert.is_empty() && site.tls.cert.len() == site.tls.key.len() {
                let own = self.check_certificate(source, &provider, Some(site));
                let concerns = own.map(|own| own.concerns_of_ocsp(is_on));
                self.warnings.extend(concerns.unwrap_or_default());
            }
        }
    }

    fn check_certificate(
        &mut self,
        source: Source,
        provider: &CryptoProvider,
        site: Option<&SiteSection>,
    ) -> Option<Certificate> {
        if let Source::Files(pairs) = &source {
            for pair in pairs {
                self.check_secret(&pair.key);
            }
        }
        let certificate = self.note(Certificate::load(source, provider))?;
        self.warnings
            .extend(certificate.concerns(SystemTime::now()));
        let names = site.map_or(&[][..], |site| &site.names);
        let without = names
            .iter()
            .filter(|name| !certificate.covers(&name.replacen('*', "any", 1)));
        for name in without {
            let names = certificate.names().join(", ");
            self.warnings.push(format!(
                "the certificate of the site `{name}` is for {names}: clients will refuse it"
            ));
        }
        Some(certificate)
    }

    fn check_acme(&mut self, config: &Config) {
        if config.names_by_acme().next().is_none() {
            return;
        }
        if let Some(keys) = &config.acme.eab_file {
            self.check_secret(keys);
        }
        for kind in config.challenges() {
            let (key, listen, port) = match kind {
                ChallengeKind::TlsAlpn01 => ("listen", &config.listen, 443),
                ChallengeKind::Http01 => ("http.listen", &config.http.listen, 80),
                ChallengeKind::Dns01 => continue,
            };
            let has_port = |address: &ListenAddress| {
                let addresses = address.resolve().unwrap_or_default();
                addresses.iter().any(|address| address.port() == port)
            };
            if !listen.iter().any(has_port) {
                self.warnings.push(format!(
                    "{} comes to port {port} of a name, which is not in `{key}`: map it to a port that is",
                    kind.name()
                ));
            }
        }
    }

    /// Warns of a file of secrets that everybody can read.
    fn check_secret(&mut self, path: &Path) {
        let mode = fs::metadata(path).map(|metadata| metadata.permissions().mode());
        if mode.is_ok_and(|mode| mode & 0o004 != 0) {
            self.warnings.push(format!(
                "{} can be read by every user of this machine: chmod o= {}",
                path.display(),
                path.display()
            ));
        }
    }

    /// Checks each site and each of its routes by itself, so that one fault hides no other.
    fn check_content(&mut self, config: &Config) {
        let before = self.errors.len();
        let mut sites = site_configs(
            config,
            &Upstreams::default(),
            &Directories::default(),
            &Caches::default(),
        );
        // A server that runs has the directories open.
        let routes = sites.iter_mut().flat_map(|site| &mut site.routes);
        let of_routes = routes.filter_map(|route| route.cache.as_mut());
        of_routes.for_each(|cache| cache.dir = None);
        sites.iter_mut().for_each(|site| site.cache.dir = None);
        for site in &sites {
            let alone = |routes| SiteConfig {
                routes,
                ..site.clone()
            };
            if self.note(Content::new(&[alone(Vec::new())])).is_none() {
                continue;
            }
            self.warnings.extend(site.gaps());
            for route in &site.routes {
                self.note(Content::new(&[alone(vec![route.clone()])]));
            }
            let users = [&site.access]
                .into_iter()
                .chain(site.routes.iter().filter_map(|route| route.access.as_ref()));
            for basic in users.filter_map(|access| access.basic_auth.as_ref()) {
                self.check_secret(&basic.users);
            }
        }
        if self.errors.len() == before {
            // Together they may have a name twice.
            self.note(Content::new(&sites));
        }
    }

    /// Checks the directories that are written to.
    fn check_places(&mut self, config: &Config) {
        if let Some(path) = &config.fleet.password_file {
            self.check_secret(path);
        }
        if let AccessTarget::File(path) = &config.log.access {
            let place = match path.exists() {
                true => path,
                false => parent(path),
            };
            if let Err(error) = writable(place) {
                self.warn_of("log.access", path, &error);
            }
        }
        let state = config.state.dir.iter().map(|path| ("state.dir", path));
        let caches = config.sites.iter().map(|site| &site.cache);
        let caches = caches.chain([&config.cache]).filter(|cache| cache.enabled);
        let caches = caches.filter_map(|cache| Some(("cache.dir", cache.dir.as_ref()?)));
        for (key, path) in state.chain(caches) {
            // The server makes a directory that is not there.
            let there = path.ancestors().find(|path| path.exists());
            if let Err(error) = writable(there.unwrap_or(path)) {
                self.warn_of(key, path, &error);
            }
        }
    }

    fn warn_of(&mut self, key: &str, path: &Path, error: &io::Error) {
        let path = path.display();
        self.warnings
            .push(format!("`{key}` = {path} can't be written to: {error}"));
    }

    /// Tries to listen on all addresses. One that is taken is doubtful only: the server that is to be reloaded
    /// may have it.
    fn check_addresses(&mut self, config: &Config) {
        for address in &config.listen {
            self.check_address("TCP", address, try_tcp(address));
            self.check_address("UDP", address, try_udp(address));
        }
        let others = config.http.listen.iter().chain(&config.admin.listen.0);
        for address in others {
            self.check_address("TCP", address, try_tcp(address));
        }
    }

    fn check_address(
        &mut self,
        transport: &'static str,
        address: &ListenAddress,
        tried: io::Result<()>,
    ) {
        match tried {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => self.warnings.push(format!(
                "{transport} {address} is taken; that is well if the server that you will reload has it"
            )),
            bound => {
                let failed = |source| ListenError {
                    transport,
                    address: address.clone(),
                    source,
                };
                self.note(bound.map_err(failed));
            }
        }
    }
}

fn files_of(site: &SiteSection) -> Source {
    let pairs = site.tls.cert.iter().zip(&site.tls.key);
    let pair = |(cert, key): (&_, &_)| Pair {
        cert: std::path::PathBuf::clone(cert),
        key: std::path::PathBuf::clone(key),
    };
    Source::Files(pairs.map(pair).collect())
}

/// The directory of a file.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

fn writable(path: &Path) -> io::Result<()> {
    access(path, Access::WRITE_OK).map_err(Into::into)
}
