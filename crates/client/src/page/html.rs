//! The resources of an HTML document.

use std::cell::RefCell;

use html5ever::TokenizerResult;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use url::Url;

use super::{Kind, Resource, Urgency, css};

/// Returns the resources of the document `html` from `url`, in document order. They are those that
/// a browser with scripting requests before any script has run.
pub(super) fn resources(html: &[u8], url: &Url) -> Vec<Resource> {
    let scanner = Scanner(RefCell::new(State {
        base: url.clone(),
        base_given: false,
        in_head: true,
        templates: 0,
        style: None,
        found: Vec::new(),
    }));
    let tokenizer = Tokenizer::new(scanner, TokenizerOpts::default());
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(String::from_utf8_lossy(html).as_ref()));
    // The tokenizer returns early only for a script to run, and none runs here.
    while !matches!(tokenizer.feed(&input), TokenizerResult::Done) {}
    tokenizer.end();
    tokenizer.sink.0.into_inner().found
}

/// The tokenizer's sink.
struct Scanner(RefCell<State>);

struct State {
    /// The base of relative URLs.
    base: Url,
    base_given: bool,
    in_head: bool,
    /// Open `template` elements; their content is inert.
    templates: usize,
    /// The text of the `style` element that is open.
    style: Option<String>,
    found: Vec<Resource>,
}

impl TokenSink for Scanner {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let mut state = self.0.borrow_mut();
        match token {
            Token::TagToken(tag) if tag.kind == TagKind::StartTag => state.start(&tag),
            Token::TagToken(tag) => {
                state.end(&tag);
                TokenSinkResult::Continue
            }
            Token::CharacterTokens(text) => {
                if let Some(style) = &mut state.style {
                    style.push_str(&text);
                }
                TokenSinkResult::Continue
            }
            _ => TokenSinkResult::Continue,
        }
    }
}

impl State {
    fn start(&mut self, tag: &Tag) -> TokenSinkResult<()> {
        let name = &*tag.name;
        match name {
            "body" => self.in_head = false,
            "template" => self.templates += 1,
            "style" => self.style = Some(String::new()),
            _ => {}
        }
        if self.templates == 0 {
            self.element(name, tag);
        }
        // A tree builder's task: elements whose content is not markup. With scripting, the content
        // of `noscript` is none.
        match name {
            "script" => TokenSinkResult::RawData(RawKind::ScriptData),
            "title" | "textarea" => TokenSinkResult::RawData(RawKind::Rcdata),
            "style" | "xmp" | "iframe" | "noembed" | "noframes" | "noscript" => {
                TokenSinkResult::RawData(RawKind::Rawtext)
            }
            "plaintext" => TokenSinkResult::Plaintext,
            _ => TokenSinkResult::Continue,
        }
    }

    fn end(&mut self, tag: &Tag) {
        match &*tag.name {
            "head" => self.in_head = false,
            "template" => self.templates = self.templates.saturating_sub(1),
            "style" => {
                if let Some(style) = self.style.take().filter(|_| self.templates == 0) {
                    self.found.extend(css::resources(&style, &self.base));
                }
            }
            _ => {}
        }
    }

    fn element(&mut self, name: &str, tag: &Tag) {
        let source = attribute(tag, "src");
        match name {
            "base" => self.rebase(attribute(tag, "href")),
            "link" => self.link(tag),
            "script" => self.script(tag),
            "img" => {
                let candidate = || attribute(tag, "srcset").and_then(first_candidate);
                self.content(source.or_else(candidate), Kind::Image, tag);
            }
            "image" => {
                let link = attribute(tag, "href").or_else(|| attribute(tag, "xlink:href"));
                self.content(link, Kind::Image, tag);
            }
            "input" if attribute(tag, "type").is_some_and(|t| t.eq_ignore_ascii_case("image")) => {
                self.content(source, Kind::Image, tag);
            }
            "video" => self.content(attribute(tag, "poster"), Kind::Image, tag),
            "iframe" | "frame" => self.content(source, Kind::Frame, tag),
            "embed" => self.content(source, Kind::Other, tag),
            "object" => self.content(attribute(tag, "data"), Kind::Other, tag),
            _ => {}
        }
        if let Some(style) = attribute(tag, "style") {
            self.found.extend(css::resources(style, &self.base));
        }
    }

    /// Sets the base URL; only the first `base` counts (HTML Standard §4.2.3).
    fn rebase(&mut self, href: Option<&str>) {
        if let Some(base) = href.filter(|_| !self.base_given)
            && let Ok(base) = self.base.join(base)
        {
            self.base = base;
            self.base_given = true;
        }
    }

    fn link(&mut self, tag: &Tag) {
        let rel = attribute(tag, "rel")
            .unwrap_or_default()
            .to_ascii_lowercase();
        let is = |wanted| rel.split_ascii_whitespace().any(|word| word == wanted);
        let kind = if is("stylesheet") && !is("alternate") {
            Kind::Style
        } else if is("preload") {
            match attribute(tag, "as").unwrap_or_default() {
                "style" => Kind::Style,
                "script" => Kind::Script,
                "font" => Kind::Font,
                "image" => Kind::Image,
                _ => Kind::Other,
            }
        } else if is("modulepreload") {
            Kind::Script
        } else if is("icon") {
            Kind::Image
        } else {
            return;
        };
        let media = attribute(tag, "media").unwrap_or_default();
        let urgency = if is("icon") || media.trim().eq_ignore_ascii_case("print") {
            Urgency::Lazy
        } else if matches!(kind, Kind::Image | Kind::Other) {
            Urgency::Content
        } else if self.in_head {
            Urgency::Blocking
        } else {
            Urgency::Late
        };
        self.add(attribute(tag, "href"), kind, urgency);
    }

    fn script(&mut self, tag: &Tag) {
        let kind = attribute(tag, "type").unwrap_or_default().trim();
        let module = kind.eq_ignore_ascii_case("module");
        let runs = kind.is_empty() || module || is_javascript(kind);
        if !runs || attribute(tag, "nomodule").is_some() {
            return;
        }
        let waits = ["async", "defer"]
            .iter()
            .any(|a| attribute(tag, a).is_some());
        let urgency = if self.in_head && !waits && !module {
            Urgency::Blocking
        } else {
            Urgency::Late
        };
        self.add(attribute(tag, "src"), Kind::Script, urgency);
    }

    fn content(&mut self, source: Option<&str>, kind: Kind, tag: &Tag) {
        let lazy = attribute(tag, "loading").is_some_and(|l| l.eq_ignore_ascii_case("lazy"));
        let urgency = if lazy {
            Urgency::Lazy
        } else {
            Urgency::Content
        };
        self.add(source, kind, urgency);
    }

    fn add(&mut self, reference: Option<&str>, kind: Kind, urgency: Urgency) {
        self.found.extend(
            reference.and_then(|reference| Resource::new(&self.base, reference, kind, urgency)),
        );
    }
}

fn attribute<'a>(tag: &'a Tag, name: &str) -> Option<&'a str> {
    let found = tag.attrs.iter().find(|a| &*a.name.local == name)?;
    Some(&found.value)
}

/// Returns the URL of a `srcset`'s first image candidate. A browser without knowledge of screen and
/// layout takes it for a density of 1.
fn first_candidate(srcset: &str) -> Option<&str> {
    let url = srcset.split_ascii_whitespace().next()?;
    Some(url.trim_matches(','))
}

fn is_javascript(mime: &str) -> bool {
    let mime = mime.to_ascii_lowercase();
    let (kind, subtype) = mime.split_once('/').unwrap_or_default();
    matches!(kind, "text" | "application") && matches!(subtype, "javascript" | "ecmascript")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `URGENCY kind path` of each resource, in the order of a browser's requests.
    fn order(html: &str) -> Vec<String> {
        let url = Url::parse("https://a.test/dir/index.html").unwrap();
        let mut found = resources(html.as_bytes(), &url);
        found.sort_by_key(|resource| resource.urgency);
        let line = |r: &Resource| {
            let url = match r.url.as_str().strip_prefix("https://a.test") {
                Some(path) => path.to_owned(),
                None => r.url.to_string(),
            };
            format!("{:?} {} {url}", r.urgency, r.kind.name())
        };
        found.iter().map(line).collect()
    }

    #[test]
    fn the_order_of_a_browser() {
        let html = r#"<!doctype html><html><head><title><img src=no></title>
            <link rel="icon" href="i.ico">
            <script async src=async.js></script><script src="/sync.js"></script>
            <script type=module src=module.js></script>
            <link rel=stylesheet href=a.css><link rel=stylesheet media=print href=print.css>
            <link rel=preload as=font href=f.woff2 crossorigin>
            </head><body><img src="1.png?a=1&amp;b=2"><script src=end.js></script>
            <img loading=lazy src=lazy.png><img src=2.png></body></html>"#;
        let want = [
            "Blocking script /sync.js",
            "Blocking style /dir/a.css",
            "Blocking font /dir/f.woff2",
            "Late script /dir/async.js",
            "Late script /dir/module.js",
            "Late script /dir/end.js",
            "Content image /dir/1.png?a=1&b=2",
            "Content image /dir/2.png",
            "Lazy image /dir/i.ico",
            "Lazy style /dir/print.css",
            "Lazy image /dir/lazy.png",
        ];
        assert_eq!(order(html), want);
    }

    #[test]
    fn elements() {
        let cases: &[(&str, &str, &[&str])] = &[
            ("nothing", "", &[]),
            ("no URL", "<img><script></script><link rel=stylesheet>", &[]),
            ("empty URL", "<img src=''>", &[]),
            (
                "base",
                "<base href=/b/><base href=/c/><img src=x>",
                &["Content image /b/x"],
            ),
            (
                "srcset alone",
                "<img srcset='a.png 1x, b.png 2x'>",
                &["Content image /dir/a.png"],
            ),
            (
                "src before srcset",
                "<img srcset='b 2x' src=a>",
                &["Content image /dir/a"],
            ),
            (
                "input",
                "<input type=IMAGE src=a><input src=b>",
                &["Content image /dir/a"],
            ),
            (
                "poster",
                "<video poster=p.jpg src=v.mp4>",
                &["Content image /dir/p.jpg"],
            ),
            (
                "frame",
                "<iframe src=f.html><img src=no></iframe>",
                &["Content frame /dir/f.html"],
            ),
            (
                "svg",
                "<svg><image xlink:href=s.png /></svg>",
                &["Content image /dir/s.png"],
            ),
            (
                "other origin",
                "<img src=//b.test/x>",
                &["Content image https://b.test/x"],
            ),
            (
                "not fetched",
                "<img src=data:,x><img src=javascript:1><a href=x>",
                &[],
            ),
            ("comment", "<!-- <img src=x> -->", &[]),
            ("script text", "<script>'<img src=x>'</script>", &[]),
            ("noscript", "<noscript><img src=x></noscript>", &[]),
            (
                "template",
                "<template><img src=x><style>a{b:url(y)}</style></template>",
                &[],
            ),
            (
                "data block",
                "<script type=application/json src=x></script>",
                &[],
            ),
            ("old browsers", "<script nomodule src=x></script>", &[]),
            (
                "alternate sheet",
                "<link rel='alternate stylesheet' href=x>",
                &[],
            ),
            (
                "style element",
                "<style>@import 'i.css'; a{b:url(y)}</style>",
                &["Blocking style /dir/i.css", "Content image /dir/y"],
            ),
            (
                "style attribute",
                "<p style='background:url(\"z\")'>",
                &["Content image /dir/z"],
            ),
            ("unclosed", "<img src=a", &[]),
        ];
        for (name, html, want) in cases {
            assert_eq!(order(html), *want, "{name}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(html in prop::collection::vec(any::<u8>(), 0..300)) {
            let url = Url::parse("https://a.test/").unwrap();
            let _ = resources(&html, &url);
        }

        #[test]
        fn never_panics_near_markup(html in "(<(img|style|base|link|/style|script) (src|href|style|rel)=\"?[a-z:/ \\[]{0,9}\"?>?[a-z<&#;]{0,5}){0,20}") {
            let url = Url::parse("https://a.test/").unwrap();
            let _ = resources(html.as_bytes(), &url);
        }
    }
}
