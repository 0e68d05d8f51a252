//! `cargo xtask fleet`: the cost of sharing through one store, for edges and for the store
//! (`docs/fleet.md`).
//!
//! The edges are in this process, each with its own connection, tasks and writes, over a real store on
//! loopback. Their clients come from random prefixes. Each connection reads its prefix and changes the edge's
//! field of it, as a server does.
//!
//! ```text
//! cargo build --release -p xtask
//! target/release/xtask fleet
//! ```

mod edge;
mod store;

use std::process;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::usage::Usage;
use edge::{Edge, Latencies, Load};
use store::Store;

/// Options of `cargo xtask fleet`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Edges
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=256))]
    edges: u32,

    /// Client prefixes that are known at the start
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=16_000_000))]
    prefixes: u32,

    /// Edges that know each of them
    #[arg(long, value_name = "N", default_value_t = 3)]
    known_by: u32,

    /// New connections a second at each edge
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [10, 30, 100])]
    rates: Vec<u32>,

    /// Time of each rate, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    time: u64,
}

/// Measures, and prints tables in Markdown.
///
/// # Errors
/// If the store can't be started, or does not take what the edges write.
pub(crate) fn run(args: &Args) -> Result<()> {
    ensure!(
        (1..=args.edges).contains(&args.known_by),
        "--known-by {}: choose 1 to the number of edges, {}",
        args.known_by,
        args.edges
    );
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let store = Store::start()?;
    runtime.block_on(measure(args, &store))
}

async fn measure(args: &Args, store: &Store) -> Result<()> {
    let edges = (0..args.edges).map(|number| Edge::start(number, args.edges, &store.url()));
    let edges: Vec<Arc<Edge>> = edges.collect::<Result<_>>()?;
    let filled = fill(args, &edges).await?;
    let memory = store.memory()?;
    println!(
        "{} edges, {} prefixes, each known by {}: written in {:.0} s, {:.0} bytes of the store's memory a prefix\n",
        args.edges,
        args.prefixes,
        args.known_by,
        filled.as_secs_f64(),
        memory as f64 / f64::from(args.prefixes)
    );
    println!(
        "| connections/s of an edge | an edge's CPU | of a connection | store's CPU | read, median | 99 % | late or missed |\n\
         | --: | --: | --: | --: | --: | --: | --: |"
    );
    for &rate in &args.rates {
        println!("{}", row(args, &edges, store, rate).await?);
    }
    for edge in &edges {
        edge.stop().await;
    }
    Ok(())
}

/// Has each prefix be known by some edges, and returns how long the store took for that.
async fn fill(args: &Args, edges: &[Arc<Edge>]) -> Result<Duration> {
    let begun = Instant::now();
    for edge in edges {
        edge.fill(args.prefixes, args.known_by);
    }
    let wanted = u64::from(args.prefixes) * u64::from(args.known_by);
    let limit = Duration::from_secs(600);
    loop {
        let written: u64 = edges.iter().map(|edge| edge.written()).sum();
        if written >= wanted {
            return Ok(begun.elapsed());
        }
        ensure!(
            begun.elapsed() < limit,
            "{written} of {wanted} fields were written in {limit:?}: {}",
            edges[0].fault()
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Measures one rate.
async fn row(args: &Args, edges: &[Arc<Edge>], store: &Store, rate: u32) -> Result<String> {
    let time = Duration::from_secs(args.time);
    let own = process::id();
    let before = (Usage::of(own)?.cpu, Usage::of(store.id())?.cpu);
    let begun = Instant::now();
    let loads = edges.iter().map(|edge| {
        let edge = Arc::clone(edge);
        tokio::spawn(edge.load(Load { rate, time }))
    });
    let loads: Vec<_> = loads.collect();
    let mut latencies = Latencies::default();
    for load in loads {
        latencies.join(load.await?);
    }
    let took = begun.elapsed().as_secs_f64();
    let edges_cpu = (Usage::of(own)?.cpu - before.0).as_secs_f64();
    let store_cpu = (Usage::of(store.id())?.cpu - before.1).as_secs_f64();
    let connections = latencies.connections().max(1) as f64;
    Ok(format!(
        "| {rate} | {:.2} % | {:.0} µs | {:.0} % | {} | {} | {:.2} % |",
        100.0 * edges_cpu / took / edges.len() as f64,
        1e6 * edges_cpu / connections,
        100.0 * store_cpu / took,
        micros(latencies.quantile(0.5)),
        micros(latencies.quantile(0.99)),
        100.0 * latencies.missed as f64 / connections
    ))
}

fn micros(time: Option<Duration>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| format!("{} µs", time.as_micros()))
}
