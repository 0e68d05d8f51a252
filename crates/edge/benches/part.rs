//! Time of a look at a part of the state in force, in one thread and in as many as there are CPUs.
//!
//! `cargo bench -p hikyaku-edge --bench part`
#![allow(dead_code, clippy::print_stdout, reason = "a benchmark of one module")]

#[path = "../src/part.rs"]
mod part;

use std::hint::black_box;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use part::Whole;

const LOOKS: u32 = 5_000_000;

fn main() {
    let whole = Whole::new((Arc::new(1u64), Arc::new(2u64)));
    let part = whole.part(|(first, _)| first);
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    println!("{:>8} {:>12} {:>12}", "threads", "load", "load_full");
    for threads in [1, cpus] {
        let load = time(threads, || black_box(**part.load()));
        let load_full = time(threads, || black_box(*part.load_full()));
        println!("{threads:>8} {load:>9.1} ns {load_full:>9.1} ns");
    }
}

/// Nanoseconds that a look takes a thread.
fn time(threads: usize, look: impl Fn() -> u64 + Sync) -> f64 {
    let started = Instant::now();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                (0..LOOKS).for_each(|_| {
                    look();
                });
            });
        }
    });
    started.elapsed().as_secs_f64() * 1e9 / f64::from(LOOKS)
}
