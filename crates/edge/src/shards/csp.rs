//! Sources that a page's Content Security Policy allows (CSP Level 3).

use super::config::Kind;

/// All policies of one page: what one of them refuses is refused.
#[derive(Clone, Debug, Default)]
pub(super) struct Policies(Vec<Policy>);

#[derive(Clone, Debug)]
struct Policy {
    /// Names in lower case, with their values.
    directives: Vec<(String, Vec<String>)>,
}

/// A URL that a page is to load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    /// An address without brackets, or a name.
    pub(super) host: &'a str,
    pub(super) is_address: bool,
    pub(super) port: u16,
    /// Percent-encoded, without the query.
    pub(super) path: &'a str,
}

impl Policies {
    /// Adds the policies of a header field or `meta` element: a list (§2.2.1).
    ///
    /// Those that only report are to be added, too, or the operator would get reports of
    /// what this server did.
    pub(super) fn add(&mut self, list: &str) {
        self.0.extend(list.split(',').map(Policy::parse));
    }

    /// Whether the page may load `target`.
    pub(super) fn allow(&self, kind: Kind, target: &Target<'_>) -> bool {
        self.0.iter().all(|policy| policy.allows(kind, target))
    }

    /// Whether some policy limits where `base` elements may point.
    pub(super) fn limit_base(&self) -> bool {
        let mut policies = self.0.iter();
        policies.any(|policy| policy.directive("base-uri").is_some())
    }
}

impl Policy {
    fn parse(text: &str) -> Self {
        let mut directives: Vec<(String, Vec<String>)> = Vec::new();
        for directive in text.split(';') {
            let mut words = directive.split_ascii_whitespace();
            let Some(name) = words.next().map(str::to_ascii_lowercase) else {
                continue;
            };
            // The first of a name holds (§2.2.1).
            if directives.iter().all(|(known, _)| *known != name) {
                directives.push((name, words.map(str::to_owned).collect()));
            }
        }
        Self { directives }
    }

    fn directive(&self, name: &str) -> Option<&[String]> {
        let mut directives = self.directives.iter();
        let found = directives.find(|(known, _)| known == name);
        found.map(|(_, sources)| sources.as_slice())
    }

    fn allows(&self, kind: Kind, target: &Target<'_>) -> bool {
        // The first that is there holds (§6.8.3).
        let names: &[&str] = match kind {
            Kind::Image => &["img-src", "default-src"],
            Kind::Media => &["media-src", "default-src"],
            Kind::Style => &["style-src-elem", "style-src", "default-src"],
            Kind::Script => &["script-src-elem", "script-src", "default-src"],
        };
        let Some(sources) = names.iter().find_map(|name| self.directive(name)) else {
            return true;
        };
        let is = |word: &str| sources.iter().any(|s| s.eq_ignore_ascii_case(word));
        // Lists of hosts then count for nothing (§8.2).
        if kind == Kind::Script && is("'strict-dynamic'") {
            return false;
        }
        sources.iter().any(|source| matches(source, target))
    }
}

/// Whether a source expression covers `target` (§6.7.2.8). Keywords, nonces and hashes never
/// do: a shard is not `'self'`.
fn matches(source: &str, target: &Target<'_>) -> bool {
    if source == "*" || source.eq_ignore_ascii_case("https:") {
        return true;
    }
    if source.starts_with('\'') {
        return false;
    }
    let rest = match source.split_once("://") {
        // `http` covers `https`, too.
        Some((scheme, rest))
            if ["http", "https"]
                .iter()
                .any(|s| scheme.eq_ignore_ascii_case(s)) =>
        {
            rest
        }
        Some(_) => return false,
        None => source,
    };
    let (authority, path) = match rest.find('/') {
        Some(slash) => rest.split_at(slash),
        None => (rest, ""),
    };
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    host_matches(host, target) && port_matches(port, target.port) && path_matches(path, target.path)
}

fn host_matches(host: &str, target: &Target<'_>) -> bool {
    // Addresses match nothing (§6.7.2.9); browsers differ in how strictly they see that.
    if target.is_address {
        return false;
    }
    match host.strip_prefix('*') {
        Some("") => true,
        Some(suffix) => {
            let start = target.host.len().checked_sub(suffix.len());
            let end = start
                .filter(|start| *start > 0)
                .and_then(|start| target.host.get(start..));
            suffix.starts_with('.') && end.is_some_and(|end| end.eq_ignore_ascii_case(suffix))
        }
        None => host.eq_ignore_ascii_case(target.host),
    }
}

fn port_matches(port: Option<&str>, of_target: u16) -> bool {
    match port {
        None => of_target == 443,
        Some("*") => true,
        // That of `http`, upgraded (§6.7.2.11).
        Some("80") => matches!(of_target, 80 | 443),
        Some(port) => port.parse() == Ok(of_target),
    }
}

/// Matches a path by §6.7.2.12, without decoding: a path that is written in another form is refused.
fn path_matches(path: &str, of_target: &str) -> bool {
    match path {
        "" | "/" => true,
        directory if directory.ends_with('/') => of_target.starts_with(directory),
        exact => of_target == exact,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(policies: &[&str], kind: Kind) -> bool {
        let mut parsed = Policies::default();
        for policy in policies {
            parsed.add(policy);
        }
        let target = Target {
            host: "img.example.org",
            is_address: false,
            port: 443,
            path: "/a/b.png",
        };
        parsed.allow(kind, &target)
    }

    #[test]
    fn sources_are_matched() {
        use Kind::{Image, Media, Script, Style};
        let cases: &[(&[&str], Kind, bool)] = &[
            (&[], Image, true),
            (&[""], Image, true),
            (&["frame-src 'none'"], Image, true),
            (&["default-src 'self'"], Image, false),
            (&["default-src 'none'"], Image, false),
            (&["default-src"], Image, false),
            (&["default-src *"], Image, true),
            (&["default-src https:"], Image, true),
            (&["default-src HTTPS:"], Image, true),
            (&["default-src data:"], Image, false),
            (
                &["default-src 'self'; img-src img.example.org"],
                Image,
                true,
            ),
            (
                &["default-src 'self'; img-src img.example.org"],
                Media,
                false,
            ),
            (&["img-src IMG.example.org"], Image, true),
            (&["img-src *.example.org"], Image, true),
            (&["img-src *.img.example.org"], Image, false),
            (&["img-src *xample.org"], Image, false),
            (&["img-src http://img.example.org"], Image, true),
            (&["img-src ws://img.example.org"], Image, false),
            (&["img-src img.example.org:443"], Image, true),
            (&["img-src img.example.org:*"], Image, true),
            (&["img-src img.example.org:8443"], Image, false),
            (&["img-src img.example.org/"], Image, true),
            (&["img-src img.example.org/a/"], Image, true),
            (&["img-src img.example.org/a"], Image, false),
            (&["img-src img.example.org/a/b.png"], Image, true),
            (&["img-src *", "img-src 'self'"], Image, false),
            (&["img-src *, img-src 'self'"], Image, false),
            (&["img-src *; img-src 'self'"], Image, true),
            (&["style-src 'self'; style-src-elem *"], Style, true),
            (&["style-src-elem 'self'; style-src *"], Style, false),
            (&["style-src 'unsafe-inline' 'nonce-a'"], Style, false),
            (&["script-src * 'strict-dynamic'"], Script, false),
            (&["script-src 'nonce-a' https:"], Script, true),
        ];
        for (policies, kind, want) in cases {
            assert_eq!(allowed(policies, *kind), *want, "{policies:?} {kind:?}");
        }
    }

    #[test]
    fn addresses_need_a_wildcard() {
        let target = Target {
            host: "192.0.2.7",
            is_address: true,
            port: 8443,
            path: "/a.png",
        };
        let allowed = |policy: &str| {
            let mut policies = Policies::default();
            policies.add(policy);
            policies.allow(Kind::Image, &target)
        };
        assert!(allowed("img-src *") && allowed("img-src https:"));
        assert!(!allowed("img-src 192.0.2.7:8443") && !allowed("img-src 'self'"));
    }

    #[test]
    fn limits_of_base_are_seen() {
        let limits = |policy: &str| {
            let mut policies = Policies::default();
            policies.add(policy);
            policies.limit_base()
        };
        assert!(limits("img-src *; Base-URI 'self'") && !limits("img-src *"));
    }
}
