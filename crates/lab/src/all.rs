//! `hikyaku lab all`: every experiment, in parts that take about as long as each other.

use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::experiment::{
    self, Attempt, Backend, DEFAULT_LANES, Kind, RunArgs, RunError, RunSize, shipped, span,
};
use crate::sim::{self, SimArgs};

/// Measure every experiment of `hikyaku lab list`, or a part of them.
///
/// Experiments over links share the machine, those of the egress control plane have it alone, and
/// simulations come last. The same command goes on where it stopped. Needs root.
#[derive(Clone, Debug, clap::Args)]
pub struct AllArgs {
    /// The part to measure; parts take about as long as each other
    #[arg(long, value_name = "K/N", default_value = "1/1")]
    pub shard: Shard,

    /// Directory of the records, with a directory for each experiment
    #[arg(long, value_name = "DIR", default_value = "build/lab")]
    pub out: PathBuf,

    /// Pairs of namespaces side by side
    #[arg(long, value_name = "N", default_value_t = DEFAULT_LANES, value_parser = clap::value_parser!(u16).range(1..=250))]
    pub lanes: u16,

    /// Largest sum of the rates of all lanes together, in Mbit/s [default: 130 for each CPU]
    #[arg(long, value_name = "MBPS")]
    pub capacity: Option<f64>,

    /// Print the part's experiments and their times, and measure nothing
    #[arg(long)]
    pub plan: bool,
}

/// One of several parts of all experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Number of the part, from 1.
    number: usize,
    /// Number of parts.
    of: usize,
}

/// A text is no part of all experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected the number of a part and of all parts, such as `2/8`")]
pub struct ParseShardError;

impl FromStr for Shard {
    type Err = ParseShardError;

    fn from_str(text: &str) -> Result<Self, ParseShardError> {
        let (number, of) = text.split_once('/').ok_or(ParseShardError)?;
        let number = number.parse().map_err(|_| ParseShardError)?;
        let of = of.parse().map_err(|_| ParseShardError)?;
        let is_part = (1..=of).contains(&number);
        is_part
            .then_some(Self { number, of })
            .ok_or(ParseShardError)
    }
}

/// An experiment to measure.
#[derive(Clone, Debug, PartialEq)]
struct Planned {
    name: String,
    seconds: f64,
    how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// Over links, beside others.
    Beside,
    /// Over links, with the machine for itself.
    Alone,
    Simulated,
}

/// Time of a simulated experiment, of which little is known before.
const SIMULATION_SECS: f64 = 120.0;

/// Measures, and writes the plan, the progress and results to `out`. Returns the exit status: 0 if every
/// session was measured, 1 if some failed, 128 and the signal's number if one came first.
///
/// # Errors
/// If an option is wrong, or nothing can be measured.
pub fn run(args: &AllArgs, out: &mut dyn Write) -> Result<u8, RunError> {
    let part = part(args.shard, planned()?);
    print(&part, args, out)?;
    if args.plan {
        return Ok(0);
    }
    let mut worst = 0;
    for (how, names) in steps(&part) {
        let status = match how {
            How::Beside | How::Alone => experiment::run(&over_links(args, names), out)?,
            How::Simulated => simulate(args, &names, out)?,
        };
        if status >= 128 {
            return Ok(status);
        }
        worst = worst.max(status);
    }
    line(
        out,
        &format!(
            "pages are made by `hikyaku lab report {}/*/`",
            args.out.display()
        ),
    )?;
    Ok(worst)
}

fn planned() -> Result<Vec<Planned>, RunError> {
    let planned = shipped().map(|source| {
        let spec = source.parse(false)?;
        let how = match (spec.backend, spec.workload.kind) {
            (Backend::Simulation, _) => How::Simulated,
            (Backend::Link, Kind::Control) => How::Alone,
            (Backend::Link, _) => How::Beside,
        };
        Ok(Planned {
            name: source.name,
            seconds: RunSize::of(&spec).seconds.unwrap_or(SIMULATION_SECS),
            how,
        })
    });
    planned.collect()
}

/// Returns the experiments of a part. The longest come first, each into the part that has the least so far
/// (Graham, "Bounds on multiprocessing timing anomalies", 1969).
fn part(shard: Shard, mut all: Vec<Planned>) -> Vec<Planned> {
    all.sort_by(|a, b| {
        let by_time = b.seconds.total_cmp(&a.seconds);
        by_time.then_with(|| a.name.cmp(&b.name))
    });
    let mut parts = vec![(0.0_f64, Vec::new()); shard.of];
    for planned in all {
        let least = parts.iter_mut().min_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((seconds, members)) = least {
            *seconds += planned.seconds;
            members.push(planned);
        }
    }
    parts.swap_remove(shard.number - 1).1
}

/// Returns the experiments that run together, in their order.
fn steps(part: &[Planned]) -> Vec<(How, Vec<String>)> {
    let of = |how| {
        let names = part.iter().filter(move |planned| planned.how == how);
        names.map(|planned| planned.name.clone())
    };
    let mut steps = vec![(How::Beside, of(How::Beside).collect())];
    steps.extend(of(How::Alone).map(|name| (How::Alone, vec![name])));
    steps.push((How::Simulated, of(How::Simulated).collect()));
    steps.retain(|(_, names): &(How, Vec<String>)| !names.is_empty());
    steps
}

fn over_links(args: &AllArgs, experiments: Vec<String>) -> RunArgs {
    RunArgs {
        experiments,
        quick: false,
        seed: None,
        out: None,
        below: args.out.clone(),
        lanes: args.lanes,
        capacity: args.capacity,
        repeats: None,
        only: Vec::new(),
        arms: Vec::new(),
        binary: None,
        keep: false,
    }
}

fn simulate(args: &AllArgs, names: &[String], out: &mut dyn Write) -> Result<u8, RunError> {
    let mut worst = 0;
    for name in names {
        let args = SimArgs {
            experiments: vec![name.clone()],
            quick: false,
            seed: None,
            out: Some(args.out.join(name)),
            repeats: None,
            only: Vec::new(),
            arms: Vec::new(),
            cross_check: false,
            threads: None,
        };
        let status = sim::run(&args, out)?;
        if status >= 128 {
            return Ok(status);
        }
        worst = worst.max(status);
    }
    Ok(worst)
}

fn print(part: &[Planned], args: &AllArgs, out: &mut dyn Write) -> Result<(), RunError> {
    let time = |seconds| span(Duration::from_secs_f64(seconds));
    let Shard { number, of } = args.shard;
    let all = part.iter().map(|planned| planned.seconds).sum();
    line(
        out,
        &format!(
            "part {number} of {of}: {} experiments, at most about {}",
            part.len(),
            time(all)
        ),
    )?;
    for Planned { name, seconds, .. } in part {
        line(out, &format!("  {name:16} about {}", time(*seconds)))?;
    }
    Ok(())
}

fn line(out: &mut dyn Write, text: &str) -> Result<(), RunError> {
    writeln!(out, "{text}").attempt(|| "writing to standard output".to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn parts_are_written_as_their_number_of_all() {
        assert_eq!("2/8".parse(), Ok(Shard { number: 2, of: 8 }));
        assert_eq!("1/1".parse(), Ok(Shard { number: 1, of: 1 }));
        for wrong in ["", "2", "0/8", "9/8", "2/0", "-1/8", "a/b", "1/2/3"] {
            assert_eq!(wrong.parse::<Shard>(), Err(ParseShardError), "{wrong}");
        }
    }

    #[test]
    fn every_experiment_is_in_one_part_and_parts_take_as_long_as_each_other() {
        let all = planned().unwrap();
        let longest = all
            .iter()
            .map(|planned| planned.seconds)
            .fold(0.0, f64::max);
        for of in [1, 3, 8] {
            let parts: Vec<Vec<Planned>> = (1..=of)
                .map(|number| part(Shard { number, of }, all.clone()))
                .collect();
            let names: Vec<&str> = parts.iter().flatten().map(|one| &*one.name).collect();
            let unique: BTreeSet<&str> = names.iter().copied().collect();
            assert_eq!((names.len(), unique.len()), (all.len(), all.len()));
            let times = parts
                .iter()
                .map(|part| part.iter().map(|one| one.seconds).sum::<f64>());
            let (least, most) = times.fold((f64::MAX, 0.0_f64), |(least, most), time| {
                (least.min(time), most.max(time))
            });
            assert!(most - least <= longest, "{of}: {least} to {most}");
        }
    }

    #[test]
    fn experiments_of_the_control_plane_have_the_machine_alone() {
        let steps = steps(&planned().unwrap());
        let of = |name: &str| {
            steps
                .iter()
                .find(|(_, names)| names.iter().any(|it| it == name))
        };
        assert_eq!(
            of("epe-scale").unwrap(),
            &(How::Alone, vec!["epe-scale".to_owned()])
        );
        let (how, beside) = of("peers").unwrap();
        assert_eq!(*how, How::Beside);
        assert!(beside.contains(&"version-sweep".to_owned()));
        assert_eq!(of("floor-sweep").unwrap().0, How::Simulated);
        assert_eq!(steps.last().unwrap().0, How::Simulated);
    }
}
