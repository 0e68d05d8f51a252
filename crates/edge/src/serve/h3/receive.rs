//! Request bodies.

use hikyaku_h3_quic::{Receiving, RequestHead, StreamError};
use http::{Method, Request, header};
use http_body_util::BodyExt;

use hikyaku_content::RequestBody;

/// Gives a request its body. Where there is none, the body is known to be at its end, so that an
/// upstream is sent no empty, chunked one.
///
/// # Errors
/// The fault that makes the request malformed, where it shows before the request is passed on (RFC 9114 §4.1.2).
pub(super) async fn with_body(
    request: Request<()>,
    mut receiving: Receiving<RequestHead>,
) -> Result<Request<RequestBody>, StreamError> {
    // The bytes of a tunnel have no length (RFC 9110 §9.3.6).
    let is_tunnel = *request.method() == Method::CONNECT;
    let length = content_length(&request).filter(|_| !is_tunnel);
    // Streams mostly end with the head of a request without content. Of methods whose requests have
    // content by rule more is not waited for, unless they say that they have none.
    let by_rule = matches!(
        *request.method(),
        Method::POST | Method::PUT | Method::PATCH | Method::CONNECT
    );
    let is_empty = length.map_or(!by_rule, |length| length == 0);
    let is_known_empty = receiving.is_known_empty();
    if is_empty
        && !is_known_empty
        && let Err(error) = receiving.has_body().await
        && error.fault().is_some()
    {
        return Err(error);
    }
    // Whatever else went wrong is found again when the body is read.
    if let Some(length) = length {
        receiving.expect(length);
    }
    Ok(request.map(|()| RequestBody::new(receiving.map_err(Into::into))))
}

fn content_length(request: &Request<()>) -> Option<u64> {
    let length = request.headers().get(header::CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}
