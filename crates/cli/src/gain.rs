//! `hikyaku gain`.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::Duration;

use anyhow::Context;
use hikyaku_core::gain::{By, ByAssignment, Group, Quantile, Ratio, Report, Verdict};
use hikyaku_units::{duration, human};
use http::Method;

use crate::admin::{Demand, ServerArgs};
use crate::table::table;

/// The time limit of the admin API.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Options of `hikyaku gain`.
#[derive(Debug, clap::Args)]
pub(crate) struct GainArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// The time that is looked at, in whole days of UTC.
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = duration::parse)]
    since: Duration,
    /// Compare within groups: network, country, site, size or version.
    #[arg(long, value_name = "KIND")]
    by: Option<By>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Asks a server for its gain, and prints it.
pub(crate) fn run(args: &GainArgs) -> anyhow::Result<()> {
    let mut path = format!("/v1/gain?since={}", duration::display(args.since));
    if let Some(by) = args.by {
        // Writing to a String does not fail.
        let _ = write!(path, "&by={by}");
    }
    let body = args.server.ask(Demand {
        method: Method::GET,
        path: &path,
        body: String::new(),
        limit: TIMEOUT,
        without: "it shows the gain",
    })?;
    let mut out = io::stdout().lock();
    if args.json {
        out.write_all(&body)?;
        return Ok(());
    }
    let report = serde_json::from_slice(&body).context("reading the answer of the admin API")?;
    out.write_all(text(&report).as_bytes())?;
    Ok(())
}

/// A report for people.
fn text(report: &Report) -> String {
    let mut text = format!("{}\n\n", report.sentence);
    text.push_str(&assignments(report));
    if let Some(until) = &report.until_5_percent {
        let time = human::time(Duration::from_secs(until.seconds));
        let _ = write!(
            text,
            "\n5 % will show with {} more clients, in about {time} at the present rate.\n",
            until.clients
        );
    }
    let extremes = [
        ("best network", &report.best),
        ("worst network", &report.worst),
    ];
    let extremes: Vec<_> = extremes
        .iter()
        .filter_map(|(what, group)| {
            let group = group.as_ref()?;
            Some([(*what).to_owned(), group.name.clone(), change(group.ratio)])
        })
        .collect();
    if !extremes.is_empty() {
        text.push('\n');
        text.push_str(&table(
            ["", "NETWORK", "CHANGE (95 %)"],
            extremes.into_iter(),
        ));
    }
    if let Some(by) = report.by {
        text.push('\n');
        text.push_str(&groups(by, &report.groups));
    }
    if report.edges > 1 {
        let _ = write!(text, "\nof {} edges\n", report.edges);
    }
    text
}

const HEAD: [&str; 8] = [
    "",
    "CLIENTS",
    "RESPONSES",
    "CUT",
    "P50",
    "P75",
    "P95",
    "H1/H2/H3",
];

/// Both groups of the draw, and the change from the one to the other.
fn assignments(report: &Report) -> String {
    let times = [
        report.load_time_s.p50,
        report.load_time_s.p75,
        report.load_time_s.p95,
    ];
    let row = |name: &str,
               of: &dyn Fn(&ByAssignment<u64>) -> u64,
               cut,
               quantiles: [String; 3],
               versions: &hikyaku_core::gain::VersionShares| {
        let [p50, p75, p95] = quantiles;
        [
            name.to_owned(),
            of(&report.clients).to_string(),
            of(&report.responses).to_string(),
            human::percent(cut).to_string(),
            p50,
            p75,
            p95,
            shares(versions),
        ]
    };
    let own = row(
        "hikyaku",
        &|both| both.hikyaku,
        report.incomplete.hikyaku,
        times.map(|quantile| seconds(quantile.hikyaku)),
        &report.versions.hikyaku,
    );
    let other = row(
        "held back",
        &|both| both.hold_back,
        report.incomplete.hold_back,
        times.map(|quantile| seconds(quantile.hold_back)),
        &report.versions.hold_back,
    );
    let [p50, p75, p95] = times.map(|quantile| difference(&quantile));
    let empty = String::new;
    let changes = [
        "change".to_owned(),
        empty(),
        empty(),
        empty(),
        p50,
        p75,
        p95,
        empty(),
    ];
    table(HEAD, [own, other, changes].into_iter())
}

/// The groups of a kind.
fn groups(by: By, groups: &[Group]) -> String {
    let name = by.name().to_uppercase();
    if by == By::Version {
        let head = [
            name.as_str(),
            "CLIENTS",
            "HELD BACK",
            "SHARE",
            "HELD BACK",
            "TIME",
            "HELD BACK",
        ];
        let rows = groups.iter().map(|group| {
            let share = group.share.unwrap_or_default();
            [
                group.name.clone(),
                group.clients.hikyaku.to_string(),
                group.clients.hold_back.to_string(),
                human::percent(share.hikyaku).to_string(),
                human::percent(share.hold_back).to_string(),
                seconds(group.load_time_s.hikyaku),
                seconds(group.load_time_s.hold_back),
            ]
        });
        let note = "No comparison: hikyaku chooses the version, so its clients are not alike.\n";
        return table(head, rows) + note;
    }
    let head = [
        name.as_str(),
        "CLIENTS",
        "HELD BACK",
        "TIME",
        "HELD BACK",
        "CHANGE (95 %)",
    ];
    let rows = groups.iter().map(|group| {
        [
            group.name.clone(),
            group.clients.hikyaku.to_string(),
            group.clients.hold_back.to_string(),
            seconds(group.load_time_s.hikyaku),
            seconds(group.load_time_s.hold_back),
            match group.verdict {
                Verdict::TooFew => "too few clients".to_owned(),
                _ => change(group.ratio),
            },
        ]
    });
    table(head, rows)
}

fn seconds(time: Option<f64>) -> String {
    let time = time.and_then(|time| Duration::try_from_secs_f64(time).ok());
    time.map_or_else(|| "-".to_owned(), |time| human::time(time).to_string())
}

/// The change of a quantile, without its interval.
fn difference(quantile: &Quantile) -> String {
    match (quantile.hikyaku, quantile.hold_back) {
        (Some(own), Some(other)) if other > 0.0 => human::change(own / other - 1.0).to_string(),
        _ => "-".to_owned(),
    }
}

/// The change of load times, with its interval: `-8 % (-11 % to -5 %)`.
fn change(ratio: Option<Ratio>) -> String {
    ratio.map_or_else(
        || "-".to_owned(),
        |Ratio { mean, low, high }| {
            format!(
                "{} ({} to {})",
                human::change(mean - 1.0),
                human::change(low - 1.0),
                human::change(high - 1.0)
            )
        },
    )
}

/// Shares by version in percent: `2/40/58 %`.
fn shares(versions: &hikyaku_core::gain::VersionShares) -> String {
    let [h1, h2, h3] = [versions.h1, versions.h2, versions.h3].map(|share| (share * 100.0).round());
    format!("{h1}/{h2}/{h3} %")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hikyaku_core::gain::{LoadTimes, Until, VersionShares};

    fn quantile(own: f64, other: f64) -> Quantile {
        Quantile {
            hikyaku: Some(own),
            hold_back: Some(other),
            ratio: None,
        }
    }

    fn group(name: &str, ratio: Option<Ratio>) -> Group {
        Group {
            name: name.to_owned(),
            clients: ByAssignment {
                hikyaku: 2500,
                hold_back: 24,
            },
            load_time_s: ByAssignment {
                hikyaku: Some(0.31),
                hold_back: Some(0.35),
            },
            share: None,
            verdict: ratio.map_or(Verdict::TooFew, |ratio| ratio.verdict()),
            ratio,
        }
    }

    fn report() -> Report {
        let ratio = Ratio {
            mean: 0.92,
            low: 0.89,
            high: 0.95,
        };
        Report {
            since: "2026-11-21T00:00:00Z".to_owned(),
            until: "2026-11-28T09:15:00Z".to_owned(),
            holdback: 0.01,
            clients: ByAssignment {
                hikyaku: 40_590,
                hold_back: 410,
            },
            sampled: ByAssignment::default(),
            responses: ByAssignment {
                hikyaku: 812_000,
                hold_back: 8_100,
            },
            incomplete: ByAssignment {
                hikyaku: 0.004,
                hold_back: 0.006,
            },
            verdict: Verdict::Sooner,
            sentence: "Responses arrive 8 % sooner (5 to 11 %): 41,000 clients since 2026-11-21."
                .to_owned(),
            ratio: Some(ratio),
            load_time_s: LoadTimes {
                p50: quantile(0.21, 0.23),
                p75: quantile(0.44, 0.5),
                p95: quantile(1.5, 1.6),
            },
            until_5_percent: Some(Until {
                clients: 1200,
                seconds: 86_400,
            }),
            versions: ByAssignment {
                hikyaku: VersionShares {
                    h1: 0.02,
                    h2: 0.4,
                    h3: 0.58,
                },
                hold_back: VersionShares::default(),
            },
            best: Some(group("2001:db8:1234::/48", Some(ratio))),
            worst: None,
            by: Some(By::Network),
            groups: vec![
                group("2001:db8:1234::/48", Some(ratio)),
                group("192.0.2.0/24", None),
            ],
            edges: 2,
        }
    }

    #[test]
    fn a_report_fits_the_screen() {
        let expected = "\
Responses arrive 8 % sooner (5 to 11 %): 41,000 clients since 2026-11-21.

           CLIENTS  RESPONSES  CUT    P50     P75     P95     H1/H2/H3
hikyaku    40590    812000     0.4 %  0.21 s  0.44 s  1.5 s   2/40/58 %
held back  410      8100       0.6 %  0.23 s  0.5 s   1.6 s   0/0/0 %
change                                -8.7 %  -12 %   -6.3 %

5 % will show with 1200 more clients, in about 24 h at the present rate.

              NETWORK             CHANGE (95 %)
best network  2001:db8:1234::/48  -8 % (-11 % to -5 %)

NETWORK             CLIENTS  HELD BACK  TIME    HELD BACK  CHANGE (95 %)
2001:db8:1234::/48  2500     24         0.31 s  0.35 s     -8 % (-11 % to -5 %)
192.0.2.0/24        2500     24         0.31 s  0.35 s     too few clients

of 2 edges
";
        let shown = text(&report());
        assert_eq!(shown, expected);
        assert!(shown.lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn versions_are_shown_and_not_compared() {
        let mut report = report();
        report.by = Some(By::Version);
        report.groups = vec![Group {
            share: Some(ByAssignment {
                hikyaku: 0.58,
                hold_back: 0.5,
            }),
            verdict: Verdict::NotCompared,
            ..group("h3", None)
        }];
        let shown = text(&report);
        assert!(shown.contains("58 %   50 %"), "{shown}");
        assert!(shown.contains("No comparison: hikyaku chooses"), "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 80));
    }
}
