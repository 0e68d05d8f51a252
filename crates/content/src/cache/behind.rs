//! The disk behind the memory: where responses are found again that have left it, and after a restart.
//!
//! A response lies under a key of its own: the digest of its resource's and of the fields that choose it. A
//! resource whose responses are chosen by fields has a file of their names under its own key. All of this
//! reads and writes files, and belongs into tokio's pool for blocking work.

use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;

use aws_lc_rs::digest::{self, SHA256};
use http::HeaderMap;
use http::header::HeaderName;
use parking_lot::RwLock;

use super::disk::{self, Store};
use super::flight::Flight;
use super::key::Key;
use super::purge::Target;
use super::stored::{Head, Stored};
use super::vary::Selector;
use crate::Scheme;

/// The stored responses of a site on disk.
#[derive(Debug)]
pub(super) struct Disk {
    dir: PathBuf,
    limit: u64,
    store: RwLock<Arc<Store>>,
}

type Digest = [u8; 32];

impl Disk {
    /// # Errors
    /// If the directory can't be made or written, or another process has it open.
    pub(super) fn open(dir: PathBuf, limit: u64) -> io::Result<Self> {
        let store = RwLock::new(Arc::new(Store::open(&dir, limit)?));
        Ok(Self { dir, limit, store })
    }

    /// Leaves the directory to another process. From now on there is nothing, and nothing is kept.
    pub(super) fn release(&self) {
        self.store().release();
    }

    /// Takes the directory back.
    ///
    /// # Errors
    /// As of [`Disk::open`]. There is still nothing then.
    pub(super) fn take_back(&self) -> io::Result<()> {
        *self.store.write() = Arc::new(Store::open(&self.dir, self.limit)?);
        Ok(())
    }

    fn store(&self) -> Arc<Store> {
        Arc::clone(&self.store.read())
    }

    /// Whether there may be responses of a resource. Reads no file.
    pub(super) fn holds(&self, key: &Key) -> bool {
        self.store().holds(&resource(key))
    }

    /// Reads the response that a request with these fields gets.
    pub(super) fn get(&self, key: &Key, fields: &HeaderMap) -> Option<Stored> {
        let store = self.store();
        let own = resource(key);
        let entry = store.get(&own)?;
        match read_names(&entry.head) {
            None => stored(entry, fields),
            Some(names) => {
                let selector = Selector::by(names, fields);
                stored(store.get(&variant(&own, &selector))?, fields)
            }
        }
    }

    /// Writes a response, or its head alone where its content is there. One of a flight that was purged
    /// meanwhile is not kept.
    ///
    /// # Errors
    /// If it can't be written. The one of before is there then, or none.
    pub(super) fn put(&self, key: &Key, kept: &Stored, flight: &Flight) -> io::Result<()> {
        let store = self.store();
        let own = resource(key);
        let url = url(key);
        let head = &kept.head;
        let mut digest = own;
        if !head.selector.is_empty() {
            let names = write_names(&head.selector);
            let is_there = store.get(&own).is_some_and(|entry| entry.head == names);
            if !is_there {
                store.put(own, &names, &[], &url)?.commit()?;
            }
            digest = variant(&own, &head.selector);
        }
        let encoded = head.encode();
        if let Some(entry) = store.get(&digest)
            && kept.is_of_file(entry.id)
        {
            return store.replace_head(&digest, entry.id, &encoded);
        }
        let tags: Vec<String> = head.tags().map(str::to_owned).collect();
        let mut writer = store.put(digest, &encoded, &tags, &url)?;
        // A purge after this hits the writer, too.
        if flight.is_purged() {
            return Ok(());
        }
        writer.write(&kept.body)?;
        writer.commit()
    }

    /// Removes the responses of a resource.
    pub(super) fn remove(&self, key: &Key) {
        self.store().remove(&resource(key));
    }

    /// Removes the responses that are meant, and returns the number of their files.
    pub(super) fn purge(&self, target: &Target) -> usize {
        self.store().purge(&match target {
            Target::Key(key) => disk::Purge::Url(url(key).into()),
            Target::Beginning(key) => disk::Purge::Prefix(url(key).into()),
            Target::Tag(tag) => disk::Purge::Tag(tag.clone()),
            Target::All => disk::Purge::Prefix("".into()),
        })
    }

    /// The state of the directory.
    pub(super) fn counts(&self) -> disk::Counts {
        self.store().counts()
    }
}

/// The whole of a response, if it is the one that a request with these fields gets.
fn stored(entry: disk::Entry, fields: &HeaderMap) -> Option<Stored> {
    let head = Head::decode(&entry.head)?;
    if !head.selector.matches(fields) {
        return None;
    }
    let mut file = entry.file;
    let mut body = vec![0; usize::try_from(entry.length).ok()?];
    file.seek(SeekFrom::Start(entry.offset)).ok()?;
    file.read_exact(&mut body).ok()?;
    Some(Stored::from_disk(head, body.into(), entry.id))
}

fn resource(key: &Key) -> Digest {
    // Those of https have no scheme before them: they were the only ones once, and are still found.
    let scheme: &[u8] = match key.scheme {
        Scheme::Http => b"http://",
        Scheme::Https => b"",
    };
    digest_of(&[scheme, key.host.as_bytes(), b"\0", key.target.as_bytes()])
}

/// The key of a variant, by the fields that choose it.
fn variant(resource: &Digest, selector: &Selector) -> Digest {
    let mut text = Vec::new();
    for (name, value) in selector.parts() {
        text.extend_from_slice(name.as_str().as_bytes());
        text.push(if value.is_some() { b':' } else { b'\0' });
        text.extend_from_slice(value.unwrap_or_default());
        text.push(b'\n');
    }
    digest_of(&[resource, b"\n", &text])
}

fn digest_of(parts: &[&[u8]]) -> Digest {
    let mut context = digest::Context::new(&SHA256);
    parts.iter().for_each(|part| context.update(part));
    let mut out = [0; 32];
    out.copy_from_slice(context.finish().as_ref());
    out
}

fn url(key: &Key) -> String {
    format!("{}://{}{}", key.scheme.name(), key.host, key.target)
}

/// The names of the fields that choose, in place of a head.
fn write_names(selector: &Selector) -> Vec<u8> {
    let mut out = NAMES.to_vec();
    for (name, _) in selector.parts() {
        out.extend_from_slice(name.as_str().as_bytes());
        out.push(b'\n');
    }
    out
}

fn read_names(head: &[u8]) -> Option<Vec<HeaderName>> {
    let names = head.strip_prefix(NAMES)?.split(|&byte| byte == b'\n');
    let names = names.filter(|name| !name.is_empty());
    names
        .map(|name| HeaderName::from_bytes(name).ok())
        .collect()
}

/// The beginning of such a file. No head begins so.
const NAMES: &[u8] = b"vary\n";
