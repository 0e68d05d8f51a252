//! `hikyaku reload`.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::Context;

use crate::admin::ServerArgs;

/// The time limit of a reload.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Makes the server read its configuration again. The error has the reason of a refusal.
pub(crate) fn run(args: &ServerArgs) -> anyhow::Result<()> {
    let reloaded = args.order("/v1/reload", TIMEOUT, "SIGHUP");
    reloaded.context("reloading")?;
    writeln!(io::stdout(), "configuration reloaded")?;
    Ok(())
}
