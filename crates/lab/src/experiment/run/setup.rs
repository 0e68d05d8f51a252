//! From the options to the experiments to run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use super::experiment::{Experiment, settings};
use super::{Attempt, RunArgs, RunError, browser, control, epe, fleet, peer, programs};
use crate::experiment::axis::{Axis, Cell};
use crate::experiment::conditions::arguments;
use crate::experiment::data::Data;
use crate::experiment::library::{self, Source};
use crate::experiment::record::Conditions;
use crate::experiment::spec::{Arm, Backend, Client, Server, Spec};
use hikyaku_emulator::link::privileges::is_program;

/// An experiment's text and its parsed form.
pub(super) struct Loaded {
    source: Source,
    spec: Spec,
}

pub(super) fn load(args: &RunArgs) -> Result<Vec<Loaded>, RunError> {
    let argument = |why: String| Err(RunError::Arguments(why));
    if args.out.is_some() && args.experiments.len() > 1 {
        return argument("`--out` is the place of one experiment: name one only".to_owned());
    }
    let mut loaded: Vec<Loaded> = Vec::new();
    for name in &args.experiments {
        let source = library::find(name)?;
        let mut spec = source.parse(args.quick)?;
        if spec.backend != Backend::Link {
            let command = spec.backend.command();
            return argument(format!(
                "`{}` is simulated: run it by `{command}`",
                source.name
            ));
        }
        if loaded.iter().any(|other| other.source.name == source.name) {
            return argument(format!("`{}` is named twice", source.name));
        }
        if let Some(repeats) = args.repeats {
            spec.repeats = repeats;
            spec.adjust
                .iter_mut()
                .for_each(|adjust| adjust.repeats = None);
        }
        loaded.push(Loaded { source, spec });
    }
    for arm in &args.arms {
        if !loaded.iter().any(|loaded| loaded.spec.arm(arm).is_some()) {
            return argument(format!("`--arms`: there is no arm `{arm}`"));
        }
    }
    Ok(loaded)
}

pub(super) fn open(
    args: &RunArgs,
    loaded: Loaded,
    conditions: &Conditions,
    binary: &Path,
    root: &Path,
) -> Result<Experiment, RunError> {
    let Loaded { source, spec } = loaded;
    let (arms, left_out) = arms(&args.arms, &spec, missing)?;
    let seed = args.seed.unwrap_or(spec.seed);
    let conditions = Conditions {
        experiment_sha256: source.sha256(),
        quick: args.quick,
        seed,
        arguments: arguments(&source.argument, args.repeats, &args.only, &args.arms),
        ..conditions.clone()
    };
    let default = || args.below.join(&source.name);
    let out = args.out.clone().unwrap_or_else(default);
    // Before the copy of the experiment's text is written: a wrong option changes nothing.
    let cells = only(&args.only, &spec.cells(seed))?;
    spec.check_files(&cells)?;
    let mut configs = spec.arms.iter().filter_map(|arm| arm.config.as_deref());
    configs.try_for_each(peer::check)?;
    check_settings(&spec, &cells, &arms, binary)?;
    let data = Data::open(&out, &source.text, &conditions, spec.stop_after_timeout)?;
    Ok(Experiment {
        cells,
        name: source.name,
        spec,
        conditions,
        data,
        out,
        root: root.to_owned(),
        left_out,
        arms,
    })
}

/// Checks the settings of all arms by the program that is measured, as its server would at their turn.
///
/// # Errors
/// If the program refuses those of an arm.
fn check_settings(
    spec: &Spec,
    cells: &[Cell],
    arms: &[String],
    binary: &Path,
) -> Result<(), RunError> {
    let mut checked = BTreeSet::from([Vec::new()]);
    let arms = arms.iter().filter_map(|name| spec.arm(name));
    for arm in arms.filter(|arm| arm.server == Server::Hikyaku) {
        for settings in cells.iter().map(|cell| settings(cell, arm)) {
            if !checked.insert(settings.clone()) {
                continue;
            }
            let mut command = Command::new(binary);
            // It takes no port of this machine.
            command.args(["check", "/", "--listen", "127.0.0.1:0"]);
            for setting in &settings {
                command.args(["--set", setting]);
            }
            let output = command.output();
            let output = output.attempt(|| format!("running `{} check`", binary.display()))?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr);
                let said = said.trim().trim_start_matches("error: ");
                let why = format!("the settings of arm `{}`: {said}", arm.name);
                return Err(RunError::Arguments(why));
            }
        }
    }
    Ok(())
}

/// Returns the first program that an arm needs and that is not installed.
fn missing(spec: &Spec, arm: &Arm) -> Option<&'static str> {
    let browser = (arm.client == Client::Chromium).then(browser::program);
    let mut needed = arm.server.program().into_iter().chain(browser);
    let missing = needed.find(|program| !is_program(program.as_ref()));
    let missing = missing.or_else(|| control::missing(spec, arm));
    let missing = missing.or_else(|| epe::missing(spec));
    missing.or_else(|| fleet::missing(arm))
}

/// Returns the names of the arms to run, and those left out with their reasons. `wanted` has the
/// names of `--arms`; without any, all arms are wanted.
///
/// # Errors
/// If no arm is left, or a program is missing that `--arms` asks for or that is part of this
/// project.
fn arms(
    wanted: &[String],
    spec: &Spec,
    missing: impl Fn(&Spec, &Arm) -> Option<&'static str>,
) -> Result<(Vec<String>, Vec<String>), RunError> {
    let mut names = Vec::new();
    let mut left_out = Vec::new();
    for arm in &spec.arms {
        if !wanted.is_empty() && !wanted.contains(&arm.name) {
            continue;
        }
        match missing(spec, arm) {
            Some(program) => {
                let (name, why) = (&arm.name, programs::not_found(program));
                if !wanted.is_empty() || programs::is_own(program) {
                    let why = format!("the arm `{name}` can't be measured: {why}");
                    return Err(RunError::Arguments(why));
                }
                left_out.push(format!("the arm `{name}` is left out: {why}"));
            }
            None => names.push(arm.name.clone()),
        }
    }
    if names.is_empty() && !left_out.is_empty() {
        let why = left_out.join("; ");
        return Err(RunError::Arguments(format!("no arm is left: {why}")));
    }
    Ok((names, left_out))
}

/// Returns the cells with the values of `--only`.
pub(crate) fn only(wanted: &[String], cells: &[Cell]) -> Result<Vec<Cell>, RunError> {
    let mut values: BTreeMap<Axis, Vec<&str>> = BTreeMap::new();
    for text in wanted {
        let axes = || {
            cells
                .first()
                .into_iter()
                .flat_map(|cell| cell.0.keys().copied())
        };
        let found = text.split_once('=').and_then(|(name, value)| {
            let axis = axes().find(|axis| axis.name() == name)?;
            cells
                .iter()
                .any(|cell| cell.get(axis) == Some(value))
                .then_some((axis, value))
        });
        let Some((axis, value)) = found else {
            return Err(RunError::Arguments(format!(
                "`--only {text}`: the experiment has no such cell; write an axis and one of its values, such as `rate=50Mbps`"
            )));
        };
        values.entry(axis).or_default().push(value);
    }
    let matches = |cell: &Cell| {
        values
            .iter()
            .all(|(axis, values)| cell.get(*axis).is_some_and(|value| values.contains(&value)))
    };
    Ok(cells.iter().filter(|cell| matches(cell)).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only_of(wanted: &[&str]) -> Result<usize, String> {
        let spec = library::find("version-sweep")
            .unwrap()
            .parse(false)
            .unwrap();
        let wanted: Vec<String> = wanted.iter().map(|&text| text.to_owned()).collect();
        let cells = only(&wanted, &spec.cells(1));
        cells
            .map(|cells| cells.len())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn cells_are_chosen_by_their_values() {
        assert_eq!(only_of(&[]), Ok(360));
        assert_eq!(only_of(&["rate=50Mbps"]), Ok(72));
        assert_eq!(only_of(&["rate=50Mbps", "rate=100Mbps", "loss=0%"]), Ok(24));
        for wrong in ["rate", "rate=51Mbps", "speed=50Mbps", "size=1MB"] {
            let error = only_of(&[wrong]).unwrap_err();
            assert!(error.contains(&format!("`--only {wrong}`")), "{error}");
        }
    }

    #[test]
    fn an_arm_without_its_program_is_left_out_where_others_remain() {
        let spec = library::find("epe-scale").unwrap().parse(false).unwrap();
        let all: Vec<&str> = spec.arms.iter().map(|arm| arm.name.as_str()).collect();
        let arms_of = |wanted: &[&str], program: &'static str, of: &[&str]| {
            let wanted: Vec<String> = wanted.iter().map(|&name| name.to_owned()).collect();
            let lacks = |_: &Spec, arm: &Arm| of.contains(&arm.name.as_str()).then_some(program);
            arms(&wanted, &spec, lacks).map_err(|error| error.to_string())
        };
        let (names, left_out) = arms_of(&[], "gobgpd", &all[..1]).unwrap();
        assert_eq!(names, all[1..]);
        assert!(
            left_out[0].contains("`gobgpd` is not installed"),
            "{left_out:?}"
        );
        let (_, left_out) = arms_of(&[], programs::REDIS, &all[..1]).unwrap();
        assert!(
            left_out[0].contains("install Debian's package redis-server"),
            "{left_out:?}"
        );
        for (wanted, program, of, why) in [
            (&[][..], "gobgpd", &all[..], "no arm is left: "),
            (&all[..1], "gobgpd", &all[..1], "can't be measured: "),
            (&[], programs::FEED, &all[..1], "scripts/egress.sh build"),
        ] {
            let error = arms_of(wanted, program, of).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_wrong_option_leaves_the_records_alone() {
        let directory = tempfile::tempdir().unwrap();
        let args = RunArgs {
            experiments: vec!["fairness".to_owned()],
            quick: true,
            seed: None,
            out: Some(directory.path().join("out")),
            below: "build/lab".into(),
            lanes: 1,
            capacity: None,
            repeats: None,
            only: vec!["queue=7bdp".to_owned()],
            arms: Vec::new(),
            binary: None,
            keep: false,
        };
        let loaded = load(&args).unwrap().remove(0);
        let opened = open(
            &args,
            loaded,
            &Conditions::default(),
            Path::new("true"),
            directory.path(),
        );
        assert!(matches!(opened, Err(RunError::Arguments(_))));
        assert!(!directory.path().join("out").exists());
    }
}
