//! A file prepared for sending: content, validators and headers.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use rustix::fd::OwnedFd;
use rustix::fs::Stat;
use rustix::io::Errno;

use super::conditional::Validators;
use super::negotiate::Coding;
use super::root::Wait;
use super::rules::Rules;
use super::stream::{FileStream, read_at};
use super::whole::PreparedHeads;
use crate::Body;
use crate::compress::{self, Settings};

/// A file under one content coding (RFC 9110 §3.2).
#[derive(Debug)]
pub(super) struct Representation {
    /// Headers of a complete response with status 200.
    pub(super) headers: HeaderMap,
    pub(super) coding: Option<Coding>,
    pub(super) etag: HeaderValue,
    /// The time of the last change in whole seconds, as `Last-Modified` has it.
    pub(super) modified: SystemTime,
    pub(super) len: u64,
    pub(super) source: Source,
    /// Whether the source has the plain content, which is coded as it is sent.
    pub(super) is_coded_later: bool,
    /// The headers as the engines encode them.
    pub(super) prepared: PreparedHeads,
    varies: bool,
    stamp: Stamp,
    is_settled: bool,
}

/// The place from which the content is read.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Memory(Bytes),
    File(Arc<OwnedFd>),
}

/// A regular file, opened and examined but not read.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) file: OwnedFd,
    pub(super) stat: Stat,
    pub(super) coding: Option<Coding>,
}

impl Representation {
    /// Prepares an open file for sending under its plain name `path`. `varies` is true if the file
    /// has other codings.
    ///
    /// # Errors
    /// `EAGAIN` if a small file's content is not in memory and must not be waited for.
    pub(super) fn load(
        open: OpenFile,
        path: &Path,
        varies: bool,
        rules: &Rules,
        wait: Wait,
    ) -> Result<Self, Errno> {
        let stamp = Stamp::of(&open.stat);
        let now = SystemTime::now();
        let etag = stamp.etag(open.coding, None);
        let modified = stamp.modified().min(now);
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(header::CONTENT_TYPE, rules.content_type(path));
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(stamp.len));
        headers.insert(header::LAST_MODIFIED, http_date(modified));
        headers.insert(header::ETAG, etag.clone());
        headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        if let Some(value) = rules.cache_control(path) {
            headers.insert(header::CACHE_CONTROL, value);
        }
        if let Some(coding) = open.coding {
            headers.insert(header::CONTENT_ENCODING, coding.header_value());
        }
        if varies {
            headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        }
        Ok(Self {
            headers,
            coding: open.coding,
            etag,
            modified,
            len: stamp.len,
            source: Source::of(open.file, stamp.len, rules.small_body, wait)?,
            is_coded_later: false,
            prepared: PreparedHeads::default(),
            varies,
            stamp,
            is_settled: stamp.is_settled(now),
        })
    }

    /// The same file under a coding, of which this is the content. The level is part of its tag: another
    /// one makes other bytes.
    pub(super) fn coded(&self, settings: Settings, content: Bytes) -> Self {
        let Settings { coding, level } = settings;
        let etag = self.stamp.etag(Some(coding), Some(level));
        let mut headers = self.headers.clone();
        headers.insert(header::CONTENT_ENCODING, coding.header_value());
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(content.len()));
        headers.insert(header::ETAG, etag.clone());
        Self {
            headers,
            etag,
            len: content.len() as u64,
            source: Source::Memory(content),
            ..self.under(coding)
        }
    }

    /// The same file under a coding in which it is sent, and not kept.
    pub(super) fn coded_later(&self, coding: Coding) -> Self {
        let mut headers = self.headers.clone();
        compress::rename(&mut headers, coding);
        let etag = headers.get(header::ETAG).unwrap_or(&self.etag).clone();
        Self {
            headers,
            etag,
            is_coded_later: true,
            ..self.under(coding)
        }
    }

    /// This file with another coding's name.
    fn under(&self, coding: Coding) -> Self {
        Self {
            headers: HeaderMap::new(),
            coding: Some(coding),
            etag: self.etag.clone(),
            modified: self.modified,
            len: self.len,
            source: self.source.clone(),
            is_coded_later: false,
            prepared: PreparedHeads::default(),
            varies: true,
            stamp: self.stamp,
            is_settled: self.is_settled,
        }
    }

    /// Whether the open file is the one that was loaded, unchanged.
    pub(super) fn is_of(&self, open: &OpenFile, varies: bool) -> bool {
        self.is_settled && self.varies == varies && self.stamp == Stamp::of(&open.stat)
    }

    /// `Last-Modified` is a strong one if the file had rested for the granularity of its time stamps when
    /// it was loaded.
    pub(super) const fn validators(&self) -> Validators<'_> {
        Validators {
            etag: Some(&self.etag),
            modified: Some(self.modified),
            is_dated_strongly: self.is_settled,
        }
    }

    /// Makes a body of the whole content.
    pub(super) fn body(&self) -> Body {
        match &self.source {
            Source::Memory(bytes) => bytes.clone().into(),
            Source::File(file) => Body::file(FileStream::new(Arc::clone(file), 0..self.len)),
        }
    }
}

impl Source {
    fn of(file: OwnedFd, len: u64, small_body: u64, wait: Wait) -> Result<Self, Errno> {
        if len > small_body {
            return Ok(Self::File(Arc::new(file)));
        }
        let mut content = vec![0; usize::try_from(len).map_err(|_| Errno::FBIG)?];
        let mut filled = 0;
        while filled < content.len() {
            match read_at(&file, &mut content[filled..], filled as u64, wait) {
                // The file was cut short since it was examined. The stream reports that.
                Ok(0) => return Ok(Self::File(Arc::new(file))),
                Ok(read) => filled += read,
                Err(Errno::OPNOTSUPP) => return Err(Errno::AGAIN),
                Err(error) => return Err(error),
            }
        }
        Ok(Self::Memory(content.into()))
    }
}

/// The identity of a file's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    len: u64,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl Stamp {
    fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            len: u64::try_from(stat.st_size).unwrap_or(0),
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// Makes a strong validator. Two codings of a file differ in it, two levels of one, and two states
    /// of the file if their time stamps differ.
    fn etag(&self, coding: Option<Coding>, level: Option<u8>) -> HeaderValue {
        let (seconds, nanos) = self.modified;
        let (len, inode) = (self.len, self.inode);
        let mut text = format!("\"{len:x}-{seconds:x}.{nanos:x}-{inode:x}");
        if let Some(coding) = coding {
            text.push('-');
            text.push_str(coding.name());
        }
        if let Some(level) = level {
            text.push_str(&level.to_string());
        }
        text.push('"');
        HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("\"\""))
    }

    /// The time in whole seconds, within the range of an HTTP date.
    fn modified(&self) -> SystemTime {
        let seconds = u64::try_from(self.modified.0).unwrap_or(0);
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.min(END_OF_YEAR_9999))
    }

    /// Whether a later write is sure to change the time stamps. On many file systems they have the
    /// granularity of a clock tick. So a file that has just changed may change once more without a
    /// trace.
    fn is_settled(&self, now: SystemTime) -> bool {
        let changed = Duration::from_secs(u64::try_from(self.changed.0).unwrap_or(0));
        now.duration_since(SystemTime::UNIX_EPOCH + changed)
            .is_ok_and(|age| age > Duration::from_secs(2))
    }
}

/// Formats a time for `Date` and `Last-Modified` (RFC 9110 §5.6.7).
pub(crate) fn http_date(time: SystemTime) -> HeaderValue {
    HeaderValue::try_from(httpdate::fmt_http_date(time))
        .unwrap_or(HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT"))
}

const END_OF_YEAR_9999: u64 = 253_402_300_799;

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::fstat;

    fn stamp(changed: i64) -> Stamp {
        Stamp {
            device: 1,
            inode: 0x2a,
            len: 0x10,
            modified: (0x64, 0xff),
            changed: (changed, 0),
        }
    }

    #[test]
    fn a_file_is_settled_once_its_clock_has_ticked_on() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let cases = [
            (0, true),
            (997, true),
            (998, false),
            (1000, false),
            (2000, false),
        ];
        for (changed, want) in cases {
            assert_eq!(stamp(changed).is_settled(now), want, "{changed}");
        }
    }

    #[test]
    fn an_unsettled_file_is_read_again() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc").unwrap();
        let open = || {
            let file = OwnedFd::from(std::fs::File::open(file.path()).unwrap());
            let stat = fstat(&file).unwrap();
            OpenFile {
                file,
                stat,
                coding: None,
            }
        };
        let rules = Rules::new(&crate::FilesConfig::default()).unwrap();
        let path = Path::new("a.txt");
        let load = || Representation::load(open(), path, false, &rules, Wait::Allowed).unwrap();
        let mut loaded = load();
        assert!(!loaded.is_of(&open(), false));
        loaded.is_settled = true;
        assert!(loaded.is_of(&open(), false));
        assert!(!loaded.is_of(&open(), true), "another Vary");
        std::fs::write(file.path(), "abcd").unwrap();
        assert!(!loaded.is_of(&open(), false), "another length");
        assert_ne!(loaded.etag, load().etag);
    }

    #[test]
    fn tags_distinguish_codings_and_dates_stay_in_range() {
        let br = Some(Coding::Br);
        assert_eq!(stamp(0).etag(None, None), "\"10-64.ff-2a\"");
        assert_eq!(stamp(0).etag(br, None), "\"10-64.ff-2a-br\"");
        assert_eq!(stamp(0).etag(br, Some(5)), "\"10-64.ff-2a-br5\"");
        let cases = [
            (-1, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (100, "Thu, 01 Jan 1970 00:01:40 GMT"),
            (i64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ];
        for (seconds, want) in cases {
            let stamp = Stamp {
                modified: (seconds, 0),
                ..stamp(0)
            };
            assert_eq!(http_date(stamp.modified()), want, "{seconds}");
        }
    }
}
