//! The page that lists a directory.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime};

use rustix::fd::OwnedFd;
use rustix::fs::{Dir, FileType};
use rustix::io::Result;

use super::path::{Target, encode_name};
use super::tree::Tree;

/// Lists a directory as an HTML page: directories first, then files, each by name.
///
/// The page shows the entries that the server would serve. It leaves out hidden names unless the
/// tree shows them, links out of the root, and entries that are neither file nor directory. Blocks.
///
/// # Errors
/// If the directory cannot be read.
pub(super) fn page(tree: &Tree, target: &Target, directory: &OwnedFd) -> Result<String> {
    let mut entries = Vec::new();
    let mut left_out = 0_usize;
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") || (name.starts_with(b".") && !tree.shows_hidden) {
            continue;
        }
        if entries.len() == MAX_ENTRIES {
            left_out += 1;
        } else {
            entries.extend(Entry::look_up(tree, target, name));
        }
    }
    entries.sort_unstable_by(|a, b| (!a.is_directory, &a.name).cmp(&(!b.is_directory, &b.name)));
    Ok(render(target, &entries, left_out))
}

struct Entry {
    name: Vec<u8>,
    is_directory: bool,
    len: u64,
    modified: SystemTime,
}

impl Entry {
    fn look_up(tree: &Tree, target: &Target, name: &[u8]) -> Option<Self> {
        let stat = tree.look_at(&target.as_path().join(OsStr::from_bytes(name)))?;
        let is_directory = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => true,
            FileType::RegularFile => false,
            _ => return None,
        };
        let seconds = u64::try_from(stat.st_mtime).unwrap_or(0).min(MAX_SECONDS);
        Some(Self {
            name: name.to_owned(),
            is_directory,
            len: u64::try_from(stat.st_size).unwrap_or(0),
            modified: SystemTime::UNIX_EPOCH + Duration::from_secs(seconds),
        })
    }

    fn render(&self, page: &mut String) {
        let slash = if self.is_directory { "/" } else { "" };
        let size = if self.is_directory {
            "–".to_owned()
        } else {
            self.len.to_string()
        };
        let name = String::from_utf8_lossy(&self.name);
        // Writing to a string cannot fail.
        let _ = writeln!(
            page,
            "<tr><td><a href=\"./{}{slash}\">{}{slash}</a><td>{size}<td>{}",
            encode_name(&self.name),
            escape(&name),
            httpdate::fmt_http_date(self.modified),
        );
    }
}

fn render(target: &Target, entries: &[Entry], left_out: usize) -> String {
    let path = target.as_path().to_string_lossy();
    let path = escape(path.trim_start_matches('.'));
    let slash = if path.is_empty() { "" } else { "/" };
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>/{path}{slash}</title>\n<style>{STYLE}</style></head>\n\
         <body><h1>/{path}{slash}</h1>\n<table>\n\
         <tr><th>Name<th>Bytes<th>Modified\n"
    );
    if !path.is_empty() {
        page.push_str("<tr><td><a href=\"../\">../</a><td><td>\n");
    }
    for entry in entries {
        entry.render(&mut page);
    }
    page.push_str("</table>\n");
    if left_out > 0 {
        let _ = writeln!(page, "<p>{left_out} more are not shown.");
    }
    page.push_str("</body></html>\n");
    page
}

/// Escapes text for an element's content or a quoted attribute.
fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;margin:2em}\
    th{text-align:left}td,th{padding:0 2em 0 0}td:nth-child(2){text-align:right}";

/// Entries of a page, so that the page of a huge directory stays at about a megabyte.
const MAX_ENTRIES: usize = 10_000;

/// The end of the year 9999, the last that an HTTP date can hold.
const MAX_SECONDS: u64 = 253_402_300_799;
