//! Settings of compression.

use hikyaku_units::ByteSize;
use serde::Deserialize;

use crate::files::Coding;

/// Settings of compression on the fly (`[compression]` of the configuration).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CompressionConfig {
    /// Codings that responses may be given, in the server's order of preference. The order decides
    /// between codings that the client likes equally well. Default `[]`: no response is compressed.
    pub encodings: Vec<Coding>,
    /// Media types that are compressed: `type/subtype`, `type/*`, or `*+suffix` for a structured
    /// syntax (RFC 6838 §4.2.8). `type/*` leaves out `text/event-stream`, whose streams would hold
    /// an encoder each for hours. Default: text, JSON, JavaScript, XML, SVG, WebAssembly, playlists
    /// and fonts without compression of their own.
    pub types: Vec<String>,
    /// Size from which content is compressed. Content of unknown size is, too. Default `1KiB`.
    pub min_size: ByteSize,
    /// Levels of the encoders.
    pub level: CompressionLevels,
    /// Memory for compressed files of one `root`. A file of up to 1 MiB is compressed once and kept
    /// here; a larger one is compressed for each request. 0 keeps none. Default `64MiB`.
    pub cache: ByteSize,
    /// Memory for the encoders of the whole server. Beyond it, responses are sent without
    /// compression. Default `512MiB`.
    pub memory: ByteSize,
}

/// Levels of the encoders (`[compression.level]` of the configuration). A higher one takes more time
/// for fewer bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CompressionLevels {
    /// Zstandard: 1 to 19. Default 3.
    pub zstd: u8,
    /// Brotli: 2 to 11. Default 5.
    pub br: u8,
    /// gzip: 1 to 9. Default 6.
    pub gzip: u8,
}

impl CompressionLevels {
    pub(super) const fn of(self, coding: Coding) -> u8 {
        match coding {
            Coding::Zstd => self.zstd,
            Coding::Br => self.br,
            Coding::Gzip => self.gzip,
        }
    }

    /// # Errors
    /// If a level is none of its encoder's. The error is a sentence.
    pub(super) fn check(self) -> Result<(), String> {
        for (coding, range) in [
            (Coding::Zstd, 1..=19),
            (Coding::Br, 2..=11),
            (Coding::Gzip, 1..=9),
        ] {
            let level = self.of(coding);
            if !range.contains(&level) {
                return Err(format!(
                    "`compression.level.{}` is {level}: choose {} to {}",
                    coding.name(),
                    range.start(),
                    range.end()
                ));
            }
        }
        Ok(())
    }
}

impl Default for CompressionConfig {
    fn default() -> Self {
        Self {
            encodings: Vec::new(),
            types: TYPES.map(str::to_owned).to_vec(),
            min_size: ByteSize::from_kib(1),
            level: CompressionLevels::default(),
            cache: ByteSize::from_mib(64),
            memory: ByteSize::from_mib(512),
        }
    }
}

impl Default for CompressionLevels {
    fn default() -> Self {
        Self {
            zstd: 3,
            br: 5,
            gzip: 6,
        }
    }
}

/// Types whose content compresses well.
const TYPES: [&str; 13] = [
    "text/*",
    "*+json",
    "*+xml",
    "application/json",
    "application/javascript",
    "application/xml",
    "application/wasm",
    "application/yaml",
    "application/vnd.apple.mpegurl",
    "application/vnd.ms-fontobject",
    "font/ttf",
    "font/otf",
    "image/vnd.microsoft.icon",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read_and_unknown_ones_are_refused() {
        let text = r#"
            encodings = ["zstd", "gzip"]
            types = ["text/html"]
            min_size = "2KiB"
            level = { zstd = 1, br = 2, gzip = 3 }
            cache = "1MiB"
            memory = "0B"
        "#;
        let want = CompressionConfig {
            encodings: vec![Coding::Zstd, Coding::Gzip],
            types: vec!["text/html".to_owned()],
            min_size: ByteSize::from_kib(2),
            level: CompressionLevels {
                zstd: 1,
                br: 2,
                gzip: 3,
            },
            cache: ByteSize::from_mib(1),
            memory: ByteSize::from_bytes(0),
        };
        assert_eq!(toml::from_str::<CompressionConfig>(text).unwrap(), want);
        assert_eq!(
            toml::from_str::<CompressionConfig>("").unwrap(),
            CompressionConfig::default()
        );
        for (text, want) in [
            ("encoding = []", "`encodings`"),
            ("encodings = [\"deflate\"]", "`zstd`"),
            ("level = { brotli = 5 }", "`br`"),
        ] {
            let error = toml::from_str::<CompressionConfig>(text).unwrap_err();
            assert!(error.to_string().contains(want), "{error}");
        }
    }
}
