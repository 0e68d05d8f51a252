//! URLs in a `srcset` (HTML Standard §4.8.4.2.1).

use std::ops::Range;

/// Replaces URLs of a `srcset`; `None` where `replace` gives none for any of them.
pub(super) fn rewrite(
    text: &str,
    mut replace: impl FnMut(&str) -> Option<String>,
) -> Option<String> {
    let mut out = String::with_capacity(text.len() + 64);
    let mut done = 0;
    for range in urls(text) {
        if let Some(url) = replace(&text[range.clone()]) {
            out.push_str(&text[done..range.start]);
            out.push_str(&url);
            done = range.end;
        }
    }
    (done > 0).then(|| out + &text[done..])
}

/// Where the URLs of the candidates stand.
fn urls(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let skip = |from: usize, over: &dyn Fn(u8) -> bool| {
        let rest = bytes[from..].iter();
        from + rest.take_while(|byte| over(**byte)).count()
    };
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        let start = skip(at, &|byte| is_space(byte) || byte == b',');
        if start == bytes.len() {
            return found;
        }
        let end = skip(start, &|byte| !is_space(byte));
        let url = text[start..end].trim_end_matches(',');
        found.push(start..start + url.len());
        at = match url.len() < end - start {
            // Commas behind the URL end the candidate.
            true => end,
            false => descriptors(bytes, end),
        };
    }
}

/// The end of a candidate's descriptors: a comma that is not in parentheses.
fn descriptors(bytes: &[u8], from: usize) -> usize {
    let mut in_parentheses = false;
    for (offset, byte) in bytes[from..].iter().enumerate() {
        match byte {
            b'(' => in_parentheses = true,
            b')' => in_parentheses = false,
            b',' if !in_parentheses => return from + offset,
            _ => {}
        }
    }
    bytes.len()
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | 0x0c | b'\r' | b' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_found() {
        let cases: &[(&str, &[&str])] = &[
            ("", &[]),
            (" , ,", &[]),
            ("a.png", &["a.png"]),
            ("a.png 1x, b.png 2x", &["a.png", "b.png"]),
            ("a.png, b.png 2x", &["a.png", "b.png"]),
            ("a.png,b.png 2x", &["a.png,b.png"]),
            ("a.png 100w,b.png 200w", &["a.png", "b.png"]),
            (
                "data:image/png;base64,AA== 1x, b.png 2x",
                &["data:image/png;base64,AA==", "b.png"],
            ),
            ("a.png (1,2) , b.png", &["a.png", "b.png"]),
            ("\n  a.png 1x,\n  b.png 2x\n", &["a.png", "b.png"]),
            ("a.png 1x,, b.png,,,", &["a.png", "b.png"]),
        ];
        for (text, want) in cases {
            let got: Vec<&str> = urls(text).into_iter().map(|range| &text[range]).collect();
            assert_eq!(got, *want, "`{text}`");
        }
    }

    #[test]
    fn the_rest_stays_as_it_is() {
        let replace = |url: &str| (url == "b.png").then(|| "https://s/b.png".to_owned());
        let got = rewrite(" a.png 1x,\n b.png 2x ,c.png", replace);
        assert_eq!(
            got.as_deref(),
            Some(" a.png 1x,\n https://s/b.png 2x ,c.png")
        );
        assert_eq!(rewrite("a.png 1x", replace), None);
    }
}
