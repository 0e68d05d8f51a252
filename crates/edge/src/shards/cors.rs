//! Requests for resources that a page has spread: the page's origin is another then.

use http::header::{self, HeaderMap, HeaderValue};
use url::Url;

use crate::tls::Certificate;

/// The origin of a request that is made with CORS, if it is one of this server's own names.
pub(super) fn own_origin(request: &HeaderMap, certificate: &Certificate) -> Option<HeaderValue> {
    let origin = request.get(header::ORIGIN)?;
    let url = Url::parse(origin.to_str().ok()?).ok()?;
    let host = url.host_str()?.trim_matches(['[', ']']);
    (url.scheme() == "https" && certificate.covers(host)).then(|| origin.clone())
}

/// Lets the page read what its style sheets load with CORS from where they are now: fonts,
/// masks. Never with credentials, and never against what the content says itself.
pub(super) fn allow(response: &mut HeaderMap, origin: Option<HeaderValue>) {
    if response.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN)
        || response.contains_key(header::SET_COOKIE)
    {
        return;
    }
    // Also where there was none: a cache must not give that answer to those who send one.
    response.append(header::VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = origin {
        response.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    }
}
