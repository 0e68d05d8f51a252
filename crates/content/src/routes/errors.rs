//! Pages in place of errors in words.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};

use crate::files::MediaTypes;
use crate::{Body, InWords};

/// Bytes of a page. It is in memory as long as the configuration is in force.
const MAX_PAGE: u64 = 1 << 20;

/// Pages by the status of a response.
#[derive(Clone, Debug, Default)]
pub(super) struct ErrorPages(Vec<(Statuses, Page)>);

#[derive(Clone, Debug)]
struct Page {
    content: Bytes,
    media_type: HeaderValue,
}

/// A status of an error, or all of its class. A status goes before its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Statuses {
    One(StatusCode),
    /// 4 or 5.
    Class(u16),
}

impl ErrorPages {
    /// Reads the pages of a configuration, which have these media types.
    ///
    /// # Errors
    /// If a key is no status of an error, or a file can't be read or is too large. The error is a sentence.
    pub(super) fn read<'a>(
        config: impl IntoIterator<Item = (&'a String, &'a PathBuf)>,
        types: &MediaTypes,
    ) -> Result<Self, String> {
        let page = |(key, path): (&String, &PathBuf)| {
            let statuses = Statuses::parse(key).ok_or_else(|| {
                format!(
                    "`error_pages` has `{key}`: expected a status such as 404, or `4xx` or `5xx`"
                )
            })?;
            let page = Page::read(path, types)
                .map_err(|why| format!("`error_pages.{key}`, {}: {why}", path.display()))?;
            Ok((statuses, page))
        };
        let mut pages = config
            .into_iter()
            .map(page)
            .collect::<Result<Vec<_>, String>>()?;
        pages.sort_by_key(|(statuses, _)| *statuses);
        Ok(Self(pages))
    }

    /// Puts the page for its status in place of a response's content, if there is one. The content has to be
    /// the status in words, unless `any` content may be replaced.
    pub(super) fn apply(&self, response: &mut Response<Body>, any: bool) {
        if !any && response.extensions().get::<InWords>().is_none() {
            return;
        }
        let status = response.status();
        let is_for = |(statuses, _): &&(Statuses, Page)| statuses.has(status);
        let Some((_, page)) = self.0.iter().find(is_for) else {
            return;
        };
        *response.body_mut() = Body::from(page.content.clone());
        let headers = response.headers_mut();
        for name in OF_CONTENT {
            headers.remove(name);
        }
        headers.insert(header::CONTENT_TYPE, page.media_type.clone());
    }
}

/// Fields that describe the content that a page takes the place of.
const OF_CONTENT: [header::HeaderName; 7] = [
    header::CONTENT_LENGTH,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_DISPOSITION,
    header::ETAG,
    header::LAST_MODIFIED,
    header::ACCEPT_RANGES,
];

impl Page {
    fn read(path: &Path, types: &MediaTypes) -> Result<Self, String> {
        let file = File::open(path).map_err(|error| error.to_string())?;
        let mut content = Vec::new();
        let read = file.take(MAX_PAGE + 1).read_to_end(&mut content);
        read.map_err(|error| error.to_string())?;
        if content.len() as u64 > MAX_PAGE {
            return Err("the page has over 1 MiB, and it would stay in memory".to_owned());
        }
        Ok(Self {
            content: content.into(),
            media_type: types.of_path(path),
        })
    }
}

impl Statuses {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "4xx" => Some(Self::Class(4)),
            "5xx" => Some(Self::Class(5)),
            text => {
                let status = text.parse::<StatusCode>().ok()?;
                let is_error = status.is_client_error() || status.is_server_error();
                is_error.then_some(Self::One(status))
            }
        }
    }

    fn has(self, status: StatusCode) -> bool {
        match self {
            Self::One(one) => one == status,
            Self::Class(class) => status.as_u16() / 100 == class,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn read(pages: &[(&str, &Path)]) -> Result<ErrorPages, String> {
        let pages = pages
            .iter()
            .map(|(key, path)| ((*key).to_owned(), path.to_path_buf()));
        let pages: Vec<_> = pages.collect();
        let types = BTreeMap::from([("htm".to_owned(), "text/html; charset=utf-8".to_owned())]);
        let types = MediaTypes::new(&types).unwrap();
        ErrorPages::read(pages.iter().map(|(key, path)| (key, path)), &types)
    }

    #[test]
    fn a_status_goes_before_its_class() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["4xx.html", "404.txt", "410.htm"] {
            std::fs::write(path(name), name).unwrap();
        }
        let pages = read(&[
            ("4xx", &path("4xx.html")),
            ("404", &path("404.txt")),
            ("410", &path("410.htm")),
        ]);
        let pages = pages.unwrap();
        let cases = [
            (404, Some("text/plain; charset=utf-8")),
            (403, Some("text/html")),
            (410, Some("text/html; charset=utf-8")),
            (500, None),
            (200, None),
        ];
        for (status, want) in cases {
            let mut response = Response::new(Body::from("before"));
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            pages.apply(&mut response, true);
            let got = response.headers().get(header::CONTENT_TYPE);
            assert_eq!(got.map(|value| value.to_str().unwrap()), want, "{status}");
        }
    }

    #[test]
    fn wrong_pages_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let large = directory.path().join("large.html");
        std::fs::write(&large, vec![b' '; (1 << 20) + 1]).unwrap();
        let missing = directory.path().join("missing.html");
        for (key, path, want) in [
            (
                "200",
                &large,
                "`error_pages` has `200`: expected a status such as 404",
            ),
            ("44", &large, "`error_pages` has `44`"),
            ("3xx", &large, "`error_pages` has `3xx`"),
            ("404", &large, "over 1 MiB"),
            ("404", &missing, "No such file"),
        ] {
            let error = read(&[(key, path)]).unwrap_err();
            assert!(error.contains(want), "{error}");
        }
    }
}
