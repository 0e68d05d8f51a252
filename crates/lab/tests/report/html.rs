//! Rules of a page: no script, nothing from elsewhere, every element closed.

use std::cell::RefCell;

use html5ever::TokenizerResult;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};

/// The content of a page.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// Links, as written.
    pub(crate) links: Vec<String>,
    /// Number of `svg` elements of charts.
    pub(crate) charts: usize,
    /// All text, also of styles.
    pub(crate) text: String,
    open: Vec<String>,
    faults: Vec<String>,
}

const VOID: [&str; 2] = ["meta", "br"];

struct Checker(RefCell<Page>);

impl TokenSink for Checker {
    type Handle = ();

    fn process_token(&self, token: Token, line: u64) -> TokenSinkResult<()> {
        let mut page = self.0.borrow_mut();
        match token {
            Token::TagToken(tag) => page.tag(&tag, line),
            Token::CharacterTokens(text) => page.text.push_str(&text),
            Token::ParseError(error) => page.faults.push(format!("line {line}: {error}")),
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

impl Page {
    fn tag(&mut self, tag: &Tag, line: u64) {
        let name = tag.name.to_string();
        if tag.kind == TagKind::EndTag {
            if self.open.pop().as_ref() != Some(&name) {
                self.faults
                    .push(format!("line {line}: </{name}> closes nothing"));
            }
            return;
        }
        if ["script", "link", "iframe", "img", "object", "use", "image"].contains(&name.as_str()) {
            self.faults
                .push(format!("line {line}: there is a <{name}>"));
        }
        for attribute in &tag.attrs {
            let (key, value) = (
                attribute.name.local.to_string(),
                attribute.value.to_string(),
            );
            if key == "href" {
                self.links.push(value.clone());
            } else if key.starts_with("on") || key == "src" || key == "style" {
                self.faults.push(format!("line {line}: {key}={value}"));
            }
            if value.contains("NaN") || value.contains("inf") {
                self.faults
                    .push(format!("line {line}: <{name} {key}={value}>"));
            }
        }
        self.charts +=
            usize::from(name == "svg" && tag.attrs.iter().any(|a| &*a.name.local == "role"));
        if !tag.self_closing && !VOID.contains(&name.as_str()) {
            self.open.push(name);
        }
    }
}

/// Parses a page.
///
/// # Panics
/// If it is malformed, runs scripts, or needs a resource from elsewhere.
pub(crate) fn check(html: &str) -> Page {
    let tokenizer = Tokenizer::new(Checker(RefCell::default()), TokenizerOpts::default());
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(html));
    while !matches!(tokenizer.feed(&input), TokenizerResult::Done) {}
    tokenizer.end();
    let page = tokenizer.sink.0.into_inner();
    assert!(page.faults.is_empty(), "{:#?}", page.faults);
    assert!(page.open.is_empty(), "left open: {:?}", page.open);
    for outside in ["http://", "https://", "url(", "@import"] {
        assert!(!html.contains(outside), "{outside}");
    }
    page
}
