//! Responses of the file server, by the file and the request's conditions.

use std::ops::Range;

use http::header::{self, HeaderName};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

use super::conditional::{self, Outcome};
use super::range::{self, Multipart, Ranges};
use super::representation::Representation;
use crate::{Body, ErrorReason, status_response};

/// Sends a file or a part of it, or answers that the client has it already.
pub(super) fn send(file: &Representation, request: &Parts) -> Response<Body> {
    if !conditional::is_conditional(&request.headers) {
        return whole(file);
    }
    match conditional::evaluate(&request.headers, &file.validators()) {
        Outcome::Failed => return status_response(StatusCode::PRECONDITION_FAILED),
        Outcome::NotModified => return not_modified(file),
        Outcome::Send => {}
    }
    // §14.2: ranges are defined for GET alone. Content that is coded later has no known length.
    if request.method != Method::GET
        || file.is_coded_later
        || !conditional::range_holds(&request.headers, &file.validators())
    {
        return whole(file);
    }
    match Ranges::of(&request.headers, file.len) {
        Ranges::Whole => whole(file),
        Ranges::Unsatisfiable => unsatisfiable(file.len),
        Ranges::Parts(parts) => match <[Range<u64>; 1]>::try_from(parts) {
            Ok([part]) => one_part(file, part),
            Err(parts) => several_parts(file, parts),
        },
    }
}

fn whole(file: &Representation) -> Response<Body> {
    let mut response = Response::new(file.body());
    *response.headers_mut() = file.headers.clone();
    response
}

/// Makes a 304 with the headers of the 200 that caches need (§15.4.5).
fn not_modified(file: &Representation) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    for name in [
        header::ETAG,
        header::LAST_MODIFIED,
        header::CACHE_CONTROL,
        header::VARY,
    ] {
        copy_header(&file.headers, response.headers_mut(), name);
    }
    response
}

fn one_part(file: &Representation, part: Range<u64>) -> Response<Body> {
    let mut response = whole(file);
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, (part.end - part.start).into());
    insert_text(
        headers,
        header::CONTENT_RANGE,
        range::content_range(&part, file.len),
    );
    *response.body_mut() = range::part_body(&file.source, part);
    response
}

fn several_parts(file: &Representation, parts: Vec<Range<u64>>) -> Response<Body> {
    let mut response = whole(file);
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    let content_type = file.headers.get(header::CONTENT_TYPE);
    let (body, content_type) = Multipart::new(
        file.source.clone(),
        file.len,
        Some(&file.etag),
        content_type,
        parts,
    );
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, body.remaining().into());
    headers.insert(header::CONTENT_TYPE, content_type);
    *response.body_mut() = Body::boxed(body);
    response
}

pub(crate) fn unsatisfiable(len: u64) -> Response<Body> {
    let mut response = status_response(StatusCode::RANGE_NOT_SATISFIABLE);
    insert_text(
        response.headers_mut(),
        header::CONTENT_RANGE,
        format!("bytes */{len}"),
    );
    response
}

pub(super) fn error_page(status: StatusCode, page: &Representation) -> Response<Body> {
    let mut response = Response::new(page.body());
    *response.status_mut() = status;
    for name in [header::CONTENT_TYPE, header::CONTENT_LENGTH] {
        copy_header(&page.headers, response.headers_mut(), name);
    }
    response
}

/// Redirects to the directory's path with its slash, so that relative links in it work. The address is
/// relative: it is right also where the client's path is another, and names no other host.
pub(crate) fn add_slash(path: &str, query: Option<&str>) -> Response<Body> {
    let mut response = status_response(StatusCode::MOVED_PERMANENTLY);
    let name = path.rsplit('/').next().unwrap_or_default();
    let name = crate::routes::normal(name).unwrap_or_default();
    let location = match query {
        Some(query) => format!("./{name}/?{query}"),
        None => format!("./{name}/"),
    };
    insert_text(response.headers_mut(), header::LOCATION, location);
    response
}

pub(super) fn allow(status: StatusCode) -> Response<Body> {
    let mut response = if status == StatusCode::NO_CONTENT {
        Response::new(Body::empty())
    } else {
        status_response(status)
    };
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::ALLOW,
        HeaderValue::from_static("GET, HEAD, OPTIONS"),
    );
    response
}

pub(super) fn failed(status: StatusCode, error: &dyn std::error::Error) -> Response<Body> {
    let mut response = status_response(status);
    response
        .extensions_mut()
        .insert(ErrorReason::from_error(error));
    response
}

pub(crate) fn copy_header(from: &HeaderMap, to: &mut HeaderMap, name: HeaderName) {
    if let Some(value) = from.get(&name) {
        to.insert(name, value.clone());
    }
}

/// Inserts a value of digits and ASCII words, which is always a valid one.
pub(crate) fn insert_text(headers: &mut HeaderMap, name: HeaderName, text: String) {
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.insert(name, value);
    }
}
