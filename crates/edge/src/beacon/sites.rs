//! The settings of the beacon by site.

use std::hash::Hasher;
use std::sync::Arc;

use http::{HeaderMap, Method, Request, header};
use siphasher::sip::SipHasher13;

use super::nel::NelHeaders;
use super::script::Script;
use crate::pages::{Tags, destination, wants_document};
use crate::sections::BeaconConfig;
use crate::seed::random;
use hikyaku_content::Hosts;

/// The settings of all sites.
#[derive(Debug, Default)]
pub(crate) struct Beacons {
    /// For hosts that no site names; `None` where nothing is on.
    usual: Option<Arc<Beacon>>,
    sites: Hosts<Option<Arc<Beacon>>>,
    is_on: bool,
}

/// The settings of one site, of which something is on.
#[derive(Debug)]
pub(crate) struct Beacon {
    pub(super) config: BeaconConfig,
    pub(super) script: Script,
    pub(super) tags: Tags,
    pub(super) nel: Option<NelHeaders>,
    pub(super) script_path: String,
    nel_path: String,
}

/// The purpose of one of the beacon's own addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// A page's report.
    Page,
    /// The script as a file.
    Script,
    /// Reports of failures.
    Failures,
}

impl Beacons {
    /// Those of the server, and of sites with their names.
    pub(crate) fn new<'a>(
        server: &BeaconConfig,
        sites: impl Iterator<Item = (&'a [String], &'a BeaconConfig)>,
    ) -> Self {
        let usual = Beacon::new(server);
        let mut is_on = usual.is_some();
        let mut hosts = Hosts::default();
        for (names, config) in sites {
            let beacon = Beacon::new(config);
            is_on |= beacon.is_some();
            for name in names {
                // Wrong names are refused with the site's content.
                let _ = hosts.add(name, beacon.clone());
            }
        }
        Self {
            usual,
            sites: hosts,
            is_on,
        }
    }

    /// The settings for requests to a host.
    pub(crate) fn of(&self, host: &str) -> Option<&Arc<Beacon>> {
        if !self.is_on {
            return None;
        }
        let site = self.sites.get(host).unwrap_or(&self.usual);
        site.as_ref()
    }

    /// Whether anything is on, anywhere.
    pub(crate) const fn is_on(&self) -> bool {
        self.is_on
    }
}

impl Beacon {
    /// `None` where nothing is on.
    fn new(config: &BeaconConfig) -> Option<Arc<Self>> {
        if !(config.pages || config.server_timing || config.nel) {
            return None;
        }
        let path = config.path.as_str();
        let script = Script::new(path);
        let nel_path = format!("{path}/nel");
        Some(Arc::new(Self {
            tags: Tags::new("page", fingerprint(script.code())),
            script,
            nel: config.nel.then(|| NelHeaders::new(&nel_path)).flatten(),
            script_path: format!("{path}.js"),
            nel_path,
            config: config.clone(),
        }))
    }

    /// The purpose of a path, if it is one of the beacon's own.
    pub(crate) fn point(&self, path: &str) -> Option<Point> {
        let (pages, nel) = (self.config.pages, self.config.nel);
        match path {
            path if pages && path == self.config.path.as_str() => Some(Point::Page),
            path if pages && path == self.script_path => Some(Point::Script),
            path if nel && path == self.nel_path => Some(Point::Failures),
            _ => None,
        }
    }

    /// Whether the response to a request may be other than the content's.
    pub(crate) fn changes(&self, headers: &HeaderMap) -> bool {
        self.config.server_timing || is_visit(headers)
    }

    /// Whether the response to a request gets the script, if it is a page.
    pub(crate) fn takes<B>(&self, request: &Request<B>) -> bool {
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        self.config.pages && reads && is_visit(request.headers()) && self.draws()
    }

    fn draws(&self) -> bool {
        let share = self.config.share.get();
        share >= 1.0 || (random() as f64) < share * u64::MAX as f64
    }
}

/// Whether a browser is to show the response as a page of its own, now. Parts of other pages, and pages that
/// are fetched ahead, may never be seen.
pub(super) fn is_visit(headers: &HeaderMap) -> bool {
    let is_page = match destination(headers) {
        Some(destination) => destination == "document",
        None => wants_document(headers) == Some(true) && !headers.contains_key("x-requested-with"),
    };
    let ahead = ["sec-purpose", "purpose", "x-moz", "x-purpose"];
    let is_ahead = |name: &&str| {
        let value = headers.get(*name).and_then(|value| value.to_str().ok());
        value.is_some_and(|value| value.contains("prefetch") || value.contains("preview"))
    };
    is_page && !ahead.iter().any(is_ahead) && !headers.contains_key(header::UPGRADE)
}

/// A number that differs where pages would get another script.
fn fingerprint(code: &str) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(code.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> BeaconConfig {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_site_has_its_own_settings() {
        let names = ["a.test", "*.a.test"].map(str::to_owned);
        let off = ["off.test".to_owned()];
        let own = config("pages = true\npath = '/own'\nnel = true");
        let sites = [(&names[..], &own), (&off[..], &BeaconConfig::default())];
        let beacons = Beacons::new(&config("pages = true"), sites.into_iter());
        let point = |host: &str, path: &str| beacons.of(host).and_then(|it| it.point(path));
        let usual = "/.well-known/hikyaku/page";
        let cases = [
            ("x.test:8443", usual, Some(Point::Page)),
            (
                "x.test",
                "/.well-known/hikyaku/page.js",
                Some(Point::Script),
            ),
            ("x.test", "/.well-known/hikyaku/page/nel", None),
            ("x.test", "/.well-known/hikyaku/", None),
            ("", usual, Some(Point::Page)),
            ("a.test", usual, None),
            ("b.a.test", "/own", Some(Point::Page)),
            ("a.test", "/own.js", Some(Point::Script)),
            ("a.test", "/own/nel", Some(Point::Failures)),
            ("off.test", usual, None),
        ];
        for (host, path, want) in cases {
            assert_eq!(point(host, path), want, "{host}{path}");
        }
        let none = Beacons::new(&BeaconConfig::default(), std::iter::empty());
        assert!(!none.is_on() && none.of("a.test").is_none());
    }

    #[test]
    fn only_visits_of_pages_are_taken() {
        let html = "text/html,application/xhtml+xml,*/*;q=0.8";
        let cases: &[(&[(&'static str, &str)], bool)] = &[
            (&[], false),
            (&[("accept", "*/*")], false),
            (&[("accept", html)], true),
            (
                &[("accept", html), ("x-requested-with", "XMLHttpRequest")],
                false,
            ),
            (&[("sec-fetch-dest", "document")], true),
            (&[("sec-fetch-dest", "iframe"), ("accept", html)], false),
            (&[("sec-fetch-dest", "empty"), ("accept", html)], false),
            (&[("sec-fetch-dest", "image")], false),
            (
                &[
                    ("sec-fetch-dest", "document"),
                    ("sec-purpose", "prefetch;prerender"),
                ],
                false,
            ),
            (
                &[("sec-fetch-dest", "document"), ("purpose", "prefetch")],
                false,
            ),
            (&[("accept", html), ("upgrade", "websocket")], false),
        ];
        for (fields, want) in cases {
            let fields = fields.iter().map(|(name, value)| {
                (
                    header::HeaderName::from_static(name),
                    value.parse().unwrap(),
                )
            });
            let headers: HeaderMap = fields.collect();
            assert_eq!(is_visit(&headers), *want, "{headers:?}");
        }
    }

    #[test]
    fn a_share_of_pages_is_taken() {
        let taken = |share: f64| {
            let beacon = Beacon::new(&config(&format!("pages = true\nshare = {share}"))).unwrap();
            let request = Request::get("/").header("sec-fetch-dest", "document");
            let request = request.body(()).unwrap();
            (0..1000).filter(|_| beacon.takes(&request)).count()
        };
        assert_eq!((taken(0.0), taken(1.0)), (0, 1000));
        assert!((50..450).contains(&taken(0.25)));
    }
}
