//! Which URLs of a page go to which shard.

use std::hash::Hasher;
use std::sync::Arc;

use siphasher::sip::SipHasher13;
use url::Url;

use super::Shards;
use super::config::{Kind, ShardHost};
use crate::pages::{Policies, Target};

/// Spreads the references of one page.
#[derive(Debug)]
pub(super) struct Spread {
    shards: Arc<Shards>,
    page: Url,
    /// URL that relative references are relative to.
    base: Url,
    base_given: bool,
    /// Of the page's own host and of the first shards, by connection.
    connections: u8,
    pub(super) policies: Policies,
    /// URLs that the response names before the page does.
    kept: Vec<Url>,
    /// Everything else stays as it is.
    stopped: bool,
}

impl Spread {
    /// For the page `page`, an `https` URL, over so many connections, the page's own included.
    pub(super) fn new(shards: Arc<Shards>, page: Url, connections: u8, policies: Policies) -> Self {
        Self {
            shards,
            base: page.clone(),
            page,
            base_given: false,
            connections,
            policies,
            kept: Vec::new(),
            stopped: false,
        }
    }

    /// Leaves what a `Link` field (RFC 8288 §3) names where it is: a browser that has
    /// preloaded it would load it twice.
    pub(super) fn keep_linked(&mut self, field: &str) {
        let targets = field
            .split('<')
            .skip(1)
            .filter_map(|rest| rest.split_once('>'));
        let urls = targets.filter_map(|(target, _)| self.page.join(target).ok());
        self.kept.extend(urls);
    }

    /// Leaves everything as it is from here on.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }

    /// Takes the `href` of a `base` element; only the first counts (HTML Standard §4.2.3).
    pub(super) fn rebase(&mut self, href: &str) {
        if std::mem::replace(&mut self.base_given, true) {
            return;
        }
        // A policy may forbid it, and a browser then takes the page's own URL.
        let plain =
            is_plain(href.trim_ascii()) && !href.contains('&') && !self.policies.limit_base();
        match self.page.join(href) {
            Ok(base) if plain && !base.cannot_be_a_base() => self.base = base,
            _ => self.stop(),
        }
    }

    /// The reference that takes the place of `reference`, as it stands in an attribute or a
    /// style sheet; `None` where it stays. What it gives has the same path and query.
    pub(super) fn moved(&self, reference: &str, kind: Kind) -> Option<String> {
        if self.stopped || !self.shards.kinds.contains(&kind) {
            return None;
        }
        let reference = reference.trim_matches(|c: char| c.is_ascii_whitespace());
        let query = reference.find(['?', '#']).unwrap_or(reference.len());
        let (path, rest) = reference.split_at(query);
        // In the path a character reference would have to be read and written. Without a
        // path it is the page itself.
        if path.is_empty() || path.contains('&') || !is_plain(reference) {
            return None;
        }
        let url = self.base.join(path).ok()?;
        let path = url.path();
        if !self.is_own(&url) || path.contains('&') || !self.shards.matches(path) {
            return None;
        }
        let is_kept = |kept: &Url| kept.path() == path && kept.origin() == self.page.origin();
        if self.kept.iter().any(is_kept) {
            return None;
        }
        let host = self.host_of(path, rest)?;
        let port = host.port.or(self.page.port_or_known_default())?;
        let target = Target {
            host: &host.host,
            is_address: host.ip().is_some(),
            port,
            path,
        };
        if !self.policies.allow(kind.into(), &target) {
            return None;
        }
        let name = &host.host;
        Some(match port {
            443 => format!("https://{name}{path}{rest}"),
            _ => format!("https://{name}:{port}{path}{rest}"),
        })
    }

    /// Whether `url` is at the page's own server, without a user's name.
    fn is_own(&self, url: &Url) -> bool {
        let server = |url: &Url| {
            let host = url.host().map(|host| host.to_owned());
            (url.scheme().to_owned(), host, url.port_or_known_default())
        };
        server(url) == server(&self.page) && url.username().is_empty() && url.password().is_none()
    }

    /// The shard of a resource; `None` where it stays with the page.
    ///
    /// It is the same for every page, client and server, so that caches keep working. With another
    /// number of connections as few resources as possible move by the highest random weight. (Thaler and
    /// Ravishankar, "Using name-based mappings to increase hit rates", IEEE/ACM ToN 1998.) Those that
    /// differ by a number alone, such as the pictures of a gallery, take turns. By chance a dozen of
    /// them would often leave a connection out.
    fn host_of(&self, path: &str, rest: &str) -> Option<&ShardHost> {
        let query = rest.split('#').next().unwrap_or_default();
        // As it reads without HTML around it.
        let query = query.replace("&amp;", "&");
        let (before, number, behind) = numbered(path);
        let weight = |connection: &u8| {
            let mut hasher = SipHasher13::new();
            hasher.write_u8(*connection);
            for part in [before, behind, &query] {
                hasher.write(part.as_bytes());
            }
            hasher.finish()
        };
        let mut order: Vec<u8> = (0..self.connections).collect();
        order.sort_by_cached_key(|connection| std::cmp::Reverse(weight(connection)));
        let turn = number % u64::from(self.connections.max(1));
        let connection = order.get(usize::try_from(turn).ok()?)?;
        self.shards
            .hosts
            .get(usize::from(connection.checked_sub(1)?))
    }
}

/// The last number in a file's name, without its extension, and what stands around it; 0 and
/// the whole path where there is none.
fn numbered(path: &str) -> (&str, u64, &str) {
    let name = path.rfind('/').map_or(0, |slash| slash + 1);
    let stem = path[name..].rfind('.').map_or(path.len(), |dot| name + dot);
    let is_digit = |c: char| c.is_ascii_digit();
    let Some(last) = path[name..stem].rfind(is_digit) else {
        return (path, 0, "");
    };
    let end = name + last + 1;
    let start = path[name..end]
        .rfind(|c| !is_digit(c))
        .map_or(name, |other| name + other + 1);
    match path[start..end].parse() {
        Ok(number) => (&path[..start], number, &path[end..]),
        // Longer than numbers that count something.
        Err(_) => (path, 0, ""),
    }
}

/// Whether a reference is one of visible ASCII that can stand in quotes as it is. All browsers read such
/// a reference alike, in every encoding of a page.
fn is_plain(reference: &str) -> bool {
    let odd = b"\\\"'<>`";
    reference
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && !odd.contains(&byte))
}
