//! From runs to the server's model: `hikyaku lab fit`.
//!
//! Measurements go through the server's own memory of clients. So the model's axes are those of the
//! server's lookups, and its choices can be replayed on paths outside of its fit. `docs/model.md`
//! gives the method and the reasons.

mod check;
mod data;
mod error;
mod examples;
mod lattice;
mod model;
mod print;
mod replay;
mod table;
#[cfg(test)]
mod tests;
mod visitor;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use clap::Args;
use hikyaku_core::model::{Model, ModelFile, Source};
use hikyaku_netsim::derive_seed;

use check::{Check, Replays};
use data::{Data, Origin};
use examples::{Cell, cells, examples};

pub use error::FitError;

/// Arguments of `hikyaku lab fit`.
#[derive(Debug, Args)]
pub struct FitArgs {
    /// Directories that `hikyaku lab run` has written, preferably with that of `model` first
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// File of the model. The result of its check goes beside it, to `MODEL.check.json`.
    #[arg(
        long,
        short,
        value_name = "MODEL",
        required_unless_present = "check_only"
    )]
    output: Option<PathBuf>,
    /// Checks the model on these directories, instead of on parts of the data that are left out in
    /// turn; may be repeated.
    #[arg(long, value_name = "DIR")]
    hold_out: Vec<PathBuf>,
    /// Checks this model on all data, and fits none.
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["output", "hold_out"])]
    check_only: Option<PathBuf>,
}

/// Number of parts of the data that are left out in turn.
const FOLDS: u64 = 5;
/// Smallest number of paths for such a check.
const MIN_PATHS: usize = 10;

/// Fits a model to experiments' records, checks it, and writes both; or only checks one. Returns
/// the exit status.
///
/// # Errors
/// If records can't be read or do not suffice, or a result can't be written.
pub fn run(args: &FitArgs, out: &mut dyn Write) -> Result<u8, FitError> {
    let data = Data::read(&args.directories)?;
    let say = |out: &mut dyn Write, line: &str| writeln!(out, "{line}").map_err(FitError::Print);
    say(out, &data.summary())?;
    if let Some(path) = &args.check_only {
        let held_out = format!("all {} paths", data.paths.len());
        let model = read_model(path)?;
        let check = Check::new(
            held_out,
            data.origin.sha256.clone(),
            &Replays::new(cells(&data)?, &model),
        );
        check.print(out).map_err(FitError::Print)?;
        return Ok(0);
    }
    let check = match args.hold_out.as_slice() {
        [] => check_by_folds(&data)?,
        directories => Some(check_on(&data, &Data::read(directories)?)?),
    };
    match &check {
        Some(check) => check.print(out).map_err(FitError::Print)?,
        None => say(
            out,
            &format!("not checked: that takes {MIN_PATHS} paths, or others with --hold-out"),
        )?,
    }
    if let Some(path) = &args.output {
        write_results(
            path,
            &fit(&data, &source(args, &data.origin), check.as_ref())?,
            check,
        )?;
        say(out, &format!("\nwrote {}", path.display()))?;
    }
    Ok(0)
}

/// Fits a model to all data, with its check as the description.
fn fit(data: &Data, source: &Source, check: Option<&Check>) -> Result<ModelFile, FitError> {
    let cells = cells(data)?;
    let mut description = format!(
        "Load times of hikyaku over emulated links, by what a server comes to know of the path. {}",
        data.summary()
    );
    if let Some(check) = check {
        description = format!("{description} {}", check.summary());
    }
    Ok(fit_cells(&cells, description, source.clone()))
}

fn fit_cells(cells: &[Cell<'_>], description: String, source: Source) -> ModelFile {
    let blank = Arc::new(model::blank());
    model::fit(cells, &examples(cells, &blank), description, source)
}

/// Fits with each fifth of the paths left out, and replays that fifth. Returns `None` with too few
/// paths.
fn check_by_folds(data: &Data) -> Result<Option<Check>, FitError> {
    let cells = cells(data)?;
    let mut paths: Vec<&str> = cells
        .iter()
        .map(|cell| cell.path)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    if paths.len() < MIN_PATHS {
        return Ok(None);
    }
    // Neighbours in the sweep must not be left out together.
    paths.sort_by_cached_key(|path| {
        derive_seed(0, &path.bytes().map(u64::from).collect::<Vec<_>>())
    });
    let fold = |left_out: u64| {
        let (held_out, kept): (Vec<_>, Vec<_>) = cells.iter().cloned().partition(|cell| {
            let position = paths.iter().position(|path| *path == cell.path);
            position.is_some_and(|position| position as u64 % FOLDS == left_out)
        });
        replay_fitted(&kept, held_out)
    };
    let replays = thread::scope(|scope| {
        let fold = &fold;
        let folds: Vec<_> = (0..FOLDS).map(|i| scope.spawn(move || fold(i))).collect();
        folds.into_iter().try_fold(Replays::default(), |sum, fold| {
            let fold = fold
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok::<_, FitError>(sum.joined(fold?))
        })
    })?;
    let held_out = format!("each fifth of the {} paths in turn", paths.len());
    Ok(Some(Check::new(
        held_out,
        data.origin.sha256.clone(),
        &replays,
    )))
}

/// Fits to `data` without the paths that are also in `held_out`, and replays those.
fn check_on(data: &Data, held_out: &Data) -> Result<Check, FitError> {
    let kept: Vec<_> = cells(data)?
        .into_iter()
        .filter(|cell| !held_out.paths.contains_key(cell.path))
        .collect();
    let replays = replay_fitted(&kept, cells(held_out)?)?;
    let what = format!("{} paths of other experiments", held_out.paths.len());
    Ok(Check::new(what, held_out.origin.sha256.clone(), &replays))
}

fn replay_fitted<'a>(kept: &[Cell<'_>], held_out: Vec<Cell<'a>>) -> Result<Replays<'a>, FitError> {
    let file = fit_cells(kept, String::new(), model::no_source());
    let model = Arc::new(Model::new(file).map_err(FitError::Fitted)?);
    Ok(Replays::new(held_out, &model))
}

fn read_model(path: &Path) -> Result<Arc<Model>, FitError> {
    let text = fs::read_to_string(path).map_err(|source| FitError::Open {
        path: path.to_owned(),
        source,
    })?;
    let model = Model::from_json(&text).map_err(|source| FitError::Model {
        path: path.to_owned(),
        source,
    })?;
    Ok(Arc::new(model))
}

fn write_results(path: &Path, file: &ModelFile, check: Option<Check>) -> Result<(), FitError> {
    let model = Model::new(file.clone()).map_err(FitError::Fitted)?;
    write(path, &model.to_json())?;
    if let Some(check) = check {
        // A check has only numbers and text, which JSON can always represent.
        let json = serde_json::to_string_pretty(&check).unwrap_or_default();
        write(&path.with_extension("check.json"), &json)?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), FitError> {
    let attempt = || {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, format!("{text}\n"))
    };
    attempt().map_err(|source| FitError::Write {
        path: path.to_owned(),
        source,
    })
}

fn source(args: &FitArgs, origin: &Origin) -> Source {
    let mut command = "hikyaku lab fit".to_owned();
    for directory in &args.directories {
        command += &format!(" {}", directory.display());
    }
    for directory in &args.hold_out {
        command += &format!(" --hold-out {}", directory.display());
    }
    if let Some(output) = &args.output {
        command += &format!(" -o {}", output.display());
    }
    Source {
        data_sha256: origin.sha256.clone(),
        command,
        commit: origin.commit.clone(),
        date: origin.date.clone(),
    }
}
