//! Paths that a route with access does not get, since a route by glob or expression goes before.

use super::config::{RouteConfig, SiteConfig};
use super::pattern::Pattern;
use super::place;
use crate::AccessConfig;

/// Ends of paths that an expression may be for.
const ENDS: [&str; 10] = [
    "", "/", "/a", "/a.html", "/a.php", "/a.txt", "/a.js", "/a.css", "/a.json", "/a.png",
];

impl SiteConfig {
    /// Warnings of routes by glob or expression that everybody may use, and that take paths from a prefix
    /// that not everybody may. Each names such a path, so that none is a guess: other gaps may be there.
    #[must_use]
    pub fn gaps(&self) -> Vec<String> {
        if self.access.restricts() {
            // Routes without an access of their own have the site's.
            return Vec::new();
        }
        let patterns = self.patterns();
        let protected = patterns.iter().filter(|one| {
            let access = &one.route.access;
            one.prefix().is_some() && access.as_ref().is_some_and(AccessConfig::restricts)
        });
        let gap = |(open, protected): (&Written<'_>, &Written<'_>)| {
            let prefix = protected.prefix()?;
            let mut paths = open.examples(prefix).into_iter();
            let path = paths.find(|path| takes(&patterns, open, protected, path))?;
            Some(format!(
                "`{path}` is of {}, which goes before `{prefix}` and has no `access`: everybody may have it. \
                 Give that route an `access`, or {{}} if everybody may",
                place(open.route)
            ))
        };
        let open = || patterns.iter().filter(|one| one.is_open());
        protected
            .flat_map(|protected| open().map(move |open| (open, protected)))
            .filter_map(gap)
            .collect()
    }

    /// The patterns of all routes that can be read, in their order.
    fn patterns(&self) -> Vec<Written<'_>> {
        let mut patterns = Vec::new();
        for route in &self.routes {
            let paths = route.path.iter().map(|text| (text, Pattern::of_path(text)));
            let regexes = route
                .regex
                .iter()
                .map(|text| (text, Pattern::of_regex(text)));
            let read = paths.chain(regexes).filter_map(|(text, pattern)| {
                let pattern = pattern.ok()?;
                Some(Written {
                    text,
                    pattern,
                    route,
                })
            });
            patterns.extend(read);
        }
        patterns
    }
}

/// Whether a path that `protected` is for comes to `open`, by the order in which routes are found.
fn takes(all: &[Written<'_>], open: &Written<'_>, protected: &Written<'_>, path: &str) -> bool {
    let matching = || all.iter().filter(|one| one.pattern.matches(path).is_some());
    let first = matching().find(|one| one.prefix().is_none());
    let longest = matching()
        .filter(|one| one.prefix().is_some())
        .max_by_key(|one| one.pattern.prefix_len());
    let is = |found: Option<&Written<'_>>, one| found.is_some_and(|found| std::ptr::eq(found, one));
    is(first, open) && is(longest, protected)
}

/// A pattern of a route, as it is written.
struct Written<'a> {
    text: &'a str,
    pattern: Pattern,
    route: &'a RouteConfig,
}

impl Written<'_> {
    fn prefix(&self) -> Option<&str> {
        self.pattern.prefix_len().map(|_| self.text)
    }

    /// Goes before prefixes, and has the site's access.
    fn is_open(&self) -> bool {
        self.prefix().is_none() && self.route.access.is_none()
    }

    /// Paths at or below a prefix that the pattern may be for.
    fn examples(&self, prefix: &str) -> Vec<String> {
        let prefix = prefix.trim_end_matches('/');
        if self.pattern.regex().is_some() {
            return ENDS.iter().map(|end| format!("{prefix}{end}")).collect();
        }
        let bare = self.text.trim_start_matches('/');
        let example = match (self.text.contains('/'), bare.strip_prefix("**/")) {
            (false, _) => format!("{prefix}/{}", example(bare)),
            (true, Some(rest)) => format!("{prefix}/{}", example(rest)),
            (true, None) => format!("/{}", example(bare)),
        };
        vec![example, format!("{prefix}/a")]
    }
}

/// A text that a glob is for, if it is one: with `a` for each wildcard, and the first of alternatives.
fn example(glob: &str) -> String {
    let mut text = String::with_capacity(glob.len());
    let mut alternatives = false;
    let mut characters = glob.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '*' => {
                while characters.next_if_eq(&'*').is_some() {}
                text.push('a');
            }
            '?' => text.push('a'),
            '{' => alternatives = true,
            ',' if alternatives => {
                characters.by_ref().find(|next| *next == '}');
                alternatives = false;
            }
            '}' => alternatives = false,
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(routes: &str) -> SiteConfig {
        #[derive(serde::Deserialize)]
        struct Routes {
            #[serde(rename = "route")]
            routes: Vec<RouteConfig>,
        }
        let Routes { routes } = toml::from_str(routes).unwrap();
        SiteConfig {
            routes,
            ..SiteConfig::default()
        }
    }

    /// Routes: one of `pattern` with more keys, and one of `/admin` that not everybody may use.
    fn beside_admin(pattern: &str, more: &str) -> SiteConfig {
        site(&format!(
            "[[route]]\n{pattern}\nroot = \"/srv\"\n{more}\n[[route]]\npath = \"/admin\"\n\
             root = \"/srv\"\naccess = {{ allow = [\"192.0.2.0/24\"] }}\n"
        ))
    }

    #[test]
    fn a_path_that_everybody_may_have_is_named() {
        // pattern, and the path in the warning
        let cases = [
            ("path = \"*.php\"", Some("/admin/a.php")),
            ("path = \"*.{css,js}\"", Some("/admin/a.css")),
            ("path = \"?.txt\"", Some("/admin/a.txt")),
            ("path = \"**/*.php\"", Some("/admin/a.php")),
            ("path = \"/**\"", Some("/admin/a")),
            ("path = \"/admin/*.txt\"", Some("/admin/a.txt")),
            ("path = \"/admin/**\"", Some("/admin/a")),
            ("regex = '\\.php$'", Some("/admin/a.php")),
            ("regex = '^/adm'", Some("/admin")),
            ("path = \"/img/**\"", None),
            ("path = \"/*/x\"", None),
            ("path = \"/admin2/*\"", None),
            ("regex = '^/img/'", None),
            ("path = \"/img\"", None),
            ("path = \"/\"", None),
            ("path = \"a[\"", None),
        ];
        for (pattern, want) in cases {
            let gaps = beside_admin(pattern, "").gaps();
            match (want, &gaps[..]) {
                (None, []) => {}
                (Some(want), [gap]) => {
                    assert!(
                        gap.starts_with(&format!("`{want}` is of ")),
                        "{pattern}: {gap}"
                    );
                    assert!(gap.contains("goes before `/admin`"), "{pattern}: {gap}");
                }
                _ => panic!("{pattern}: {gaps:?}"),
            }
        }
    }

    #[test]
    fn what_is_meant_or_protected_is_no_gap() {
        for access in ["access = {}", "access = { allow = [\"192.0.2.1\"] }"] {
            assert_eq!(
                beside_admin("path = \"*.php\"", access).gaps(),
                [""; 0],
                "{access}"
            );
        }
        let mut closed = beside_admin("path = \"*.php\"", "");
        closed.access = AccessConfig {
            deny: vec!["192.0.2.0/24".parse().unwrap()],
            ..AccessConfig::default()
        };
        assert_eq!(closed.gaps(), [""; 0], "the site's access holds");
        let limited = "[[route]]\npath = \"*.php\"\nroot = \"/srv\"\n[[route]]\npath = \"/admin\"\n\
                       root = \"/srv\"\naccess = { rate_limit = { requests = 1 } }\n";
        assert_eq!(site(limited).gaps(), [""; 0], "everybody may use it");
        let before = format!(
            "[[route]]\npath = \"/admin/**\"\nroot = \"/srv\"\naccess = {{ deny = [\"192.0.2.1\"] }}\n{}",
            "[[route]]\npath = \"*.php\"\nroot = \"/srv\"\n[[route]]\npath = \"/admin\"\nroot = \"/srv\"\n\
             access = { allow = [\"192.0.2.0/24\"] }\n"
        );
        assert_eq!(site(&before).gaps(), [""; 0], "another glob goes before");
    }
}
