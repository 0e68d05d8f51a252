use proptest::prelude::*;

use super::*;
use crate::pages::MAX_MEMORY;
use crate::shards::tests::spread;

/// Rewrites a page that comes in these pieces.
fn rewritten(pieces: &[&[u8]], policy: &str) -> Vec<u8> {
    let mut rewriter = Rewriter::new(spread(8, policy));
    let mut out = Vec::new();
    for piece in pieces {
        out.extend(rewriter.write(piece));
    }
    out.extend(rewriter.end());
    out
}

/// A page after rewriting, with every shard as `S`. One of eight resources stays anyhow, so
/// that the name `k` stands for several, and what moves most is taken.
fn page_under(html: &str, policy: &str) -> String {
    let names = (0..20).map(|number| format!("k{number}."));
    let pages = names.map(|name| {
        let page = rewritten(&[html.replace("k.", &name).as_bytes()], policy);
        plain(&page).replace(&name, "k.")
    });
    let moved = |page: &String| page.matches("S/").count();
    pages.max_by_key(moved).unwrap()
}

fn page(html: &str) -> String {
    page_under(html, "")
}

fn plain(html: &[u8]) -> String {
    let mut text = String::from_utf8(html.to_vec()).unwrap();
    for shard in 1..=7 {
        text = text.replace(&format!("https://s{shard}.test"), "S");
    }
    text
}

#[test]
fn elements_are_rewritten_or_left() {
    // The page, what becomes of it; "" where it stays
    let cases = [
        ("<meta charset=ISO-2022-JP><img src=/k.png>", ""),
        (
            "<meta http-equiv=content-type content='text/html; charset=iso-2022-jp'><img src=/k.png>",
            "",
        ),
        ("<p>text</p><!-- <img src=/k.png> -->", ""),
        ("<img src=/k.png>", "<img src=\"S/k.png\">"),
        (
            "<IMG alt='a\"b' SRC='/k.png' />",
            "<IMG alt='a\"b' SRC=\"S/k.png\" />",
        ),
        (
            "<img src=k.png?a&amp;b>",
            "<img src=\"S/dir/k.png?a&amp;b\">",
        ),
        (
            "<img srcset='/k.png 1x, https://other.test/l.png 2x, m.php 3x'>",
            "<img srcset=\"S/k.png 1x, https://other.test/l.png 2x, m.php 3x\">",
        ),
        ("<img crossorigin src=/k.png>", ""),
        ("<img crossorigin=use-credentials src=/k.png>", ""),
        (
            "<picture><source srcset=/k.png><img src=/k.png></picture>",
            "<picture><source srcset=\"S/k.png\"><img src=\"S/k.png\"></picture>",
        ),
        (
            "<picture><source srcset=/k.png><source srcset=/k.webp><img crossorigin=use-credentials src=/k.png></picture>",
            "",
        ),
        (
            "<picture><source srcset=/k.png><img crossorigin src=/k.png></picture><picture><source srcset=/k.png></picture>",
            "<picture><source srcset=/k.png><img crossorigin src=/k.png></picture><picture><source srcset=\"S/k.png\"></picture>",
        ),
        ("<picture><source srcset=/k.png>", ""),
        (
            "<link rel=stylesheet crossorigin=use-credentials href=/k.css>",
            "",
        ),
        (
            "<link rel=icon crossorigin=use-credentials href=/k.ico>",
            "",
        ),
        (
            "<link rel=preload as=image crossorigin=use-credentials href=/k.png>",
            "",
        ),
        (
            "<script crossorigin=use-credentials src=/k.js></script>",
            "",
        ),
        (
            "<video crossorigin=use-credentials src=/k.mp4><source src=/k.ogv></video>",
            "",
        ),
        (
            "<video src=/k.mp4 poster=/k.png></video>",
            "<video src=\"S/k.mp4\" poster=\"S/k.png\"></video>",
        ),
        (
            "<audio><source src=/k.ogg></audio><video crossorigin><source src=/k.mp4></video><video><source src=/k.mp4></video>",
            "<audio><source src=\"S/k.ogg\"></audio><video crossorigin><source src=/k.mp4></video><video><source src=\"S/k.mp4\"></video>",
        ),
        ("<track src=/k.png>", ""),
        (
            "<script src=/k.js></script>",
            "<script src=\"S/k.js\"></script>",
        ),
        (
            "<script type=Text/JavaScript async src=/k.js></script>",
            "<script type=Text/JavaScript async src=\"S/k.js\"></script>",
        ),
        ("<script type=module src=/k.js></script>", ""),
        ("<script type=importmap src=/k.js></script>", ""),
        ("<script integrity=sha384-x src=/k.js></script>", ""),
        ("<script crossorigin=anonymous src=/k.js></script>", ""),
        ("<script>let a = '<img src=/k.png>'</script>", ""),
        (
            "<link rel=stylesheet href=/k.css>",
            "<link rel=stylesheet href=\"S/k.css\">",
        ),
        ("<link rel=stylesheet integrity=sha384-x href=/k.css>", ""),
        ("<link rel=stylesheet crossorigin href=/k.css>", ""),
        (
            "<link rel='shortcut icon' href=/k.ico>",
            "<link rel='shortcut icon' href=\"S/k.ico\">",
        ),
        (
            "<link rel=preload as=image href=/k.png imagesrcset='/k.png 1x'>",
            "<link rel=preload as=image href=\"S/k.png\" imagesrcset=\"S/k.png 1x\">",
        ),
        ("<link rel=preload as=fetch href=/k.png>", ""),
        ("<link rel=preload as=font crossorigin href=/k.woff2>", ""),
        ("<link rel=modulepreload href=/k.js>", ""),
        ("<link rel=canonical href=/k.png>", ""),
        ("<link rel=manifest href=/k.png>", ""),
        ("<a href=/k.png>", ""),
        (
            "<form action=/k.png><input type=image src=/k.png></form>",
            "",
        ),
        (
            "<iframe src=/k.svg></iframe><object data=/k.svg></object><embed src=/k.svg>",
            "",
        ),
        (
            "<svg><image href=/k.png /><use href=/k.svg#a /><script src=/k.js></script></svg>",
            "",
        ),
        ("<noscript><img src=/k.png></noscript>", ""),
        ("<textarea><img src=/k.png></textarea>", ""),
        (
            "<p style=\"color:red;background:url('/k.png')\">",
            "<p style=\"color:red;background:url(&quot;S/k.png&quot;)\">",
        ),
        ("<p style='background:url(&quot;/k.png&quot;)'>", ""),
        (
            "<style>é>p{background:url(/k.png)}</style>é",
            "<style>é>p{background:url(\"S/k.png\")}</style>é",
        ),
        ("<style>p{color:red}</style>", ""),
        (
            "<style type=text/less>p{background:url(/k.png)}</style>",
            "",
        ),
        (
            "<style>p{background:url(/k.png)",
            "<style>p{background:url(\"S/k.png\")",
        ),
        (
            "<style></style><style>@import '/k.css';</style>",
            "<style></style><style>@import url(\"S/k.css\");</style>",
        ),
        (
            "<base href=/x/><base href=/y/><img src=k.png>",
            "<base href=/x/><base href=/y/><img src=\"S/x/k.png\">",
        ),
        ("<base href=https://other.test/><img src=k.png>", ""),
        ("<img src=/k.png", ""),
        (
            "<meta http-equiv=Content-Security-Policy content=\"img-src 'self'\"><img src=/k.png><script src=/k.js></script>",
            "<meta http-equiv=Content-Security-Policy content=\"img-src 'self'\"><img src=/k.png><script src=\"S/k.js\"></script>",
        ),
        (
            "<meta http-equiv=content-security-policy content='img-src &#39;self&#39;'><img src=/k.png>",
            "",
        ),
    ];
    for (html, want) in cases {
        let want = if want.is_empty() { html } else { want };
        assert_eq!(page(html), want);
    }
}

#[test]
fn a_policy_of_the_response_holds() {
    let html = "<img src=/k.png><script src=/k.js></script>";
    let got = page_under(html, "default-src 'self'; script-src *");
    assert_eq!(got, "<img src=/k.png><script src=\"S/k.js\"></script>");
}

#[test]
fn bytes_of_another_encoding_stay() {
    let page =
        b"<p>\xe9\xff</p><style>p{content:'\xe9';background:url(/k.png)}</style><b title='\xe9'>";
    assert_eq!(rewritten(&[page], ""), page);
    for at in 0..page.len() {
        let (first, second) = page.split_at(at);
        assert_eq!(rewritten(&[first, second], ""), page, "split at {at}");
    }
    // A latin1 page, by its own word: only the URL changes.
    let mut pages = (0..9).map(|number| {
        let mut page = b"<meta charset=iso-8859-1><img alt='\xe9' src=/".to_vec();
        page.push(b'a' + number);
        page.extend(b".png>");
        rewritten(&[&page], "")
    });
    let is_moved = |page: &Vec<u8>| page.windows(9).any(|part| part == b"https://s");
    let moved = pages.find(is_moved).unwrap();
    let start = b"<meta charset=iso-8859-1><img alt='\xe9' src=\"https://s";
    assert!(moved.starts_with(start));
}

#[test]
fn too_large_styles_and_tags_pass_as_they_are() {
    let sheet = format!(
        "<style>{}p{{background:url(/k.png)}}</style>",
        " ".repeat(MAX_STYLE)
    );
    assert_eq!(page(&sheet), sheet);
    // A tag of half a megabyte, after a style sheet whose text may still be held.
    let image = "<img src=/k1.png>";
    let moved = plain(&rewritten(&[image.as_bytes()], ""));
    for before in ["", "<style>p{color:red}", "<style>p{color:red}</style>"] {
        let tag = format!("<b title='{}'>", "x".repeat(2 * MAX_MEMORY));
        let html = format!("{image}{before}{tag}{image}");
        let pieces: Vec<&[u8]> = html.as_bytes().chunks(16 << 10).collect();
        let got = plain(&rewritten(&pieces, ""));
        assert_eq!(
            got.len(),
            html.len() + moved.len() - image.len(),
            "after `{before}`"
        );
        assert_eq!(
            got,
            format!("{moved}{before}{tag}{image}"),
            "after `{before}`"
        );
    }
}

/// Pieces of pages, well made and not.
fn pieces() -> impl Strategy<Value = Vec<String>> {
    let piece = prop_oneof![
        Just("<img src=/k.png>".to_owned()),
        Just("<img srcset='/k.png 1x, l.png 2x'>".to_owned()),
        Just("<style>p{background:url(/k.png)}</style>".to_owned()),
        Just("<p style='background:url(/k.png)'>é</p>".to_owned()),
        Just("<script src=/k.js></script>".to_owned()),
        Just("<script>if (a<b) '<img src=/k.png>'</script>".to_owned()),
        Just("<!-- <img src=/k.png> -->".to_owned()),
        Just("<picture><source srcset=/k.png>".to_owned()),
        Just("<img crossorigin src=/k.png></picture>".to_owned()),
        Just("<base href=/x/>".to_owned()),
        Just("<svg><style>p{background:url(/k.png)}</style>".to_owned()),
        Just("<select><xmp><script>".to_owned()),
        Just("<style>".to_owned()),
        Just("</style>".to_owned()),
        "[<>/='\" a-zé&;-]{0,12}",
    ];
    prop::collection::vec(piece, 0..12)
}

proptest! {
    #[test]
    fn it_does_not_matter_how_a_page_comes(
        pieces in pieces(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let html = pieces.concat().into_bytes();
        let whole = rewritten(&[&html], "");
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(html.len() + 1)).collect();
        cuts.extend([0, html.len()]);
        cuts.sort_unstable();
        let parts: Vec<&[u8]> = cuts.windows(2).map(|cut| &html[cut[0]..cut[1]]).collect();
        prop_assert_eq!(rewritten(&parts, ""), whole);
    }

    #[test]
    fn a_page_over_one_connection_stays(pieces in pieces(), size in 1..40usize) {
        let html = pieces.concat().into_bytes();
        let mut rewriter = Rewriter::new(spread(1, ""));
        let parts = html.chunks(size).flat_map(|part| rewriter.write(part));
        let mut out: Vec<u8> = parts.collect();
        out.extend(rewriter.end());
        prop_assert_eq!(out, html);
    }

    #[test]
    fn a_page_without_references_stays(text in "[<>/='\"a-z é&;!-]{0,200}") {
        prop_assert_eq!(page(&text), text);
    }

    #[test]
    fn rewriting_again_changes_nothing(pieces in pieces()) {
        let once = rewritten(&[pieces.concat().as_bytes()], "");
        prop_assert_eq!(rewritten(&[&once], ""), once);
    }

    #[test]
    fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        rewritten(&[&bytes], "");
    }
}
