//! Media types that are compressed.

/// A set of media types, by their patterns.
#[derive(Debug)]
pub(super) struct MediaTypes(Vec<Pattern>);

#[derive(Debug, PartialEq, Eq)]
enum Pattern {
    /// `type/subtype`.
    Exact(String),
    /// `type/*`, as `type`.
    Top(String),
    /// `*+suffix`, as `+suffix`.
    Suffix(String),
}

impl MediaTypes {
    /// # Errors
    /// If a pattern has another form. The error is a sentence.
    pub(super) fn new(patterns: &[String]) -> Result<Self, String> {
        let patterns = patterns.iter().map(|text| {
            Pattern::parse(text).ok_or_else(|| {
                format!(
                    "`compression.types` has `{text}`: write a media type, `type/*` or `*+suffix`"
                )
            })
        });
        patterns.collect::<Result<_, _>>().map(Self)
    }

    /// Whether a `Content-Type` is one of them. Its parameters do not count.
    pub(super) fn contain(&self, content_type: &str) -> bool {
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        self.0.iter().any(|pattern| pattern.matches(essence))
    }
}

impl Pattern {
    fn parse(text: &str) -> Option<Self> {
        if let Some(suffix) = text.strip_prefix('*') {
            let name = suffix.strip_prefix('+')?;
            return is_token(name).then(|| Self::Suffix(suffix.to_owned()));
        }
        let (top, sub) = text.split_once('/')?;
        if !is_token(top) {
            return None;
        }
        match sub {
            "*" => Some(Self::Top(top.to_owned())),
            sub => is_token(sub).then(|| Self::Exact(text.to_owned())),
        }
    }

    fn matches(&self, essence: &str) -> bool {
        match self {
            Self::Exact(wanted) => wanted.eq_ignore_ascii_case(essence),
            Self::Top(wanted) => {
                let top = essence.split_once('/').map(|(top, _)| top);
                top.is_some_and(|top| top.eq_ignore_ascii_case(wanted))
                    && !essence.eq_ignore_ascii_case(EVENT_STREAM)
            }
            Self::Suffix(wanted) => {
                let start = essence.rfind('+').unwrap_or(essence.len());
                essence[start..].eq_ignore_ascii_case(wanted)
            }
        }
    }
}

/// Whether it is a token (RFC 9110 §5.6.2), and no pattern.
fn is_token(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_allowed)
}

/// Server-sent events (HTML Standard §9.2).
const EVENT_STREAM: &str = "text/event-stream";

#[cfg(test)]
mod tests {
    use super::super::CompressionConfig;
    use super::*;

    #[test]
    fn types_match_by_name_top_and_suffix() {
        let types = ["text/*", "application/JSON", "*+xml"].map(str::to_owned);
        let types = MediaTypes::new(&types).unwrap();
        let cases = [
            ("text/html", true),
            ("Text/HTML ; charset=utf-8", true),
            ("text/event-stream", false),
            ("textual/html", false),
            ("text", false),
            ("application/json", true),
            ("application/json5", false),
            ("application/ld+json", false),
            ("image/svg+xml", true),
            ("image/svg+XML;q=1", true),
            ("image/svg+xmlx", false),
            ("a/b+c+xml", true),
            ("application/xml", false),
            ("", false),
            (";", false),
        ];
        for (content_type, want) in cases {
            assert_eq!(types.contain(content_type), want, "{content_type}");
        }
        let streams = MediaTypes::new(&["text/event-stream".to_owned()]).unwrap();
        assert!(streams.contain("text/event-stream; charset=utf-8"));
    }

    #[test]
    fn the_default_has_text_and_nothing_that_is_compressed_already() {
        let types = MediaTypes::new(&CompressionConfig::default().types).unwrap();
        let cases = [
            ("text/css", true),
            ("text/javascript; charset=utf-8", true),
            ("application/manifest+json", true),
            ("application/problem+json", true),
            ("application/rss+xml", true),
            ("application/wasm", true),
            ("image/svg+xml", true),
            ("font/ttf", true),
            ("text/event-stream", false),
            ("font/woff2", false),
            ("image/png", false),
            ("video/mp4", false),
            ("application/zip", false),
            ("application/octet-stream", false),
        ];
        for (content_type, want) in cases {
            assert_eq!(types.contain(content_type), want, "{content_type}");
        }
    }

    #[test]
    fn other_patterns_are_refused() {
        for text in [
            "", "*", "*/*", "text", "text/", "/html", "a/b/c", "*+", "text/h*", "*json",
        ] {
            let error = MediaTypes::new(&[text.to_owned()]).unwrap_err();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }
}
