//! Translation of messages to field lines for QPACK.

use hikyaku_http_common::message::is_sent;
use http::header;
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, Method, StatusCode, Uri};

use super::request::RequestHead;
use crate::qpack::FieldRef;

/// A field section for encoding: pseudo-header fields, then the others.
///
/// It leaves out connection-specific fields, TE other than `trailers` (RFC 9114 §4.2), and Host
/// beside `:authority` (§4.3.1).
pub(crate) struct Encoded<'a> {
    pseudo: [Option<FieldRef<'a>>; 5],
    headers: &'a HeaderMap,
    omits_host: bool,
}

impl<'a> Encoded<'a> {
    pub(crate) fn fields(&self) -> impl Iterator<Item = FieldRef<'a>> {
        let omits_host = self.omits_host;
        let regular = self
            .headers
            .iter()
            .filter(move |(name, value)| {
                is_sent(name, value) && !(omits_host && *name == header::HOST)
            })
            .map(|(name, value)| FieldRef {
                name: name.as_str().as_bytes(),
                value: value.as_bytes(),
                sensitive: value.is_sensitive(),
            });
        self.pseudo.into_iter().flatten().chain(regular)
    }

    /// The section's size (RFC 9114 §4.2.2).
    pub(crate) fn size(&self) -> u64 {
        let sizes = self
            .fields()
            .map(|field| field.name.len() + field.value.len() + 32);
        sizes.sum::<usize>() as u64
    }
}

/// Makes a response's header section.
pub(crate) fn response<'a>(status: &'a StatusCode, headers: &'a HeaderMap) -> Encoded<'a> {
    Encoded {
        pseudo: [pseudo(":status", status.as_str()), None, None, None, None],
        headers,
        omits_host: false,
    }
}

/// Makes a request's header section.
pub(crate) fn request(head: &RequestHead) -> Encoded<'_> {
    let parts = &head.parts;
    let is_connect = parts.method == Method::CONNECT && head.protocol.is_none();
    let authority = parts.uri.authority().map(Authority::as_str);
    let (scheme, path) = if is_connect {
        (None, None)
    } else {
        let scheme = parts.uri.scheme_str().unwrap_or("https");
        (pseudo(":scheme", scheme), pseudo(":path", path(&parts.uri)))
    };
    let protocol = head.protocol.as_ref();
    Encoded {
        pseudo: [
            pseudo(":method", parts.method.as_str()),
            scheme,
            authority.and_then(|authority| pseudo(":authority", authority)),
            path,
            protocol.and_then(|protocol| pseudo(":protocol", protocol.as_str())),
        ],
        headers: &parts.headers,
        omits_host: authority.is_some(),
    }
}

/// Makes a trailer section.
pub(crate) fn trailers(headers: &HeaderMap) -> Encoded<'_> {
    Encoded {
        pseudo: [None; 5],
        headers,
        omits_host: false,
    }
}

fn path(uri: &Uri) -> &str {
    uri.path_and_query().map_or("/", PathAndQuery::as_str)
}

fn pseudo<'a>(name: &'static str, value: &'a str) -> Option<FieldRef<'a>> {
    Some(FieldRef {
        name: name.as_bytes(),
        value: value.as_bytes(),
        sensitive: false,
    })
}
