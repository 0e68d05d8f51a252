//! `POST /v1/pin`: pins a client to a version for a while, to try it.

use std::net::IpAddr;
use std::time::Duration;

use hikyaku_units::arm::Version;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde::Deserialize;

use super::{json, problem};
use crate::clients::MAX_PINS;
use crate::shared::Shared;
use hikyaku_content::Body;

/// Longest request body, in bytes.
const MAX_BODY: usize = 4096;
/// How long a pin holds, where nothing else is asked for, and at most.
const TIME: [Duration; 2] = [Duration::from_secs(3600), Duration::from_secs(86_400)];

/// The client, its version and the time; without a version it is unpinned.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pin {
    address: IpAddr,
    version: Option<Version>,
    #[serde(default, with = "hikyaku_units::duration::option")]
    r#for: Option<Duration>,
}

pub(super) async fn pin(request: Request<Incoming>, shared: &Shared) -> Response<Body> {
    let Ok(body) = Limited::new(request.into_body(), MAX_BODY).collect().await else {
        return problem(StatusCode::BAD_REQUEST, "reading the request's body");
    };
    let Pin {
        address,
        version,
        r#for: time,
    } = match serde_json::from_slice(&body.to_bytes()) {
        Ok(pin) => pin,
        Err(error) => return problem(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    let time = time.unwrap_or(TIME[0]);
    if time.is_zero() || time > TIME[1] {
        let why = "`for` is more than 0s, and 1d at most";
        return problem(StatusCode::BAD_REQUEST, why);
    }
    match version {
        None => json(&serde_json::json!({ "unpinned": shared.clients.unpin(address) })),
        Some(Version::H1) => problem(
            StatusCode::BAD_REQUEST,
            "`version` is \"h2\" or \"h3\": handshakes offer HTTP/2 to all clients",
        ),
        Some(version) if shared.clients.pin(address, version, time) => {
            json(&serde_json::json!({ "pinned": version, "for_s": time.as_secs() }))
        }
        Some(_) => problem(
            StatusCode::CONFLICT,
            &format!("{MAX_PINS} clients are pinned already"),
        ),
    }
}
