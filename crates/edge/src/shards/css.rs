//! URLs in style sheets within a page (CSS Syntax Level 3).

use std::ops::Range;

use cssparser::{ParseError, Parser, SourcePosition, Token};

use super::config::Kind;

/// Replaces URLs of a style sheet, or of a `style` attribute; `None` where `replace` gives
/// none for any of them.
///
/// Taken are images of the properties that load them without CORS, and imported sheets.
/// Fonts, masks and shapes are not: they need CORS, or the page's own origin.
pub(super) fn rewrite(
    css: &str,
    mut replace: impl FnMut(&str, Kind) -> Option<String>,
) -> Option<String> {
    let mut found = Vec::new();
    let mut parser = Parser::new(css);
    scan(&mut parser, Place::Rule, &mut found);
    let mut out = String::with_capacity(css.len() + 64);
    let mut done = 0;
    for Found { range, url, kind } in found {
        if let Some(url) = replace(&url, kind).filter(|url| is_plain(url)) {
            out.push_str(&css[done..range.start]);
            out.push_str("url(\"");
            out.push_str(&url);
            out.push_str("\")");
            done = range.end;
        }
    }
    (done > 0).then(|| out + &css[done..])
}

/// A URL, and where the token stands that holds it.
struct Found {
    range: Range<usize>,
    url: String,
    kind: Kind,
}

/// Purpose of a URL at some place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before a colon or a block: a selector, or the name of a property.
    Rule,
    /// The value of a property that loads images without CORS.
    Image,
    /// `@import`, before its URL.
    Import,
    /// Anything else.
    Other,
}

/// Looks through a block and those within it.
///
/// The parser refuses to descend into blocks nested deeper than people write them, so that
/// nobody can exhaust the stack.
fn scan(input: &mut Parser<'_>, inside: Place, found: &mut Vec<Found>) {
    let mut block = Block {
        inside,
        place: inside,
        property: None,
        found,
    };
    loop {
        input.skip_whitespace();
        let start = input.position();
        let Ok(token) = input.next().cloned() else {
            return;
        };
        block.take(&token, start, input);
    }
}

/// A block that is looked through.
struct Block<'a> {
    /// The place at the beginning of each of its statements.
    inside: Place,
    place: Place,
    /// The property's name, before its colon.
    property: Option<String>,
    found: &'a mut Vec<Found>,
}

impl Block<'_> {
    fn take(&mut self, token: &Token<'_>, start: SourcePosition, input: &mut Parser<'_>) {
        match token {
            Token::AtKeyword(name) if name.eq_ignore_ascii_case("import") => {
                self.place = Place::Import;
            }
            Token::AtKeyword(_) => self.place = Place::Other,
            Token::Semicolon => self.end_statement(),
            Token::Ident(name) if self.place == Place::Rule && self.property.is_none() => {
                self.property = Some(name.to_ascii_lowercase());
            }
            Token::Colon if self.place == Place::Rule => {
                self.place = match self.property.take() {
                    Some(name) if IMAGES.contains(&name.as_str()) => Place::Image,
                    _ => Place::Other,
                };
            }
            Token::UnquotedUrl(url) => self.take_url(Some(url.to_string()), start, input),
            Token::QuotedString(url) if self.place == Place::Import => {
                self.take_url(Some(url.to_string()), start, input);
            }
            Token::Function(name) if name.eq_ignore_ascii_case("url") => {
                let url = argument(input);
                self.take_url(url, start, input);
            }
            Token::CurlyBracketBlock => {
                nested(input, Place::Rule, self.found);
                self.end_statement();
            }
            Token::Function(_) | Token::ParenthesisBlock | Token::SquareBracketBlock => {
                // `image-set(url(...) 1x)` loads images as its property does.
                let within = match self.place {
                    Place::Image => Place::Image,
                    _ => Place::Other,
                };
                nested(input, within, self.found);
            }
            _ => {}
        }
    }

    fn end_statement(&mut self) {
        (self.place, self.property) = (self.inside, None);
    }

    /// Takes a URL whose token began at `start`, where it is loaded; `None` is one that stays.
    fn take_url(&mut self, url: Option<String>, start: SourcePosition, input: &Parser<'_>) {
        let kind = match self.place {
            Place::Image => Kind::Image,
            Place::Import => Kind::Style,
            Place::Rule | Place::Other => return,
        };
        if let Some(url) = url {
            let range = start.byte_index()..input.position().byte_index();
            self.found.push(Found { range, url, kind });
        }
        if self.place == Place::Import {
            self.place = Place::Other;
        }
    }
}

/// The argument of `url("...")`, alone: modifiers make it another request.
fn argument(input: &mut Parser<'_>) -> Option<String> {
    let url = input.parse_nested_block(|input| {
        let url = input.expect_string()?.to_string();
        input.expect_exhausted()?;
        Ok::<_, ParseError<()>>(url)
    });
    url.ok()
}

fn nested(input: &mut Parser<'_>, inside: Place, found: &mut Vec<Found>) {
    // Fails only where blocks are nested too deep; their URLs then stay.
    let _ = input.parse_nested_block(|input| {
        scan(input, inside, found);
        Ok::<_, ParseError<()>>(())
    });
}

/// Whether a URL can stand in quotes as it is.
fn is_plain(url: &str) -> bool {
    url.bytes()
        .all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(&byte))
}

/// Properties whose images are fetched without CORS (CSS Images 3 §2.1). Masks and shapes ask for CORS,
/// filters and clip paths for the page's own origin.
const IMAGES: [&str; 8] = [
    "background",
    "background-image",
    "border-image",
    "border-image-source",
    "content",
    "cursor",
    "list-style",
    "list-style-image",
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn moved(css: &str) -> String {
        let replace = |url: &str, kind| {
            let prefix = match kind {
                Kind::Style => "https://style",
                _ => "https://image",
            };
            url.starts_with('/').then(|| format!("{prefix}{url}"))
        };
        rewrite(css, replace).unwrap_or_else(|| css.to_owned())
    }

    #[test]
    fn urls_are_replaced_where_images_are_loaded() {
        // name, style sheet, what becomes of it; "" where it stays
        let cases = [
            ("nothing", "a { color: red }", ""),
            (
                "unquoted",
                "a{background:url(/b.png)}",
                "a{background:url(\"https://image/b.png\")}",
            ),
            (
                "quoted, with the rest of the value",
                "a { background : no-repeat url( '/b.png' ) 0 0 , red ; color: red }",
                "a { background : no-repeat url(\"https://image/b.png\") 0 0 , red ; color: red }",
            ),
            (
                "several",
                "a{background-image:url(/b.png),URL(\"/c.png\")}b{cursor:url(/d.png),auto}",
                "a{background-image:url(\"https://image/b.png\"),url(\"https://image/c.png\")}b{cursor:url(\"https://image/d.png\"),auto}",
            ),
            (
                "in media queries and nested rules",
                "@media (width>1px){a:hover{&:focus{background:url(/b.png)}content:url(/c.png)}}",
                "@media (width>1px){a:hover{&:focus{background:url(\"https://image/b.png\")}content:url(\"https://image/c.png\")}}",
            ),
            (
                "an image set",
                "a{background:image-set(url(/b.png) 1x, url(/c.png) 2x)}",
                "a{background:image-set(url(\"https://image/b.png\") 1x, url(\"https://image/c.png\") 2x)}",
            ),
            (
                "imports",
                "@import \"/a.css\" screen;@import url(/b.css);@import url('/c.css') print;",
                "@import url(\"https://style/a.css\") screen;@import url(\"https://style/b.css\");@import url(\"https://style/c.css\") print;",
            ),
            (
                "without its end",
                "a{background:url(/b.png",
                "a{background:url(\"https://image/b.png\")",
            ),
            ("a font", "@font-face{font-family:a;src:url(/a.woff2)}", ""),
            ("a namespace", "@namespace url(/a);", ""),
            (
                "a mask",
                "a{mask-image:url(/a.svg);clip-path:url(/a.svg#b)}",
                "",
            ),
            ("a variable", "a{--b:url(/b.png)}", ""),
            ("a comment", "/* background:url(/b.png) */", ""),
            ("a string", "a{content:'url(/b.png)'}", ""),
            ("a selector", "a[b='url(/c)']{color:red}", ""),
            ("not ours", "a{background:url(b.png)}", ""),
            ("with a modifier", "a{background:url('/b.png' a(b))}", ""),
        ];
        for (name, css, want) in cases {
            let want = if want.is_empty() { css } else { want };
            assert_eq!(moved(css), want, "{name}");
        }
        let attribute = "background:url(/b.png);mask:url(/c.svg)";
        let want = "background:url(\"https://image/b.png\");mask:url(/c.svg)";
        assert_eq!(moved(attribute), want);
    }

    proptest! {
        #[test]
        fn text_of_any_kind_is_taken(
            css in "(a|\\{|\\}|\\(|\\)|;|:|@import |background|url\\(|/b.png|'|\"|\\\\| |é|/\\*|\\*/)*"
        ) {
            let once = moved(&css);
            prop_assert_eq!(moved(&once), once);
        }
    }
}
