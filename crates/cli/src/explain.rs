//! `hikyaku explain`.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, bail};
use hikyaku_core::explain::Explanation;
use http::{Request, header};
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

/// How long the admin API may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Options of `hikyaku explain`.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// The client's address.
    address: IpAddr,
    /// Admin address of the server.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8440")]
    admin: SocketAddr,
    /// Token of the admin API, where one is configured.
    #[arg(long, env = "HIKYAKU_ADMIN_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Asks the server and prints its answer.
pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting")?;
    let body = runtime
        .block_on(async { tokio::time::timeout(TIMEOUT, ask(args)).await })
        .context("waiting for the admin API")??;
    let mut out = io::stdout().lock();
    if args.json {
        out.write_all(&body)?;
        return Ok(());
    }
    let explanation: Explanation =
        serde_json::from_slice(&body).context("reading the answer of the admin API")?;
    write!(out, "{explanation}")?;
    Ok(())
}

async fn ask(args: &ExplainArgs) -> anyhow::Result<Vec<u8>> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<&[u8]>>();
    let uri = format!("http://{}/v1/clients/{}", args.admin, args.address);
    let mut request = Request::get(uri);
    if let Some(token) = &args.token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(Empty::new()).context("making the request")?;
    let response = client.request(request).await.with_context(|| {
        format!(
            "asking the admin API at {} (is the server running there? --admin names another)",
            args.admin
        )
    })?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    if !status.is_success() {
        let text = String::from_utf8_lossy(&body);
        bail!(
            "the admin API at {} answered {status}: {}",
            args.admin,
            text.trim()
        );
    }
    Ok(body.to_vec())
}
