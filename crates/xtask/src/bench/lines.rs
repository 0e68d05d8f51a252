//! The file of JSON lines that holds every run.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

pub(super) struct Lines {
    path: PathBuf,
    file: BufWriter<File>,
}

#[derive(Serialize)]
struct Line<'a, T> {
    r#type: &'static str,
    #[serde(flatten)]
    content: &'a T,
}

impl Lines {
    pub(super) fn create(path: &Path) -> Result<Self> {
        let attempt = || {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            File::create(path)
        };
        let file = attempt().with_context(|| format!("creating {}", path.display()))?;
        Ok(Self {
            path: path.to_owned(),
            file: BufWriter::new(file),
        })
    }

    pub(super) fn write(&mut self, r#type: &'static str, content: &impl Serialize) -> Result<()> {
        let line = serde_json::to_string(&Line { r#type, content })?;
        writeln!(self.file, "{line}").with_context(|| format!("writing {}", self.path.display()))
    }

    pub(super) fn flush(&mut self) -> Result<()> {
        self.file
            .flush()
            .with_context(|| format!("writing {}", self.path.display()))
    }
}
