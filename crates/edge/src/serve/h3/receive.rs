//! Request bodies.

use hikyaku_h3_quinn::{Receiving, RequestHead};
use http::{Method, Request, header};
use http_body_util::{BodyExt, Empty};

use crate::content::RequestBody;

/// Gives a request its body. Where there is none, what is left of its stream comes beside it, to be
/// kept until the response is made: dropped, it would ask the client to stop what it has sent.
pub(super) async fn with_body(
    request: Request<()>,
    mut receiving: Receiving<RequestHead>,
) -> (Request<RequestBody>, Option<Receiving<RequestHead>>) {
    let length = content_length(&request);
    if has_body(&request, length, &mut receiving).await {
        if let Some(length) = length {
            receiving.expect(length);
        }
        let body = RequestBody::new(receiving.map_err(Into::into));
        return (request.map(|()| body), None);
    }
    let body = RequestBody::new(Empty::new().map_err(Into::into));
    (request.map(|()| body), Some(receiving))
}

/// Whether a request has content, so that an upstream is sent no empty, chunked body.
///
/// Streams that end with their header section have none. A method whose requests have a body by rule
/// is not waited for; of any other without a length the stream's end mostly arrives with its head.
async fn has_body(
    request: &Request<()>,
    length: Option<u64>,
    receiving: &mut Receiving<RequestHead>,
) -> bool {
    if receiving.is_known_empty() || length == Some(0) {
        return false;
    }
    let by_rule = matches!(
        *request.method(),
        Method::POST | Method::PUT | Method::PATCH
    );
    if by_rule || length.is_some() {
        return true;
    }
    // What went wrong is found again when the body is read.
    receiving.has_body().await.unwrap_or(true)
}

fn content_length(request: &Request<()>) -> Option<u64> {
    let length = request.headers().get(header::CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}
