//! Reading descriptions.

#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::Path;

use serde::de::Error;

use super::error::SpecError;
use super::spec::TopologySpec;
use crate::link::read_traces;

/// A topology that is part of the program.
#[derive(Clone, Copy, Debug)]
pub struct ShippedTopology {
    /// Name of the topology on the command line.
    pub name: &'static str,
    /// Description of the topology in TOML.
    pub text: &'static str,
}

/// Every shipped topology, by name.
pub const SHIPPED: &[ShippedTopology] = &[
    ShippedTopology {
        name: "dumbbell",
        text: include_str!("../../topologies/dumbbell.toml"),
    },
    ShippedTopology {
        name: "epe",
        text: include_str!("../../topologies/epe.toml"),
    },
    ShippedTopology {
        name: "fleet",
        text: include_str!("../../topologies/fleet.toml"),
    },
    ShippedTopology {
        name: "pair",
        text: include_str!("../../topologies/pair.toml"),
    },
    ShippedTopology {
        name: "two-paths",
        text: include_str!("../../topologies/two-paths.toml"),
    },
];

impl TopologySpec {
    /// Reads the shipped topology of this name, or else the file.
    ///
    /// # Errors
    /// If neither exists, or the description is wrong.
    pub fn load(name: &str) -> Result<Self, SpecError> {
        let shipped = SHIPPED.iter().find(|shipped| shipped.name == name);
        match shipped {
            Some(shipped) => Self::parse(name, shipped.text),
            None => Self::parse(name, &read(name)?),
        }
    }

    /// Reads a description; `name` is for errors.
    ///
    /// # Errors
    /// If the description is wrong.
    pub fn parse(name: &str, text: &str) -> Result<Self, SpecError> {
        let spec = deserialize(text).map_err(|source| SpecError::Parse {
            name: name.to_owned(),
            source: Box::new(source),
        })?;
        spec.check().map_err(|source| SpecError::Invalid {
            name: name.to_owned(),
            source,
        })?;
        Ok(spec)
    }
}

fn deserialize(text: &str) -> Result<TopologySpec, toml::de::Error> {
    if let Ok(mut table) = text.parse::<toml::Table>()
        && read_traces(&mut table).map_err(toml::de::Error::custom)?
    {
        let read = toml::from_str(&table.to_string());
        // Its lines are not those of the text.
        return read.map_err(|error| toml::de::Error::custom(error.message()));
    }
    // An error in the text itself has the line.
    toml::from_str(text)
}

fn read(name: &str) -> Result<String, SpecError> {
    fs::read_to_string(name).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => SpecError::Unknown {
            name: name.to_owned(),
            shipped: SHIPPED
                .iter()
                .map(|shipped| format!("`{}`", shipped.name))
                .collect::<Vec<_>>()
                .join(", "),
        },
        _ => SpecError::Read {
            path: Path::new(name).to_owned(),
            source,
        },
    })
}
