//! Experiments: their sweeps, measurements and figures, as one TOML file each.
//!
//! A [`Spec`] is such a file. Every measured session of an experiment is one [`Run`], a JSON line
//! in `runs.jsonl`. `docs/experiments.md` describes both.

mod axis;
mod check;
mod conditions;
mod crowd;
mod data;
mod error;
mod files;
mod fleet;
mod library;
mod link;
mod list;
mod paths;
mod quick;
mod record;
mod resolve;
mod run;
mod spec;

pub use axis::{Axis, Cell};
pub(crate) use conditions::arguments;
pub use conditions::sha256;
pub(crate) use data::{Data, Key};
pub use error::SpecError;
pub use library::{Source, find, shipped};
pub use list::{ListArgs, list};
pub use quick::Quick;
pub(crate) use record::by_attempt;
pub use record::{
    Conditions, Emulator, Links, Outcome, Point, RecordError, Run, counted, latest, read,
};
pub(crate) use run::{Attempt, DEFAULT_LANES, Measured, RunSize, Stop, only, seed, span};
pub use run::{RunArgs, RunError, run};
pub use spec::{
    Adjust, AltSvc, Arm, Backend, Borders, Change, Client, ClientKind, Control, Edge, Event, Fault,
    File, Filter, Fleet, Flow, Http, Kind, Measure, OneOrMany, Pattern, Routers, Server, Skip,
    Spec, Stores, Then, Traffic, Training, Transport, Visitors, Workload,
};
