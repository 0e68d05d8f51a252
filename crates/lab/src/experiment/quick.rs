//! The changes by `--quick`.

use serde::Deserialize;
use toml::{Table, Value};

use super::error::{Fault, fault};
use super::spec::Spec;
use crate::table::of_table;

/// Reductions that let an experiment be tried in seconds. A missing key keeps the original value;
/// `adjust` does not apply.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quick {
    /// Replaces [`Spec::repeats`]; 1 if missing.
    pub repeats: Option<u32>,
    /// Replaces [`Spec::timeout`].
    pub timeout: Option<String>,
    /// Replaces [`Spec::cells`](Spec#structfield.cells).
    pub cells: Option<i64>,
    /// Replaces the values of these axes.
    #[serde(default)]
    pub axes: Table,
    /// Replaces these keys of the workload.
    #[serde(default)]
    pub workload: Table,
    /// Only these arms.
    pub arms: Option<Vec<String>>,
}

impl Quick {
    /// Applies the changes to the experiment `full`.
    pub(super) fn apply(&self, mut full: Table) -> Result<Spec, Fault> {
        full.remove("adjust");
        full.insert("repeats".into(), self.repeats.unwrap_or(1).into());
        if let Some(timeout) = &self.timeout {
            full.insert("timeout".into(), timeout.as_str().into());
        }
        if let Some(cells) = self.cells {
            full.insert("cells".into(), cells.into());
        }
        replace(&mut full, "axes", &self.axes)?;
        replace(&mut full, "workload", &self.workload)?;
        if let (Some(names), Some(Value::Array(arms))) = (&self.arms, full.get_mut("arm")) {
            let name = |arm: &Value| arm.get("name").and_then(Value::as_str).map(str::to_owned);
            if let Some(unknown) = names
                .iter()
                .find(|&wanted| !arms.iter().any(|arm| name(arm).as_ref() == Some(wanted)))
            {
                return Err(fault("quick.arms", format!("there is no arm `{unknown}`")));
            }
            arms.retain(|arm| name(arm).is_some_and(|name| names.contains(&name)));
        }
        let spec: Spec =
            of_table(&full).map_err(|error| fault("quick", error.message().to_owned()))?;
        spec.check()
            .map_err(|(place, why)| (format!("quick, {place}"), why))?;
        Ok(spec)
    }
}

/// Puts the keys of `changes` into the table `key`. An axis must already exist.
fn replace(full: &mut Table, key: &str, changes: &Table) -> Result<(), Fault> {
    let table = full.entry(key).or_insert_with(|| Table::new().into());
    let Some(table) = table.as_table_mut() else {
        return Err(fault(key, "must be a table"));
    };
    for (name, value) in changes {
        if key == "axes" && !table.contains_key(name) {
            let why = "the experiment has no such axis to reduce";
            return Err(fault(format!("quick.axes.{name}"), why));
        }
        table.insert(name.clone(), value.clone());
    }
    Ok(())
}
