//! `hikyaku completions`: the script by which a shell completes commands and options.

use std::io::Write;

use anyhow::Context;
use clap::{Args, Command};
use clap_complete::{Shell, generate};

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell that reads the script.
    shell: Shell,
}

/// Prints the script for `command`.
pub(crate) fn print(
    args: &CompletionsArgs,
    mut command: Command,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let name = command.get_name().to_owned();
    // Whole before it is written, since `generate` panics where its writer fails.
    let mut script = Vec::new();
    generate(args.shell, &mut command, name, &mut script);
    out.write_all(&script).context("printing the script")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::{CommandFactory, ValueEnum};

    use super::*;

    #[test]
    fn every_shell_has_commands_and_options() {
        for shell in Shell::value_variants() {
            let mut script = Vec::new();
            let args = CompletionsArgs { shell: *shell };
            print(&args, crate::Args::command(), &mut script).unwrap();
            let script = String::from_utf8(script).unwrap();
            for word in ["hikyaku", "serve", "listen", "explain"] {
                assert!(script.contains(word), "{shell}: no `{word}`");
            }
        }
    }
}
