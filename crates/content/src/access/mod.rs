//! Who may use a site or a route: by address, by name and password, by the answer of another server, and
//! so many times.

mod addresses;
mod ask;
mod basic;
mod config;
mod rate;
mod users;

use std::time::Duration;

use http::{HeaderValue, Request, Response, StatusCode, header};

use crate::{Body, BoxError, ErrorReason, Peer, Refused, RequestBody, SiteConfig, status_response};
use addresses::Addresses;
use ask::ForwardAuth;
use basic::BasicAuth;
use rate::RateLimit;

pub use basic::User;
pub use config::{
    AccessConfig, BasicAuthConfig, ForwardAuthConfig, ParseRateKeyError, RateKey, RateLimitConfig,
    Satisfy,
};

/// Conditions of a site or a route.
#[derive(Debug)]
pub(crate) struct Access {
    addresses: Option<Addresses>,
    rate: Option<RateLimit>,
    basic: Option<BasicAuth>,
    forward: Option<ForwardAuth>,
    satisfy: Satisfy,
}

impl Access {
    /// Prepares the conditions of a site or one of its routes; `None` if everybody may.
    ///
    /// # Errors
    /// If a file of users can't be read, a URL can't be used, or settings do not fit together.
    pub(crate) fn new(config: &AccessConfig, site: &SiteConfig) -> Result<Option<Self>, BoxError> {
        if *config == AccessConfig::default() {
            return Ok(None);
        }
        let addresses = Addresses::new(&config.allow, &config.deny);
        let has_auth = config.basic_auth.is_some() || config.forward_auth.is_some();
        if config.satisfy == Satisfy::Any && !(addresses.is_some() && has_auth) {
            return Err(
                "`satisfy = \"any\"` needs `allow` or `deny`, and `basic_auth` or `forward_auth`: \
                 one of them is enough then"
                    .into(),
            );
        }
        let basic = config.basic_auth.as_ref().map(BasicAuth::new).transpose()?;
        let forward = config.forward_auth.as_ref();
        let forward = forward.map(|config| ForwardAuth::new(config, site));
        let rate = config.rate_limit.as_ref().map(RateLimit::new).transpose()?;
        Ok(Some(Self {
            addresses,
            rate,
            basic,
            forward: forward.transpose()?,
            satisfy: config.satisfy,
        }))
    }

    /// Whether it asks who the users are, so that responses may be for one of them.
    pub(crate) const fn knows_users(&self) -> bool {
        self.basic.is_some() || self.forward.is_some()
    }

    /// Lets a request pass, with the user if it has one, or returns the response that refuses it.
    ///
    /// The rate counts before authentication, so that it bounds the guessing of passwords.
    pub(crate) async fn check(
        &self,
        request: &mut Request<RequestBody>,
        peer: &Peer,
    ) -> Result<Option<User>, Response<Body>> {
        let client = peer.remote.ip();
        let addresses = self.addresses.as_ref();
        let may = addresses.is_none_or(|addresses| addresses.may(client));
        if !may && self.satisfy == Satisfy::All {
            let reason = "its address is not allowed";
            return Err(refuse(StatusCode::FORBIDDEN, Refused::Address, reason));
        }
        if let Some(rate) = &self.rate {
            let taken = rate.take(client, request.headers());
            taken.map_err(too_many)?;
        }
        if let Some(forward) = &self.forward {
            forward.drop_fields(request.headers_mut());
        }
        if may && self.satisfy == Satisfy::Any {
            return Ok(None);
        }
        let user = match &self.basic {
            Some(basic) => Some(basic.check(request.headers()).await?),
            None => None,
        };
        if let Some(forward) = &self.forward {
            let passed = forward.check(request, peer).await;
            passed.map_err(|response| marked(response, Refused::ForwardAuth))?;
        }
        Ok(user)
    }
}

/// A response of its status, with the reason for metrics and the one for the log.
fn refuse(status: StatusCode, refused: Refused, reason: &str) -> Response<Body> {
    let mut response = marked(status_response(status), refused);
    response.extensions_mut().insert(ErrorReason::from(reason));
    response
}

/// The response with the reason for metrics.
fn marked(mut response: Response<Body>, refused: Refused) -> Response<Body> {
    response.extensions_mut().insert(refused);
    response
}

/// Asks the client to come later (RFC 6585 §4).
fn too_many(wait: Duration) -> Response<Body> {
    let status = StatusCode::TOO_MANY_REQUESTS;
    let mut response = refuse(status, Refused::Rate, "too many requests");
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}
