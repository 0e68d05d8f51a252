//! Figures from runs: spreads over the rounds, paired ratios, goals.

use serde::Serialize;

use super::arm::{Arm, Generator, Http, Load, ServerKind, arm};
use super::core_bench::{Decision, Estimates};
use super::memory::Idle;
use super::rounds::Run;
use super::stats::Spread;

/// All measurements.
#[derive(Debug)]
pub(super) struct Results {
    pub(super) runs: Vec<Run>,
    pub(super) idle: Vec<Idle>,
    /// `None` if it was not requested.
    pub(super) decision: Option<Decision>,
    pub(super) estimates: Vec<Estimates>,
}

/// A goal of the project, and the result.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Goal {
    pub(super) what: &'static str,
    pub(super) goal: String,
    pub(super) reached: String,
    pub(super) met: bool,
}

/// A figure of a run.
pub(super) type Figure = fn(&Run) -> f64;

const HIKYAKU_H2_LARGE: Arm = large(ServerKind::Hikyaku, Http::H2, Generator::Curl);
/// HTTP/2 by the client that HTTP/3 is measured with.
const HIKYAKU_H2_LARGE_GET: Arm = large(ServerKind::Hikyaku, Http::H2, Generator::Get);
const HIKYAKU_H3_LARGE: Arm = large(ServerKind::Hikyaku, Http::H3, Generator::Get);
const FIXED_H2_LARGE: Arm = large(ServerKind::FixedH2, Http::H2, Generator::Get);
const FIXED_H3_LARGE: Arm = large(ServerKind::FixedH3, Http::H3, Generator::Get);
const NGINX_H2_SMALL: Arm = small(ServerKind::Nginx, Http::H2, Generator::H2load);
const HIKYAKU_H2_SMALL: Arm = small(ServerKind::Hikyaku, Http::H2, Generator::H2load);
const HIKYAKU_H3_SMALL: Arm = small(ServerKind::Hikyaku, Http::H3, Generator::Get);

const fn large(server: ServerKind, http: Http, generator: Generator) -> Arm {
    arm(server, http, Load::Large, generator)
}

const fn small(server: ServerKind, http: Http, generator: Generator) -> Arm {
    arm(server, http, Load::Small, generator)
}

impl Results {
    /// The rounds of one arm, in order.
    pub(super) fn of(&self, arm: Arm) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.arm == arm)
    }

    pub(super) fn spread(&self, arm: Arm, figure: Figure) -> Option<Spread> {
        Spread::of(self.of(arm).map(figure))
    }

    /// The ratio of `one` to `other`, with each pair from the same round.
    pub(super) fn ratio(&self, one: Arm, other: Arm, figure: Figure) -> Option<Spread> {
        Spread::of(self.of(one).filter_map(|run| {
            let pair = self.of(other).find(|pair| pair.round == run.round)?;
            Some(figure(run) / figure(pair))
        }))
    }

    /// nginx's arm for large files on HTTP/2, with the frame size that costs it less.
    pub(super) fn nginx_h2_large(&self) -> Arm {
        let cost = |arm| {
            let spread = self.spread(arm, Run::cpu_per_gib);
            spread.map_or(f64::INFINITY, |spread| spread.median)
        };
        let arms = [ServerKind::Nginx, ServerKind::Nginx16k]
            .map(|server| large(server, Http::H2, Generator::Curl));
        match cost(arms[1]) < cost(arms[0]) {
            true => arms[1],
            false => arms[0],
        }
    }

    /// The arm with which `arm` of hikyaku is compared.
    pub(super) fn peer(&self, arm: Arm) -> Option<Arm> {
        if arm.server != ServerKind::Hikyaku {
            return None;
        }
        let nginx = Arm {
            server: ServerKind::Nginx,
            ..arm
        };
        match (arm.http, arm.load) {
            (Http::H3, Load::Small) => Some(NGINX_H2_SMALL),
            (Http::H3, Load::Large) | (Http::H2, Load::Large) => Some(self.nginx_h2_large()),
            _ => Some(nginx),
        }
    }

    pub(super) fn goals(&self) -> Vec<Goal> {
        let mut goals: Vec<Goal> = self.ratio_goals().into_iter().flatten().collect();
        let idle = [(Http::H2, 40.0), (Http::H3, 80.0)];
        goals.extend(
            idle.iter()
                .filter_map(|&(http, most)| self.idle_goal(http, most)),
        );
        if let Some(decision) = &self.decision {
            let Decision {
                median_ns, p99_ns, ..
            } = *decision;
            goals.push(at_most("a decision, median, ns", median_ns, 1000.0));
            goals.push(at_most("a decision, p99, ns", p99_ns, 5000.0));
        }
        let worst = self.estimates.iter().map(|case| case.bytes_per_client);
        if let Some(worst) = worst.reduce(f64::max) {
            goals.push(at_most("bytes a client, worst case", worst, 256.0));
        }
        goals
    }

    fn ratio_goals(&self) -> [Option<Goal>; 6] {
        let cpu = |what, one, other, most| {
            let ratio = self.ratio(one, other, Run::cpu_per_gib)?;
            Some(Goal {
                what,
                goal: format!("at most {most:.2}"),
                reached: times(ratio),
                met: ratio.median <= most,
            })
        };
        let rate = |what, one, least: f64| {
            let ratio = self.ratio(one, NGINX_H2_SMALL, Run::requests_per_s)?;
            Some(Goal {
                what,
                goal: format!("at least {least:.2}"),
                reached: times(ratio),
                met: ratio.median >= least,
            })
        };
        [
            cpu(
                "HTTP/2 CPU per GiB, of nginx's",
                HIKYAKU_H2_LARGE,
                self.nginx_h2_large(),
                0.8,
            ),
            rate("HTTP/2 requests/s, of nginx's", HIKYAKU_H2_SMALL, 1.2),
            // The goal is 60,000 where nginx's HTTP/2 reaches 42,000.
            rate(
                "HTTP/3 requests/s, of nginx's HTTP/2",
                HIKYAKU_H3_SMALL,
                60.0 / 42.0,
            ),
            cpu(
                "HTTP/3 CPU per GiB, of our HTTP/2's (same client)",
                HIKYAKU_H3_LARGE,
                HIKYAKU_H2_LARGE_GET,
                2.5,
            ),
            cpu(
                "HTTP/2 CPU per GiB, of the same with everything pinned",
                HIKYAKU_H2_LARGE_GET,
                FIXED_H2_LARGE,
                1.05,
            ),
            cpu(
                "HTTP/3 CPU per GiB, of the same with everything pinned",
                HIKYAKU_H3_LARGE,
                FIXED_H3_LARGE,
                1.05,
            ),
        ]
    }

    fn idle_goal(&self, http: Http, most: f64) -> Option<Goal> {
        let what = match http {
            Http::H3 => "idle HTTP/3 connection, KiB",
            _ => "idle HTTP/2 connection, KiB",
        };
        let ours = |idle: &&Idle| idle.server == ServerKind::Hikyaku && idle.http == http;
        let idle = self.idle.iter().find(ours)?;
        Some(at_most(what, idle.kib_each(), most))
    }
}

fn at_most(what: &'static str, reached: f64, most: f64) -> Goal {
    Goal {
        what,
        goal: format!("at most {most:.0}"),
        reached: format!("{reached:.1}"),
        met: reached <= most,
    }
}

/// Prints `0.71 (0.69-0.74)`.
pub(super) fn times(ratio: Spread) -> String {
    let Spread { median, min, max } = ratio;
    format!("{median:.2} ({min:.2}-{max:.2})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(round: usize, arm: Arm, server_cpu_s: f64) -> Run {
        Run {
            round,
            arm,
            requests: 4,
            body_bytes: 1 << 30,
            elapsed_s: 1.0,
            server_cpu_s,
            steal: 0.0,
            foreign: 0.0,
        }
    }

    fn results(runs: Vec<Run>) -> Results {
        let decision = Decision {
            median_ns: 500.0,
            p99_ns: 6000.0,
            view_ns: 100.0,
        };
        Results {
            runs,
            idle: Vec::new(),
            decision: Some(decision),
            estimates: Vec::new(),
        }
    }

    #[test]
    fn ratios_are_of_the_same_round_and_the_better_nginx() {
        let [default, wide] = [ServerKind::Nginx, ServerKind::Nginx16k]
            .map(|server| large(server, Http::H2, Generator::Curl));
        let mut runs = Vec::new();
        // The machine is twice as slow in the second round. No ratio may show that.
        for (round, slow) in [1.0, 2.0, 1.0].into_iter().enumerate() {
            runs.push(run(round, default, slow));
            runs.push(run(round, wide, 0.8 * slow));
            runs.push(run(round, HIKYAKU_H2_LARGE, 0.6 * slow));
        }
        let results = results(runs);
        assert_eq!(results.nginx_h2_large(), wide);
        let ratio = results.ratio(HIKYAKU_H2_LARGE, wide, Run::cpu_per_gib);
        let ratio = ratio.expect("both ran");
        assert!((ratio.max - ratio.min).abs() < 1e-9, "{ratio:?}");
        let goals: Vec<(&str, String, bool)> = results
            .goals()
            .into_iter()
            .map(|goal| (goal.what, goal.reached, goal.met))
            .collect();
        let goal = |what, reached: &str, met| (what, reached.to_owned(), met);
        assert_eq!(
            goals,
            [
                goal("HTTP/2 CPU per GiB, of nginx's", "0.75 (0.75-0.75)", true),
                goal("a decision, median, ns", "500.0", true),
                goal("a decision, p99, ns", "6000.0", false),
            ]
        );
    }
}
