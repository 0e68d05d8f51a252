//! Requests to the admin API of a running server.

use anyhow::{Context, bail};
use hikyaku_edge::config::ListenAddress;
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

/// Requests `path` from the admin API at `address`. Any status but success is an error.
pub(crate) async fn ask(
    address: &ListenAddress,
    token: Option<&str>,
    method: Method,
    path: &str,
) -> anyhow::Result<Response<Incoming>> {
    let authority = address.authority();
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<&[u8]>>();
    let mut request = Request::builder()
        .method(method)
        .uri(format!("http://{authority}{path}"));
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(Empty::new()).context("making the request")?;
    let response = client.request(request).await.with_context(|| {
        format!(
            "asking the admin API at {authority} (is the server running there? --admin names \
             another)"
        )
    })?;
    let status = response.status();
    if !status.is_success() {
        let body = response.into_body().collect().await?.to_bytes();
        let text = reason(&body);
        bail!("the admin API at {authority} answered {status}: {text}");
    }
    Ok(response)
}

/// The `error` of an answer, or all of the answer if it has none.
fn reason(body: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct Problem {
        error: String,
    }
    match serde_json::from_slice(body) {
        Ok(Problem { error }) => error,
        Err(_) => String::from_utf8_lossy(body).trim().to_owned(),
    }
}
