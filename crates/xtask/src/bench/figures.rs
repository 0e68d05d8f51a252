//! Figures of runs, and their comparison within rounds.

use super::rounds::Run;
use super::stats::Spread;

/// A figure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    /// CPU-seconds of the server for each GiB of body.
    CpuPerGib,
    /// Requests for each CPU-second of the server.
    PerCpuSecond,
    /// Requests a second.
    PerSecond,
    /// CPU time of the server for each request or connection, in µs.
    CpuMicros,
    /// Memory of the server for each connection, in KiB.
    KibEach,
    /// Mean time of an answer, in ms.
    MeanMillis,
    /// The time within which 99 % of answers came, in ms.
    P99Millis,
    /// The time within which 99.9 % of answers came, in ms.
    P999Millis,
    /// Time of the slowest answer, in ms.
    WorstMillis,
}

impl Figure {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::CpuPerGib => "CPU-s per GiB",
            Self::PerCpuSecond => "per CPU-s",
            Self::PerSecond => "requests/s",
            Self::CpuMicros => "CPU µs each",
            Self::KibEach => "KiB each",
            Self::MeanMillis => "mean, ms",
            Self::P99Millis => "p99, ms",
            Self::P999Millis => "p99.9, ms",
            Self::WorstMillis => "worst, ms",
        }
    }

    pub(super) const fn more_is_better(self) -> bool {
        matches!(self, Self::PerCpuSecond | Self::PerSecond)
    }

    /// The number of decimals that mean something.
    pub(super) const fn decimals(self) -> usize {
        match self {
            Self::CpuPerGib => 3,
            Self::PerCpuSecond | Self::PerSecond => 0,
            Self::CpuMicros | Self::KibEach => 1,
            Self::MeanMillis | Self::P99Millis | Self::P999Millis | Self::WorstMillis => 2,
        }
    }

    /// The figure of one run; `None` if its client does not report it.
    pub(super) fn of(self, run: &Run) -> Option<f64> {
        let cpu = run.server_cpu_s;
        let millis = |micros: f64| micros / 1e3;
        let latency = run.latency.as_ref();
        let value = match self {
            Self::CpuPerGib => cpu / (run.body_bytes as f64 / f64::from(1 << 30)),
            Self::PerCpuSecond => run.requests as f64 / cpu,
            Self::PerSecond => run.requests as f64 / run.elapsed_s,
            Self::CpuMicros => cpu * 1e6 / run.requests as f64,
            Self::KibEach => run.memory_bytes? as f64 / 1024.0 / run.connections as f64,
            Self::MeanMillis => millis(latency?.mean),
            Self::P99Millis => millis(latency?.p99),
            Self::P999Millis => millis(latency?.p999),
            Self::WorstMillis => millis(latency?.max),
        };
        value.is_finite().then_some(value)
    }

    /// Whether `value` reaches `goal`.
    pub(super) fn meets(self, value: f64, goal: f64) -> bool {
        match self.more_is_better() {
            true => value >= goal,
            false => value <= goal,
        }
    }
}

/// The runs of one row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Runs<'a> {
    runs: &'a [Run],
    row: &'a str,
}

impl<'a> Runs<'a> {
    pub(super) fn of(runs: &'a [Run], row: &'a str) -> Self {
        Self { runs, row }
    }

    /// The rounds of one server, in order.
    pub(super) fn by(self, server: &'a str) -> impl Iterator<Item = &'a Run> {
        let row = self.row;
        let mine = move |run: &&Run| run.row == row && run.server == server;
        self.runs.iter().filter(mine)
    }

    pub(super) fn spread(self, server: &'a str, figure: Figure) -> Option<Spread> {
        Spread::of(self.by(server).filter_map(|run| figure.of(run)))
    }

    /// Ratios of `one` to `other`, each of two runs of the same round.
    pub(super) fn ratios(self, one: &'a str, other: &'a str, figure: Figure) -> Vec<f64> {
        let ratio = |run: &Run| {
            let pair = self.by(other).find(|pair| pair.round == run.round)?;
            Some(figure.of(run)? / figure.of(pair)?)
        };
        self.by(one).filter_map(ratio).collect()
    }

    /// How much worse `one` is than `other`, as a share of the latter: 0.08 is 8 % worse. `None` if
    /// it is not clearly so: a quarter of the rounds say the opposite.
    pub(super) fn clearly_worse(self, one: &'a str, other: &'a str, figure: Figure) -> Option<f64> {
        let (one, other) = match figure.more_is_better() {
            true => (other, one),
            false => (one, other),
        };
        let mut ratios = self.ratios(one, other, figure);
        ratios.sort_by(f64::total_cmp);
        let quarter = *ratios.get(ratios.len() / 4)?;
        let median = Spread::of(ratios)?.median;
        (quarter > 1.0).then_some(median - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(server: &str, round: usize, server_cpu_s: f64) -> Run {
        Run {
            row: "h2-small".to_owned(),
            server: server.to_owned(),
            round,
            requests: 1000,
            body_bytes: 1 << 30,
            connections: 10,
            elapsed_s: 2.0,
            server_cpu_s,
            latency: None,
            memory_bytes: Some(20_480),
            client_cpu_s: None,
            steal: 0.0,
            foreign: 0.0,
        }
    }

    #[test]
    fn figures_of_a_run() {
        let run = run("nginx", 0, 0.5);
        let cases = [
            (Figure::CpuPerGib, Some(0.5)),
            (Figure::PerCpuSecond, Some(2000.0)),
            (Figure::PerSecond, Some(500.0)),
            (Figure::CpuMicros, Some(500.0)),
            (Figure::KibEach, Some(2.0)),
            (Figure::P999Millis, None),
        ];
        for (figure, want) in cases {
            assert_eq!(figure.of(&run), want, "{}", figure.name());
        }
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        // The machine is twice as slow in the second round. No ratio may show that.
        let mut all = Vec::new();
        for (round, slow) in [1.0, 2.0, 1.0].into_iter().enumerate() {
            all.push(run("hikyaku", round, 0.6 * slow));
            all.push(run("nginx", round, 0.8 * slow));
        }
        let runs = Runs::of(&all, "h2-small");
        let ratios = runs.ratios("hikyaku", "nginx", Figure::CpuPerGib);
        assert_eq!(ratios.len(), 3);
        assert!(
            ratios.iter().all(|ratio| (ratio - 0.75).abs() < 1e-9),
            "{ratios:?}"
        );
        let other = Runs::of(&all, "h3-small");
        assert!(
            other
                .ratios("hikyaku", "nginx", Figure::CpuPerGib)
                .is_empty()
        );
    }

    #[test]
    fn clearly_worse_needs_most_rounds() {
        let cases: &[(&str, &[f64], Option<f64>)] = &[
            ("better", &[0.9, 0.9, 0.9], None),
            ("worse in each round", &[1.1, 1.1, 1.1], Some(0.1)),
            (
                "one round in five says the opposite",
                &[0.9, 1.1, 1.1, 1.1, 1.1],
                Some(0.1),
            ),
            (
                "two rounds in five say the opposite",
                &[0.9, 0.9, 1.1, 1.1, 1.1],
                None,
            ),
            ("no round", &[], None),
        ];
        for (name, costs, want) in cases {
            let mut all = Vec::new();
            for (round, cost) in costs.iter().enumerate() {
                all.push(run("hikyaku", round, *cost));
                all.push(run("before", round, 1.0));
            }
            let runs = Runs::of(&all, "h2-small");
            for figure in [Figure::CpuPerGib, Figure::PerCpuSecond] {
                let got = runs.clearly_worse("hikyaku", "before", figure);
                let near = |(got, want): (f64, f64)| (got - want).abs() < 1e-9;
                let same = got.is_some() == want.is_some() && got.zip(*want).is_none_or(near);
                assert!(same, "{name}: {got:?}");
            }
        }
    }
}
