//! `hikyaku explain`.

mod qlog;

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use hikyaku_core::client::key::Key;
use hikyaku_core::egress::{EgressKey, NetworkSummary};
use hikyaku_core::explain::Explanation;
use hikyaku_edge::config::ListenAddress;
use hikyaku_units::{ByteSize, duration};
use http::{Method, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::admin;

/// The time limit of the admin API.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Options of `hikyaku explain`.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// Address of the client, or an AS whose clients use egress routes, such as AS64500. With
    /// --qlog also a prefix (/24; IPv6 /56 or /48).
    #[arg(value_name = "ADDRESS")]
    subject: EgressKey,
    /// Admin address of the server.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8440")]
    admin: ListenAddress,
    /// Token of the admin API, if one is configured.
    #[arg(long, env = "HIKYAKU_ADMIN_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Record the client's next QUIC connection in qlog, to FILE or to standard output (`-`), until
    /// it ends. Connections that are open already cannot be recorded.
    #[arg(
        long, value_name = "FILE", num_args = 0..=1, require_equals = true,
        default_missing_value = "-", conflicts_with = "json",
    )]
    qlog: Option<PathBuf>,
    /// Number of connections to record, 1 to 1000.
    #[arg(long, value_name = "N", requires = "qlog", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    connections: u32,
    /// Time limit of the recording, 600s at most.
    #[arg(long = "for", value_name = "TIME", requires = "qlog", default_value = "60s",
          value_parser = duration::parse)]
    duration: Duration,
    /// Size limit of the recording, 1GiB at most.
    #[arg(long, value_name = "SIZE", requires = "qlog", default_value = "64MiB")]
    max_size: ByteSize,
}

/// Asks the server and prints its answer.
pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting")?;
    if let Some(path) = &args.qlog {
        return runtime.block_on(qlog::record(args, path));
    }
    let path = match args.subject {
        EgressKey::Net(Key::Prefix(prefix)) => {
            bail!("explaining {prefix}: give one address; a prefix goes with --qlog")
        }
        EgressKey::Net(client) => format!("/v1/clients/{client}"),
        EgressKey::As(_) => format!("/v1/networks/{}", args.subject),
    };
    let body = runtime
        .block_on(async { tokio::time::timeout(TIMEOUT, body_of(args, &path)).await })
        .context("waiting for the admin API")??;
    let mut out = io::stdout().lock();
    if args.json {
        out.write_all(&body)?;
        return Ok(());
    }
    let text = match args.subject {
        EgressKey::Net(_) => {
            serde_json::from_slice(&body).map(|explanation: Explanation| explanation.to_string())
        }
        EgressKey::As(_) => {
            serde_json::from_slice(&body).map(|network: NetworkSummary| network.to_string())
        }
    };
    let text = text.context("reading the answer of the admin API")?;
    write!(out, "{text}")?;
    Ok(())
}

async fn body_of(args: &ExplainArgs, path: &str) -> anyhow::Result<Vec<u8>> {
    let response = ask(args, path).await?;
    Ok(response.into_body().collect().await?.to_bytes().to_vec())
}

async fn ask(args: &ExplainArgs, path: &str) -> anyhow::Result<Response<Incoming>> {
    admin::ask(
        &args.admin,
        args.token.as_deref(),
        Method::GET,
        path,
        String::new(),
    )
    .await
}
