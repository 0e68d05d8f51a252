//! Finding a response, by the index or by its path, and judging whether it is whole.

use std::fs::File;
use std::io;
use std::sync::atomic::Ordering::Relaxed;

use super::Entry;
use super::files::{blocks, body_is_whole, free};
use super::format::Beginning;
use super::index::{End, Record};
use super::shared::Shared;

impl Shared {
    pub(super) fn get(&self, key: &[u8; 32]) -> Option<Entry> {
        let known = {
            let mut state = self.state.lock();
            state.lock.as_ref()?;
            let known = state.index.touch(key);
            let known = known.map(|record| (record.id, record.is_checked));
            if known.is_none() && state.loading.is_none() {
                return None;
            }
            known
        };
        match self.read(key, known.is_some_and(|(_, is_checked)| is_checked)) {
            Ok(Some(entry)) => Some(entry),
            Ok(None) => {
                self.discard(key, known.map(|(id, _)| id));
                None
            }
            Err(error) => {
                // It has left meanwhile, or was never there while the index is filled.
                if error.kind() != io::ErrorKind::NotFound {
                    self.count_failure();
                }
                None
            }
        }
    }

    /// Reads a response from its file, and its body to check it if need be. `None` if it is damaged.
    fn read(&self, key: &[u8; 32], is_checked: bool) -> io::Result<Option<Entry>> {
        let file = File::open(self.path(key))?;
        let Some(mut beginning) = Beginning::read(&file)? else {
            return Ok(None);
        };
        if beginning.front.key != *key || !(is_checked || body_is_whole(&file, &beginning)?) {
            return Ok(None);
        }
        if !is_checked && !self.admit(&beginning, true) {
            return Ok(None);
        }
        let mut head = beginning.head();
        if head.is_none() {
            // It may have been replaced twice during the read.
            let _turn = self.heads.lock();
            let Some(again) = Beginning::read(&file)? else {
                return Ok(None);
            };
            beginning = again;
            head = beginning.head();
        }
        Ok(head.map(|(_, _, head)| Entry {
            head,
            offset: beginning.front.body(),
            length: beginning.front.length,
            id: beginning.front.id,
            file,
        }))
    }

    /// Takes a response of a former process into the index, where it is missing. Returns whether it may be
    /// used: it has not left the store meanwhile.
    pub(super) fn admit(&self, beginning: &Beginning, is_checked: bool) -> bool {
        let Some((url, tags)) = beginning.url_and_tags() else {
            return false;
        };
        let front = &beginning.front;
        let mut state = self.state.lock();
        if state.lock.is_none() {
            return false;
        }
        if let Some(record) = state.index.get_mut(&front.key) {
            record.is_checked |= is_checked && record.id == front.id;
            return true;
        }
        // It may have been read before it was purged, evicted or found to be damaged.
        if !self.path(&front.key).exists() {
            return false;
        }
        let purges = state.loading.as_deref().unwrap_or_default();
        let is_purged = purges.iter().any(|purge| purge.hits(url, &tags));
        let gone = if is_purged {
            self.set_aside(&front.key).into_iter().collect()
        } else {
            let record = Record {
                key: front.key,
                id: front.id,
                size: blocks(front.file()),
                url: url.into(),
                tags: tags.iter().map(|&tag| tag.into()).collect(),
                is_checked,
            };
            state.index.insert(record, End::Oldest);
            self.make_room(&mut state, 0)
        };
        drop(state);
        free(gone);
        !is_purged
    }

    /// Removes a damaged file, whose id in the index was this one. A response that this process has stored since
    /// stays; any other record is that of the file, and may have come into the index meanwhile.
    pub(super) fn discard(&self, key: &[u8; 32], id: Option<u64>) {
        let mut state = self.state.lock();
        let is_newer = |record: &Record| record.is_checked && Some(record.id) != id;
        if state.lock.is_none() || state.index.get(key).is_some_and(is_newer) {
            return;
        }
        state.index.remove(key);
        let gone = self.set_aside(key);
        drop(state);
        if gone.is_some() {
            self.damaged.fetch_add(1, Relaxed);
        }
        free(gone);
    }
}
