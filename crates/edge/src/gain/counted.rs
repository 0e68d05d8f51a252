//! The part of an exchange that is counted.

use std::time::Duration;

use hikyaku_core::gain::Response;
use hikyaku_units::arm::Version;
use http::{Method, StatusCode};

/// An exchange that ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted<'a> {
    pub(crate) version: Version,
    pub(crate) method: &'a Method,
    /// `None` when the client gave up before there was one.
    pub(crate) status: Option<StatusCode>,
    pub(crate) bytes: u64,
    /// The transport has had the whole response, and the client has acknowledged it.
    pub(crate) complete: bool,
    pub(crate) duration: Duration,
    /// From the connection's first packet to the end of its handshake; of its first request alone.
    pub(crate) handshake: Duration,
}

impl Counted<'_> {
    /// The response; `None` for tunnels, which last as long as their users want.
    pub(crate) fn response(&self) -> Option<Response> {
        let is_tunnel =
            self.method == Method::CONNECT || self.status == Some(StatusCode::SWITCHING_PROTOCOLS);
        (!is_tunnel).then(|| Response {
            version: self.version,
            bytes: self.bytes,
            time: self.duration + self.handshake,
            complete: self.complete && self.status.is_some(),
        })
    }
}
