//! Putting the script into a page while it passes through.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use lol_html::html_content::{ContentType, Doctype, DocumentEnd, EndTag};
use lol_html::send::{
    DocumentContentHandlers, Element, ElementContentHandlers, HtmlRewriter, Settings,
};
use lol_html::{HandlerResult, Selector};
use parking_lot::Mutex;

use crate::pages::{self, HTML, Output, Policies, Rewrite};

/// Makes the script's element for a page with these policies; `None` if they allow none.
pub(super) type MakeElement = Box<dyn FnOnce(&Policies) -> Option<String> + Send>;

/// Puts the script before the end of a page's body, or at the page's end where its body has no end tag.
///
/// There all is parsed that the page shows, and every policy of a `meta` element is known. All else
/// stays as it is: fragments, and pages that break off in an element or tag.
pub(super) struct Inserter {
    /// `None` once the page has become too odd for it: the rest passes as it is.
    html: Option<HtmlRewriter<'static, Output>>,
    output: Output,
    state: Arc<Mutex<State>>,
}

struct State {
    policies: Policies,
    /// `None` once it was asked for.
    element: Option<MakeElement>,
    /// Something showed that this is a page, and no fragment.
    is_page: bool,
    /// Open elements in which a script would be text, or would not run.
    closed_in: usize,
    last: Last,
}

/// The last bytes of the page so far.
#[derive(Default)]
struct Last {
    begun: bool,
    /// A tag or comment may have begun that has no end yet.
    in_tag: bool,
}

impl Inserter {
    pub(super) fn new(policies: Policies, element: MakeElement) -> Self {
        let state = Arc::new(Mutex::new(State {
            policies,
            element: Some(element),
            is_page: false,
            closed_in: 0,
            last: Last::default(),
        }));
        let output = Output::default();
        let settings = with_handlers(pages::settings(), &state);
        Self {
            html: Some(HtmlRewriter::new(settings, output.clone())),
            output,
            state,
        }
    }
}

impl Rewrite for Inserter {
    fn write(&mut self, data: &[u8]) -> Vec<u8> {
        let Some(html) = &mut self.html else {
            return data.to_vec();
        };
        self.state.lock().pass(data);
        // It then has given out everything that it held, unchanged.
        if let Err(error) = html.write(data) {
            tracing::debug!("a page gets no beacon: {error}");
            self.html = None;
        }
        self.output.take()
    }

    fn end(&mut self) -> Vec<u8> {
        if let Some(html) = self.html.take()
            && let Err(error) = html.end()
        {
            tracing::debug!("a page gets no beacon: {error}");
        }
        self.output.take()
    }
}

fn with_handlers(
    settings: Settings<'static, 'static>,
    state: &Arc<Mutex<State>>,
) -> Settings<'static, 'static> {
    static ELEMENTS: LazyLock<Option<Selector>> = LazyLock::new(|| {
        let names = ["html", "head", "body", "frameset", "meta"];
        names
            .iter()
            .chain(&CLOSED)
            .copied()
            .collect::<Vec<_>>()
            .join(",")
            .parse()
            .ok()
    });

    // It is valid: a test sees it at work.
    let Some(elements) = &*ELEMENTS else {
        return settings;
    };
    let (of_element, of_doctype, of_end) =
        (Arc::clone(state), Arc::clone(state), Arc::clone(state));
    let on_element = move |element: &mut Element<'_, '_>| on_element(&of_element, element);
    let on_doctype = move |doctype: &mut Doctype<'_>| {
        let is_html = doctype
            .name()
            .is_some_and(|name| name.eq_ignore_ascii_case("html"));
        of_doctype.lock().is_page |= is_html;
        Ok(())
    };
    let on_end = move |end: &mut DocumentEnd<'_>| {
        let mut state = of_end.lock();
        if !state.last.in_tag
            && let Some(script) = state.script()
        {
            end.append(&script, ContentType::Html);
        }
        Ok(())
    };
    settings
        .append_element_content_handler((
            Cow::Borrowed(elements),
            ElementContentHandlers::default().element(on_element),
        ))
        .append_document_content_handler(
            DocumentContentHandlers::default()
                .doctype(on_doctype)
                .end(on_end),
        )
}

fn on_element(shared: &Arc<Mutex<State>>, element: &mut Element<'_, '_>) -> HandlerResult {
    let name = element.tag_name();
    if CLOSED.contains(&name.as_str()) {
        if element.can_have_content() {
            shared.lock().closed_in += 1;
            let shared = Arc::clone(shared);
            element.on_end_tag(Box::new(move |_| {
                shared.lock().closed_in -= 1;
                Ok(())
            }))?;
        }
        return Ok(());
    }
    if element.namespace_uri() != HTML {
        return Ok(());
    }
    let mut state = shared.lock();
    state.is_page |= name != "meta";
    match name.as_str() {
        "meta" => state.meta(element),
        "html" if is_amp(element) => state.stop(),
        // It takes the place of a body.
        "frameset" => state.stop(),
        "body" => {
            let shared = Arc::clone(shared);
            element.on_end_tag(Box::new(move |end: &mut EndTag<'_>| {
                if let Some(script) = shared.lock().script() {
                    end.before(&script, ContentType::Html);
                }
                Ok(())
            }))?;
        }
        _ => {}
    }
    Ok(())
}

impl State {
    /// Takes note of the next piece of the page.
    fn pass(&mut self, data: &[u8]) {
        if !std::mem::replace(&mut self.last.begun, true)
            && [&b"\xfe\xff"[..], b"\xff\xfe"]
                .iter()
                .any(|mark| data.starts_with(mark))
        {
            // UTF-16, in which no ASCII byte is what it seems.
            self.stop();
        }
        if let Some(at) = data.iter().rposition(|byte| b"<>".contains(byte)) {
            self.last.in_tag = data[at] == b'<';
        }
    }

    fn meta(&mut self, element: &Element<'_, '_>) {
        let attribute = |name| element.get_attribute(name).unwrap_or_default();
        let (kind, content) = (attribute("http-equiv"), attribute("content"));
        // The one encoding of pages in which ASCII bytes may be something else.
        let charset = format!("{} {content}", attribute("charset")).to_ascii_lowercase();
        if charset.contains("iso-2022-jp") {
            self.stop();
        }
        if !kind.trim().eq_ignore_ascii_case("content-security-policy") {
            return;
        }
        // A character reference would have to be read to know what it allows.
        match content.contains('&') {
            true => self.stop(),
            false => self.policies.add(&content),
        }
    }

    fn stop(&mut self) {
        self.element = None;
    }

    /// The script's element, if it may stand here.
    fn script(&mut self) -> Option<String> {
        if !self.is_page || self.closed_in > 0 {
            return None;
        }
        self.element.take()?(&self.policies)
    }
}

/// Whether a page is one of AMP, which allows no scripts of its own.
fn is_amp(html: &Element<'_, '_>) -> bool {
    // As U+26A1 in UTF-8 is read here.
    const LIGHTNING: &str = "\u{e2}\u{161}\u{a1}";
    html.attributes().iter().any(|attribute| {
        let name = attribute.name();
        name == "amp" || name.starts_with("amp4") || name.starts_with(LIGHTNING)
    })
}

/// Elements whose content is text, another document, or nothing that runs.
const CLOSED: [&str; 14] = [
    "script",
    "style",
    "title",
    "textarea",
    "noscript",
    "template",
    "iframe",
    "noembed",
    "noframes",
    "xmp",
    "plaintext",
    "svg",
    "math",
    "object",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::Way;

    const SCRIPT: &str = "[script]";

    /// The page as it leaves, in pieces of this size.
    fn inserted(page: &[u8], policy: &str, size: usize) -> Vec<u8> {
        let mut policies = Policies::default();
        if !policy.is_empty() {
            policies.add(policy);
        }
        let element: MakeElement = Box::new(|policies| {
            let own = |path| pages::Target {
                host: "a.test",
                is_address: false,
                port: 443,
                path,
            };
            let way = policies.way(&own("/p.js"), &own("/p"))?;
            Some(match way {
                Way::Inline(None) => SCRIPT.to_owned(),
                way => format!("[{way:?}]"),
            })
        });
        let mut inserter = Inserter::new(policies, element);
        let mut out: Vec<u8> = page
            .chunks(size)
            .flat_map(|piece| inserter.write(piece))
            .collect();
        out.extend(inserter.end());
        out
    }

    #[test]
    fn pages_get_the_script_at_their_end() {
        // `|` stands for the place of the script; a page without it stays as it is.
        let cases = [
            "<!doctype html><title>a</title><p>b|",
            "<!DOCTYPE HTML>\n<html><head></head><body>b|</body></html>\n",
            "<html><body>b|</body>\n<!-- end --></html>",
            "<body>b<script>'</body>'</script>|</BODY>",
            "<body><!-- </body> -->b|</body >",
            "<head><title>t</title></head>text|",
            "<!doctype html><body>a|</body>b</body>",
            "<!doctype html><svg/><svg><path/></svg><p>b|",
            "<!doctype html><p>a &lt; b|",
            "\u{feff}<!doctype html><p>\u{e9}|",
            "<!doctype html><meta charset=utf-8><p>b|",
            "<!doctype html public \"-//W3C//DTD XHTML 1.0 Strict//EN\" \"x\"><html xmlns=\"y\"><body/>b|</body></html>",
            "<html amplify><body>b|</body></html>",
            "<!doctype html><body><select><option>b|</body>",
            // Fragments.
            "",
            "text",
            "<p>b</p>",
            "<div><script>1</script></div>",
            "<?xml version=\"1.0\"?><feed></feed>",
            "<!doctype svg><svg></svg>",
            "<meta charset=utf-8><p>b</p>",
            // Pages without a body.
            "<html><frameset><frame src=a></frameset></html>",
            // AMP.
            "<!doctype html><html amp><body>b</body></html>",
            "<!doctype html><html \u{26a1}><body>b</body></html>",
            "<html \u{26a1}4email><body>b</body></html>",
            "<html amp4ads=\"\"><body>b</body></html>",
            // Pages that break off.
            "<!doctype html><title>a",
            "<!doctype html><textarea>b",
            "<!doctype html><script>b",
            "<!doctype html><style>b",
            "<!doctype html><p>a</p><!-- b",
            "<!doctype html><p>a</p><a href=\"b",
            "<!doctype html><p>a <",
            "<!doctype html><body><template>b",
            "<!doctype html><body><svg><style>b",
            "<!doctype html><body><plaintext></body>",
            // Encodings in which a byte of ASCII may be something else.
            "<!doctype html><meta charset=ISO-2022-JP><body>b</body>",
        ];
        for case in cases {
            let page = case.replace('|', "");
            let want = case.replace('|', SCRIPT);
            for size in [1, 2, 7, 1000] {
                let got = inserted(page.as_bytes(), "", size);
                assert_eq!(String::from_utf8_lossy(&got), want, "pieces of {size}");
            }
        }
        let utf16: Vec<u8> = "\u{feff}<!doctype html><body>b</body>"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        assert_eq!(inserted(&utf16, "", 1000), utf16);
        let latin1 = b"<!doctype html><body>\xe9\x81\x00\xff</body>";
        let want = [&latin1[..latin1.len() - 7], SCRIPT.as_bytes(), b"</body>"].concat();
        assert_eq!(inserted(latin1, "", 5), want, "bytes of any encoding");
    }

    #[test]
    fn policies_decide_how_the_script_comes() {
        // policy of the header, of a `meta` element, insertion
        let cases = [
            ("", "", SCRIPT),
            ("script-src 'nonce-a'", "", "[Inline(Some(\"a\"))]"),
            ("", "script-src 'nonce-a'", "[Inline(Some(\"a\"))]"),
            ("script-src 'self'", "", "[File(None)]"),
            ("", "script-src 'self'", "[File(None)]"),
            (
                "script-src 'self'",
                "script-src 'nonce-a'",
                "[File(Some(\"a\"))]",
            ),
            ("", "default-src 'none'", ""),
            ("script-src 'none'", "", ""),
            ("", "script-src &#39;self&#39;", ""),
        ];
        for (header, meta, want) in cases {
            let page = |script| {
                format!(
                    "<!doctype html><meta http-equiv=Content-Security-Policy content=\"{meta}\">\
                     <body>b{script}</body>"
                )
            };
            let got = inserted(page("").as_bytes(), header, 10);
            assert_eq!(
                String::from_utf8(got).unwrap(),
                page(want),
                "{header} {meta}"
            );
        }
    }

    #[test]
    fn a_tag_without_end_passes() {
        let mut page = b"<!doctype html><body>".to_vec();
        page.extend_from_slice(&b"<a title='".repeat(40_000));
        assert_eq!(inserted(&page, "", 16 << 10), page);
    }
}
