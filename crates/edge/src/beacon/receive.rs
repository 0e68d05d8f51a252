//! Answering requests for the beacon's own addresses.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;

use super::report::Report;
use super::sites::{Beacon, Point};
use super::{Receiver, nel, outcome};
use crate::clock;
use crate::metrics::BeaconRefusal;
use crate::pages::Seen;
use hikyaku_content::{Body, ErrorReason, RequestBody};

/// Bytes of a page's report. The script writes some 300.
const MAX_REPORT: usize = 4 << 10;
/// Bytes of a request with reports of failures, of which a browser gathers many.
const MAX_FAILURES: usize = 64 << 10;

impl Receiver {
    /// Answers a request for an address of the beacon. The response to a page's report has the
    /// page's [`Seen`] among its extensions.
    pub(crate) async fn respond(
        &self,
        point: Point,
        beacon: &Beacon,
        request: Request<RequestBody>,
        client: IpAddr,
    ) -> Response<Body> {
        match (point, request.method()) {
            (Point::Script, &Method::GET | &Method::HEAD) => script(beacon),
            (Point::Script, _) => not_allowed("GET, HEAD"),
            (Point::Page | Point::Failures, &Method::POST) => {
                let taken = match self.admits(client, clock::now()) {
                    true => self.take(point, beacon, request).await,
                    false => Err(BeaconRefusal::TooMany),
                };
                taken.unwrap_or_else(|refusal| {
                    self.counts.on_refusal(refusal);
                    refuse(refusal)
                })
            }
            (Point::Page | Point::Failures, _) => not_allowed("POST"),
        }
    }

    async fn take(
        &self,
        point: Point,
        beacon: &Beacon,
        request: Request<RequestBody>,
    ) -> Result<Response<Body>, BeaconRefusal> {
        let mut response = empty(StatusCode::NO_CONTENT);
        if point == Point::Page {
            let text = read(request, MAX_REPORT).await?;
            let seen = self.page(beacon, &text)?;
            response.extensions_mut().insert(Arc::new(seen));
            return Ok(response);
        }
        if !is_of_reports(request.headers()) {
            return Err(BeaconRefusal::Malformed);
        }
        let text = read(request, MAX_FAILURES).await?;
        match nel::count(&text, &self.counts) {
            true => Ok(response),
            false => Err(BeaconRefusal::Malformed),
        }
    }

    /// Takes a page's report.
    fn page(&self, beacon: &Beacon, text: &[u8]) -> Result<Seen, BeaconRefusal> {
        let report = Report::read(text).ok_or(BeaconRefusal::Malformed)?;
        let now = clock::now();
        let (page, handed) = self
            .ids
            .take(report.id, now)
            .ok_or(BeaconRefusal::Unknown)?;
        let seen = report.of(&page, handed, now);
        let mut seen = seen.ok_or(BeaconRefusal::Malformed)?;
        seen.counted = beacon.config.learn && outcome::page_outcome(&self.clients, &page, &seen);
        self.counts.on_page(page.arm.version, &seen);
        Ok(seen)
    }
}

/// Reads a request's content of at most `max` bytes.
async fn read(request: Request<RequestBody>, max: usize) -> Result<Bytes, BeaconRefusal> {
    let (mut body, mut content) = (request.into_body(), BytesMut::new());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| BeaconRefusal::Malformed)?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if content.len() + data.len() > max {
            return Err(BeaconRefusal::TooLarge);
        }
        content.extend_from_slice(&data);
    }
    Ok(content.freeze())
}

fn is_of_reports(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|value| value.to_str().ok()?.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/reports+json"))
}

fn script(beacon: &Beacon) -> Response<Body> {
    let mut response = Response::new(Body::from(beacon.script.code().to_owned()));
    let fields = [
        (header::CONTENT_TYPE, "text/javascript; charset=utf-8"),
        (header::CACHE_CONTROL, "public, max-age=3600"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    for (name, value) in fields {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    let no_store = HeaderValue::from_static("no-store");
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, no_store);
    response
}

fn not_allowed(methods: &'static str) -> Response<Body> {
    let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
    let methods = HeaderValue::from_static(methods);
    response.headers_mut().insert(header::ALLOW, methods);
    response
}

fn refuse(refusal: BeaconRefusal) -> Response<Body> {
    let (status, reason) = match refusal {
        BeaconRefusal::Malformed => (StatusCode::BAD_REQUEST, "this is no report"),
        BeaconRefusal::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "the report is too large"),
        BeaconRefusal::Unknown => (
            StatusCode::NOT_FOUND,
            "no page has this id, or it has reported already",
        ),
        BeaconRefusal::TooMany => (
            StatusCode::TOO_MANY_REQUESTS,
            "too many reports of this client in a second",
        ),
    };
    let mut response = empty(status);
    response.extensions_mut().insert(ErrorReason::from(reason));
    response
}
