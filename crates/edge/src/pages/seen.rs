//! The times of a page as a browser saw it.

use serde::Serialize;

/// The times of one page in a browser, as its beacon reports them. Nothing in it is of a person.
///
/// All times are from the navigation's start on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Seen {
    /// Version over which the server sent the document.
    pub(crate) version: &'static str,
    /// Version that was chosen for the client then, the reason, and the group.
    pub(crate) decision: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) group: &'static str,
    /// `navigate`, `reload`, `back_forward` or `other`.
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    /// The page began in a tab that nobody saw.
    pub(crate) hidden: bool,
    /// When the connection was ready, or an open one was taken.
    pub(crate) connected_us: u64,
    pub(crate) requested_us: u64,
    pub(crate) first_byte_us: u64,
    /// The document's last byte.
    pub(crate) document_us: u64,
    /// The document was parsed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) interactive_us: Option<u64>,
    /// `load` was handled. `None` if the user left before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) load_us: Option<u64>,
    /// Largest Contentful Paint, where the browser has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lcp_us: Option<u64>,
    /// The document and the page's resources of its own origin until `load`, by `nextHopProtocol`.
    pub(crate) transfers: Vec<Transfers>,
    /// It counts for the choice of the client's version.
    pub(crate) counted: bool,
}

/// Responses of one protocol.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Transfers {
    /// `nextHopProtocol`: `h1`, `h2`, `h3` or `other`. It differs from the document's version behind a proxy.
    pub(crate) hop: &'static str,
    pub(crate) responses: u32,
    /// Bytes of content that came over the network.
    pub(crate) bytes: u64,
    /// Time in which at least one of them was under way, from its request to its last byte.
    pub(crate) busy_us: u64,
}
