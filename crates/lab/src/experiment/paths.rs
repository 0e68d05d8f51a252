//! Experiments on the test bed of several paths.

use std::collections::BTreeSet;

use hikyaku_units::ByteSize;
use toml::Table;

use super::axis::{Axis, Cell};
use super::error::{Fault, fault};
use super::files::{LIVE_FILE, SiteFile};
use super::link;
use super::record::Links;
use super::spec::{
    Arm, Backend, Borders, Client, Event, Kind, Pattern, Server, Spec, Traffic, Visitors,
};

impl Spec {
    /// Returns the links of a cell by transit A and B, before any change.
    ///
    /// # Errors
    /// Never for a spec from [`Self::parse`]; otherwise those of its checks.
    pub(crate) fn path_links(&self, cell: &Cell) -> Result<[Links; 2], String> {
        let pattern = self.pattern(cell);
        let own = |side: fn(&Pattern) -> &Table| {
            let mut keys = self.link_keys(cell);
            keys.extend(pattern.map(side).cloned().unwrap_or_default());
            link::resolve(&keys, cell)
        };
        Ok([own(|pattern| &pattern.a)?, own(|pattern| &pattern.b)?])
    }

    /// Returns the pattern of a cell.
    pub(crate) fn pattern(&self, cell: &Cell) -> Option<&Pattern> {
        self.patterns.get(cell.get(Axis::Pattern)?)
    }

    /// Returns the traffic of a cell's client; `None` only for other kinds of workloads.
    pub(crate) fn traffic(&self, cell: &Cell) -> Option<&Traffic> {
        let all = &self.workload.traffic;
        match cell.get(Axis::Traffic) {
            Some(name) => all.iter().find(|traffic| traffic.name == name),
            None => all.first(),
        }
    }

    /// Returns the files that the client of a cell requests, all at once.
    pub(super) fn path_files(&self, cell: &Cell) -> Vec<SiteFile> {
        let Some(traffic) = self.traffic(cell) else {
            return Vec::new();
        };
        if let Some((rate, duration)) = traffic.rate.zip(traffic.duration) {
            let bytes = rate.bits_per_sec() as f64 / 8.0 * duration.as_secs_f64();
            return vec![SiteFile {
                name: LIVE_FILE.to_owned(),
                bytes: bytes as u64,
            }];
        }
        let connections = cell.get(Axis::Connections);
        let count: u64 = connections.and_then(|text| text.parse().ok()).unwrap_or(1);
        let size = traffic.size.map_or(0, ByteSize::bytes);
        let file = |number| SiteFile {
            name: format!("{}-{count}-{number}.{}", traffic.name, traffic.extension),
            bytes: size / count,
        };
        (1..=count).map(file).collect()
    }

    /// Returns the file of warm-up sessions.
    pub(crate) fn training_file(&self) -> Option<SiteFile> {
        let size = self.workload.training.as_ref()?.size;
        Some(SiteFile {
            name: "training.bin".to_owned(),
            bytes: size.bytes(),
        })
    }

    /// Checks the keys of this kind of workload, and that no other kind has them.
    pub(super) fn check_paths(&self) -> Result<(), Fault> {
        let workload = &self.workload;
        let names: BTreeSet<&String> = workload
            .traffic
            .iter()
            .map(|traffic| &traffic.name)
            .collect();
        if workload.kind == Kind::Paths && self.backend != Backend::Link {
            return Err(fault(
                "backend",
                "several paths are measured, not simulated",
            ));
        }
        if workload.kind != Kind::Paths {
            let foreign = [
                ("pattern", self.patterns.is_empty()),
                ("workload.traffic", workload.traffic.is_empty()),
                ("workload.training", workload.training.is_none()),
                ("workload.borders", workload.borders == Borders::Agents),
                ("workload.visitors", workload.visitors.is_none()),
                ("axes.pattern", !self.axes.contains_key(&Axis::Pattern)),
                ("axes.traffic", !self.axes.contains_key(&Axis::Traffic)),
            ];
            let found = foreign.iter().find(|(_, absent)| !absent);
            return found.map_or(Ok(()), |(place, _)| {
                Err(fault(*place, "is for `workload.kind = \"paths\"`"))
            });
        }
        if workload
            .training
            .as_ref()
            .is_some_and(|training| training.visits == 0)
        {
            return Err(fault("workload.training", "`visits` must be at least 1"));
        }
        if let Some(visitors) = &workload.visitors {
            visitors
                .check()
                .map_err(|why| fault("workload.visitors", why))?;
        }
        if workload.traffic.is_empty() || names.len() < workload.traffic.len() {
            let why = "at least one is needed, each with a name of its own";
            return Err(fault("workload.traffic", why));
        }
        for traffic in &workload.traffic {
            traffic
                .check()
                .map_err(|why| fault(format!("workload.traffic `{}`", traffic.name), why))?;
        }
        for (axis, known) in [
            (Axis::Pattern, self.patterns.keys().collect()),
            (Axis::Traffic, names),
        ] {
            let values = self.axes.get(&axis).into_iter().flatten();
            if let Some(unknown) = values.into_iter().find(|value| !known.contains(value)) {
                let why = format!("there is no {axis} `{unknown}`");
                return Err(fault(format!("axes.{axis}"), why));
            }
        }
        for (name, pattern) in &self.patterns {
            let cell = Cell::default().with(Axis::Pattern, name);
            let links = self.path_links(&cell);
            links
                .and_then(|links| pattern.check(&links))
                .map_err(|why| fault(format!("pattern.{name}"), why))?;
        }
        self.arms.iter().try_for_each(check_arm)
    }
}

fn check_arm(arm: &Arm) -> Result<(), Fault> {
    if arm.server == Server::Hikyaku && arm.client == Client::Get && arm.shards == 0 {
        return Ok(());
    }
    let why = "is measured with hikyaku's server, client and one port alone";
    Err(fault(format!("arm `{}`", arm.name), why))
}

impl Pattern {
    fn check(&self, links: &[Links; 2]) -> Result<(), String> {
        let pausing: &[Links] = match self.event {
            Some(Event::Pause) => &links[..1],
            Some(Event::PauseAll) => links,
            _ => &[],
        };
        match pausing.iter().all(|links| links.rate().is_some()) {
            true => Ok(()),
            false => Err("a link that pauses needs a `rate`, not a trace".to_owned()),
        }
    }
}

impl Visitors {
    fn check(&self) -> Result<(), String> {
        if !(1..=100).contains(&self.clients) {
            return Err(format!(
                "`clients` is {}: it must be 1 to 100",
                self.clients
            ));
        }
        if self.arrive.is_some_and(|arrive| arrive >= self.duration) {
            return Err("`arrive` must be less than `duration`".to_owned());
        }
        match self.decay.is_empty() || !self.step.is_zero() {
            true => Ok(()),
            false => Err("`decay` needs a `step`".to_owned()),
        }
    }
}

impl Traffic {
    fn check(&self) -> Result<(), String> {
        match (self.size, self.rate, self.duration) {
            (Some(_), None, None) => {}
            (None, Some(_), Some(_)) if self.requests == 1 => {}
            (None, Some(_), Some(_)) => return Err("a stream has one request".to_owned()),
            _ => return Err("needs either `size`, or `rate` and `duration`".to_owned()),
        }
        let extension = &self.extension;
        if extension.is_empty() || !extension.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Err(format!(
                "`extension` is `{extension}`: letters and digits are needed"
            ));
        }
        match self.requests {
            0 => Err("`requests` must be at least 1".to_owned()),
            _ => Ok(()),
        }
    }
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
link = { one_way_delay = "10ms", rate = "5Mbps" }
axes = { pattern = ["x", "y"], traffic = ["bulk", "live"] }
arm = [{ name = "plain" }, { name = "mptcp", mptcp = true }]

[pattern.x]
a = { rate = "30Mbps" }
b = { rate = "15Mbps", one_way_delay = "20ms" }
then.a = { rate = "15Mbps" }

[pattern.y]

[workload]
kind = "paths"
traffic = [
    { name = "bulk", size = "10MB", change_at = "9s" },
    { name = "live", rate = "25Mbps", duration = "30s" },
]
"#;

    fn parse(text: &str) -> Result<Spec, String> {
        Spec::parse("test", text, false).map_err(|error| error.to_string())
    }

    #[test]
    fn patterns_stand_in_place_of_the_links_keys() {
        let spec = parse(SPEC).unwrap();
        let links = |pattern| {
            let cell = Cell::default().with(Axis::Pattern, pattern);
            let links = spec.path_links(&cell).unwrap();
            links.map(|link| (link.rate().unwrap().mbps(), link.rtt().as_millis()))
        };
        assert_eq!(links("x"), [(30.0, 20), (15.0, 40)]);
        assert_eq!(links("y"), [(5.0, 20), (5.0, 20)]);
    }

    #[test]
    fn connections_share_the_size() {
        let spec = parse(SPEC).unwrap();
        let files = |traffic, connections| {
            let cell = Cell::default().with(Axis::Traffic, traffic);
            let cell = cell.with(Axis::Connections, connections);
            let files = spec.files(&cell);
            (files.len(), files[0].bytes)
        };
        assert_eq!(files("bulk", "1"), (1, 10_000_000));
        assert_eq!(files("bulk", "4"), (4, 2_500_000));
        assert_eq!(files("live", "1"), (1, 93_750_000));
    }

    #[test]
    fn the_extension_gives_the_class() {
        let text = SPEC.replacen(
            "size = \"10MB\"",
            "size = \"20kB\", extension = \"html\", requests = 40, pause = \"50ms\"",
            1,
        );
        let spec = parse(&text).unwrap();
        let cell = Cell::default().with(Axis::Traffic, "bulk");
        assert_eq!(spec.files(&cell)[0].name, "bulk-1-1.html");
        let traffic = spec.traffic(&cell).unwrap();
        assert_eq!((traffic.requests, traffic.pause.as_millis()), (40, 50));
    }

    #[test]
    fn inconsistencies_are_reported() {
        let cases = [
            (
                "kind = \"paths\"",
                "kind = \"load\"\nfiles = [{ name = \"f\", size = \"1kB\" }]",
                "pattern",
            ),
            ("\"x\", \"y\"", "\"x\", \"z\"", "there is no pattern `z`"),
            (
                "\"bulk\", \"live\"",
                "\"bulk\", \"dead\"",
                "there is no traffic `dead`",
            ),
            ("rate = \"25Mbps\", ", "", "either `size`"),
            (
                "duration = \"30s\"",
                "duration = \"30s\", requests = 2",
                "a stream has one request",
            ),
            (
                "size = \"10MB\"",
                "size = \"10MB\", requests = 0",
                "at least 1",
            ),
            (
                "size = \"10MB\"",
                "size = \"10MB\", extension = \"a/b\"",
                "letters and digits",
            ),
            ("name = \"live\"", "name = \"bulk\"", "a name of its own"),
            (
                "{ name = \"plain\" }",
                "{ name = \"plain\", server = \"nginx\" }",
                "alone",
            ),
            ("b = { rate = \"15Mbps\"", "b = { rat = \"15Mbps\"", "`rat`"),
            (
                "rate = \"15Mbps\", one_way_delay = \"20ms\" }",
                "rate = \"unlimited\" }\nevent = \"pause-all\"",
                "needs a `rate`",
            ),
            (
                "[workload]",
                "[workload]\nvisitors = { clients = 2, duration = \"9s\", arrive = \"9s\" }",
                "less than `duration`",
            ),
            (
                "[workload]",
                "[workload]\nvisitors = { clients = 101, duration = \"9s\" }",
                "1 to 100",
            ),
            (
                "[workload]",
                "[workload]\nvisitors = { clients = 1, duration = \"9s\", decay = [\"1Mbps\"] }",
                "needs a `step`",
            ),
        ];
        for (from, to, want) in cases {
            let error = parse(&SPEC.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(want), "{to}: {error}");
        }
    }
}
