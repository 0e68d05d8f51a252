//! `hikyaku config`.

use std::io::Write;

use anyhow::Context;

/// The configuration with all defaults.
const DEFAULTS: &str = include_str!("../../../conf/edge.toml");

/// Prints every key with its default.
pub(crate) fn print(out: &mut impl Write) -> anyhow::Result<()> {
    out.write_all(DEFAULTS.as_bytes())
        .context("printing the configuration")
}
