//! Looking ahead for pictures that are fetched with CORS.

use std::ops::Range;

/// The longest `picture` element that is looked through before its beginning is passed on.
const MAX_PICTURE: usize = 16 << 10;

/// Holds each `picture` element back until its end is there. Its sources come first, and they are
/// fetched by the rules of its `img` (HTML, "update the image data"): with CORS where that has
/// `crossorigin`.
///
/// It looks at bytes alone, so that it may mistake a picture without CORS for one with CORS. It never
/// errs the other way round but where an attribute's value holds the end tag of a picture.
#[derive(Default)]
pub(super) struct Pictures {
    /// Bytes of the page that arrived and were not passed on.
    held: Vec<u8>,
    /// Bytes of the page that were passed on.
    passed: usize,
    /// `held` begins in a picture: with its start tag, or after it where it is too long.
    inside: Option<Inside>,
    /// Where in the page pictures are that are fetched with CORS, or may be.
    with_cors: Vec<Range<usize>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Inside {
    Held,
    TooLong,
}

impl Pictures {
    /// Takes the next piece of the page, and returns the bytes that may be parsed by now.
    pub(super) fn take(&mut self, data: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(data);
        let mut ready = Vec::new();
        while let Some(length) = self.step() {
            ready.extend(self.held.drain(..length));
            self.passed += length;
        }
        ready
    }

    /// The rest of the bytes at the page's end.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        if self.inside == Some(Inside::Held) {
            self.with_cors.push(self.passed..usize::MAX);
        }
        std::mem::take(&mut self.held)
    }

    /// Whether what begins at this byte of the page is fetched with CORS as a part of a picture.
    pub(super) fn is_with_cors(&self, at: usize) -> bool {
        self.with_cors.iter().any(|picture| picture.contains(&at))
    }

    /// Forgets pictures that end before this byte of the page.
    pub(super) fn forget_before(&mut self, at: usize) {
        self.with_cors.retain(|picture| picture.end > at);
    }

    /// How much of `held` can be passed on now, if anything can.
    fn step(&mut self) -> Option<usize> {
        let length = match self.inside {
            None => match find(&self.held, BEGIN) {
                Found::At(0) => return self.look_through(),
                found => found.before(self.held.len()),
            },
            Some(Inside::Held) => return self.look_through(),
            Some(Inside::TooLong) => match find(&self.held, END) {
                Found::At(at) => {
                    self.inside = None;
                    if let Some(picture) = self.with_cors.last_mut() {
                        picture.end = self.passed + at;
                    }
                    // The end tag itself begins no picture.
                    at + 1
                }
                found => found.before(self.held.len()),
            },
        };
        (length > 0).then_some(length)
    }

    /// Passes a picture on when its end, or too much of it, is there.
    fn look_through(&mut self) -> Option<usize> {
        self.inside = Some(Inside::Held);
        let seen = &self.held[..self.held.len().min(MAX_PICTURE)];
        if let Found::At(end) = find(seen, END) {
            self.inside = None;
            if let Found::At(_) = find(&seen[..end], CROSSORIGIN) {
                self.with_cors.push(self.passed..self.passed + end);
            }
            return Some(end + 1);
        }
        if seen.len() < MAX_PICTURE {
            return None;
        }
        self.inside = Some(Inside::TooLong);
        self.with_cors.push(self.passed..usize::MAX);
        // The rest may hold the beginning of the end tag.
        Some(MAX_PICTURE - END.len())
    }
}

enum Found {
    At(usize),
    /// It may begin after this byte.
    Perhaps(usize),
    Nowhere,
}

impl Found {
    /// The part that certainly is before it, of `length` bytes.
    fn before(self, length: usize) -> usize {
        match self {
            Self::At(at) | Self::Perhaps(at) => at,
            Self::Nowhere => length,
        }
    }
}

/// Finds lower-case ASCII `what` in any case.
fn find(text: &[u8], what: &[u8]) -> Found {
    let first = |byte: &u8| byte.eq_ignore_ascii_case(&what[0]);
    let mut from = 0;
    while let Some(at) = text[from..].iter().position(first) {
        let at = from + at;
        let rest = &text[at..];
        let length = rest.len().min(what.len());
        if rest[..length].eq_ignore_ascii_case(&what[..length]) {
            return match length == what.len() {
                true => Found::At(at),
                false => Found::Perhaps(at),
            };
        }
        from = at + 1;
    }
    Found::Nowhere
}

const BEGIN: &[u8] = b"<picture";
const END: &[u8] = b"</picture";
const CROSSORIGIN: &[u8] = b"crossorigin";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The bytes that are parsed, and the ranges of pictures with CORS, of a page that comes in these
    /// pieces.
    fn seen(pieces: &[&[u8]]) -> (Vec<u8>, Vec<Range<usize>>) {
        let mut pictures = Pictures::default();
        let mut parsed = Vec::new();
        for piece in pieces {
            parsed.extend(pictures.take(piece));
        }
        parsed.extend(pictures.finish());
        (parsed, pictures.with_cors)
    }

    #[test]
    fn pictures_with_cors_are_found() {
        let long = format!("<picture>{}</picture>", " ".repeat(MAX_PICTURE));
        let cases = [
            ("<p>crossorigin</p>", None),
            ("<picture><img></picture><img crossorigin>", None),
            ("a<PICTURE><img CrossOrigin></Picture>b", Some(1..27)),
            (
                "<picture><img></picture><picture><img crossorigin></picture>",
                Some(24..50),
            ),
            ("<picture><img>", Some(0..usize::MAX)),
            (&long, Some(0..MAX_PICTURE + 9)),
        ];
        for (page, want) in cases {
            let (page, want) = (page.as_bytes(), Vec::from_iter(want));
            assert_eq!(seen(&[page]), (page.to_vec(), want.clone()));
            let bytes: Vec<&[u8]> = page.chunks(1).collect();
            assert_eq!(seen(&bytes), (page.to_vec(), want));
        }
    }

    #[test]
    fn other_elements_than_pictures_are_not_held() {
        let mut pictures = Pictures::default();
        assert_eq!(pictures.take(b"<p>text<pic"), b"<p>text");
        assert_eq!(pictures.take(b"k>"), b"<pick>");
        assert_eq!(pictures.take(b"<picture><img>"), b"");
        assert_eq!(pictures.take(b"</picture>"), b"<picture><img></picture>");
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_a_page_comes(
            words in prop::collection::vec(
                prop::sample::select(vec![
                    "<picture>", "</picture>", "<picture", "</pict", "<img crossorigin>", "<", "x",
                    // More than is looked through, in three of them.
                    LONG,
                ]),
                0..20,
            ),
            size in 1..50usize,
        ) {
            let page = words.concat();
            let pieces: Vec<&[u8]> = page.as_bytes().chunks(size).collect();
            let whole = seen(&[page.as_bytes()]);
            prop_assert_eq!(&whole.0, page.as_bytes());
            prop_assert_eq!(seen(&pieces), whole);
        }
    }

    const LONG: &str = {
        const SPACES: [u8; MAX_PICTURE / 3 + 1] = [b' '; MAX_PICTURE / 3 + 1];
        match str::from_utf8(&SPACES) {
            Ok(spaces) => spaces,
            Err(_) => "",
        }
    };
}
