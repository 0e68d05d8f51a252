//! The files of the page, which are built into the program.

use std::hash::{DefaultHasher, Hash, Hasher};

use hikyaku_content::Body;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

use super::text;

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asset {
    content_type: &'static str,
    content: &'static str,
}

const JS: &str = "text/javascript; charset=utf-8";

/// Each file by its path.
const ASSETS: [(&str, Asset); 14] = [
    (
        "/",
        asset("text/html; charset=utf-8", include_str!("page/index.html")),
    ),
    (
        "/page/style.css",
        asset("text/css; charset=utf-8", include_str!("page/style.css")),
    ),
    ("/page/app.js", asset(JS, include_str!("page/app.js"))),
    ("/page/api.js", asset(JS, include_str!("page/api.js"))),
    ("/page/dom.js", asset(JS, include_str!("page/dom.js"))),
    ("/page/units.js", asset(JS, include_str!("page/units.js"))),
    ("/page/charts.js", asset(JS, include_str!("page/charts.js"))),
    ("/page/gain.js", asset(JS, include_str!("page/gain.js"))),
    (
        "/page/traffic.js",
        asset(JS, include_str!("page/traffic.js")),
    ),
    ("/page/map.js", asset(JS, include_str!("page/map.js"))),
    (
        "/page/clients.js",
        asset(JS, include_str!("page/clients.js")),
    ),
    ("/page/server.js", asset(JS, include_str!("page/server.js"))),
    ("/page/egress.js", asset(JS, include_str!("page/egress.js"))),
    ("/page/events.js", asset(JS, include_str!("page/events.js"))),
];

const fn asset(content_type: &'static str, content: &'static str) -> Asset {
    Asset {
        content_type,
        content,
    }
}

/// The file at a path.
pub(super) fn find(path: &str) -> Option<Asset> {
    let found = ASSETS.iter().find(|(at, _)| *at == path);
    found.map(|(_, asset)| *asset)
}

impl Asset {
    /// The response to a request with these headers: 304 where the client has the file (RFC 9110 §13.1.2).
    pub(super) fn respond(self, headers: &HeaderMap) -> Response<Body> {
        let tag = self.tag();
        let known = headers.get_all(header::IF_NONE_MATCH).iter();
        let is_known = known
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|one| matches!(one.trim(), "*") || one.trim().trim_start_matches("W/") == tag);
        let mut response = match is_known {
            true => text(self.content_type, ""),
            false => text(self.content_type, self.content),
        };
        if is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        }
        let fields = response.headers_mut();
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            fields.insert(header::ETAG, tag);
        }
        fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        fields.insert(
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(POLICY),
        );
        fields.insert(
            header::REFERRER_POLICY,
            HeaderValue::from_static("no-referrer"),
        );
        response
    }

    /// Another one for each content.
    fn tag(self) -> String {
        let mut hasher = DefaultHasher::new();
        self.content.hash(&mut hasher);
        format!("\"{:016x}\"", hasher.finish())
    }
}

/// Only the page's own files and answers, and no text that becomes markup (CSP Level 3; Trusted Types).
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
     frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; \
     trusted-types 'none'";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_small_and_name_each_other() {
        let total: usize = ASSETS.iter().map(|(_, asset)| asset.content.len()).sum();
        assert!(total < 80 * 1024, "{total} bytes");
        let page = find("/").unwrap().content;
        for (path, asset) in ASSETS.iter().skip(1) {
            assert!(
                page.contains(&format!("\"{path}\"")),
                "index.html names {path}"
            );
            let imports = asset
                .content
                .lines()
                .filter(|line| line.starts_with("import "));
            for line in imports {
                let from = line.split('"').nth(1).unwrap();
                let name = from.strip_prefix("./").unwrap();
                assert!(find(&format!("/page/{name}")).is_some(), "{path}: {line}");
            }
        }
    }

    #[test]
    fn nothing_is_inline_that_the_policy_forbids() {
        let page = find("/").unwrap().content;
        assert!(!page.contains("<style") && !page.contains(" style="));
        assert!(!page.contains(" onclick=") && !page.contains("javascript:"));
        let scripts = page.matches("<script").count();
        assert_eq!(
            scripts,
            page.matches("<script type=\"module\" src=").count()
        );
        for (path, asset) in &ASSETS {
            assert!(!asset.content.contains("innerHTML"), "{path}");
            assert!(
                !asset.content.contains("https://"),
                "{path} loads nothing from elsewhere"
            );
        }
    }

    #[test]
    fn a_client_that_has_a_file_gets_a_304() {
        let file = find("/page/app.js").unwrap();
        let first = file.respond(&HeaderMap::new());
        assert_eq!(first.status(), StatusCode::OK);
        let tag = first.headers()[header::ETAG].clone();
        for (sent, status) in [
            (tag.to_str().unwrap().to_owned(), 304),
            (format!("\"other\", W/{}", tag.to_str().unwrap()), 304),
            ("*".to_owned(), 304),
            ("\"other\"".to_owned(), 200),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, sent.parse().unwrap());
            assert_eq!(file.respond(&headers).status(), status, "{sent}");
        }
    }
}
