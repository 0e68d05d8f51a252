//! The server's stop, for streams that have no end of their own.

use http::{Request, header};
use tokio_util::sync::CancellationToken;

use super::Protocol;

/// Cancelled when the server stops; in the extensions of requests that may become tunnels.
#[derive(Clone, Debug, Default)]
pub struct Stopping(pub(crate) CancellationToken);

impl Stopping {
    /// Puts `stop` into the extensions of a request that may become a tunnel. The tunnel ends when it is
    /// cancelled.
    pub fn attach<B>(stop: &CancellationToken, request: &mut Request<B>) {
        let is_extended = request.extensions().get::<Protocol>().is_some();
        if is_extended || request.headers().contains_key(header::UPGRADE) {
            request.extensions_mut().insert(Self(stop.clone()));
        }
    }
}
