//! Certificates and keys in files.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use hikyaku_edge::Config;
use hikyaku_edge::tls::{Certificate, Pair, Source, TlsError};
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The files of a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Files {
    /// Who shows it, in words.
    pub(crate) of: String,
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
    /// Every user of this machine can read the key.
    pub(crate) is_open: bool,
    pub(crate) leaf: Result<Leaf, Unusable>,
}

/// A certificate, and the chain that comes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub(crate) names: Vec<String>,
    /// Names of sites that show it, and that it is not for.
    pub(crate) uncovered: Vec<String>,
    /// Seconds since the Unix epoch.
    pub(crate) from: i64,
    /// Seconds since the Unix epoch.
    pub(crate) until: i64,
    /// All certificates of the file, the leaf first.
    pub(crate) chain: Vec<Link>,
    /// This machine knows the issuer of the last one as a root.
    pub(crate) is_anchored: bool,
}

/// A certificate of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) subject: String,
    pub(crate) issuer: String,
}

/// Why a certificate can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// The doctor may not read a file.
    Denied(String),
    /// A file is not there, or is not what it should be.
    File(String),
    /// The key is that of another certificate, or of no usable kind.
    Key(String),
}

/// The certificates of a configuration that are read from files.
pub(super) fn of(config: &Config) -> Vec<Files> {
    let own =
        |site: &&hikyaku_edge::config::SiteSection| !site.tls.cert.is_empty() || site.tls.acme;
    let without = config.sites.iter().filter(|site| !own(site));
    let names = without.flat_map(|site| &site.names).cloned().collect();
    let server = ("the server".to_owned(), &config.tls.cert, &config.tls.key);
    let sites = config.sites.iter().filter(own).map(|site| {
        let name = site.names.first().map_or("", String::as_str);
        let of = format!("the site `{name}`");
        ((of, &site.tls.cert, &site.tls.key), site.names.clone())
    });
    let all = std::iter::once((server, names)).chain(sites);
    let files = all.flat_map(|((of, certs, keys), names)| {
        let pairs = certs.iter().zip(keys);
        let pair = |(cert, key): (&PathBuf, &PathBuf)| files(&of, cert, key, &names);
        pairs.map(pair).collect::<Vec<_>>()
    });
    files.collect()
}

fn files(of: &str, cert: &Path, key: &Path, names: &[String]) -> Files {
    let mode = fs::metadata(key).map(|metadata| metadata.permissions().mode());
    Files {
        of: of.to_owned(),
        cert: cert.to_owned(),
        key: key.to_owned(),
        is_open: mode.is_ok_and(|mode| mode & 0o004 != 0),
        leaf: leaf(cert, key, names),
    }
}

fn leaf(cert: &Path, key: &Path, names: &[String]) -> Result<Leaf, Unusable> {
    let source = Source::Files(vec![Pair {
        cert: cert.to_owned(),
        key: key.to_owned(),
    }]);
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let certificate = Certificate::load(source, &provider).map_err(unusable)?;
    let covers = |name: &String| certificate.covers(&name.replacen('*', "any", 1));
    let description = certificate.description();
    let chain = chain(&certificate.pem());
    let ends = |link: &Link| link.issuer == link.subject || ROOTS.contains(&link.issuer);
    Ok(Leaf {
        names: certificate.names(),
        uncovered: names.iter().filter(|name| !covers(name)).cloned().collect(),
        from: description.not_before,
        until: description.not_after,
        is_anchored: chain.last().is_some_and(ends),
        chain,
    })
}

fn unusable(error: TlsError) -> Unusable {
    let denied = matches!(&error, TlsError::Read { source, .. } if source.kind() == io::ErrorKind::PermissionDenied);
    let is_key = matches!(error, TlsError::Unusable { .. });
    let text = format!("{:#}", anyhow::Error::from(error));
    match (denied, is_key) {
        (true, _) => Unusable::Denied(text),
        (_, true) => Unusable::Key(text),
        _ => Unusable::File(text),
    }
}

fn chain(pem: &str) -> Vec<Link> {
    let blocks = Pem::iter_from_buffer(pem.as_bytes()).filter_map(Result::ok);
    let link = |block: Pem| {
        let certificate = block.parse_x509().ok()?;
        Some(Link {
            subject: certificate.subject().to_string(),
            issuer: certificate.issuer().to_string(),
        })
    };
    blocks.filter_map(link).collect()
}

/// The names of the roots that this machine trusts.
static ROOTS: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let roots = rustls_native_certs::load_native_certs().certs;
    let name = |der: &[u8]| {
        let (_, root) = X509Certificate::from_der(der).ok()?;
        Some(root.subject().to_string())
    };
    roots.iter().filter_map(|root| name(root)).collect()
});
