//! The changes of fields on a route, of requests and of responses.

use std::sync::Arc;

use http::{HeaderMap, Request, Response};

use super::fields::{HeaderRules, HeadersConfig, Messages, NoServer};
use super::variables::{Facts, Needs};
use crate::proxy::settle_connection;
use crate::{Body, Peer};

/// The changes of fields on a route.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    request: HeaderRules,
    response: Option<Arc<HeaderRules>>,
    /// The parts of requests that the variables of both need.
    needs: Needs,
}

impl Changes {
    /// Reads the changes of what an upstream gets, and of what clients get.
    ///
    /// # Errors
    /// If one of them can't be had. The error is a sentence.
    pub(super) fn new(request: &HeadersConfig, response: &HeadersConfig) -> Result<Self, String> {
        let request = HeaderRules::new(Messages::Requests, request)?;
        let response = HeaderRules::new(Messages::Responses, response)?;
        Ok(Self {
            needs: request.needs().or(response.needs()),
            request,
            response: (!response.is_empty()).then(|| Arc::new(response)),
        })
    }

    /// Whether an upstream gets the fields that the client has sent.
    pub(super) fn leave_requests(&self) -> bool {
        self.request.is_empty()
    }

    /// Whether values of fields have variables.
    pub(super) const fn have_variables(&self) -> bool {
        self.needs.facts
    }

    /// Whether two requests may have other changes of their responses.
    pub(super) fn vary(&self) -> bool {
        self.response().is_some_and(|rules| rules.needs().facts)
    }

    /// The changes of responses; `None` if they stay as they are.
    pub(super) const fn response(&self) -> Option<&Arc<HeaderRules>> {
        self.response.as_ref()
    }

    /// The parts of a request that the variables stand for; `None` without variables.
    pub(super) fn facts<B>(&self, request: &Request<B>, peer: &Peer) -> Option<Box<Facts>> {
        self.have_variables()
            .then(|| Box::new(Facts::of(request, peer, self.needs)))
    }

    /// Changes the fields that an upstream gets.
    pub(super) fn change_request(&self, headers: &mut HeaderMap, facts: Option<&Facts>) {
        if !self.request.is_empty() {
            settle_connection(headers);
            self.request.apply(headers, facts);
        }
    }

    /// Changes the fields that a client gets.
    pub(super) fn change_response(&self, response: &mut Response<Body>, facts: Option<&Facts>) {
        if let Some(rules) = &self.response {
            rules.apply(response.headers_mut(), facts);
            if rules.removes_server() {
                response.extensions_mut().insert(NoServer);
            }
        }
        if let Some(id) = facts.and_then(Facts::id) {
            response.extensions_mut().insert(id);
        }
    }
}
