//! Sources that a page's Content Security Policy allows (CSP Level 3).

/// Something that a page loads, by the directives that govern it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    Image,
    Media,
    Style,
    Script,
}

/// How a page may run a script of the server's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// In the page, with this nonce where one is needed.
    Inline(Option<String>),
    /// As a file of the page's own origin, with this nonce where one is needed.
    File(Option<String>),
}

/// All policies of one page: what one of them refuses is refused.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policies(Vec<Policy>);

#[derive(Clone, Debug)]
struct Policy {
    /// Names in lower case, with their values.
    directives: Vec<(String, Vec<String>)>,
}

/// A URL that a page is to load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    /// An address without brackets, or a name.
    pub(crate) host: &'a str,
    pub(crate) is_address: bool,
    pub(crate) port: u16,
    /// Percent-encoded, without the query.
    pub(crate) path: &'a str,
}

impl Policies {
    /// Adds the policies of a header field or `meta` element: a list (§2.2.1).
    ///
    /// Those that only report are to be added, too, or the operator would get reports of
    /// what this server did.
    pub(crate) fn add(&mut self, list: &str) {
        self.0.extend(list.split(',').map(Policy::parse));
    }

    /// Whether the page may load `target`.
    pub(crate) fn allow(&self, kind: Load, target: &Target<'_>) -> bool {
        self.0.iter().all(|policy| policy.allows(kind, target))
    }

    /// How the page may run a script that sends to its own origin. `None` where it may not, or may not
    /// send: the browser would report that, in the console or to the operator.
    ///
    /// `file` is the script as a file of the page's own origin, and `to` the address that it sends to.
    pub(crate) fn way(&self, file: &Target<'_>, to: &Target<'_>) -> Option<Way> {
        if !self.0.iter().all(|policy| policy.allows_sending(to)) {
            return None;
        }
        let nonces = || {
            let all = self
                .0
                .iter()
                .flat_map(Policy::script_nonces)
                .take(MAX_NONCES);
            std::iter::once(None).chain(all.map(|nonce| Some(nonce.to_owned())))
        };
        let mut ways = nonces().map(Way::Inline).chain(nonces().map(Way::File));
        ways.find(|way| self.0.iter().all(|policy| policy.allows_way(way, file)))
    }

    /// Whether some policy limits where `base` elements may point.
    pub(crate) fn limit_base(&self) -> bool {
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

    fn allows(&self, kind: Load, target: &Target<'_>) -> bool {
        let names: &[&str] = match kind {
            Load::Image => &["img-src", "default-src"],
            Load::Media => &["media-src", "default-src"],
            Load::Style => &["style-src-elem", "style-src", "default-src"],
            Load::Script => SCRIPTS,
        };
        let Some(sources) = self.first_of(names) else {
            return true;
        };
        let is = |word: &str| sources.iter().any(|s| s.eq_ignore_ascii_case(word));
        // Lists of hosts then count for nothing (§8.2).
        if kind == Load::Script && is("'strict-dynamic'") {
            return false;
        }
        sources.iter().any(|source| matches(source, target))
    }

    /// The sources of the first directive that is there, which holds (§6.8.3).
    fn first_of(&self, names: &[&str]) -> Option<&[String]> {
        names.iter().find_map(|name| self.directive(name))
    }

    /// Whether scripts run at all, and may send to `to`, which is of the page's own origin. A page in a
    /// sandbox has none.
    fn allows_sending(&self, to: &Target<'_>) -> bool {
        let sources = self.first_of(&["connect-src", "default-src"]);
        self.directive("sandbox").is_none() && sources.is_none_or(|sources| has_own(sources, to))
    }

    fn script_nonces(&self) -> impl Iterator<Item = &str> {
        let sources = self.first_of(SCRIPTS).unwrap_or_default();
        sources.iter().filter_map(|source| nonce(source))
    }

    fn allows_way(&self, way: &Way, file: &Target<'_>) -> bool {
        let Some(sources) = self.first_of(SCRIPTS) else {
            return true;
        };
        let is = |word: &str| sources.iter().any(|s| s.eq_ignore_ascii_case(word));
        let has_nonce = |wanted: &Option<String>| {
            let mut nonces = sources.iter().filter_map(|source| nonce(source));
            nonces.any(|nonce| wanted.as_deref() == Some(nonce))
        };
        match way {
            // Any nonce or hash takes 'unsafe-inline' out of force (§6.7.3.2).
            Way::Inline(wanted) => {
                let in_force = || sources.iter().all(|s| !is_nonce_or_hash(s));
                let all = is("'unsafe-inline'") && !is("'strict-dynamic'") && in_force();
                all || has_nonce(wanted)
            }
            Way::File(wanted) => {
                has_nonce(wanted) || !is("'strict-dynamic'") && has_own(sources, file)
            }
        }
    }
}

/// Whether sources cover a target of the page's own origin.
fn has_own(sources: &[String], target: &Target<'_>) -> bool {
    let covers = |source: &String| source.eq_ignore_ascii_case("'self'") || matches(source, target);
    sources.iter().any(covers)
}

/// The nonce of a source expression (§2.3.1), if it is one that can stand in an attribute as it is.
fn nonce(source: &str) -> Option<&str> {
    let value = source.strip_suffix('\'')?;
    let (keyword, nonce) = value.split_at_checked(NONCE.len())?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+/-_=".contains(&byte);
    let is_nonce = keyword.eq_ignore_ascii_case(NONCE) && nonce.bytes().all(is_plain);
    (is_nonce && !nonce.is_empty()).then_some(nonce)
}

fn is_nonce_or_hash(source: &str) -> bool {
    let lower = source.to_ascii_lowercase();
    [NONCE, "'sha256-", "'sha384-", "'sha512-"]
        .iter()
        .any(|begin| lower.starts_with(begin))
}

const NONCE: &str = "'nonce-";
const SCRIPTS: &[&str] = &["script-src-elem", "script-src", "default-src"];
/// Nonces that are tried: a page has one, or two.
const MAX_NONCES: usize = 8;

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

    fn allowed(policies: &[&str], kind: Load) -> bool {
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
        use Load::{Image, Media, Script, Style};
        let cases: &[(&[&str], Load, bool)] = &[
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
            policies.allow(Load::Image, &target)
        };
        assert!(allowed("img-src *") && allowed("img-src https:"));
        assert!(!allowed("img-src 192.0.2.7:8443") && !allowed("img-src 'self'"));
    }

    #[test]
    fn a_script_of_the_server_runs_as_policies_allow() {
        let inline = |nonce: &str| Some(Way::Inline((!nonce.is_empty()).then(|| nonce.to_owned())));
        let file = |nonce: &str| Some(Way::File((!nonce.is_empty()).then(|| nonce.to_owned())));
        let cases: &[(&[&str], Option<Way>)] = &[
            (&[], inline("")),
            (&["img-src 'none'"], inline("")),
            (&["script-src 'self' 'unsafe-inline'"], inline("")),
            (&["default-src 'self' 'unsafe-inline'"], inline("")),
            (&["script-src 'nonce-aB+/-_=9'"], inline("aB+/-_=9")),
            (&["script-src 'NONCE-a' 'unsafe-inline'"], inline("a")),
            (&["script-src 'strict-dynamic' 'nonce-a'"], inline("a")),
            (
                &["default-src 'self'; script-src 'nonce-a' 'self'"],
                inline("a"),
            ),
            (
                &["script-src 'nonce-a' 'nonce-b'", "script-src 'nonce-b'"],
                inline("b"),
            ),
            (
                &["script-src 'nonce-a'", "script-src 'unsafe-inline'"],
                inline("a"),
            ),
            (&["script-src 'nonce-a'", "script-src 'self'"], file("a")),
            (&["script-src 'nonce-a'", "script-src 'nonce-b'"], None),
            (&["script-src 'self'"], file("")),
            (&["default-src 'self'"], file("")),
            (
                &["script-src 'self' 'unsafe-inline' 'sha256-abc'"],
                file(""),
            ),
            (&["script-src https:"], file("")),
            (&["script-src www.example.org"], file("")),
            (&["script-src www.example.org/beacon.js"], file("")),
            (&["script-src www.example.org/other/"], None),
            (&["script-src cdn.example.org"], None),
            (&["script-src 'self' 'strict-dynamic'"], None),
            (
                &["script-src 'strict-dynamic' 'unsafe-inline' 'self'"],
                None,
            ),
            (&["script-src 'none'"], None),
            (&["default-src 'none'"], None),
            (&["script-src 'nonce-a\"b'"], None),
            (&["script-src 'nonce-'"], None),
            // It runs, but may not send.
            (&["default-src 'none'; script-src 'self'"], None),
            (&["connect-src api.example.org"], None),
            (&["connect-src 'self'"], inline("")),
            (&["connect-src https://www.example.org/beacon"], inline("")),
            (&["script-src-elem 'none'; script-src 'self'"], None),
            (&["script-src-elem 'self'; script-src 'none'"], file("")),
            (&["sandbox allow-scripts"], None),
            (&["script-src 'none', img-src *"], None),
        ];
        let target = |path| Target {
            host: "www.example.org",
            is_address: false,
            port: 443,
            path,
        };
        for (texts, want) in cases {
            let mut policies = Policies::default();
            for text in *texts {
                policies.add(text);
            }
            let got = policies.way(&target("/beacon.js"), &target("/beacon"));
            assert_eq!(got, *want, "{texts:?}");
        }
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
