//! What a style sheet needs.

use cssparser::{ParseError, Parser, Token};
use url::Url;

use super::{Kind, Resource, Urgency};

/// The resources of the style sheet `css` (or of a `style` attribute) at `url`: imports, the
/// first source of each font, and images. Which of them a page really uses only its layout
/// would tell, so all are taken.
pub(super) fn resources(css: &str, url: &Url) -> Vec<Resource> {
    let mut found = Vec::new();
    scan(&mut Parser::new(css), Place::Sheet, &mut |link, place| {
        let (kind, urgency) = match place {
            Place::Import => (Kind::Style, Urgency::Blocking),
            Place::FontFace => (Kind::Font, Urgency::Late),
            Place::Sheet => (Kind::Image, Urgency::Content),
            Place::Namespace => return,
        };
        found.extend(Resource::new(url, link, kind, urgency));
    });
    found
}

/// Where in a style sheet a URL stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Sheet,
    /// `@import`: a style sheet.
    Import,
    /// `@font-face`: the sources of one font, of which one is loaded.
    FontFace,
    /// `@namespace`: a name, not to be fetched.
    Namespace,
}

/// Tells `tell` of every URL in a block and those within it; whether there was one.
///
/// The parser refuses to descend into blocks nested deeper than people write them, so nobody
/// can exhaust the stack.
fn scan(input: &mut Parser<'_>, outside: Place, tell: &mut dyn FnMut(&str, Place)) -> bool {
    let mut place = outside;
    let mut told = false;
    while let Ok(token) = input.next().cloned() {
        match token {
            Token::AtKeyword(name) => place = place_of(&name).unwrap_or(outside),
            Token::Semicolon => place = outside,
            Token::UnquotedUrl(link) => {
                tell(&link, place);
                told = true;
            }
            Token::QuotedString(link) if place == Place::Import => {
                tell(&link, place);
                told = true;
                // What follows are conditions, in which no URL can be.
                place = Place::Namespace;
            }
            Token::Function(name) if name.eq_ignore_ascii_case("url") => {
                told |= quoted_url(input, place, tell);
            }
            Token::Function(_)
            | Token::ParenthesisBlock
            | Token::SquareBracketBlock
            | Token::CurlyBracketBlock => {
                told |= nested(input, place, tell);
                if token == Token::CurlyBracketBlock {
                    place = outside;
                }
            }
            _ => {}
        }
        if told && outside == Place::FontFace {
            return true;
        }
    }
    told
}

fn place_of(at_keyword: &str) -> Option<Place> {
    match at_keyword.to_ascii_lowercase().as_str() {
        "import" => Some(Place::Import),
        "font-face" => Some(Place::FontFace),
        "namespace" => Some(Place::Namespace),
        _ => None,
    }
}

fn quoted_url(input: &mut Parser<'_>, place: Place, tell: &mut dyn FnMut(&str, Place)) -> bool {
    let link = input.parse_nested_block(|input| {
        let link = input.expect_string()?.to_string();
        Ok::<_, ParseError<()>>(link)
    });
    link.inspect(|link| tell(link, place)).is_ok()
}

fn nested(input: &mut Parser<'_>, place: Place, tell: &mut dyn FnMut(&str, Place)) -> bool {
    let scanned = input.parse_nested_block(|input| {
        let told = scan(input, place, tell);
        // The rest of the block, where it was left early.
        while input.next().is_ok() {}
        Ok::<_, ParseError<()>>(told)
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
