//! CPU of a server by quinn's driver and by this crate's, with the same client and the same service.
//!
//! `cargo bench -p hikyaku-quic` prints the medians of paired rounds. QUIC is measured with an MTU of
//! 1500, in a network namespace of its own, which takes root. Options stand behind `--`:
//! `--rounds N`, `--mib N` of the download, `--requests N`, `--only quinn` or `--only worker`, and
//! `--here` for the present namespace.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

#[path = "drivers/client.rs"]
mod client;
#[path = "drivers/server.rs"]
mod server;

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Instant;

use server::{Kind, Running};

/// A workload with its result.
struct Row {
    name: &'static str,
    unit: &'static str,
    /// Of the bytes or requests of a round, the number that the unit stands for.
    per: f64,
    load: client::Load,
}

fn main() {
    let options = Options::parse();
    if !options.here {
        enter_namespace();
    }
    let kinds: Vec<Kind> = [Kind::Quinn, Kind::Worker]
        .into_iter()
        .filter(|kind| {
            options
                .only
                .as_deref()
                .is_none_or(|only| only == kind.name())
        })
        .collect();
    for row in rows(&options) {
        let mut results: Vec<Vec<Figures>> = kinds.iter().map(|_| Vec::new()).collect();
        for round in 0..options.rounds {
            // In changing order, so that a drift of the machine hits both.
            for index in 0..kinds.len() {
                let index = (index + round) % kinds.len();
                results[index].push(measure(kinds[index], &row));
            }
        }
        for (kind, results) in kinds.iter().zip(&results) {
            let column = |of: fn(&Figures) -> f64| {
                let mut column: Vec<f64> = results.iter().map(of).collect();
                column.sort_by(f64::total_cmp);
                (
                    column[column.len() / 2],
                    column[0],
                    column[column.len() - 1],
                )
            };
            let (cpu, least, most) = column(|figures| figures.cpu);
            let (time, ..) = column(|figures| figures.time);
            let (sleeps, ..) = column(|figures| figures.sleeps);
            println!(
                "{:<43} {:<7} {cpu:>7.3} {} ({least:.3} to {most:.3}), {time:.3} in all, {sleeps:.3} \
                 sleeps",
                row.name,
                kind.name(),
                row.unit
            );
        }
    }
}

fn rows(options: &Options) -> Vec<Row> {
    let bytes = options.mib << 20;
    let small = |connections, streams| client::Load {
        connections,
        streams,
        requests: options.requests / (connections * streams),
        length: 1024,
    };
    let requests = options.requests as f64;
    vec![
        Row {
            name: "download over one connection",
            unit: "CPU-s per GiB",
            per: bytes as f64 / f64::from(1 << 30),
            load: client::Load {
                connections: 1,
                streams: 1,
                requests: 1,
                length: bytes,
            },
        },
        Row {
            name: "1 KiB requests, 32 connections x 4 streams",
            unit: "CPU-us each",
            per: requests / 1e6,
            load: small(32, 4),
        },
        Row {
            name: "1 KiB requests, 1 connection x 64 streams",
            unit: "CPU-us each",
            per: requests / 1e6,
            load: small(1, 64),
        },
    ]
}

/// The cost of a round, for a row's unit.
struct Figures {
    /// CPU time of the server.
    cpu: f64,
    /// Time on the clock.
    time: f64,
    /// How often the server waited for the client.
    sleeps: f64,
}

fn measure(kind: Kind, row: &Row) -> Figures {
    let server = Running::start(kind);
    let mut client = client::Client::connect(&server, row.load.connections);
    // Windows and the MTU are found by then.
    client.run(&client::Load {
        requests: row.load.requests.div_ceil(20),
        length: row.load.length.min(8 << 20),
        ..row.load
    });
    let (cpu, sleeps, begun) = (server.cpu(), server.sleeps(), Instant::now());
    client.run(&row.load);
    Figures {
        time: begun.elapsed().as_secs_f64() / row.per,
        cpu: (server.cpu() - cpu).as_secs_f64() / row.per,
        sleeps: (server.sleeps() - sleeps) as f64 / 1e6 / row.per,
    }
}

struct Options {
    rounds: usize,
    mib: usize,
    requests: usize,
    only: Option<String>,
    here: bool,
}

impl Options {
    fn parse() -> Self {
        let mut options = Self {
            rounds: 5,
            mib: 512,
            requests: 100_000,
            only: None,
            here: false,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let mut number = || arguments.next().unwrap().parse().unwrap();
            match name.as_str() {
                "--rounds" => options.rounds = number(),
                "--mib" => options.mib = number(),
                "--requests" => options.requests = number(),
                "--only" => options.only = arguments.next(),
                "--here" => options.here = true,
                // Cargo adds it.
                "--bench" => {}
                other => panic!("unknown option {other}"),
            }
        }
        options
    }
}

/// Starts again in a namespace whose loopback has an MTU of 1500.
fn enter_namespace() {
    let script = "ip link set lo mtu 1500 up && exec \"$0\" \"$@\" --here";
    let error = Command::new("unshare")
        .args(["--net", "sh", "-c", script])
        .args(std::env::args())
        .exec();
    panic!("starting in a network namespace: {error}");
}
