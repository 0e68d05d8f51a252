//! Rewriting a page while it passes through.

mod pictures;

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use lol_html::errors::RewritingError;
use lol_html::html_content::{BailOut, ContentType, TextChunk};
use lol_html::send::{Element, ElementContentHandlers, HtmlRewriter, Settings};
use lol_html::{HandlerResult, Selector};
use parking_lot::Mutex;

use self::pictures::Pictures;
use super::config::Kind;
use super::spread::Spread;
use super::{css, srcset};
use crate::pages::{self, HTML, Output, Rewrite};

/// The longest `style` element that is looked into, in bytes.
const MAX_STYLE: usize = 64 << 10;

/// Rewrites one page, piece by piece.
pub(super) struct Rewriter {
    /// `None` once the page has become too odd for it: the rest passes as it is.
    html: Option<HtmlRewriter<'static, Output>>,
    output: Output,
    state: Arc<Mutex<State>>,
}

impl Rewriter {
    pub(super) fn new(spread: Spread) -> Self {
        let state = Arc::new(Mutex::new(State {
            spread,
            style: None,
            with_cors: 0,
            pictures: Pictures::default(),
        }));
        let output = Output::default();
        let settings = settings(&state);
        Self {
            html: Some(HtmlRewriter::new(settings, output.clone())),
            output,
            state,
        }
    }

    fn parse(&mut self, data: &[u8]) {
        let Some(html) = &mut self.html else {
            return;
        };
        // It then has given out everything that it held, unchanged.
        if let Err(error) = html.write(data) {
            tracing::debug!("spreading a page: {error}; its rest stays as it is");
            self.html = None;
        }
    }
}

impl Rewrite for Rewriter {
    fn write(&mut self, data: &[u8]) -> Vec<u8> {
        if self.html.is_none() {
            return data.to_vec();
        }
        let ready = self.state.lock().pictures.take(data);
        self.parse(&ready);
        let mut out = self.output.take();
        if self.html.is_none() {
            out.extend(self.state.lock().pictures.finish());
        }
        out
    }

    fn end(&mut self) -> Vec<u8> {
        if self.html.is_none() {
            return Vec::new();
        }
        let rest = self.state.lock().pictures.finish();
        self.parse(&rest);
        if let Some(html) = self.html.take()
            && let Err(error) = html.end()
        {
            tracing::debug!("spreading a page: {error}; its rest stays as it is");
        }
        self.output.take()
    }
}

fn settings(state: &Arc<Mutex<State>>) -> Settings<'static, 'static> {
    let ends = Arc::clone(state);
    let settings = pages::settings().append_bail_out_handler(
        move |_: &RewritingError, out: &mut BailOut<'_>| {
            if let Some(held) = ends.lock().style.take() {
                out.append(&held, ContentType::Html);
            }
        },
    );
    with_handlers(settings, state)
}

fn with_handlers(
    settings: Settings<'static, 'static>,
    state: &Arc<Mutex<State>>,
) -> Settings<'static, 'static> {
    static ELEMENTS: LazyLock<Option<Selector>> = LazyLock::new(|| {
        let names = "base,meta,link,script,img,source,video,audio,style,[style]";
        names.parse().ok()
    });
    static STYLE: LazyLock<Option<Selector>> = LazyLock::new(|| "style".parse().ok());

    // Both are valid: a test sees them at work.
    let (Some(elements_of), Some(style)) = (&*ELEMENTS, &*STYLE) else {
        return settings;
    };
    let (elements, texts) = (Arc::clone(state), Arc::clone(state));
    let on_element = move |element: &mut Element<'_, '_>| on_element(&elements, element);
    let on_text = move |text: &mut TextChunk<'_>| {
        texts.lock().style_text(text);
        Ok(())
    };
    settings
        .append_element_content_handler((
            Cow::Borrowed(elements_of),
            ElementContentHandlers::default().element(on_element),
        ))
        .append_element_content_handler((
            Cow::Borrowed(style),
            ElementContentHandlers::default().text(on_text),
        ))
}

fn on_element(shared: &Arc<Mutex<State>>, element: &mut Element<'_, '_>) -> HandlerResult {
    if element.namespace_uri() != HTML {
        return Ok(());
    }
    let mut state = shared.lock();
    state.element(element)?;
    let opens = matches!(&*element.tag_name(), "video" | "audio");
    if opens && element.has_attribute("crossorigin") {
        state.with_cors += 1;
        let shared = Arc::clone(shared);
        element.on_end_tag(Box::new(move |_| {
            shared.lock().with_cors -= 1;
            Ok(())
        }))?;
    }
    Ok(())
}

struct State {
    spread: Spread,
    /// The text of the open `style` element so far, held back; `None` where none is open, or
    /// it is let through.
    style: Option<String>,
    /// Open media elements whose sources are fetched with CORS.
    with_cors: usize,
    pictures: Pictures,
}

impl State {
    fn element(&mut self, element: &mut Element<'_, '_>) -> HandlerResult {
        let cors = element.has_attribute("crossorigin");
        match &*element.tag_name() {
            "base" => {
                if let Some(href) = element.get_attribute("href") {
                    self.spread.rebase(&href);
                }
            }
            "meta" => self.meta(element),
            "link" if !cors && !element.has_attribute("integrity") => self.link(element)?,
            "script" if !cors && is_classic(element) => {
                self.attribute(element, "src", Kind::Script)?;
            }
            "img" if !cors => {
                self.attribute(element, "src", Kind::Image)?;
                self.srcset(element, "srcset")?;
            }
            "source" => {
                if self.with_cors == 0 {
                    self.attribute(element, "src", Kind::Media)?;
                }
                let begin = element.source_location().bytes().start;
                self.pictures.forget_before(begin);
                if !self.pictures.is_with_cors(begin) {
                    self.srcset(element, "srcset")?;
                }
            }
            "video" | "audio" => {
                self.attribute(element, "poster", Kind::Image)?;
                if !cors {
                    self.attribute(element, "src", Kind::Media)?;
                }
            }
            "style" => self.style = is_css(element).then(String::new),
            _ => {}
        }
        self.style_attribute(element)
    }

    fn meta(&mut self, element: &Element<'_, '_>) {
        let attribute = |name| element.get_attribute(name).unwrap_or_default();
        let (kind, content) = (attribute("http-equiv"), attribute("content"));
        // The one encoding of pages in which ASCII bytes may be something else.
        let charset = format!("{} {content}", attribute("charset")).to_ascii_lowercase();
        if charset.contains("iso-2022-jp") {
            self.spread.stop();
        }
        if !kind.trim().eq_ignore_ascii_case("content-security-policy") {
            return;
        }
        // A character reference would have to be read to know what it allows.
        match content.contains('&') {
            true => self.spread.stop(),
            false => self.spread.policies.add(&content),
        }
    }

    fn link(&self, element: &mut Element<'_, '_>) -> HandlerResult {
        let rel = element.get_attribute("rel").unwrap_or_default();
        let is = |wanted: &str| {
            rel.split_ascii_whitespace()
                .any(|word| word.eq_ignore_ascii_case(wanted))
        };
        let kind = if is("stylesheet") {
            Some(Kind::Style)
        } else if is("preload") {
            preloaded(&element.get_attribute("as").unwrap_or_default())
        } else if is("icon") || is("apple-touch-icon") {
            Some(Kind::Image)
        } else {
            None
        };
        let Some(kind) = kind else {
            return Ok(());
        };
        self.attribute(element, "href", kind)?;
        if kind == Kind::Image {
            self.srcset(element, "imagesrcset")?;
        }
        Ok(())
    }

    fn attribute(&self, element: &mut Element<'_, '_>, name: &str, kind: Kind) -> HandlerResult {
        let value = element.get_attribute(name);
        if let Some(moved) = value.and_then(|value| self.spread.moved(&value, kind)) {
            element.set_attribute(name, &moved)?;
        }
        Ok(())
    }

    fn srcset(&self, element: &mut Element<'_, '_>, name: &str) -> HandlerResult {
        let move_one = |url: &str| self.spread.moved(url, Kind::Image);
        let value = element.get_attribute(name);
        if let Some(moved) = value.and_then(|value| srcset::rewrite(&value, move_one)) {
            element.set_attribute(name, &moved)?;
        }
        Ok(())
    }

    fn style_attribute(&self, element: &mut Element<'_, '_>) -> HandlerResult {
        // Character references would have to be read and written.
        let value = element
            .get_attribute("style")
            .filter(|css| !css.contains('&'));
        let moved =
            value.and_then(|value| css::rewrite(&value, |url, kind| self.spread.moved(url, kind)));
        if let Some(moved) = moved {
            element.set_attribute("style", &moved)?;
        }
        Ok(())
    }

    /// Holds the text of a `style` element back until all of it is there.
    fn style_text(&mut self, text: &mut TextChunk<'_>) {
        let Some(mut held) = self.style.take() else {
            return;
        };
        if held.len() + text.as_str().len() > MAX_STYLE {
            text.before(&held, ContentType::Html);
            return;
        }
        held.push_str(text.as_str());
        if text.last_in_text_node() {
            let moved = css::rewrite(&held, |url, kind| self.spread.moved(url, kind));
            text.replace(&moved.unwrap_or(held), ContentType::Html);
        } else {
            text.remove();
            self.style = Some(held);
        }
    }
}

/// Whether a script is neither a module, which needs CORS, nor data, and may be fetched from
/// elsewhere.
fn is_classic(element: &Element<'_, '_>) -> bool {
    let kind = element.get_attribute("type").unwrap_or_default();
    let kind = kind.trim();
    let script = kind.is_empty()
        || ["text/javascript", "application/javascript"]
            .iter()
            .any(|t| kind.eq_ignore_ascii_case(t));
    script && !element.has_attribute("integrity")
}

fn is_css(element: &Element<'_, '_>) -> bool {
    let kind = element.get_attribute("type").unwrap_or_default();
    kind.is_empty() || kind.trim().eq_ignore_ascii_case("text/css")
}

fn preloaded(what: &str) -> Option<Kind> {
    match what.trim().to_ascii_lowercase().as_str() {
        "image" => Some(Kind::Image),
        "style" => Some(Kind::Style),
        "script" => Some(Kind::Script),
        "audio" | "video" => Some(Kind::Media),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
