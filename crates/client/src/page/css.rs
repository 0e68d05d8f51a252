//! The resources of a style sheet.

use cssparser::{ParseError, Parser, Token};
use url::Url;

use super::{Kind, Resource, Urgency};

/// Returns the resources of the style sheet `css` (or of a `style` attribute) at `url`: imports,
/// the first source of each font, and images. Only the layout decides which of them a page uses, so
/// all are returned.
pub(super) fn resources(css: &str, url: &Url) -> Vec<Resource> {
    let mut found = Vec::new();
    scan(
        &mut Parser::new(css),
        Position::Sheet,
        &mut |link, position| {
            let (kind, urgency) = match position {
                Position::Import => (Kind::Style, Urgency::Blocking),
                Position::FontFace => (Kind::Font, Urgency::Late),
                Position::Sheet => (Kind::Image, Urgency::Content),
                Position::Namespace => return,
            };
            found.extend(Resource::new(url, link, kind, urgency));
        },
    );
    found
}

/// The position of a URL in a style sheet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Sheet,
    /// `@import`: a style sheet.
    Import,
    /// `@font-face`: the sources of one font, of which one is loaded.
    FontFace,
    /// `@namespace`: a name that is not fetched.
    Namespace,
}

/// Calls `found` for every URL in a block and its nested blocks. Returns whether it had one.
///
/// The parser rejects blocks nested deeper than people write them, so no style sheet can exhaust
/// the stack.
fn scan(input: &mut Parser<'_>, outside: Position, found: &mut dyn FnMut(&str, Position)) -> bool {
    let mut position = outside;
    let mut any = false;
    while let Ok(token) = input.next().cloned() {
        match token {
            Token::AtKeyword(name) => position = position_of(&name).unwrap_or(outside),
            Token::Semicolon => position = outside,
            Token::UnquotedUrl(link) => {
                found(&link, position);
                any = true;
            }
            Token::QuotedString(link) if position == Position::Import => {
                found(&link, position);
                any = true;
                // Only conditions follow, and they have no URL.
                position = Position::Namespace;
            }
            Token::Function(name) if name.eq_ignore_ascii_case("url") => {
                any |= quoted_url(input, position, found);
            }
            Token::Function(_)
            | Token::ParenthesisBlock
            | Token::SquareBracketBlock
            | Token::CurlyBracketBlock => {
                any |= nested(input, position, found);
                if token == Token::CurlyBracketBlock {
                    position = outside;
                }
            }
            _ => {}
        }
        if any && outside == Position::FontFace {
            return true;
        }
    }
    any
}

fn position_of(at_keyword: &str) -> Option<Position> {
    match at_keyword.to_ascii_lowercase().as_str() {
        "import" => Some(Position::Import),
        "font-face" => Some(Position::FontFace),
        "namespace" => Some(Position::Namespace),
        _ => None,
    }
}

fn quoted_url(
    input: &mut Parser<'_>,
    position: Position,
    found: &mut dyn FnMut(&str, Position),
) -> bool {
    let link = input.parse_nested_block(|input| {
        let link = input.expect_string()?.to_string();
        Ok::<_, ParseError<()>>(link)
    });
    link.inspect(|link| found(link, position)).is_ok()
}

fn nested(
    input: &mut Parser<'_>,
    position: Position,
    found: &mut dyn FnMut(&str, Position),
) -> bool {
    let scanned = input.parse_nested_block(|input| {
        let any = scan(input, position, found);
        // Skips the rest of a block that was left early.
        while input.next().is_ok() {}
        Ok::<_, ParseError<()>>(any)
    });
    scanned.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(css: &str) -> Vec<String> {
        let url = Url::parse("https://a.test/css/main.css").unwrap();
        let line = |r: &Resource| format!("{} {}", r.kind.name(), r.url.path());
        resources(css, &url).iter().map(line).collect()
    }

    #[test]
    fn links_of_style_sheets() {
        let cases: &[(&str, &str, &[&str])] = &[
            ("nothing", "", &[]),
            (
                "unquoted",
                "a { background: url(b.png) }",
                &["image /css/b.png"],
            ),
            (
                "quoted",
                "a { background: URL( \"../b.png\" ) }",
                &["image /b.png"],
            ),
            (
                "escaped",
                r"a { background: url(b\).png) }",
                &["image /css/b).png"],
            ),
            (
                "declarations",
                "color: red; background: url(/b)",
                &["image /b"],
            ),
            (
                "import string",
                "@import 'a.css' screen; a{b:url(c)}",
                &["style /css/a.css", "image /css/c"],
            ),
            (
                "import url",
                "@import url(a.css); @import url('b.css') print;",
                &["style /css/a.css", "style /css/b.css"],
            ),
            (
                "the first source of a font",
                "@font-face { font-family: F; src: url(f.woff2) format('woff2'), url(f.woff) } a{b:url(c)}",
                &["font /css/f.woff2", "image /css/c"],
            ),
            (
                "each font",
                "@font-face{src:url(1)}@font-face{src:local(x),url('2'),url(3)}",
                &["font /css/1", "font /css/2"],
            ),
            (
                "nested",
                "@media screen { @supports (a:b) { a { b: url(c) } } }",
                &["image /css/c"],
            ),
            (
                "image set",
                "a{b:image-set(url(1) 1x, url('2') 2x)}",
                &["image /css/1", "image /css/2"],
            ),
            ("comment", "/* url(x) */ a { /* url(y) */ }", &[]),
            ("string", "a::after { content: 'url(x)' }", &[]),
            (
                "namespace",
                "@namespace svg url(http://www.w3.org/2000/svg);",
                &[],
            ),
            ("data", "a{b:url(data:image/png;base64,AAAA)}", &[]),
            (
                "broken",
                "a { b: url(bad url) ; c: url(d) ",
                &["image /css/d"],
            ),
        ];
        for (name, css, want) in cases {
            assert_eq!(found(css), *want, "{name}");
        }
    }

    #[test]
    fn depth_does_not_exhaust_the_stack() {
        assert_eq!(
            found(&format!("{}url(x)", "a{".repeat(20))),
            ["image /css/x"]
        );
        assert!(found(&format!("{}url(x)", "a{".repeat(100_000))).len() <= 1);
    }

    proptest! {
        #[test]
        fn never_panics(css in "[@a-z:;{}()'\"/*\\\\ ]{0,200}") {
            let _ = found(&css);
        }
    }
}
