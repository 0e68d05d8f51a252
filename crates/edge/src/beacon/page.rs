//! Which responses get the script.

use std::sync::Arc;

use http::header::{self, HeaderMap, HeaderName};
use http::{Response, StatusCode};
use http_body::Body as _;

use super::insert::Inserter;
use super::sites::Beacon;
use super::{Page, Receiver};
use crate::metrics::ScriptKind;
use crate::pages::{
    self, Asked, Policies, Rewritten, Target, Way, forbids_transformation, is_plain_page,
    remove_originals,
};
use hikyaku_content::Body;

/// A request whose response gets the script, if it is a page.
#[derive(Debug)]
pub(crate) struct Visit {
    beacon: Arc<Beacon>,
    asked: Asked,
}

impl Visit {
    /// Prepares a request that the beacon [takes](Beacon::takes) for the content.
    pub(crate) fn of(beacon: &Arc<Beacon>, request: &mut HeaderMap) -> Self {
        let asked = beacon.tags.unmark(request);
        let condition = request.get(header::IF_RANGE);
        if condition.is_some_and(|value| !value.as_bytes().ends_with(b"\"")) {
            // The date is that of the page as it was, too. Parts of the two must not be put together.
            request.remove(header::IF_RANGE);
            request.remove(header::RANGE);
        }
        Self {
            beacon: Arc::clone(beacon),
            asked,
        }
    }

    /// Finishes the content's response to a request for a host. `page` describes the page for the time when
    /// its report arrives.
    pub(crate) fn finish(
        self,
        mut response: Response<Body>,
        host: &str,
        receiver: &Arc<Receiver>,
        page: impl FnOnce() -> Page,
    ) -> Response<Body> {
        if response.status() == StatusCode::NOT_MODIFIED {
            self.asked.restore(response.headers_mut());
            return response;
        }
        let headers = response.headers();
        if response.status() != StatusCode::OK || !is_plain_page(headers) || forbids(headers) {
            return response;
        }
        let Some(own) = Own::of(host) else {
            return response;
        };
        let policies = pages::policies(headers);
        if own.way(&policies, &self.beacon).is_none() {
            receiver.metrics().on_script(ScriptKind::None);
            return response;
        }
        let (mut parts, body) = response.into_parts();
        self.beacon.tags.mark(&mut parts.headers);
        remove_originals(&mut parts.headers);
        if body.is_end_stream() {
            return Response::from_parts(parts, body);
        }
        let (beacon, receiver, page) = (self.beacon, Arc::clone(receiver), page());
        let element = move |policies: &Policies| {
            let Some(way) = own.way(policies, &beacon) else {
                receiver.metrics().on_script(ScriptKind::None);
                return None;
            };
            receiver.metrics().on_script(match way {
                Way::Inline(_) => ScriptKind::Inline,
                Way::File(_) => ScriptKind::File,
            });
            Some(beacon.script.element(&way, receiver.hand_out(page)))
        };
        let inserter = Inserter::new(policies, Box::new(element));
        Response::from_parts(parts, Body::boxed(Rewritten::new(body, inserter)))
    }
}

/// Whether a response is no page to show, or may not be changed. A signature (RFC 9421) may cover the
/// content by its digest.
fn forbids(headers: &HeaderMap) -> bool {
    let is_download = headers
        .get(header::CONTENT_DISPOSITION)
        .is_some_and(|value| {
            let kind = value.as_bytes().get(..10).unwrap_or_default();
            kind.eq_ignore_ascii_case(b"attachment")
        });
    is_download
        || forbids_transformation(headers)
        || headers.contains_key(HeaderName::from_static("signature-input"))
}

/// The origin of a page, which is `https`.
struct Own {
    host: String,
    is_address: bool,
    port: u16,
}

impl Own {
    /// `None` where the request names none.
    fn of(authority: &str) -> Option<Self> {
        let authority: http::uri::Authority = authority.parse().ok()?;
        let host = authority.host().to_ascii_lowercase();
        let bare = host.trim_matches(['[', ']']);
        Some(Self {
            is_address: bare.parse::<std::net::IpAddr>().is_ok(),
            port: authority.port_u16().unwrap_or(443),
            host,
        })
    }

    fn way(&self, policies: &Policies, beacon: &Beacon) -> Option<Way> {
        let target = |path| Target {
            host: &self.host,
            is_address: self.is_address,
            port: self.port,
            path,
        };
        policies.way(
            &target(&beacon.script_path),
            &target(beacon.config.path.as_str()),
        )
    }
}
