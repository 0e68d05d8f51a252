//! A request to the upstream on behalf of all who wait for its response.
//!
//! It has a task of its own. So a client that goes away takes the response from nobody.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, response};
use http_body::Body as _;
use http_body_util::BodyExt as _;

use super::Cache;
use super::directives::Directives;
use super::flight::{Own, Pilot, Progress};
use super::flow::Flow;
use super::policy::{Reuse, is_error, millis_of};
use super::stored::{Head, Stored, set_conditions};
use crate::{Body, ErrorReason, InWords, Interim, Peer, Proxy, RequestBody};

/// A request to the upstream.
pub(super) struct Fetch {
    pub(super) cache: Arc<Cache>,
    pub(super) proxy: Arc<Proxy>,
    pub(super) pilot: Pilot,
    /// The stored response that the request is to validate.
    pub(super) known: Option<Arc<Stored>>,
    /// Those of the client's request.
    pub(super) directives: Directives,
    /// The client whose request it is.
    pub(super) peer: Peer,
    /// The client asked for something else, such as a part. A response that is not stored is not for it.
    pub(super) is_altered: bool,
}

/// Milliseconds since 1970.
pub(super) fn now() -> u64 {
    millis_of(SystemTime::now())
}

impl Fetch {
    /// Makes the request, and stores the response if it may be.
    pub(super) async fn fly(mut self, mut request: Request<RequestBody>) {
        if self.known.is_none()
            && let Some(stored) = self.read().await
        {
            if stored.head.terms.reuse(&self.directives, now()) == Reuse::Serve {
                return self.pilot.has(Progress::Landed(stored));
            }
            set_conditions(request.headers_mut(), &stored.head.headers);
            self.known = Some(stored);
        }
        let asked = now();
        let response = self.ask(request).await;
        let times = (asked, now());
        let status = response.status();
        let is_refusal = response.extensions().get::<InWords>().is_some();
        match self.known.clone() {
            Some(known) if status == StatusCode::NOT_MODIFIED && !is_refusal => {
                let fields = response.into_parts().0.headers;
                self.freshen(&known, &fields, times).await;
            }
            Some(known) if is_error(status) && known.head.terms.replaces_errors(times.1) => {
                known.note_failure(times.1);
                self.pilot.has(Progress::InPlaceOf(known, status));
            }
            _ if is_refusal => {
                let reason = response.extensions().get::<ErrorReason>().cloned();
                self.pilot.has(Progress::Failed(status, reason));
            }
            _ => self.take(response, times).await,
        }
    }

    /// Asks the upstream, and passes its interim responses on.
    async fn ask(&self, mut request: Request<RequestBody>) -> Response<Body> {
        let (interim, heads) = Interim::channel();
        request.extensions_mut().insert(interim);
        let is_personal = self.cache.is_personal(&self.pilot.flight.fields);
        let mut responding = pin!(self.proxy.respond(request, &self.peer));
        poll_fn(|cx| {
            let polled = responding.as_mut().poll(cx);
            while let Some(head) = heads.pop() {
                self.pilot.hint(head, is_personal);
            }
            polled
        })
        .await
    }

    /// Gives the stored response the fields of a 304.
    async fn freshen(self, known: &Arc<Stored>, fields: &HeaderMap, times: (u64, u64)) {
        let (cache, flight) = (&self.cache, &self.pilot.flight);
        let freshened = known
            .head
            .freshened(fields, &flight.fields, times, &cache.rules);
        match freshened {
            Ok((head, own)) => {
                let fresh = Arc::new(known.with_head(&head));
                cache
                    .store
                    .put(self.pilot.key(), Arc::clone(&fresh), flight);
                self.pilot.leave(Own {
                    response: None,
                    fields: own,
                });
                let current = Progress::Current(Arc::clone(&fresh), StatusCode::NOT_MODIFIED);
                self.pilot.has(current);
                self.write(fresh).await;
            }
            Err(headers) => {
                let mut parts = Response::new(()).into_parts().0;
                (parts.status, parts.headers) = (known.head.status, headers);
                self.hand_over(parts, known.body.clone().into()).await;
            }
        }
    }

    async fn take(self, response: Response<Body>, times: (u64, u64)) {
        let (mut parts, body) = response.into_parts();
        let cache = &self.cache;
        let fields = &self.pilot.flight.fields;
        let is_personal = cache.is_personal(fields);
        let made = Head::new(&mut parts, fields, times, is_personal, &cache.rules);
        let length = body.size_hint().exact();
        let fits = length.is_none_or(|length| length <= cache.object_size);
        match made.filter(|_| fits) {
            Some((head, own)) => self.receive(Arc::new(head), own, body).await,
            None => self.hand_over(parts, body).await,
        }
    }

    /// Leaves a response that is not stored to the client whose request it answers.
    async fn hand_over(self, parts: response::Parts, body: Body) {
        let (store, key) = (&self.cache.store, self.pilot.key());
        if !parts.status.is_server_error() {
            store.let_pass(key, now());
            if let Some(known) = &self.known {
                store.drop_stored(key, known);
                store.forget_on_disk(vec![key.clone()]).await;
            }
        }
        let response = Response::from_parts(parts, body);
        self.pilot.leave(Own {
            response: Some(response).filter(|_| !self.is_altered),
            fields: HeaderMap::new(),
        });
        self.pilot.has(Progress::Alone);
    }

    /// Receives the content of a response for all who read it meanwhile, and stores it when it is complete.
    async fn receive(self, head: Arc<Head>, own: HeaderMap, body: Body) {
        let filling = Filling(Flow::new(body.size_hint().exact()));
        self.pilot.leave(Own {
            response: None,
            fields: own,
        });
        let arriving = Progress::Arriving(Arc::clone(&head), Arc::clone(&filling.0));
        self.pilot.has(arriving);
        let flow = &filling.0;
        let Some((last, trailers)) = self.fill(flow, body).await else {
            return;
        };
        // Before the end is seen: the next request of a client finds it stored.
        let stored = flow.whole(&last);
        let stored = stored.map(|content| Arc::new(Stored::new(&head, content)));
        if let Some(stored) = &stored {
            let (key, flight) = (self.pilot.key(), &self.pilot.flight);
            self.cache.store.put(key, Arc::clone(stored), flight);
        }
        flow.push(last);
        flow.finish(trailers);
        if let Some(stored) = stored {
            self.write(stored).await;
        }
    }

    /// Reads the response from the disk into memory.
    async fn read(&self) -> Option<Arc<Stored>> {
        let disk = self.cache.store.disk()?;
        let key = self.pilot.key().clone();
        if !disk.holds(&key) {
            return None;
        }
        let flight = Arc::clone(&self.pilot.flight);
        let reading = move || disk.get(&key, &flight.fields);
        let read = tokio::task::spawn_blocking(reading).await;
        let stored = Arc::new(read.ok().flatten()?);
        let (key, flight) = (self.pilot.key(), &self.pilot.flight);
        self.cache.store.put(key, Arc::clone(&stored), flight);
        Some(stored)
    }

    /// Writes a response to the disk. Until then a purge is for this flight, too.
    async fn write(&self, stored: Arc<Stored>) {
        let Some(disk) = self.cache.store.disk() else {
            return;
        };
        let (key, flight) = (self.pilot.key().clone(), Arc::clone(&self.pilot.flight));
        let writing = move || disk.put(&key, &stored, &flight);
        // Failures are counted, and the memory has the response.
        let _ = tokio::task::spawn_blocking(writing).await;
    }

    /// Passes content on as it arrives. Returns the last of it, and the trailers. `None` if it breaks off, or
    /// nobody wants it.
    async fn fill(&self, flow: &Flow, mut body: Body) -> Option<(Bytes, Option<HeaderMap>)> {
        let mut lease = self.cache.store.lease();
        let (mut size, mut is_kept) = (0, true);
        let mut last = Bytes::new();
        while poll_fn(|cx| flow.poll_wanted(cx)).await {
            let Some(frame) = body.frame().await else {
                return Some((last, None));
            };
            match frame.map(http_body::Frame::into_data) {
                Ok(Ok(data)) => {
                    size += data.len() as u64;
                    let fits = lease.grow(data.len()) && size <= self.cache.object_size;
                    if flow.length() == Some(size) {
                        last = data;
                        continue;
                    }
                    flow.push(data);
                    if !fits && is_kept {
                        is_kept = false;
                        self.give_up_keeping(flow).await;
                    }
                }
                Ok(Err(frame)) => return Some((last, frame.into_trailers().ok())),
                Err(error) => {
                    flow.break_off(&ErrorReason::from_error(&*error).to_string());
                    return None;
                }
            }
        }
        None
    }

    /// Keeps no more of a response than its readers need.
    async fn give_up_keeping(&self, flow: &Flow) {
        self.cache.store.let_pass(self.pilot.key(), now());
        flow.close();
        self.pilot.all_read().await;
        flow.stop_keeping();
    }
}

/// Content that a task fills in. Dropped, the content is over.
struct Filling(Arc<Flow>);

impl Drop for Filling {
    fn drop(&mut self) {
        self.0.break_off("nobody reads it any more");
    }
}
