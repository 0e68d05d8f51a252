//! `POST /v1/cache/purge`.

use std::sync::Arc;

use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;

use super::{Admin, NO_FLEET, apart, json, problem};
use hikyaku_content::{Body, Purge};

/// Longest request body, in bytes.
const MAX_BODY: usize = 16 << 10;

pub(super) async fn purge(request: Request<Incoming>, admin: &Arc<Admin>) -> Response<Body> {
    let of_fleet = match request.uri().query() {
        None => false,
        Some("fleet") => true,
        Some(_) => return problem(StatusCode::BAD_REQUEST, "the query can only be `fleet`"),
    };
    let Ok(body) = Limited::new(request.into_body(), MAX_BODY).collect().await else {
        return problem(StatusCode::BAD_REQUEST, "reading the request's body");
    };
    let body = body.to_bytes();
    let what = match serde_json::from_slice::<Purge>(&body) {
        Ok(what) => what,
        Err(error) => {
            let why = format!("give one of \"url\", \"prefix\" and \"tag\", with a text: {error}");
            return problem(StatusCode::BAD_REQUEST, &why);
        }
    };
    if of_fleet {
        if let Err(error) = what.check() {
            return problem(StatusCode::BAD_REQUEST, &error.to_string());
        }
        match admin.shared.fleet.purge(&body).await {
            Some(Ok(())) => {}
            Some(Err(fault)) => {
                let why =
                    format!("nothing is purged, since the other edges can't be told: {fault}");
                return problem(StatusCode::SERVICE_UNAVAILABLE, &why);
            }
            None => return problem(StatusCode::CONFLICT, NO_FLEET),
        }
    }
    // It looks at all that is stored.
    apart(admin, move |admin| purged(&what, admin)).await
}

fn purged(what: &Purge, admin: &Admin) -> Response<Body> {
    match admin.caches.purge(what) {
        Ok(purged) => json(&serde_json::json!({ "purged": purged })),
        Err(error) => problem(StatusCode::BAD_REQUEST, &error.to_string()),
    }
}
