//! Experiments: what is swept, measured and shown, as one TOML file each.
//!
//! A [`Spec`] is such a file. Every session that an experiment measures is one
//! [`Run`], a JSON line in `runs.jsonl`; `docs/experiments.md` describes both.

mod axis;
mod check;
mod error;
mod link;
mod quick;
mod record;
mod spec;

pub use axis::{Axis, Cell};
pub use error::SpecError;
pub use quick::Quick;
pub use record::{Conditions, Emulator, Links, Outcome, Point, RecordError, Run, counted, read};
pub use spec::{
    Adjust, AltSvc, Arm, Backend, Change, Client, File, Filter, Flow, Http, Kind, OneOrMany,
    Server, Skip, Spec, Transport, Workload,
};
