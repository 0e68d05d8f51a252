//! Request bodies.

use hikyaku_h3_quinn::{Receiving, RequestHead};
use http::{Method, Request, header};
use http_body_util::BodyExt;

use crate::content::RequestBody;

/// Gives a request its body, which is known to be at its end where there is none, so that an upstream
/// is sent no empty, chunked one.
pub(super) async fn with_body(
    request: Request<()>,
    mut receiving: Receiving<RequestHead>,
) -> Request<RequestBody> {
    // What comes on a tunnel has no length (RFC 9110 §9.3.6).
    let is_tunnel = *request.method() == Method::CONNECT;
    let length = content_length(&request).filter(|_| !is_tunnel);
    // Streams mostly end with the head of a request without content. Of methods whose requests have
    // content by rule more is not waited for.
    let by_rule = matches!(
        *request.method(),
        Method::POST | Method::PUT | Method::PATCH | Method::CONNECT
    );
    if !receiving.is_known_empty() && length.is_none() && !by_rule {
        // What went wrong is found again when the body is read.
        let _ = receiving.has_body().await;
    }
    if let Some(length) = length {
        receiving.expect(length);
    }
    request.map(|()| RequestBody::new(receiving.map_err(Into::into)))
}

fn content_length(request: &Request<()>) -> Option<u64> {
    let length = request.headers().get(header::CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}
