//! `hikyaku reload`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use hikyaku_edge::Config;
use hikyaku_edge::config::ListenAddress;
use http::Method;

use crate::admin::ask;

/// The time limit of a reload.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Options of `hikyaku reload`.
#[derive(Debug, clap::Args)]
pub(crate) struct ReloadArgs {
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

/// Makes the server read its configuration again. The error has the reason of a refusal.
pub(crate) fn run(args: &ReloadArgs) -> anyhow::Result<()> {
    let config = Config::load(args.config.as_deref(), &[])?.admin;
    let Some(address) = args.admin.clone().or(config.listen.0) else {
        bail!("the server has no admin address (`admin.listen`): send it SIGHUP instead");
    };
    let token = args.token.clone().or(config.token);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting")?;
    let asked = ask(&address, token.as_deref(), Method::POST, "/v1/reload");
    runtime
        .block_on(async { tokio::time::timeout(TIMEOUT, asked).await })
        .context("waiting for the admin API")?
        .context("reloading")?;
    writeln!(io::stdout(), "configuration reloaded")?;
    Ok(())
}
