//! `POST /v1/forget`.

use std::net::IpAddr;

use hikyaku_core::client::table::Scope;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde::Deserialize;

use super::{json, problem};
use crate::shared::Shared;
use hikyaku_content::Body;

/// Longest request body, in bytes.
const MAX_BODY: usize = 4096;

/// Key of the knowledge to forget: exactly one of them is given.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Forget {
    address: Option<IpAddr>,
    prefix: Option<hikyaku_core::client::key::Prefix>,
    #[serde(default)]
    all: bool,
}

pub(super) async fn forget(request: Request<Incoming>, shared: &Shared) -> Response<Body> {
    let Ok(body) = Limited::new(request.into_body(), MAX_BODY).collect().await else {
        return problem(StatusCode::BAD_REQUEST, "reading the request's body");
    };
    let scope = match serde_json::from_slice(&body.to_bytes()) {
        Err(error) => return problem(StatusCode::BAD_REQUEST, &error.to_string()),
        Ok(Forget {
            address: Some(address),
            prefix: None,
            all: false,
        }) => Scope::Address(address),
        Ok(Forget {
            address: None,
            prefix: Some(prefix),
            all: false,
        }) => Scope::Prefix(prefix),
        Ok(Forget {
            address: None,
            prefix: None,
            all: true,
        }) => Scope::All,
        Ok(_) => {
            return problem(
                StatusCode::BAD_REQUEST,
                "give one of \"address\", \"prefix\" and \"all\": true",
            );
        }
    };
    let routes = shared.egress.as_ref().map(|egress| egress.forget(scope));
    let forgotten = shared.clients.forget(scope) + routes.unwrap_or_default();
    json(&serde_json::json!({ "forgotten": forgotten }))
}
