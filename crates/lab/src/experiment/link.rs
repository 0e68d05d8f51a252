//! The link's two directions, from the experiment's `[link]` and a cell.

use std::time::Duration;

use hikyaku_netsim::{Capacity, LinkConfig, QueueLimit, derive_seed};
use hikyaku_units::{ByteSize, Rate, duration};
use toml::Table;

use super::axis::{Axis, Cell};
use super::record::Links;
use crate::table::of_table;
use hikyaku_emulator::link::read_traces;

/// Smallest queue by `Nbdp`: ten full packets. With them a sender can still keep a link busy whose
/// round-trip time is close to zero.
const MIN_QUEUE: u64 = 10 * 1514;

/// Resolves the link of a cell. The cell's values replace the keys common to both directions, and
/// those of one direction come last.
pub(super) fn resolve(base: &Table, cell: &Cell) -> Result<Links, String> {
    let mut common = base.clone();
    let mut patch = |name: &str| match common.remove(name) {
        None => Ok(Table::new()),
        Some(toml::Value::Table(table)) => Ok(table),
        Some(_) => Err(format!("`{name}` must be a table")),
    };
    let (up, down) = (patch("up")?, patch("down")?);
    for (axis, value) in &cell.0 {
        apply(&mut common, *axis, value)?;
    }
    let direction = |patch: Table| {
        let mut direction = common.clone();
        direction.extend(patch);
        direction
    };
    let mut links = Links {
        up: direction(up),
        down: direction(down),
    };
    let rtt = links.rtt();
    for direction in [&mut links.up, &mut links.down] {
        resolve_queue(direction, rtt)?;
    }
    links.configs()?;
    Ok(links)
}

/// Sets the value of a link's axis; other axes do not change the link.
fn apply(common: &mut Table, axis: Axis, value: &str) -> Result<(), String> {
    let (key, value) = match axis {
        Axis::Rtt => {
            let rtt = duration::parse(value).map_err(|error| error.to_string())?;
            ("one_way_delay", duration::display(rtt / 2).to_string())
        }
        Axis::Rate | Axis::Loss | Axis::OneWayDelay | Axis::Jitter | Axis::Queue | Axis::Udp => {
            (axis.name(), value.to_owned())
        }
        _ => return Ok(()),
    };
    common.insert(key.to_owned(), value.into());
    Ok(())
}

/// Returns the bytes of a queue that is given in bandwidth-delay products.
fn resolve_queue(direction: &mut Table, rtt: Duration) -> Result<(), String> {
    let Some(text) = direction.get("queue").and_then(toml::Value::as_str) else {
        return Ok(());
    };
    let Some(factor) = bdp(text) else {
        return check_queue(text);
    };
    let rate: Rate = direction
        .get("rate")
        .and_then(toml::Value::as_str)
        .ok_or("a queue in `bdp` needs a `rate`")?
        .parse()
        .map_err(|error: hikyaku_units::ParseUnitError| error.to_string())?;
    let bytes = (rate.bdp_bytes(rtt) as f64 * factor).round() as u64;
    let bytes = ByteSize::from_bytes(bytes.max(MIN_QUEUE));
    direction.insert("queue".to_owned(), bytes.to_string().into());
    Ok(())
}

/// Returns the factor of `1bdp` or `0.5bdp`.
fn bdp(text: &str) -> Option<f64> {
    let factor: f64 = text.strip_suffix("bdp")?.parse().ok()?;
    (factor.is_finite() && factor > 0.0).then_some(factor)
}

/// Checks the text of a queue.
pub(super) fn check_queue(text: &str) -> Result<(), String> {
    if bdp(text).is_some() || text.parse::<QueueLimit>().is_ok() {
        return Ok(());
    }
    Err(format!(
        "`{text}` is no queue: expected a time (`50ms`), a size (`64KiB`), packets \
         (`100 packets`), or bandwidth-delay products (`1bdp`)"
    ))
}

/// Checks the text of a link's treatment of UDP.
pub(super) fn check_udp(text: &str) -> Result<(), String> {
    if matches!(text, "same" | "drop") || text.parse::<Rate>().is_ok() {
        return Ok(());
    }
    Err(format!(
        "`{text}` is neither `same`, `drop` nor a rate such as `2Mbps`"
    ))
}

impl Links {
    /// Returns both directions in the emulator's form.
    ///
    /// # Errors
    /// If a key is unknown or a value wrong.
    pub fn configs(&self) -> Result<[LinkConfig; 2], String> {
        Ok([config(&self.up)?, config(&self.down)?])
    }

    /// Returns both directions of a session with this seed. Traces begin at a random
    /// millisecond, so that repeats meet different parts of them. Two traces of one length, such as those of one
    /// recording, begin at the same.
    ///
    /// # Errors
    /// If a key is unknown or a value wrong.
    pub fn in_session(&self, seed: u64) -> Result<[LinkConfig; 2], String> {
        let mut configs = self.configs()?;
        for config in &mut configs {
            if let Capacity::Trace(trace) = &config.rate {
                config.rate = Capacity::Trace(trace.starting_at(derive_seed(seed, &[TRACES])));
            }
        }
        Ok(configs)
    }
}

/// Stream of the begins of traces, beside those of the links.
const TRACES: u64 = 0x7472_6163_6573;

fn config(table: &Table) -> Result<LinkConfig, String> {
    let mut table = table.clone();
    read_traces(&mut table).map_err(|error| format!("{error}: {}", error.source))?;
    of_table(&table).map_err(|error| error.message().to_owned())
}
