//! Media types by file name extension.
//!
//! Types are those of the IANA registry, as Debian's `media-types` lists them, or `mime_guess`'s
//! for extensions that the registry lacks. Debian's unregistered types are left out. [`DECIDED`]
//! lists the exceptions.

use std::collections::HashMap;
use std::sync::LazyLock;

use http::HeaderValue;

/// The media type of an extension in lower case; `application/octet-stream` for an unknown one.
pub(super) fn of_extension(extension: &str) -> &'static str {
    TYPES
        .get(extension)
        .copied()
        .or_else(|| mime_guess::from_ext(extension).first_raw())
        .unwrap_or("application/octet-stream")
}

/// The `Content-Type` of an extension in lower case. Text that cannot name its own encoding counts as UTF-8.
pub(super) fn content_type(extension: &str) -> HeaderValue {
    let known = of_extension(extension);
    if !needs_charset(known) {
        return HeaderValue::from_static(known);
    }
    HeaderValue::try_from(format!("{known}; charset=utf-8"))
        .unwrap_or(HeaderValue::from_static(known))
}

/// Whether `charset=utf-8` is sent with this type: for text that cannot name its encoding itself.
///
/// HTML, CSS and XML name their encoding in the text, and `charset` would override that.
pub(super) fn needs_charset(media_type: &str) -> bool {
    media_type.starts_with("text/")
        && !matches!(
            media_type,
            "text/css" | "text/html" | "text/rtf" | "text/xml" | "text/xml-external-parsed-entity"
        )
}

static TYPES: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
    let registered = REGISTERED
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(|line| {
            let mut words = line.split(' ');
            let media_type = words.next().unwrap_or_default();
            words.map(move |extension| (extension, media_type))
        });
    let decided = DECIDED.iter().flat_map(|(media_type, extensions, _)| {
        extensions
            .split(' ')
            .map(move |extension| (extension, *media_type))
    });
    registered.chain(decided).collect()
});

const REGISTERED: &str = include_str!("registered.types");

/// The type, its extensions, and the reason for the exception.
const DECIDED: &[(&str, &str, &str)] = &[
    (
        "video/mp2t",
        "ts mts m2ts m2t tts",
        "MPEG-2 transport streams (HLS, RFC 8216 §3.2); Qt's translations are not served",
    ),
    ("video/mp4", "cmfv", "CMAF is MP4 (ISO 23000-19)"),
    ("audio/mp4", "cmfa m4b m4p m4r", "MP4 of sound (RFC 4337)"),
    (
        "application/node",
        "cjs",
        "registered by Node.js; browsers run no CommonJS",
    ),
    ("application/json", "map", "source maps (ECMA-426)"),
    ("application/yaml", "yaml yml", "RFC 9512"),
    ("application/toml", "toml", "registered in 2024"),
    (
        "application/xml",
        "xsd",
        "RFC 7303 has text/xml as an alias",
    ),
    ("text/markdown", "mkd", "RFC 7763"),
    ("application/gzip", "tgz", "as `.tar.gz` (RFC 6713)"),
    ("application/x-bzip2", "tbz tbz2", "as `.tar.bz2`"),
    ("application/x-xz", "txz", "as `.tar.xz`"),
    ("application/zstd", "tzst", "as `.tar.zst` (RFC 8878)"),
    (
        "application/pgp-signature",
        "asc",
        "beside downloads lie signatures more often than keys (both RFC 3156)",
    ),
    (
        "application/octet-stream",
        "key",
        "private keys and Keynote's, besides PGP's",
    ),
    (
        "application/octet-stream",
        "msm scr",
        "programs of Windows, not 3D models or text",
    ),
    (
        "application/octet-stream",
        "distz fla pkg",
        "archives, and not of the registered format",
    ),
    (
        "application/vnd.ms-powerpoint",
        "pot",
        "templates of PowerPoint; those of gettext are seldom served",
    ),
    (
        "application/x-mspublisher",
        "pub",
        "Publisher's files are better known than Exstream's",
    ),
    (
        "application/x-subrip",
        "srt",
        "players look for it, and text/plain says nothing",
    ),
    ("audio/midi", "mid midi", "Scalable Polyphony is rare"),
    ("audio/wav", "wave", "as `wav`"),
    (
        "chemical/x-cif",
        "cif",
        "crystals are better known than Creator",
    ),
    (
        "image/heif",
        "hif",
        "cameras write HEIF, not AVIF, under it",
    ),
    ("image/sgi", "sgi", "better known than sealed GIF"),
    ("image/vnd.microsoft.icon", "cur", "as `ico`"),
    (
        "text/x-rust",
        "rs",
        "sources are better known than RLS services (RFC 4662)",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_the_web_are_those_of_the_registry() {
        let cases = [
            ("aac", "audio/aac"),
            ("avif", "image/avif"),
            ("cjs", "application/node"),
            ("css", "text/css"),
            (
                "docx",
                "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            ),
            ("flac", "audio/flac"),
            ("gz", "application/gzip"),
            ("html", "text/html"),
            ("ico", "image/vnd.microsoft.icon"),
            ("js", "text/javascript"),
            ("json", "application/json"),
            ("m3u8", "application/vnd.apple.mpegurl"),
            ("m4a", "audio/mp4"),
            ("m4s", "video/iso.segment"),
            ("m4v", "video/mp4"),
            ("mjs", "text/javascript"),
            ("mp4", "video/mp4"),
            ("mpd", "application/dash+xml"),
            ("otf", "font/otf"),
            ("svg", "image/svg+xml"),
            ("tgz", "application/gzip"),
            ("ts", "video/mp2t"),
            ("ttf", "font/ttf"),
            ("vtt", "text/vtt"),
            ("wasm", "application/wasm"),
            ("webmanifest", "application/manifest+json"),
            ("woff", "font/woff"),
            ("woff2", "font/woff2"),
            ("xml", "application/xml"),
            ("zst", "application/zstd"),
            ("", "application/octet-stream"),
            ("unknown", "application/octet-stream"),
        ];
        for (extension, want) in cases {
            assert_eq!(of_extension(extension), want, "{extension}");
        }
    }

    #[test]
    fn text_that_names_its_encoding_is_not_given_one() {
        let cases = [
            ("text/plain", true),
            ("text/javascript", true),
            ("text/csv", true),
            ("text/html", false),
            ("text/css", false),
            ("text/xml", false),
            ("application/json", false),
            ("image/svg+xml", false),
        ];
        for (media_type, want) in cases {
            assert_eq!(needs_charset(media_type), want, "{media_type}");
        }
    }

    /// Each difference to the registry is in [`DECIDED`].
    #[test]
    fn types_are_debians_unless_decided_otherwise() {
        let Ok(list) = std::fs::read_to_string("/etc/mime.types") else {
            return hikyaku_testkit::skip(
                "types_are_debians_unless_decided_otherwise",
                "Debian's package media-types is not installed",
            );
        };
        let is_decided = |extension: &str| {
            let mut decided = DECIDED.iter().flat_map(|(_, names, _)| names.split(' '));
            decided.any(|name| name == extension)
        };
        let is_unregistered = |media_type: &str| {
            media_type.contains("/x-")
                || media_type.starts_with("x-")
                || media_type.starts_with("chemical/")
        };
        let mut seen = std::collections::HashSet::new();
        let mut undecided = Vec::new();
        for line in list.lines() {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let Some(media_type) = words.next() else {
                continue;
            };
            for extension in words {
                let extension = extension.to_ascii_lowercase();
                // The extension is the part after the last dot; the first type counts.
                let counts = !extension.contains('.') && seen.insert(extension.clone());
                let ours = of_extension(&extension);
                if counts
                    && !ours.eq_ignore_ascii_case(media_type)
                    && !is_decided(&extension)
                    && !is_unregistered(media_type)
                {
                    undecided.push(format!("{extension}: {media_type}, ours is {ours}"));
                }
            }
        }
        assert!(seen.len() > 1000, "no list: {}", seen.len());
        assert!(undecided.is_empty(), "{undecided:#?}");
    }
}
