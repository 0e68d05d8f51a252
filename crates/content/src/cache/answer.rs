//! Answers from responses that are stored, or that are about to be: conditions and ranges (RFC 9110 §13, §14).

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode};

use super::flow::Flow;
use super::stored::Head;
use crate::files::{
    Multipart, Outcome, Ranges, content_range, copy_header, evaluate, insert_text, is_conditional,
    range_holds, unsatisfiable,
};
use crate::{Body, status_response};

/// The content of a response.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content<'a> {
    Whole(&'a Bytes),
    Arriving(&'a Arc<Flow>),
}

impl Content<'_> {
    fn length(self) -> Option<u64> {
        match self {
            Self::Whole(bytes) => Some(bytes.len() as u64),
            Self::Arriving(flow) => flow.length(),
        }
    }

    /// A body of all or of a part. `None` if the content can't be read from its beginning any more.
    fn body(self, part: Option<Range<u64>>) -> Option<Body> {
        Some(match (self, part) {
            (Self::Whole(bytes), None) => bytes.clone().into(),
            // A part is within the content, so that it fits into memory.
            (Self::Whole(bytes), Some(part)) => {
                bytes.slice(part.start as usize..part.end as usize).into()
            }
            (Self::Arriving(flow), part) => Body::boxed(flow.reader(part)?),
        })
    }
}

/// Answers a GET or HEAD with these fields. The fields of the response have `Age` in seconds, unless it is
/// `None`. Returns `None` if the content can't be read from its beginning any more.
pub(super) fn answer(
    head: &Head,
    content: Content<'_>,
    age: Option<u64>,
    method: &Method,
    request: &HeaderMap,
) -> Option<Response<Body>> {
    let mut response = match head.status {
        StatusCode::OK if is_conditional(request) => conditional(head, content, method, request)?,
        _ => whole(head, content, method)?,
    };
    if let Some(age) = age {
        response.headers_mut().insert(header::AGE, age.into());
    }
    Some(response)
}

fn conditional(
    head: &Head,
    content: Content<'_>,
    method: &Method,
    request: &HeaderMap,
) -> Option<Response<Body>> {
    let validators = head.validators();
    match evaluate(request, &validators) {
        Outcome::Failed => return Some(status_response(StatusCode::PRECONDITION_FAILED)),
        Outcome::NotModified => return Some(not_modified(head)),
        Outcome::Send => {}
    }
    let length = content
        .length()
        .filter(|_| *method == Method::GET && range_holds(request, &validators));
    let Some(length) = length else {
        return whole(head, content, method);
    };
    match (Ranges::of(request, length), content) {
        (Ranges::Unsatisfiable, _) => Some(unsatisfiable(length)),
        (Ranges::Parts(parts), content) => match (<[Range<u64>; 1]>::try_from(parts), content) {
            (Ok([part]), content) => one_part(head, content, part, length),
            (Err(parts), Content::Whole(bytes)) => Some(several_parts(head, bytes, parts)),
            (Err(_), Content::Arriving(_)) => whole(head, content, method),
        },
        (Ranges::Whole, content) => whole(head, content, method),
    }
}

fn whole(head: &Head, content: Content<'_>, method: &Method) -> Option<Response<Body>> {
    let body = match (method, content) {
        (&Method::HEAD, Content::Arriving(_)) => Body::empty(),
        (_, content) => content.body(None)?,
    };
    Some(with_head(head, body))
}

fn with_head(head: &Head, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers.clone();
    response
}

/// A 304 with the fields of the 200 that caches need (RFC 9110 §15.4.5).
fn not_modified(head: &Head) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    for name in OF_NOT_MODIFIED {
        copy_header(&head.headers, response.headers_mut(), name);
    }
    response
}

fn one_part(
    head: &Head,
    content: Content<'_>,
    part: Range<u64>,
    length: u64,
) -> Option<Response<Body>> {
    let mut response = with_head(head, content.body(Some(part.clone()))?);
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, (part.end - part.start).into());
    insert_text(headers, header::CONTENT_RANGE, content_range(&part, length));
    Some(response)
}

fn several_parts(head: &Head, content: &Bytes, parts: Vec<Range<u64>>) -> Response<Body> {
    let etag = head.headers.get(header::ETAG);
    let content_type = head.headers.get(header::CONTENT_TYPE);
    let (body, content_type) = Multipart::of_memory(content, etag, content_type, parts);
    let length = HeaderValue::from(body.remaining());
    let mut response = with_head(head, Body::boxed(body));
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, length);
    headers.insert(header::CONTENT_TYPE, content_type);
    response
}

const OF_NOT_MODIFIED: [HeaderName; 8] = [
    header::DATE,
    header::ETAG,
    header::LAST_MODIFIED,
    header::CACHE_CONTROL,
    super::directives::CDN_CACHE_CONTROL,
    header::EXPIRES,
    header::CONTENT_LOCATION,
    header::VARY,
];
