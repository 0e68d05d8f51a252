//! Checks and links of experiments with a fleet of edges.

use std::time::Duration;

use hikyaku_units::duration;
use toml::{Table, Value};

use super::axis::Cell;
use super::error::{Fault, fault};
use super::record::Links;
use super::spec::{self, Arm, Backend, Client, Kind, Server, Spec, Stores};

/// Keys of hikyaku's configuration that the lab sets itself.
const OWN: [&str; 4] = ["fleet.key_file", "fleet.store", "fleet.name", "fleet.pop"];

impl Spec {
    /// Returns the links of a cell to the edges of `PoP` 1 and of `PoP` 2.
    ///
    /// # Errors
    /// Never for a spec from [`Self::parse`]; otherwise those of its checks.
    pub(crate) fn pop_links(&self, cell: &Cell) -> Result<[Links; 2], String> {
        let near = self.links(cell)?;
        let mut far = near.clone();
        for direction in [&mut far.up, &mut far.down] {
            delay(direction, self.workload.extra_delay)?;
        }
        Ok([near, far])
    }

    /// Checks the keys of this kind of workload, and that no other kind has them.
    pub(super) fn check_fleet(&self) -> Result<(), Fault> {
        let workload = &self.workload;
        if workload.kind != Kind::Fleet {
            return match workload.extra_delay.is_zero() {
                true => Ok(()),
                false => Err(fault("workload.extra_delay", "is for `kind = \"fleet\"`")),
            };
        }
        if self.backend != Backend::Link {
            return Err(fault("backend", "a fleet is measured, not simulated"));
        }
        if workload.page || workload.series || workload.returning || !workload.change.is_empty() {
            let why = "a fleet has no `page`, `series`, `returning` or `change`";
            return Err(fault("workload", why));
        }
        Ok(())
    }

    /// Checks the keys of an arm of a fleet.
    pub(super) fn check_fleet_arm(&self, arm: &Arm) -> Result<(), String> {
        let fleet = match (self.workload.kind, &arm.fleet) {
            (Kind::Fleet, Some(fleet)) => fleet,
            (Kind::Fleet, None) => {
                return Err("`workload.kind = \"fleet\"` needs `fleet`".to_owned());
            }
            (_, Some(_)) => return Err("`fleet` needs `workload.kind = \"fleet\"`".to_owned()),
            (_, None) => return Ok(()),
        };
        if arm.server != Server::Hikyaku || arm.client != Client::Get || arm.shards > 0 {
            let why = "a fleet is measured with hikyaku's server, client and one port alone";
            return Err(why.to_owned());
        }
        if arm.returning.is_some() {
            return Err(
                "`returning` is not for a fleet, whose clients keep TLS sessions".to_owned(),
            );
        }
        if fleet.visits.is_empty() {
            return Err("`fleet.visits` needs at least one edge: `a`, `b` or `c`".to_owned());
        }
        if let Some(key) = OWN.iter().find(|&&key| arm.set.contains_key(key)) {
            return Err(format!(
                "`{key}` is set by the lab: use the keys of `fleet`"
            ));
        }
        let is_of_store = fleet.fault.is_some_and(spec::Fault::is_of_store);
        if is_of_store && fleet.stores == Stores::None {
            let why = "`fleet.fault` is a store's: set `fleet.stores` to `pop` or `fleet`";
            return Err(why.to_owned());
        }
        Ok(())
    }
}

/// Makes the one-way delay of a direction longer.
fn delay(direction: &mut Table, extra: Duration) -> Result<(), String> {
    const KEY: &str = "one_way_delay";
    let present = direction.get(KEY).and_then(Value::as_str);
    let present = present.map_or(Ok(Duration::ZERO), duration::parse);
    let present = present.map_err(|error| error.to_string())?;
    let text = duration::display(present + extra).to_string();
    direction.insert(KEY.to_owned(), text.into());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &str = r#"
title = "t"
question = "q"
backend = "link"
repeats = 1
timeout = "60s"
link = { rate = "5Mbps" }
axes = { rtt = ["20ms"] }

[workload]
kind = "fleet"
files = [{ name = "f", size = "1kB" }]
extra_delay = "15ms"

[[arm]]
name = "carried"
fleet = { visits = ["a", "a", "b"], keys = true }

[[arm]]
name = "stored"
set = { "fleet.carry" = "false" }
fleet = { visits = ["a", "b"], stores = "pop", fault = "slow" }
"#;

    fn parse(text: &str) -> Result<Spec, String> {
        Spec::parse("test", text, false).map_err(|error| error.to_string())
    }

    #[test]
    fn the_other_pop_is_farther_away() {
        let spec = parse(SPEC).unwrap();
        let links = spec.pop_links(&spec.cells(1)[0]).unwrap();
        assert_eq!(links.map(|link| link.rtt().as_millis()), [20, 50]);
    }

    #[test]
    fn arms_of_a_fleet_keep_their_sessions_together() {
        let spec = parse(SPEC).unwrap();
        let fixed = Arm {
            set: [
                ("policy.version", "h3"),
                ("policy.congestion", "cubic"),
                ("policy.min_cwnd", "off"),
            ]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
            ..spec.arms[0].clone()
        };
        assert!(!spec.memoryless(&fixed));
    }

    #[test]
    fn inconsistencies_are_reported() {
        let cases = [
            ("kind = \"fleet\"", "", "`kind = \"fleet\"`"),
            (
                "kind = \"fleet\"\n",
                "kind = \"load\"\n",
                "`kind = \"fleet\"`",
            ),
            (
                "backend = \"link\"",
                "backend = \"simulation\"",
                "not simulated",
            ),
            ("files =", "series = true\nfiles =", "no `page`, `series`"),
            ("[\"a\", \"a\", \"b\"]", "[]", "at least one edge"),
            ("[\"a\", \"a\", \"b\"]", "[\"d\"]", "unknown variant `d`"),
            (
                "stores = \"pop\"",
                "stores = \"all\"",
                "unknown variant `all`",
            ),
            (
                "fault = \"slow\"",
                "fault = \"late\"",
                "unknown variant `late`",
            ),
            ("stores = \"pop\", ", "", "set `fleet.stores`"),
            (
                "fleet.carry",
                "fleet.store",
                "`fleet.store` is set by the lab",
            ),
            (", keys = true", ", key = true", "unknown field `key`"),
            (
                "name = \"carried\"",
                "name = \"carried\"\nserver = \"nginx\"",
                "one port alone",
            ),
            (
                "name = \"carried\"",
                "name = \"carried\"\nreturning = true",
                "keep TLS sessions",
            ),
            (
                "fleet = { visits = [\"a\", \"a\", \"b\"], keys = true }",
                "",
                "needs `fleet`",
            ),
        ];
        for (from, to, want) in cases {
            let error = parse(&SPEC.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(want), "{to}: {error}");
        }
        let load =
            SPEC.replacen("kind = \"fleet\"", "", 1)
                .replacen("extra_delay = \"15ms\"", "", 1);
        let error = parse(&load).unwrap_err();
        assert!(error.contains("`fleet` needs `workload.kind"), "{error}");
    }
}
