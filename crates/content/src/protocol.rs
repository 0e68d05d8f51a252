//! The protocols of extended CONNECT.

use std::sync::Arc;

use http::Request;

/// The protocol that an extended CONNECT requests (RFC 8441 §4, RFC 9220 §3), in the extensions of
/// its request. The request's body and that of a successful response are then its two directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol(Arc<str>);

impl Protocol {
    /// Makes the protocol of this name, which is compared without regard to case (RFC 9110 §7.8).
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// Puts the protocol of this name into a request's extensions.
    pub fn attach<B>(name: Option<&str>, request: &mut Request<B>) {
        if let Some(name) = name {
            request.extensions_mut().insert(Self::new(name));
        }
    }

    /// Whether the protocol is WebSocket (RFC 6455), the only one that is offered.
    pub fn is_websocket(&self) -> bool {
        self.0.eq_ignore_ascii_case("websocket")
    }
}
