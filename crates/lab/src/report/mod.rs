//! Reports: from the records of an experiment to a page for people.
//!
//! A directory of `lab run` or `lab sim` becomes one self-contained HTML page, and a Markdown file
//! with the same numbers. The experiment's `[[figure]]` parts define its content. `docs/reports.md`
//! describes them, and the computation of every number.

mod axis;
mod content;
mod data;
mod error;
pub mod figure;
mod goal;
mod html;
mod kinds;
mod limit;
mod markdown;
mod metric;
mod page;
mod plot;
mod sample;
pub mod stats;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

pub use error::ReportError;
pub use goal::Bound;

use self::data::Data;
use self::page::Page;
use crate::experiment;

/// Arguments of `hikyaku lab report`.
#[derive(Args, Clone, Debug)]
pub struct ReportArgs {
    /// Directories that `lab run` or `lab sim` wrote
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Path of the page. For several directories it is the page with links to theirs [default:
    /// DIR/report.html, of several index.html beside the first]. The Markdown file is beside each
    /// page
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Shows the figures of this experiment instead of those of the run's file
    #[arg(long, value_name = "NAME|FILE")]
    pub figures: Option<String>,
}

/// Writes the reports and prints their paths. The exit status is 0 even if goals were missed, since
/// a report only shows results.
///
/// # Errors
/// If a directory cannot be read, a figure is wrong, or a page cannot be written.
pub fn run(args: &ReportArgs, out: &mut dyn Write) -> Result<u8, ReportError> {
    let figures = args.figures.as_deref().map(experiment::find).transpose()?;
    let figures = figures.map(|source| source.text);
    if figures.is_some() && args.dirs.len() > 1 {
        return Err(ReportError::FiguresOfSeveral);
    }
    let single = args.dirs.len() == 1;
    let mut pages = vec![];
    for dir in &args.dirs {
        let page = Page::of(&Data::load(dir, figures.as_deref())?);
        let file = match &args.output {
            Some(file) if single => file.clone(),
            _ => dir.join("report.html"),
        };
        write(&file, &html::page(&page))?;
        write(&file.with_extension("md"), &markdown::page(&page))?;
        print_result(out, &file, &page)?;
        pages.push((file, page));
    }
    if !single {
        let file = args.output.clone().unwrap_or_else(|| beside(&args.dirs[0]));
        let base = file.parent().unwrap_or(Path::new(""));
        let link = |(page, shown): (PathBuf, Page)| (relative(&page, base), shown);
        let pages: Vec<(String, Page)> = pages.into_iter().map(link).collect();
        write(&file, &html::index(&pages))?;
        writeln!(out, "{}", file.display()).map_err(ReportError::Output)?;
    }
    Ok(0)
}

fn print_result(out: &mut dyn Write, file: &Path, page: &Page) -> Result<(), ReportError> {
    let goals = match page.judged() {
        (_, 0) => String::new(),
        (reached, all) => format!(", {reached} of {all} goals reached"),
    };
    writeln!(out, "{}: {}{goals}", file.display(), page.sessions()).map_err(ReportError::Output)
}

fn beside(dir: &Path) -> PathBuf {
    dir.parent().unwrap_or(Path::new("")).join("index.html")
}

/// Returns the path from a directory to a file, as a link; the absolute path if the file is not
/// below it.
fn relative(file: &Path, base: &Path) -> String {
    let absolute = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let base = if base.as_os_str().is_empty() {
        Path::new(".")
    } else {
        base
    };
    let (file, base) = (absolute(file), absolute(base));
    let mut up = String::new();
    let mut common = base.as_path();
    loop {
        if let Ok(rest) = file.strip_prefix(common) {
            return format!("{up}{}", rest.display());
        }
        let Some(parent) = common.parent() else {
            return file.display().to_string();
        };
        common = parent;
        up.push_str("../");
    }
}

fn write(path: &Path, text: &str) -> Result<(), ReportError> {
    fs::write(path, text).map_err(|source| ReportError::Write {
        path: path.to_owned(),
        source,
    })
}
