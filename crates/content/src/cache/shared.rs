//! Requests that wait for an answer of the upstream, together with others where they can.

use std::sync::Arc;

use http::{HeaderMap, Method, Request, Response, request};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Empty};

use super::answer::{Content, answer};
use super::directives::Directives;
use super::fetch::{Fetch, now};
use super::flight::{Flight, Joined, Pilot, Progress};
use super::key::Key;
use super::policy::{Received, Reuse};
use super::status::{Forwarded, Status};
use super::stored::{Head, Stored, set_conditions, take_tags};
use super::vary::Selector;
use super::{Cache, CacheOutcome, requests};
use crate::{Body, Interim, Peer, Proxy, status_response};

/// A request, and who answers it.
pub(super) struct Asked {
    pub(super) cache: Arc<Cache>,
    pub(super) proxy: Arc<Proxy>,
    pub(super) peer: Peer,
    pub(super) parts: request::Parts,
    pub(super) key: Key,
    pub(super) directives: Directives,
}

/// The response for which the upstream is asked.
pub(super) struct Wanted {
    pub(super) why: Forwarded,
    /// The stored response that is to be validated.
    pub(super) known: Option<Arc<Stored>>,
    /// A response of the resource that other requests get: its `Vary` says which.
    pub(super) other: Option<Arc<Head>>,
}

/// How often a request looks for others to share a response with.
const ATTEMPTS: usize = 3;

impl Asked {
    /// Lets the upstream answer the request alone. If the response might have been stored, the next one is.
    pub(super) async fn pass(self, why: Forwarded) -> Response<Body> {
        let cache = &self.cache;
        let is_personal = cache.is_personal(&self.parts.headers);
        let is_get = self.parts.method == Method::GET;
        let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        let request = Request::from_parts(self.parts, body);
        let asked = now();
        let mut response = Box::pin(self.proxy.respond(request, &self.peer)).await;
        let length = response.body().size_hint().exact();
        let received = Received {
            status: response.status(),
            headers: response.headers(),
            asked,
            received: now(),
            is_personal,
        };
        let fits = is_get && length.is_none_or(|length| length <= cache.object_size);
        let is_for_all = Selector::of(response.headers(), &HeaderMap::new()).is_some();
        if fits && is_for_all && received.judge(&cache.rules).is_some() {
            cache.store.stop_passing(&self.key);
        }
        take_tags(response.headers_mut());
        let status = Status::forwarded(why);
        self.cache.mark(&mut response, status, CacheOutcome::Miss);
        response
    }

    /// Answers by a stale response, and has it validated in the background.
    pub(super) fn answer_meanwhile(self, stored: &Arc<Stored>, now: u64) -> Response<Body> {
        let wanted = Wanted {
            why: Forwarded::Stale,
            known: Some(Arc::clone(stored)),
            other: None,
        };
        if let Joined::Leads(seat) = self.join(&wanted) {
            self.begin(&seat.flight, &wanted);
        }
        self.cache
            .hit(stored, &self.parts, now, CacheOutcome::Stale)
    }

    /// Asks the upstream, or waits for the answer to another request.
    pub(super) async fn fetch(self, mut wanted: Wanted) -> Response<Body> {
        for _ in 0..ATTEMPTS {
            let (mut seat, leads) = match self.join(&wanted) {
                Joined::Known(stored) => {
                    return self
                        .cache
                        .hit(&stored, &self.parts, now(), CacheOutcome::Hit);
                }
                Joined::Follows(seat) => (seat, false),
                Joined::Leads(seat) => {
                    self.begin(&seat.flight, &wanted);
                    (seat, true)
                }
            };
            let interim = self.parts.extensions.get::<Interim>();
            match (seat.arrival(interim, leads).await, leads) {
                (Progress::Alone, true) => match seat.flight.take_own().response {
                    Some(mut response) => {
                        let status = Status::forwarded(wanted.why);
                        self.cache.mark(&mut response, status, CacheOutcome::Miss);
                        return response;
                    }
                    None => break,
                },
                (Progress::Alone, false) => break,
                (progress, leads) => {
                    if let Some(response) = self.answer(&progress, &wanted, leads) {
                        return match leads {
                            true => with_own(response, &seat.flight.take_own().fields),
                            false => response,
                        };
                    }
                    // The response is for others. Its `Vary` says with whom to share one.
                    if let Progress::Arriving(head, _) = progress
                        && !head.selector.matches(&self.parts.headers)
                    {
                        (wanted.why, wanted.other) = (Forwarded::VaryMiss, Some(head));
                    }
                }
            }
        }
        self.pass(wanted.why).await
    }

    /// Joins others who wait for the response, or begins to ask for it.
    fn join(&self, wanted: &Wanted) -> Joined<Arc<Stored>> {
        let fields = &self.parts.headers;
        let store = &self.cache.store;
        let key = self.key.asked();
        let fits = |flight: &Flight| match flight.progress() {
            Progress::Waiting => {
                let known = wanted.known.as_ref().map(|known| &known.head);
                known
                    .or(wanted.other.as_ref())
                    .is_none_or(|head| head.selector.unites(&flight.fields, fields))
            }
            Progress::Arriving(head, flow) => {
                flow.is_open()
                    && head.selector.matches(fields)
                    && head.terms.reuse(&self.directives, now()) == Reuse::Serve
            }
            _ => false,
        };
        let landed = || {
            let now = now();
            let stored = store.find(&key, fields, now).stored?;
            let is_fit = stored.head.terms.reuse(&self.directives, now) == Reuse::Serve;
            is_fit.then_some(stored)
        };
        store.flights.join(&key, fields, fits, landed)
    }

    /// Has a task ask the upstream.
    fn begin(&self, flight: &Arc<Flight>, wanted: &Wanted) {
        let mut request = requests::to_upstream(&self.parts.uri, &self.parts.headers);
        if let Some(known) = &wanted.known {
            set_conditions(request.headers_mut(), &known.head.headers);
        }
        let flights = Arc::clone(&self.cache.store.flights);
        let fetch = Fetch {
            cache: Arc::clone(&self.cache),
            proxy: Arc::clone(&self.proxy),
            pilot: Pilot::new(Arc::clone(flight), self.key.clone(), flights),
            known: wanted.known.clone(),
            directives: self.directives.clone(),
            peer: self.peer.clone(),
            is_altered: requests::is_altered(&self.parts),
        };
        tokio::spawn(fetch.fly(request));
    }

    /// The answer to this request from what the upstream has sent. `None` if that is for others.
    fn answer(&self, progress: &Progress, wanted: &Wanted, leads: bool) -> Option<Response<Body>> {
        let now = now();
        let forwarded = Status::forwarded(wanted.why).collapsed(!leads);
        let (head, content, status, outcome) = match progress {
            Progress::Arriving(head, flow) => {
                let status = forwarded.stored(head.terms.ttl(now));
                let content = Content::Arriving(flow);
                (head, content, status, CacheOutcome::Miss)
            }
            Progress::Landed(stored) => {
                let status = Status::hit(stored.head.terms.ttl(now));
                let content = Content::Whole(&stored.body);
                (&stored.head, content, status, CacheOutcome::Hit)
            }
            Progress::Current(stored, upstream) => {
                let status = forwarded.answered(*upstream);
                let status = status.stored(stored.head.terms.ttl(now));
                let content = Content::Whole(&stored.body);
                (&stored.head, content, status, CacheOutcome::Revalidated)
            }
            Progress::InPlaceOf(stored, upstream) => {
                let status = forwarded.answered(*upstream);
                let status = status.with_ttl(stored.head.terms.ttl(now));
                let content = Content::Whole(&stored.body);
                (&stored.head, content, status, CacheOutcome::Stale)
            }
            Progress::Failed(status, reason) => {
                let mut response = status_response(*status);
                if let Some(reason) = reason {
                    response.extensions_mut().insert(reason.clone());
                }
                self.cache
                    .mark(&mut response, forwarded, CacheOutcome::Miss);
                return Some(response);
            }
            Progress::Waiting | Progress::Alone => return None,
        };
        let parts = &self.parts;
        if !leads && !head.selector.matches(&parts.headers) {
            return None;
        }
        let outcome = match (leads, outcome) {
            (false, CacheOutcome::Miss | CacheOutcome::Revalidated) => CacheOutcome::Collapsed,
            (_, outcome) => outcome,
        };
        let age = head.terms.age_seconds(now);
        let age = (age > 0 || outcome != CacheOutcome::Miss).then_some(age);
        let mut response = answer(head, content, age, &parts.method, &parts.headers)?;
        self.cache.mark(&mut response, status, outcome);
        Some(response)
    }
}

/// Adds the fields that are for one client alone.
fn with_own(mut response: Response<Body>, own: &HeaderMap) -> Response<Body> {
    for name in own.keys() {
        for value in own.get_all(name) {
            response.headers_mut().append(name, value.clone());
        }
    }
    response
}
