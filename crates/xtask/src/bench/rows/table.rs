//! The list of rows.

use super::super::figures::Figure;
use super::{Client, Content, File, Group, Http, Load, Row};

/// Every row. `quick` ones have small files and few connections.
pub(in super::super) fn all(quick: bool) -> Vec<Row> {
    let mut rows = files(quick);
    rows.extend(proxies());
    rows.extend(caches());
    rows.extend(many(quick));
    rows.extend(handshakes());
    rows.extend(idle(quick));
    rows.extend(curves(quick));
    rows
}

fn files(quick: bool) -> Vec<Row> {
    use Client::{Curl, Go, H2load, Ngtcp2};
    use Figure::{CpuMicros, CpuPerGib, PerCpuSecond, PerSecond};
    use Http::{H1, H2, H3};
    let large = File::Large { quick };
    let files = |id: &str, http, client, file, (connections, streams), figures: &[_]| {
        let load = Load::Closed {
            client,
            file,
            connections,
            streams,
        };
        row(id, http, load, figures)
    };
    let small = |goal| [(PerCpuSecond, goal), (PerSecond, None)];
    let both = [
        (PerCpuSecond, Some(190_000.0)),
        (PerSecond, Some(105_000.0)),
    ];
    let one = (1, 1);
    vec![
        files("h1-large", H1, Curl, large, one, &[(CpuPerGib, Some(0.95))]),
        files("h2-large", H2, Curl, large, one, &[(CpuPerGib, Some(1.15))]),
        files("h3-large", H3, Go, large, one, &[(CpuPerGib, Some(2.0))]),
        files(
            "h3-large-ngtcp2",
            H3,
            Ngtcp2,
            large,
            one,
            &[(CpuPerGib, None)],
        ),
        files("h1-100k", H1, H2load, File::Medium, (16, 1), &small(None)),
        files("h2-100k", H2, H2load, File::Medium, (1, 16), &small(None)),
        files(
            "h3-100k",
            H3,
            Go,
            File::Medium,
            (1, 16),
            &small(Some(4_800.0)),
        ),
        files(
            "h1-small",
            H1,
            H2load,
            File::Small,
            (64, 1),
            &small(Some(40_000.0)),
        ),
        files("h2-small", H2, H2load, File::Small, (1, 64), &both),
        files(
            "h3-small",
            H3,
            Go,
            File::Small,
            (1, 64),
            &small(Some(110_000.0)),
        ),
        files(
            "h3-small-ngtcp2",
            H3,
            Ngtcp2,
            File::Small,
            (1, 100),
            &small(None),
        ),
        files(
            "h2-32x4",
            H2,
            H2load,
            File::Small,
            (32, 4),
            &[(CpuMicros, None)],
        ),
        files(
            "h3-32x4",
            H3,
            Go,
            File::Small,
            (32, 4),
            &[(CpuMicros, Some(17.0))],
        ),
    ]
}

fn proxies() -> Vec<Row> {
    use Http::{H1, H2, H3};
    let proxy = |id: &str, http, client, (connections, streams), goal| Row {
        content: Content::Upstream,
        ..row(
            id,
            http,
            Load::Closed {
                client,
                file: File::Small,
                connections,
                streams,
            },
            &[
                (Figure::PerCpuSecond, Some(goal)),
                (Figure::PerSecond, None),
            ],
        )
    };
    vec![
        proxy("proxy-h1", H1, Client::H2load, (64, 1), 18_500.0),
        proxy("proxy-h2", H2, Client::H2load, (1, 64), 35_000.0),
        proxy("proxy-h3", H3, Client::Go, (1, 64), 29_000.0),
    ]
}

/// The loads of files, by responses that are stored.
fn caches() -> Vec<Row> {
    use Http::{H1, H2, H3};
    let mut rows = Vec::new();
    for (http, client) in [(H1, Client::H2load), (H2, Client::H2load), (H3, Client::Go)] {
        for (file, at_once, end) in [(File::Small, 64, ""), (File::Medium, 16, "-100k")] {
            let (connections, streams) = match http {
                H1 => (at_once, 1),
                H2 | H3 => (1, at_once),
            };
            let load = Load::Closed {
                client,
                file,
                connections,
                streams,
            };
            let figures = [(Figure::PerCpuSecond, None), (Figure::PerSecond, None)];
            rows.push(Row {
                content: Content::Cache,
                ..row(&format!("cache-{http}{end}"), http, load, &figures)
            });
        }
    }
    rows
}

fn many(quick: bool) -> Vec<Row> {
    let connections = if quick { 100 } else { 8_000 };
    let many = |id: &str, http, figures: &[_]| row(id, http, small(connections, 1), figures);
    vec![
        many(
            "many-h2",
            Http::H2,
            &[
                (Figure::PerSecond, Some(21_000.0)),
                (Figure::MeanMillis, Some(200.0)),
                (Figure::WorstMillis, Some(450.0)),
            ],
        ),
        many(
            "many-h3",
            Http::H3,
            &[
                (Figure::PerSecond, Some(5_800.0)),
                (Figure::MeanMillis, None),
                (Figure::WorstMillis, None),
            ],
        ),
    ]
}

fn handshakes() -> Vec<Row> {
    let connect = |id: &str, http, resume, goal| {
        let figures = [(Figure::CpuMicros, Some(goal))];
        row(id, http, Load::Connect { resume }, &figures)
    };
    vec![
        connect("tcp-full", Http::H1, false, 380.0),
        connect("tcp-resumed", Http::H1, true, 250.0),
        connect("quic-full", Http::H3, false, 440.0),
        connect("quic-resumed", Http::H3, true, 300.0),
    ]
}

fn idle(quick: bool) -> Vec<Row> {
    let connections = if quick { 100 } else { 10_000 };
    let idle = |id: &str, http, goal| {
        let figures = [(Figure::KibEach, Some(goal))];
        row(id, http, Load::Idle { connections }, &figures)
    };
    vec![
        idle("idle-h2", Http::H2, 10.0),
        idle("idle-h3", Http::H3, 20.0),
    ]
}

fn curves(quick: bool) -> Vec<Row> {
    let most = if quick { 100 } else { u32::MAX };
    let cost = [(Figure::CpuMicros, None), (Figure::PerSecond, None)];
    let curve = |id: String, http, load, figures: &[_]| Row {
        group: Group::Curves,
        ..row(&id, http, load, figures)
    };
    let mut rows = Vec::new();
    for http in [Http::H2, Http::H3] {
        for connections in [1, 10, 100, 1_000, 10_000] {
            let id = format!("connections-{http}-{connections}");
            rows.push(curve(id, http, small(connections.min(most), 1), &cost));
        }
    }
    for http in [Http::H1, Http::H2, Http::H3] {
        for cores in [1, 2] {
            let id = format!("cores-{http}-{cores}");
            let row = curve(id, http, small(64, 1), &cost);
            rows.push(Row { cores, ..row });
        }
    }
    for count in [1, 10, 100, 1_000, 10_000, 100_000] {
        let load = Load::Closed {
            client: Client::Go,
            file: File::OneOf(count.min(most)),
            connections: 1,
            streams: 64,
        };
        rows.push(curve(format!("files-{count}"), Http::H2, load, &cost));
    }
    for (http, streams) in [(Http::H1, 1), (Http::H2, 4), (Http::H3, 4)] {
        let per_s = if quick { 200 } else { 4_000 };
        let load = Load::Open { per_s, streams };
        rows.push(curve(format!("tail-{http}"), http, load, &TAIL));
    }
    rows
}

/// The slowest answers at a fixed rate.
const TAIL: [(Figure, Option<f64>); 4] = [
    (Figure::P999Millis, None),
    (Figure::P99Millis, None),
    (Figure::MeanMillis, None),
    (Figure::WorstMillis, None),
];

/// Requests of 1 KiB by the Go client.
fn small(connections: u32, streams: u32) -> Load {
    Load::Closed {
        client: Client::Go,
        file: File::Small,
        connections,
        streams,
    }
}

fn row(id: &str, http: Http, load: Load, figures: &[(Figure, Option<f64>)]) -> Row {
    Row {
        id: id.to_owned(),
        group: Group::Table,
        http,
        content: Content::Files,
        cores: 1,
        load,
        figures: figures.to_vec(),
    }
}
