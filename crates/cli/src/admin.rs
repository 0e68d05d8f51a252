//! Requests to the admin API of a running server.

use std::io::Cursor;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use hikyaku_edge::Config;
use hikyaku_edge::config::{AdminConfig, ListenAddress};
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

/// A running server that is to do something.
#[derive(Debug, clap::Args)]
pub(crate) struct ServerArgs {
    /// Configuration file of the server, which names its admin address and token.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Admin address of the server; by default that of the configuration, or 127.0.0.1:8440.
    #[arg(long, value_name = "ADDR:PORT")]
    admin: Option<ListenAddress>,
    /// Token of the admin API, if one is configured.
    #[arg(long, env = "HIKYAKU_ADMIN_TOKEN", hide_env_values = true)]
    token: Option<String>,
}

/// A request to the admin API.
pub(crate) struct Demand<'a> {
    pub(crate) method: Method,
    pub(crate) path: &'a str,
    pub(crate) body: String,
    /// The time limit of the answer.
    pub(crate) limit: Duration,
    /// The advice, or the loss, without an admin address.
    pub(crate) without: &'a str,
}

impl ServerArgs {
    /// Returns the content of the server's answer. The error has the reason of a refusal.
    pub(crate) fn ask(&self, demand: Demand<'_>) -> anyhow::Result<Bytes> {
        let mut config = Config::load(self.config.as_deref(), &[])?.admin;
        config.listen.0 = self.admin.clone().or(config.listen.0);
        config.token = self.token.clone().or(config.token);
        ask_server(&config, demand)
    }

    /// Has the server do what a POST of `path` asks for, within `limit`. Without an admin address there is
    /// only a `signal`.
    pub(crate) fn order(&self, path: &str, limit: Duration, signal: &str) -> anyhow::Result<()> {
        let without = format!("send it {signal} instead");
        let demand = Demand {
            method: Method::POST,
            path,
            body: String::new(),
            limit,
            without: &without,
        };
        self.ask(demand).map(drop)
    }
}

/// Returns the content of the answer of the server with this admin page. The error has the reason of a
/// refusal.
pub(crate) fn ask_server(admin: &AdminConfig, demand: Demand<'_>) -> anyhow::Result<Bytes> {
    let Some(address) = &admin.listen.0 else {
        bail!(
            "the server has no admin address (`admin.listen`): {}",
            demand.without
        );
    };
    let asked = async {
        let Demand {
            method, path, body, ..
        } = demand;
        let answer = ask(address, admin.token.as_deref(), method, path, body).await?;
        Ok(answer.into_body().collect().await?.to_bytes())
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting")?;
    runtime
        .block_on(async { tokio::time::timeout(demand.limit, asked).await })
        .context("waiting for the admin API")?
}

/// Requests `path` from the admin API at `address`, with `body` as its content. Any status but success is
/// an error.
pub(crate) async fn ask(
    address: &ListenAddress,
    token: Option<&str>,
    method: Method,
    path: &str,
    body: String,
) -> anyhow::Result<Response<Incoming>> {
    let authority = address.authority();
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Cursor<String>>>();
    let mut request = Request::builder()
        .method(method)
        .uri(format!("http://{authority}{path}"));
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request
        .body(Full::new(Cursor::new(body)))
        .context("making the request")?;
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
