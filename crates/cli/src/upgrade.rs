//! `hikyaku upgrade`.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::Context;

use crate::admin::ServerArgs;

/// The time limit of an upgrade: more than the server gives the new process.
const TIMEOUT: Duration = Duration::from_secs(90);

/// Makes the server start its program anew and hand over to that. The error has the reason of a refusal.
pub(crate) fn run(args: &ServerArgs) -> anyhow::Result<()> {
    let upgraded = args.order("/v1/upgrade", TIMEOUT, "SIGUSR2");
    upgraded.context("upgrading")?;
    writeln!(
        io::stdout(),
        "a new process serves; the former one finishes its requests"
    )?;
    Ok(())
}
