//! A compressed site, and decoders.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use hikyaku_content::files::Coding;
use hikyaku_content::{Body, CompressionConfig, Content, FilesConfig, Peer, SiteConfig, WholeFile};
use hikyaku_units::ByteSize;
use hikyaku_units::arm::Version;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::BodyExt;
use tempfile::TempDir;

use crate::common::{no_body, peer, respond};

/// A site whose responses are compressed.
pub(crate) struct Site {
    pub(crate) content: Content,
    root: TempDir,
}

impl Site {
    /// A site of files.
    pub(crate) fn of_files(
        files: FilesConfig,
        compression: CompressionConfig,
        fill: impl FnOnce(&Path),
    ) -> Self {
        let root = tempfile::tempdir().unwrap();
        fill(root.path());
        let site = SiteConfig {
            root: Some(root.path().to_owned()),
            files,
            compression,
            ..SiteConfig::default()
        };
        Self::of(&site, root)
    }

    /// A site in front of an upstream.
    pub(crate) fn before(upstream: &str, compression: CompressionConfig) -> Self {
        let site = SiteConfig {
            upstream: Some(upstream.into()),
            compression,
            header_size: ByteSize::from_kib(64),
            ..SiteConfig::default()
        };
        Self::of(&site, tempfile::tempdir().unwrap())
    }

    fn of(site: &SiteConfig, root: TempDir) -> Self {
        Self {
            content: Content::new(std::slice::from_ref(site)).unwrap(),
            root,
        }
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.root.path().join(name), content).unwrap();
    }

    /// The response before its content is read.
    pub(crate) async fn respond(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.header("host", "site.example");
        respond(&self.content, request.body(no_body()).unwrap(), Version::H2).await
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Answer {
        Answer::of(self.respond(method, path, headers).await).await
    }

    pub(crate) async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.send(Method::GET, path, headers).await
    }

    /// The file that is sent without waiting.
    pub(crate) fn whole(&self, path: &str, accepts: &str) -> Option<WholeFile> {
        self.whole_by(&Self::request(path, accepts), &peer(Version::H2))
    }

    /// The same for a request of [`Site::request`].
    pub(crate) fn whole_by(&self, request: &Request<()>, peer: &Peer) -> Option<WholeFile> {
        self.content.whole_file(request, peer)
    }

    pub(crate) fn request(path: &str, accepts: &str) -> Request<()> {
        let request = Request::get(path).header("accept-encoding", accepts);
        request.header("host", "site.example").body(()).unwrap()
    }
}

/// A response that was received to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: HeaderMap,
}

impl Answer {
    pub(crate) async fn of(response: Response<Body>) -> Self {
        let (parts, body) = response.into_parts();
        let collected = body.collect().await.unwrap();
        Self {
            status: parts.status.as_u16(),
            headers: parts.headers,
            trailers: collected.trailers().cloned().unwrap_or_default(),
            body: collected.to_bytes(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The content as a client has it in the end.
    pub(crate) fn decoded(&self) -> Vec<u8> {
        match self.header("content-encoding") {
            Some(coding) => decode(coding, &self.body),
            None => self.body.to_vec(),
        }
    }
}

/// Decodes content that must be whole.
pub(crate) fn decode(coding: &str, coded: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    match coding {
        "br" => brotli::Decompressor::new(coded, 4096).read_to_end(&mut content),
        "zstd" => zstd::stream::read::Decoder::new(coded)
            .unwrap()
            .read_to_end(&mut content),
        "gzip" => flate2::read::GzDecoder::new(coded).read_to_end(&mut content),
        other => panic!("{other}"),
    }
    .unwrap();
    content
}

/// All codings, in the order of the documentation.
pub(crate) fn config() -> CompressionConfig {
    CompressionConfig {
        encodings: vec![Coding::Zstd, Coding::Br, Coding::Gzip],
        ..CompressionConfig::default()
    }
}

/// Files that nobody looks at again.
pub(crate) fn files() -> FilesConfig {
    FilesConfig {
        revalidate: Duration::from_secs(3600),
        ..FilesConfig::default()
    }
}

/// Text that compresses well.
pub(crate) fn text(len: usize) -> String {
    let mut text = String::new();
    let mut line = 0;
    while text.len() < len {
        text += &format!("<li class=\"item\">line {line}</li>\n");
        line += 1;
    }
    text.truncate(len);
    text
}

/// Hexadecimal digits of noise, which need half of their bytes at least.
pub(crate) fn digits(len: usize, seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut text = String::new();
    while text.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text += &format!("{state:016x}");
    }
    text.truncate(len);
    text
}
