//! Fields in every final response's head.

use std::cell::RefCell;
use std::time::SystemTime;

use http::{HeaderValue, Response, StatusCode, header};
use http_body::Body as _;

use hikyaku_content::Body;

/// The length of a response's content, where it is known and does not stand there already.
pub(super) fn length_to_announce(response: &Response<Body>) -> Option<u64> {
    let status = response.status();
    let has_content = !status.is_informational()
        && !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let is_new = !response.headers().contains_key(header::CONTENT_LENGTH);
    let length = response.body().size_hint().exact();
    length.filter(|_| has_content && is_new)
}

/// The time as `Date` has it, made once a second by each thread.
pub(super) fn date() -> HeaderValue {
    thread_local! {
        static DATE: RefCell<(u64, HeaderValue)> =
            const { RefCell::new((0, HeaderValue::from_static(""))) };
    }
    let now = SystemTime::now();
    let secs = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |now| now.as_secs());
    DATE.with_borrow_mut(|(made, value)| {
        if *made != secs
            && let Ok(text) = HeaderValue::try_from(httpdate::fmt_http_date(now))
        {
            (*made, *value) = (secs, text);
        }
        value.clone()
    })
}
