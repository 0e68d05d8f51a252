//! The parser of pages, set up so that it changes no byte that it is not to change.

use std::sync::Arc;

use lol_html::send::Settings;
use lol_html::{AsciiCompatibleEncoding, MemorySettings, OutputSink};
use parking_lot::Mutex;

/// Most bytes that the parser may hold of one page: of a tag that has not ended.
pub(crate) const MAX_MEMORY: usize = 256 << 10;

/// The namespace of HTML's own elements.
pub(crate) const HTML: &str = "http://www.w3.org/1999/xhtml";

/// Bytes that the parser has given out.
#[derive(Clone, Default)]
pub(crate) struct Output(Arc<Mutex<Vec<u8>>>);

impl Output {
    /// The bytes since the last call.
    pub(crate) fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock())
    }
}

impl OutputSink for Output {
    fn handle_chunk(&mut self, chunk: &[u8]) {
        self.0.lock().extend_from_slice(chunk);
    }
}

/// Settings without handlers. A page that is too odd passes unchanged from there on.
pub(crate) fn settings() -> Settings<'static, 'static> {
    // Whatever the page's encoding is: only ASCII is looked at, and under this one every byte
    // is written as it was read.
    let encoding = AsciiCompatibleEncoding::new(encoding_rs::WINDOWS_1252)
        .unwrap_or_else(AsciiCompatibleEncoding::utf_8);
    let memory = MemorySettings::new()
        .with_max_allowed_memory_usage(MAX_MEMORY)
        .with_graceful_bail_out_on_memory_limit_exceeded(true);
    Settings::new_send()
        .with_encoding(encoding)
        .with_memory_settings(memory)
        .with_graceful_bail_out_on_content_handler_error(true)
        .with_enable_esi_tags(false)
        // Browsers render ambiguous pages, too.
        .with_strict(false)
}
