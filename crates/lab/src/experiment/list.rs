//! `hikyaku lab list`.

use std::io::Write;
use std::time::Duration;

use super::library::shipped;
use super::run::{Attempt, RunError, RunSize, span};

/// List the experiments that come with the program.
#[derive(Clone, Debug, clap::Args)]
pub struct ListArgs {
    /// Print JSON lines instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Writes a table of the shipped experiments to `out`. Returns the exit status, 0.
///
/// # Errors
/// If `out` cannot be written to.
pub fn list(args: &ListArgs, out: &mut dyn Write) -> Result<u8, RunError> {
    let mut rows = Vec::new();
    for source in shipped() {
        let spec = source.parse(false)?;
        let size = RunSize::of(&spec);
        rows.push((source.name, spec, size));
    }
    let width = |text: fn(&(String, super::Spec, RunSize)) -> usize| {
        rows.iter().map(text).max().unwrap_or(0)
    };
    let (names, titles) = (
        width(|row| row.0.len()),
        width(|row| row.1.title.chars().count()),
    );
    let mut text = String::new();
    for (name, spec, size) in &rows {
        let (title, backend) = (&spec.title, spec.backend.name());
        let RunSize {
            cells,
            arms,
            sessions,
            ..
        } = size;
        let time = size.seconds.map_or_else(String::new, |seconds| {
            format!(", about {}", span(Duration::from_secs_f64(seconds)))
        });
        if args.json {
            text += &serde_json::json!({
                "name": name, "title": title, "question": spec.question, "paper": spec.paper,
                "backend": backend, "cells": cells, "arms": arms, "sessions": sessions,
                "seconds": size.seconds,
            })
            .to_string();
        } else {
            text += &format!(
                "{name:names$}  {title:titles$}  {backend:10}  {cells:5} x {arms}, {sessions:6} sessions{time}"
            );
        }
        text.push('\n');
    }
    out.write_all(text.as_bytes())
        .attempt(|| "writing to standard output".to_owned())?;
    Ok(0)
}
